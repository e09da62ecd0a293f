"""The parts of an MLP and of a mixture of experts: formulas, and what they read and output."""

from collections.abc import Iterable

from model.anatomy.mixers.rows import Row
from model.gpt.config import ModelConfig
from model.gpt.layers import CLAMP

ACTS = {
    "relu": "max(0, h)",
    "gelu": "h Φ(h)",
    "gelu_tanh": "½ h (1 + tanh(√(2/π) (h + 0.044715 h³)))",
    "relu2": "max(0, h)²",
    "silu": "silu(h) = h / (1 + e⁻ʰ)",
    "swiglu": "silu(h) ⊙ u,  silu(h) = h / (1 + e⁻ʰ)",
    "geglu": "h Φ(h) ⊙ u",
    "geglu_tanh": "½ h (1 + tanh(√(2/π) (h + 0.044715 h³))) ⊙ u",
    "xielu": "h > 0: α_p h² + β h,  else α_n (exp(min(h, ε)) − 1 − h) + β h",
    "swiglu_clamped": f"h / (1 + e^(−1.702 h)) ⊙ (u + 1),  h ≤ {CLAMP:g},  −{CLAMP:g} ≤ u ≤ {CLAMP:g}",
}


def mlp_rows(config: ModelConfig, x: str) -> list[Row]:
    """Return the parts of a single MLP."""
    c, gated, bias = config, config.gated, " + b" if config.mlp_bias else ""
    rows: list[Row] = [("gate", f"h = W_gate x{bias}", (x,), ("mlp_pre",), True)] if gated else []
    return [
        *rows,
        ("up", f"{'u' if gated else 'h'} = W_up x{bias}", (x,), ("mlp_up" if gated else "mlp_pre",), True),
        ("act", f"m = {ACTS[c.mlp]}", ("mlp_pre", "mlp_up") if gated else ("mlp_pre",), ("mlp_post",), True),
        ("down", f"y = {scaled(c, 'W_down m', 'b' if c.mlp_bias else '')}", ("mlp_post",), ("mlp_out",), True),
    ]


def expert_rows(config: ModelConfig, x: str) -> list[Row]:
    """Return the parts of a layer with experts; K of the N experts process a token."""
    c, gated, bias = config, config.gated, " + b_e" if config.expert_bias else ""
    scores = "σ" if c.router_scores == "sigmoid" else "softmax"
    k, router = c.experts_per_token, f"p = {scores}(W_r x{' + b_r' if c.router_bias else ''})"
    router += " (+ o)" if c.router_offset else ""
    by = times(c.expert_multiplier)
    total = f"(Σ p_e + {c.divide_eps:g})" if c.divide_eps else "Σ p_e"
    weight = f"w_e = {by}p_e / {total}" if c.divide_weights and k > 1 else f"w_e = {by}p_e"
    if c.router_scores == "sparsemixer":
        near = f"(r_e − r_i) / max(|r_i|, r_e) ≤ {2 * c.router_jitter:g}"
        router, weight = f"r = W_r x{' + b_r' if c.router_bias else ''}", f"w_e = exp(r_e) / Σ_i exp(r_i),  {near}"
    down = f"W_down,e m{bias}"
    rows: list[Row] = [("router", f"{router},  e ∈ top {k},  {weight}", (x,), ("router",), True)]
    rows += [("gate", f"h = W_gate,e x{bias}", (x,), ("expert_pre",), True)] if gated else []
    made = "expert_up" if gated else "expert_pre"
    rows += [
        ("up", f"{'u' if gated else 'h'} = W_up,e x{bias}", (x,), (made,), True),
        ("act", f"m = {ACTS[c.mlp]}", ("expert_pre", made) if gated else (made,), ("expert_post",), True),
        (
            "down",
            f"y = {scaled(c, f'Σ_e w_e ({down})' if bias else f'Σ_e w_e {down}', '')}",
            ("expert_post", "router"),
            ("mlp_out",),
            True,
        ),
    ]
    if c.d_shared:
        gate = "σ(w_g · x) " if c.shared_gate else ""
        rows.append(("shared", f"y ← y + {times(c.residual_multiplier)}{gate}MLP(x)", (x,), ("mlp_out",), True))
    if c.dense:
        rows.append(
            ("dense", f"y = {times(c.residual_multiplier)}MLP(x),  {layers_of(c.dense)}", (x,), ("mlp_out",), True)
        )
    return rows


def scaled(config: ModelConfig, product: str, bias: str) -> str:
    """Return a sublayer's output: a product with its bias, times the residual multiplier."""
    text = f"{product} + {bias}" if bias else product
    factor = times(config.residual_multiplier)
    return f"{factor}({text})" if factor and bias else f"{factor}{text}"


def times(factor: float, *, after: bool = False) -> str:
    """Return a factor as part of a formula, before or after what it multiplies; "" for 1."""
    if factor == 1:
        return ""
    return f" · {factor:.4g}" if after else f"{factor:.4g} · "


def spans_of(numbers: Iterable[int]) -> list[str]:
    """Return increasing numbers as spans, such as 0–4 and 6."""
    runs: list[list[int]] = []
    for n in numbers:
        if runs and n == runs[-1][-1] + 1:
            runs[-1].append(n)
        else:
            runs.append([n])
    return [f"{run[0]}–{run[-1]}" if len(run) > 1 else str(run[0]) for run in runs]


def layers_of(numbers: Iterable[int]) -> str:
    """Return layer numbers as a set, such as {0–4, 6}."""
    return f"ℓ ∈ {{{', '.join(spans_of(numbers))}}}"
