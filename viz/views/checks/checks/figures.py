"""The table of checks: number formatting, and the formula of each check, which is the same in every language."""

import math

from viz.numbers import number, percent

FORMULAS: dict[str, str] = {
    "tokens": "bytes(t₀) + bytes(t₁) + … = prompt",
    "embedding": "x₀ = W_E[id] (× √d_model) + p(position)",
    "rows": "Σⱼ A[i, j] = 1",
    "no_future": "A[i, j] = 0 for j > i",
    "scores": "s[i, j] = qᵢ·kⱼ / √d_head",
    "softmax": "A[i, j] = exp(s[i, j]) / Σₖ exp(s[i, k])",
    "mixed": "zᵢ = Σⱼ A[i, j] vⱼ",
    "head_outputs": "attn_out = Σₕ zₕ W_O[h] + b_O",
    "sublayers": "x_L = x₀ + Σ (attn_out + mlp_out);   post-norm: norm1_in = x + attn_out, norm2_in = x + mlp_out",
    "norm_unit": "mean(x̂) = 0,  mean(x̂²) + ε / scale² = 1",
    "norm_formula": "y = g (x − mean) / √(variance + ε) + b,  or  y = g x / √(mean(x²) + ε)",
    "finite": "|x| < ∞",
    "numbers": "|x| < ∞",
    "weights": "|w| < ∞",
    "recomputed": "block(x_l) = x_{l+1}",
    "lens": "softmax(W_U N(x_L)) = softmax(logits)",
    "unembedding": "logits = W_U N(x_L)",
    "probabilities": "Σᵥ p(v) = 1",
    "parts": "Σ parts = logit",
    "sources": "Σₛ A[t, s] (vₛ W_O)·u = (z W_O)·u",
    "sampler": "p = exp(logit − log Σ exp(logits))",
    "draws": "token = first i with p₁ + … + pᵢ > u(seed)",
    "fused": "trace(prompt).logits = model(prompt)",
    "explicit": "trace(prompt).logits = model(prompt, tap)",
    "one_head": "pattern(l, h) = pattern(l)[h]",
    "later_tokens": "logits(a + b)[: |a|] = logits(a + c)[: |a|]",
    "chunked": "logits(a + b + c) = logits(a), logits(b | a), logits(c | a + b)",
    "no_edit": "logits(1 × z) = logits(z)",
    "batched": "logits([r, prompt, r′])[1] = logits(prompt)",
    "stepwise": "A(kept x_l) = A during the forward",
    "cached": "logits(t₀ … tₙ) = logits(tₙ | keys and values of t₀ … tₙ₋₁)",
    "float64": "logits in float32 = logits in float64",
    "gradient": "eₛ·∂f/∂eₛ = (f((1 + h) eₛ) − f((1 − h) eₛ)) / 2h",
    "parity_logits": "model(ids) = transformers(ids).logits",
    "parity_patterns": "A = transformers(ids).attentions",
    "parity_hidden": "x_l = transformers(ids).hidden_states[l]",
    "parity_random": "model(random ids) = transformers(random ids).logits",
    "parity_tokens": "ids = transformers.encode(prompt)",
}


def apart(value: float) -> str:
    """Format a difference or its bound with two significant digits, such as 2.5 × 10⁻⁶."""
    return number(value, 2) if math.isfinite(value) else "∞"


def share_of(difference: float, bound: float) -> float | None:
    """Compute the ratio of a difference to its bound; None if it is infinite."""
    if bound:
        return difference / bound if math.isfinite(difference) else None
    return 0.0 if difference == 0 else None


def share_text(share: float | None) -> str:
    """Format the ratio to the bound as a percentage; ∞ for None."""
    return "∞" if share is None else percent(share)


def place_on_scale(share: float | None) -> float:
    """Map the ratio to the bound to a position on a log scale: 1e-6 and less to 0, 1 to 6/7, 10 and more to 1."""
    if share is None:
        return 1.0
    return 0.0 if share <= 1e-6 else min((math.log10(share) + 6) / 7, 1.0)
