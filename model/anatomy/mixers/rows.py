"""The parts of mixers without a softmax: formulas, and what they read and output. See model.gpt.mixers for the sources.

Sizes: I channels, J heads with a state, N numbers of state per channel, E and P the sizes of a key and a value.
"""

from collections.abc import Mapping

from model.gpt.config import ModelConfig
from model.gpt.mixers.names import LINEAR

Axes = tuple[tuple[str, int], ...]
Row = tuple[str, str, tuple[str, ...], tuple[str, ...], bool]  # key, formula, reads, gives, in a block


def state_rows(config: ModelConfig, mixer: str, x: str) -> list[Row]:
    """Return the parts of a mixer from its input `x` to its output projection; of a mixer with queries and keys, those
    between keys and the projection o.
    """
    rows = {"mamba": _mamba, "mamba2": _mamba2, "gated_delta": _gated_delta, "short_conv": _short_conv}
    found = _linear(config, mixer, x) if mixer in LINEAR else rows[mixer](config, x)
    return [(key, formula, reads, gives, True) for key, formula, reads, gives in found]


_Part = tuple[str, str, tuple[str, ...], tuple[str, ...]]


def _convolved(config: ModelConfig, name: str, bias: bool) -> str:
    return f"{'b + ' if bias else ''}Σ_i w_i ⊙ {name}[t − i],  i < {config.d_conv}"


def _out(config: ModelConfig, bias: bool) -> _Part:
    factor = "" if config.residual_multiplier == 1 else f"{config.residual_multiplier:.4g} · "
    product = "W_out z + b" if bias else "W_out z"
    text = f"y = {factor}({product})" if factor and bias else f"y = {factor}{product}"
    return "out_proj", text, ("gated",), ("ssm_out" if config.ssm_beside else "attn_out",)


def _mamba(c: ModelConfig, x: str) -> list[_Part]:
    return [
        ("in_proj", "[u; g] = W_in x", (x,), ("conv_in", "open")),
        ("conv", f"u ← silu({_convolved(c, 'u', True)})", ("conv_in",), ("channels",)),
        ("rates", "[δ; B; C] = W_x u,  Δ = softplus(W_Δ δ + b)", ("channels",), ("keys", "rates")),
        ("state", "h_t = exp(−e^A Δ) ⊙ h_(t−1) + Δ B u,  y = C · h_t", ("channels", "keys", "rates"), ("state_out",)),
        ("state_gate", "z = (y + D ⊙ u) ⊙ silu(g)", ("state_out", "channels", "open"), ("gated",)),
        _out(c, False),
    ]


def _mamba2(c: ModelConfig, x: str) -> list[_Part]:
    limits = c.dt_min > 0 or c.dt_max is not None
    step = f"Δ = clip(softplus(δ + b), {c.dt_min:g}, {c.dt_max or float('inf'):g})" if limits else "Δ = softplus(δ + b)"
    gated = {
        "after_gate": "z = norm((y + D u) ⊙ silu(g))",
        "before_gate": "z = norm(y + D u) ⊙ silu(g)",
        "none": "z = (y + D u) ⊙ silu(g)",
    }[c.ssm_norm]
    bias = " + b" if c.ssm_bias else ""
    return [
        ("in_proj", f"[g; u; B; C; δ] = W_in x{bias}", (x,), ("open", "conv_in", "steps")),
        (
            "conv",
            f"c ← silu({_convolved(c, 'c', c.ssm_conv_bias)}),  c = [u; B; C]",
            ("conv_in",),
            ("channels", "keys"),
        ),
        ("rates", f"{step},  a = exp(−e^A Δ)", ("steps",), ("rates",)),
        ("state", "S_t = a_t S_(t−1) + B_t (Δ_t u_t)ᵀ,  y_t = S_tᵀ C_t", ("channels", "keys", "rates"), ("state_out",)),
        ("state_gate", gated, ("state_out", "channels", "open"), ("gated",)),
        _out(c, c.ssm_bias),
    ]


_DELTA = "S_t = a_t S_(t−1) + β_t k_t (v_t − a_t S_(t−1)ᵀ k_t)ᵀ"


def _gated_delta(c: ModelConfig, x: str) -> list[_Part]:
    written = f"{_DELTA},  y_t = S_tᵀ q_t / √{c.d_delta_key}"
    conv = f"c ← silu({_convolved(c, 'c', False)}),  c = [q; k; v],  |q| = |k| = 1"
    gain = " ⊙ γ" if c.norm_weight else ""
    return [
        ("in_proj", "[q; k; v] = W_qkv x", (x,), ("conv_in",)),
        ("conv", conv, ("conv_in",), ("channels", "keys")),
        ("rates", "β = σ(W_β x),  a = exp(−e^A softplus(W_a x + b))", (x,), ("rates",)),
        ("state", written, ("channels", "keys", "rates"), ("state_out",)),
        ("state_gate", f"z = y / √(mean(y²) + ε){gain} ⊙ silu(W_g x)", ("state_out", x), ("gated",)),
        _out(c, False),
    ]


def _short_conv(c: ModelConfig, x: str) -> list[_Part]:
    bias = " + b" if c.short_conv_bias else ""
    return [
        ("in_proj", f"[b; g; u] = W_in x{bias},  v = b ⊙ u", (x,), ("channels", "open")),
        ("conv", f"y_t = {_convolved(c, 'v', c.short_conv_bias)}", ("channels",), ("state_out",)),
        ("state_gate", "z = g ⊙ y", ("state_out", "open"), ("gated",)),
        _out(c, c.short_conv_bias),
    ]


def _linear(c: ModelConfig, mixer: str, x: str) -> list[_Part]:
    """Return the parts of linear attention, retention or the delta rule, which read q, k and v."""
    q, k = ("q_rot", "k_rot") if c.positions == "rope" else ("q", "k")
    gain = " ⊙ γ" if c.norm_weight else ""
    rates = {"linear": "a = σ(W_f x + b)^(1/16)", "delta": "β = σ(W_β x)"}.get(mixer)
    state = {
        "linear": f"S_t = a_t S_(t−1) + k_t v_tᵀ,  y_t = S_tᵀ q_t / √{c.d_head}",
        "retention": f"S_t = (1 − 2^(−5 − h)) S_(t−1) + k_t v_tᵀ,  y_t = S_tᵀ q_t / √{c.d_head}",
        "delta": f"q, k ← silu, length 1,  {_DELTA.replace('a_t ', '')},  y_t = S_tᵀ q_t",
    }[mixer]
    gate = "" if mixer == "delta" else " ⊙ silu(W_g x)"
    return [
        *([("rates", rates, (x,), ("rates",))] if rates else []),
        ("state", state, (q, k, "v", *(("rates",) if rates else ())), ("mixed",)),
        ("state_gate", f"z = y / √(mean(y²) + ε){gain}{gate}", ("mixed", *((x,) if gate else ())), ("z",)),
    ]


def state_axes(config: ModelConfig, mixer: str, T: int) -> Mapping[str, Axes]:
    """Return the axes of what the parts of a mixer read and output besides the stream. `channels`, `state_out` and
    `gated` are the sites v, mixed and z of model.gpt.tap, where the model has no attention beside the mixer.
    """
    c, t = config, ("T", T)
    if mixer in LINEAR:
        return {"rates": (("H", c.n_head), t)}
    sizes = {
        "mamba": (c.d_inner, c.d_inner, 2 * c.d_state),
        "mamba2": (c.d_ssm, c.d_ssm + 2 * c.ssm_groups * c.d_state, 2 * c.ssm_groups * c.d_state),
        "gated_delta": (
            c.n_delta_head * c.d_delta_value,
            c.delta_inputs,
            2 * c.n_delta_key * c.d_delta_key,
        ),
        "short_conv": (c.d_model, c.d_model, 0),
    }
    channels, convolved, keys = sizes[mixer]
    J = c.n_delta_head if mixer == "gated_delta" else c.ssm_heads
    heads = (("J", c.ssm_heads), t, ("P", c.d_ssm_head))
    if not c.ssm_beside:
        heads = (("H", c.n_head), t, ("I", channels // c.n_head))
    vectors = {"conv_in": convolved, "open": channels, "steps": c.ssm_heads, "keys": keys}
    return {
        **{name: (t, ("I", n)) for name, n in vectors.items()},
        **dict.fromkeys(("channels", "state_out", "gated"), heads),
        "rates": (t, ("I", channels)) if mixer == "mamba" else (("J", J), t),  # each of them
    }


def state_shape(config: ModelConfig, mixer: str) -> Axes:
    """Return the axes of a layer's recurrent state, which does not grow with the text."""
    c = config
    return {
        "mamba": (("I", c.d_inner), ("N", c.d_state)),
        "mamba2": (("J", c.ssm_heads), ("N", c.d_state), ("P", c.d_ssm_head)),
        "gated_delta": (("J", c.n_delta_head), ("E", c.d_delta_key), ("P", c.d_delta_value)),
        "short_conv": (("K", c.d_conv - 1), ("I", c.d_model)),
    }.get(mixer, (("H", c.n_head), ("E", c.d_head), ("E", c.d_head)))
