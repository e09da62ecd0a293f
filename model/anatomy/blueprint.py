"""The parts of a model in the order of the computation, from the config alone: formulas, shapes, weights, and
connections.

If `model.gpt.tap` can record a tensor of a part, the shape is that tensor's without its batch axis.
"""

from dataclasses import dataclass

from model.anatomy.mixers.kinds import attention_layers, state_mixer, state_mixers
from model.anatomy.mixers.mlp_rows import expert_rows, layers_of, mlp_rows, scaled, times
from model.anatomy.mixers.own_rows import end_rows, input_rows, own_axes, stream_sites, value_rows
from model.anatomy.mixers.rows import Row, state_axes, state_rows
from model.arguments import check_layer
from model.gpt.config import ModelConfig
from model.gpt.mixers.names import LINEAR
from model.public import public, whole

_IDS = "ids"  # not a site: the prompt's tokens
_WEIGHTED = "probabilities"  # not a site: the softmax of the logits


@dataclass(frozen=True)
class Flow:
    """An input or output tensor of a part: a site of `model.gpt.tap.SITES` (or `ids`, `probabilities`) and its axes."""

    site: str
    axes: tuple[tuple[str, int], ...]  # (letter, length), such as ("T", 9)

    @property
    def shape(self) -> tuple[int, ...]:
        """The lengths of the axes."""
        return tuple(length for _, length in self.axes)


@dataclass(frozen=True)
class Component:
    """One step of the computation. Its weights are those of `model.anatomy.anatomy` whose `part` is this key."""

    key: str
    formula: str  # only symbols, so that it is language-independent
    reads: tuple[Flow, ...]
    gives: tuple[Flow, ...]
    block: bool  # whether it occurs in each block


@public(T=whole(1), layer=whole(0))
def blueprint(config: ModelConfig, T: int, layer: int | None = None) -> dict[str, Component]:
    """Return all parts of a model for a prompt of T tokens, by key, in the order of the computation.

    Keys: tokens, embed, pos_embed, segment_embed, embed_norm, entry_embed, entry_proj, norm1, in_proj, conv, rates,
    state, state_gate, out_proj, q, k, v, v_norm, borrowed, qk_norm, rope, scores, cap, alibi, window, sinks, softmax,
    mix, gate_o, o, after1, add1, norm2, router, gate, up, act, down, shared, dense, after2, add2, entry, add3, scale,
    final_norm, head_dense, head_norm, unembed, output; those that the config does not have are omitted. Not every layer
    has every part: see model.anatomy.mixers.kinds. Where layers differ in size, sizes are those of `layer`, by default
    of the layers of full attention that share nothing. A parallel block has a single residual addition (add2); a
    post-norm block has its norms after the additions. Raises ValueError for T < 1, InputError for a layer that does not
    exist, and for a model with several kinds of mixers besides attention.
    """
    if layer is not None:
        check_layer(layer, config.n_layer)
    own = config if layer is None else config.at(layer)
    parts = [*_before(config), *input_rows(config), *_mixing(own, config), *_mlp(config), *_after(config)]
    axes = site_axes(own, T)
    return {
        key: Component(
            key, formula, tuple(Flow(site, axes[site]) for site in reads), tuple(Flow(s, axes[s]) for s in gives), block
        )
        for key, formula, reads, gives, block in _ordered(config, parts)
    }


def site_axes(config: ModelConfig, T: int) -> dict[str, tuple[tuple[str, int], ...]]:
    """Return the axes of each input or output tensor of a part, {site: ((letter, length), ...)}, without the batch
    axis.
    """
    c, t = config, ("T", T)
    stream, inner = (t, ("D", c.d_model)), (t, ("M", c.d_mlp))
    heads, shared = (("H", c.n_head), t, ("E", c.d_head)), (("G", c.n_kv_head), t, ("E", c.d_head))
    pairs, all_tokens = (("H", c.n_head), t, ("S", T)), (t, ("V", c.vocab_size))
    expert = (("K", c.experts_per_token), t, ("M", c.d_expert))
    streams = (
        *("embed", "pos_embed", "embed_norm_in", "embed_norm_out", "resid_pre", "norm1_in", "norm1_out"),
        *("attn_out", "after1_in", "after1_out", "resid_mid", "norm2_in", "norm2_out"),
        *("mlp_out", "after2_in", "after2_out", "resid_post", "final_in", "final_out"),
        *("segment_embed", "head_act", "head_out", "attn_alone", "ssm_out"),
    )
    states = {name: axes for mixer in state_mixers(c) for name, axes in state_axes(c, mixer, T).items()}
    return (
        {_IDS: (t,), "logits": all_tokens, _WEIGHTED: all_tokens, "router": (t, ("N", c.n_expert))}
        | dict.fromkeys(("expert_pre", "expert_up", "expert_post"), expert)
        | dict.fromkeys(streams, stream)
        | dict.fromkeys(("q", "q_rot", "mixed", "z"), heads)
        | dict.fromkeys(("k", "v", "k_rot"), shared)
        | dict.fromkeys(("scores", "pattern"), pairs)
        | dict.fromkeys(("mlp_pre", "mlp_up", "mlp_post"), inner)
        | states
        | own_axes(c, T)
    )


_HEAD_ACTS = {"relu": "ReLU", "gelu": "GELU", "geglu": "GELU", "gelu_tanh": "GELU", "geglu_tanh": "GELU"}


def _before(config: ModelConfig) -> list[Row]:
    c = config
    by = (f" · √{c.d_model}" if c.embed_scale else "") + times(c.embed_multiplier, after=True)
    rows: list[Row] = [
        ("tokens", f"id ∈ {{0, …, {c.vocab_size - 1}}}", (), (_IDS,), False),
        ("embed", f"x = W_E[id]{by}", (_IDS,), ("embed",), False),
    ]
    formulas = {
        "learned": "x ← x + W_P[t]",
        "sinusoidal": "x ← x + p,  p[t, 2i] = sin(t / 10000^(2i/D)),  p[t, 2i+1] = cos(t / 10000^(2i/D))",
    }
    if c.positions in formulas:
        rows.append(("pos_embed", formulas[c.positions], ("embed",), ("pos_embed", "resid_pre"), False))
    if c.n_segment:
        formula = "x ← x + W_S[0]" if c.segment_end is None else "x ← x + W_S[number of the text]"
        rows.append(("segment_embed", formula, ("embed",), ("segment_embed", "resid_pre"), False))
    return [*rows, ("embed_norm", _norm(c), ("embed_norm_in",), ("embed_norm_out",), False)] if c.embed_norm else rows


def _norm(config: ModelConfig) -> str:
    gain = " ⊙ g" if config.norm_weight else ""
    if config.norm == "rmsnorm":
        return f"y = x / √(mean(x²) + ε){gain}"
    return f"y = (x − mean(x)) / √(var(x) + ε){gain}" + (" + b" if config.norm_bias else "")


def _mixing(config: ModelConfig, model: ModelConfig) -> list[Row]:
    """Return the parts of the first sublayer: norms, mixers and their addition to the stream. `config` has the sizes of
    one layer of `model`.
    """
    c, mixer = config, state_mixer(config)
    x = "resid_pre" if c.norm_placement in ("post", "output") else "norm1_out"
    rows: list[Row] = [] if c.norm_placement == "output" else [("norm1", _norm(c), ("norm1_in",), ("norm1_out",), True)]
    attention = bool(attention_layers(c))
    if mixer is not None and mixer not in LINEAR and not c.ssm_beside:
        rows += state_rows(c, mixer, x)
    if attention or mixer in LINEAR:
        rows += _projections(c, model, x)
    if mixer in LINEAR:
        rows += state_rows(c, mixer, x)
    rows += _attention(c, x) if attention else []
    rows += [_output(c)] if attention or mixer in LINEAR else []
    if c.ssm_beside:
        rows += state_rows(c, "mamba2", x)
    added = _added(c, "1", "attention" if mixer is None else "mixer", "attn_out")
    return rows + ([] if c.parallel_residual else added)


def _rotated(config: ModelConfig) -> bool:
    """Return whether any layer with queries and keys rotates them."""
    layers = (n for n in range(config.n_layer) if config.channels(n) is None)
    return any(config.rotates(layer) for layer in layers)


def _projections(config: ModelConfig, model: ModelConfig, x: str) -> list[Row]:
    c, rows = config, []
    for name, bias in (("q", c.q_bias), ("k", c.k_bias), ("v", c.v_bias)):
        rows.append((name, _projected(c, name, bias), (x,), (name,), True))
    rows += value_rows(model)
    if c.qk_norm:
        over = ",  q = [q₁; …; q_H]" if c.qk_norm_over == "all" else ""
        formula = f"q ← {times(c.query_factor)}{_qk_normed(c, 'q', 'h')},  k ← {_qk_normed(c, 'k', 'g')}{over}"
        rows.append(("qk_norm", formula, ("q", "k"), ("q", "k"), True))
    if _rotated(c):
        rows.append(("rope", f"q′ = R(t) q,  k′ = R(s) k,  {_angle(model)}", ("q", "k"), ("q_rot", "k_rot"), True))
    return rows


def _output(config: ModelConfig) -> Row:
    """Return the projection of the heads' outputs."""
    text = scaled(config, "W_O [z₁; …; z_H]", "b_O" if config.o_bias else "")
    return ("o", f"y = {text}", ("z",), ("attn_alone" if config.ssm_beside else "attn_out",), True)


def _attention(config: ModelConfig, x: str) -> list[Row]:
    """Return the parts from the scores to the heads' outputs."""
    c = config
    q, k = ("q_rot", "k_rot") if _rotated(c) else ("q", "k")
    rows: list[Row] = []
    rows.append(
        (
            "scores",
            f"s[t, j] = q_t · k_j / √{c.d_head}{'' if c.two_way else ',  −∞ for j > t'}",
            (q, k),
            ("scores",),
            True,
        )
    )
    near = [layer for layer, name in enumerate(c.mixers) if name == "sliding_window"]
    where = f",  {layers_of(near)}" if len(near) < len(attention_layers(c)) else ""
    rules = {
        "cap": (c.score_cap is not None, f"s ← {c.score_cap or 0:g} tanh(s / {c.score_cap or 0:g})"),
        "alibi": (c.positions == "alibi", f"s[t, j] ← s[t, j] − {_penalty(c)},  m_h = {_slopes(c.n_head)}"),
        "window": (bool(near), f"s[t, j] ← −∞ for {_hidden(c)}{where}"),
        "sinks": (c.sinks, "s[t, sink] = σ_h,  Σ_j a[t, j] < 1"),
    }
    rows += [(key, formula, ("scores",), ("scores",), True) for key, (given, formula) in rules.items() if given]
    total = "(exp(σ_h) + Σ_i exp(s[t, i]))" if c.sinks else "Σ_i exp(s[t, i])"
    rows += [
        ("softmax", f"a[t, j] = exp(s[t, j]) / {total}", ("scores",), ("pattern",), True),
        ("mix", "z_t = Σ_j a[t, j] v_j", ("pattern", "v"), ("mixed" if c.output_gate else "z",), True),
    ]
    gate = f"z ← σ(W_g x{' + b_g' if c.q_bias else ''}) ⊙ z"
    return [*rows, ("gate_o", gate, ("mixed", x), ("z",), True)] if c.output_gate else rows


def _qk_normed(config: ModelConfig, x: str, head: str) -> str:
    """Return the formula of the norm of q or k, whose gain may be one of each head."""
    c, own = config, head if config.qk_norm_over == "each" else ""
    text = f"{x} / √(mean({x}²) + ε)" if c.qk_norm_kind == "rmsnorm" else f"({x} − mean({x})) / √(var({x}) + ε)"
    gain = f" ⊙ g_{x}{own}" if c.norm_weight else ""
    return text + gain + (f" + b_{x}{own}" if c.qk_norm_kind == "layernorm_bias" else "")


def _hidden(config: ModelConfig) -> str:
    """Return the condition of a pair outside the window."""
    return f"|t − j| > {(config.window or 0) // 2}" if config.two_way else f"t − j ≥ {config.window}"


def _penalty(config: ModelConfig) -> str:
    """Return what ALiBi subtracts."""
    return f"(bf16(m_h t) − bf16(m_h j)) / √{config.d_head}" if config.alibi_rounded else "m_h (t − j)"


def _slopes(n_head: int) -> str:
    """Return the slopes of ALiBi: an exact formula if the number of heads is a power of 2."""
    power = 1 << (n_head.bit_length() - 1)
    return f"2^(−8h/{power})" + ("" if power == n_head else f" (h ≤ {power}), …")


def _projected(config: ModelConfig, name: str, bias: bool) -> str:
    """Return the formula of q, k or v."""
    c, text = config, f"W_{name.upper()} x{f' + b_{name}' if bias else ''}"
    if c.qkv_limit is not None:
        text = f"clip({text}, ±{c.qkv_limit:g})"
    if name == "q" and c.query_factor != 1 and not c.qk_norm:
        text = f"{times(c.query_factor)}({text})"
    if name == "v" and c.keys_as_values:
        full = [layer for layer, mixer in enumerate(c.mixers) if mixer == "softmax"]
        text += f",  {layers_of(full)}: W_V = W_K"
    return f"{name} = {text}"


def _added(config: ModelConfig, number: str, name: str, site: str) -> list[Row]:
    """Return the addition of a sublayer's output to the stream, with the norm of the output before it."""
    source, rows = "resid_pre" if number == "1" else "resid_mid", []
    if config.norm_placement in ("output", "sandwich"):
        rows.append((f"after{number}", _norm(config), (f"after{number}_in",), (f"after{number}_out",), True))
        name, site = f"norm({name})", f"after{number}_out"
    target = "resid_mid" if number == "1" else stream_sites(config)[0]
    target = f"norm{number}_in" if config.norm_placement == "post" else target
    return [*rows, (f"add{number}", f"x ← x + {name}", (source, site), (target,), True)]


def _angle(config: ModelConfig) -> str:
    """Return the formula of a pair's rotation angle at position t, with its scaling, and the base of windows."""
    c, d = config, config.d_rotary
    text = f"θ_i = t · {c.rope_theta:g}^(−2i/{d}){_stretch(c)}"
    if c.rope_pairs == "adjacent":
        text += ",  (x₂ᵢ, x₂ᵢ₊₁)"
    if c.rope_theta_local is not None and "sliding_window" in c.mixers:
        near = layers_of(layer for layer, name in enumerate(c.mixers) if name == "sliding_window")
        width = int((c.d_head_local or c.d_head) * c.rotary_fraction)
        text += f",  {near}: t · {c.rope_theta_local:g}^(−2i/{width})"
    if c.unrotated:
        text += f",  {layers_of(c.unrotated)}: θ_i = 0"
    return text


def _stretch(config: ModelConfig) -> str:
    """Return how the scaling changes the angles; λ is a wavelength in tokens."""
    s = config.rope_scaling
    if s is None:
        return ""
    n, divided = s.original_n_ctx or 0, "" if s.factor == 1 else f" / {s.factor:g}"
    text = {
        "linear": f" / {s.factor:g}",
        "dynamic": f",  T > {n}: {config.rope_theta:g} · ({s.factor:g} T / {n} − {s.factor - 1:g})^(d / (d − 2))",
        "llama3": f",  λ ≥ {n}: ÷ {s.factor:g}",
        "yarn": f",  {n} / λ ≤ {s.beta_slow or 0:g}: ÷ {s.factor:g},  {n} / λ ≥ {s.beta_fast or 0:g}: ÷ 1",
        "longrope": f" / f_i,  T > {n}: f_i = f_i(long)",
        "proportional": f"{divided},  i ≥ {int((s.rotated or 0) * config.d_rotary // 2)}: θ_i = 0",
    }[s.kind]
    return text if s.amplitude == 1 else f"{text},  q′, k′ · {s.amplitude:.4g}"


def _mlp(config: ModelConfig) -> list[Row]:
    c, post = config, config.norm_placement == "post"
    if not any(c.has_mlp(layer) for layer in range(c.n_layer)):
        return []
    own = c.norm_placement != "output" and not c.shared_norm
    x = "norm1_out" if c.shared_norm else "norm2_out" if own and not post else "resid_mid"
    rows: list[Row] = [("norm2", _norm(c), ("norm2_in",), ("norm2_out",), True)] if own else []
    rows += expert_rows(c, x) if c.n_expert > 1 else mlp_rows(c, x)
    if c.parallel_residual:
        formula, reads = "x ← x + attention + MLP", ("resid_pre", "attn_out", "mlp_out")
        return [*rows, ("add2", formula, reads, ("resid_post",), True)]
    return rows + _added(c, "2", "MLP", "mlp_out") + end_rows(c)


def _after(config: ModelConfig) -> list[Row]:
    c, x = config, "final_out" if config.final_norm else "resid_post"
    rows: list[Row] = [("final_norm", _norm(c), ("final_in",), ("final_out",), False)] if c.final_norm else []
    if c.headless:
        return rows
    if c.head_dense:
        bias = " + b" if c.mlp_bias else ""
        rows.append(("head_dense", f"h = {_HEAD_ACTS.get(c.mlp, 'f')}(W x{bias})", (x,), ("head_act",), False))
        rows.append(("head_norm", _norm(c), ("head_act",), ("head_out",), False))
        x = "head_out"
    product = f"{'W_E' if c.tie_embeddings else 'W_U'} x{' + b' if c.head_bias else ''}"
    factor = times(c.logit_multiplier)
    head = f"z = {factor}({product})" if factor and c.head_bias else f"z = {factor}{product}"
    if c.logit_cap is not None:
        head += f",  z ← {c.logit_cap:g} tanh(z / {c.logit_cap:g})"
    return [
        *rows,
        ("unembed", head, (x,), ("logits",), False),
        ("output", "p = softmax(z)", ("logits",), (_WEIGHTED,), False),
    ]


def _ordered(config: ModelConfig, rows: list[Row]) -> list[Row]:
    """Move each norm after the residual addition in a post-norm block."""
    if config.norm_placement != "post":
        return rows
    keys = [row[0] for row in rows]
    for norm, add in (("norm1", "add1"), ("norm2", "add2")):
        row = rows.pop(keys.index(norm))
        keys.remove(norm)
        rows.insert(keys.index(add) + 1, row)
        keys.insert(keys.index(add) + 1, norm)
    return rows
