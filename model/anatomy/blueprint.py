"""The parts of a model in the order of the computation, from the config alone: formulas, shapes, weights, and
connections.

If `model.gpt.tap` can record a tensor of a part, the shape is that tensor's without its batch axis.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from model.anatomy.anatomy import Weight, weights
from model.gpt.config import ModelConfig
from model.gpt.experts import require_dense
from model.gpt.mixers.needs import need_attention
from model.public import public, whole

ACTS = {
    "relu": "max(0, h)",
    "gelu": "h Φ(h)",
    "gelu_tanh": "½ h (1 + tanh(√(2/π) (h + 0.044715 h³)))",
    "swiglu": "silu(h) ⊙ u,  silu(h) = h / (1 + e⁻ʰ)",
}
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


@dataclass(frozen=True)
class ParameterShare:
    """Parameters of a part: in one block (or in total, for a part outside the blocks), in all blocks, and as a fraction
    of the model's.
    """

    tensors: tuple[Weight, ...]  # those in the first block, or those outside the blocks
    once: int
    whole: int
    share: float


@public(T=whole(1))
def blueprint(config: ModelConfig, T: int) -> dict[str, Component]:
    """Return all parts of a model for a prompt of T tokens, by key, in the order of the computation.

    Keys: tokens, embed, pos_embed, norm1, q, k, v, qk_norm, rope, scores, softmax, mix, o, add1, norm2, gate, up, act,
    down, add2, final_norm, unembed, output; those that the config does not have are omitted. A parallel block has a
    single residual addition (add2); a post-norm block has its norms after the additions. Raises ValueError for T < 1,
    InputError for a model with experts or with mixers other than full attention.
    """
    require_dense(config)
    need_attention(config)
    axes = site_axes(config, T)
    parts = [*_before(config), *_attention(config), *_mlp(config), *_after(config)]
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
    streams = (
        "embed",
        "pos_embed",
        "resid_pre",
        "norm1_in",
        "norm1_out",
        "attn_out",
        "resid_mid",
        "norm2_in",
        "norm2_out",
        "mlp_out",
        "resid_post",
        "final_in",
        "final_out",
    )
    return (
        {_IDS: (t,), "logits": all_tokens, _WEIGHTED: all_tokens}
        | dict.fromkeys(streams, stream)
        | dict.fromkeys(("q", "q_rot", "z"), heads)
        | dict.fromkeys(("k", "v", "k_rot"), shared)
        | dict.fromkeys(("scores", "pattern"), pairs)
        | dict.fromkeys(("mlp_pre", "mlp_up", "mlp_post"), inner)
    )


_Row = tuple[str, str, tuple[str, ...], tuple[str, ...], bool]  # key, formula, reads, gives, in a block


def _before(config: ModelConfig) -> list[_Row]:
    scaled = f" · √{config.d_model}" if config.embed_scale else ""
    rows: list[_Row] = [
        ("tokens", f"id ∈ {{0, …, {config.vocab_size - 1}}}", (), (_IDS,), False),
        ("embed", f"x = W_E[id]{scaled}", (_IDS,), ("embed",), False),
    ]
    formulas = {
        "learned": "x ← x + W_P[t]",
        "sinusoidal": "x ← x + p,  p[t, 2i] = sin(t / 10000^(2i/D)),  p[t, 2i+1] = cos(t / 10000^(2i/D))",
    }
    if config.positions in formulas:
        rows.append(("pos_embed", formulas[config.positions], ("embed",), ("pos_embed", "resid_pre"), False))
    return rows


def _norm(config: ModelConfig) -> str:
    if config.norm == "rmsnorm":
        return "y = x / √(mean(x²) + ε) ⊙ g"
    return "y = (x − mean(x)) / √(var(x) + ε) ⊙ g" + (" + b" if config.norm_bias else "")


def _attention(config: ModelConfig) -> list[_Row]:
    c, post, parallel = config, config.norm_placement == "post", config.parallel_residual
    x = "resid_pre" if post else "norm1_out"
    q, k = ("q_rot", "k_rot") if c.positions == "rope" else ("q", "k")
    rows: list[_Row] = [("norm1", _norm(c), ("norm1_in",), ("norm1_out",), True)]
    for name, bias in (("q", c.q_bias), ("k", c.k_bias), ("v", c.v_bias)):
        rows.append((name, f"{name} = W_{name.upper()} x{f' + b_{name}' if bias else ''}", (x,), (name,), True))
    if c.qk_norm:
        formula = "q ← q / √(mean(q²) + ε) ⊙ g_q,  k ← k / √(mean(k²) + ε) ⊙ g_k"
        rows.append(("qk_norm", formula, ("q", "k"), ("q", "k"), True))
    if c.positions == "rope":
        rows.append(("rope", f"q′ = R(t) q,  k′ = R(s) k,  {_angle(c)}", ("q", "k"), ("q_rot", "k_rot"), True))
    rows += [
        ("scores", f"s[t, j] = q_t · k_j / √{c.d_head},  −∞ for j > t", (q, k), ("scores",), True),
        ("softmax", "a[t, j] = exp(s[t, j]) / Σ_i exp(s[t, i])", ("scores",), ("pattern",), True),
        ("mix", "z_t = Σ_j a[t, j] v_j", ("pattern", "v"), ("z",), True),
        ("o", f"y = W_O [z₁; …; z_H]{' + b_O' if c.o_bias else ''}", ("z",), ("attn_out",), True),
    ]
    if not parallel:
        target = "norm1_in" if post else "resid_mid"
        rows.append(("add1", "x ← x + attention", ("resid_pre", "attn_out"), (target,), True))
    return rows


def _angle(config: ModelConfig) -> str:
    """Return the formula of a pair's rotation angle at position t, including Llama 3's scaling of long wavelengths."""
    scaling = config.rope_scaling
    stretch = f",  λ ≥ {scaling.original_n_ctx}: ÷ {scaling.factor:g}" if scaling else ""
    return f"θ_i = t · {config.rope_theta:g}^(−2i/{config.d_rotary}){stretch}"


def _mlp(config: ModelConfig) -> list[_Row]:
    c, post, gated = config, config.norm_placement == "post", config.mlp == "swiglu"
    x, bias = "resid_mid" if post else "norm2_out", " + b" if config.mlp_bias else ""
    rows: list[_Row] = [("norm2", _norm(c), ("norm2_in",), ("norm2_out",), True)]
    if gated:
        rows.append(("gate", f"h = W_gate x{bias}", (x,), ("mlp_pre",), True))
    rows += [
        ("up", f"{'u' if gated else 'h'} = W_up x{bias}", (x,), ("mlp_up" if gated else "mlp_pre",), True),
        ("act", f"m = {ACTS[c.mlp]}", ("mlp_pre", "mlp_up") if gated else ("mlp_pre",), ("mlp_post",), True),
        ("down", f"y = W_down m{bias}", ("mlp_post",), ("mlp_out",), True),
    ]
    if c.parallel_residual:
        return [
            *rows,
            ("add2", "x ← x + attention + MLP", ("resid_pre", "attn_out", "mlp_out"), ("resid_post",), True),
        ]
    target = "norm2_in" if post else "resid_post"
    return [*rows, ("add2", "x ← x + MLP", ("resid_mid", "mlp_out"), (target,), True)]


def _after(config: ModelConfig) -> list[_Row]:
    x = "final_out" if config.final_norm else "resid_post"
    rows: list[_Row] = []
    if config.final_norm:
        rows.append(("final_norm", _norm(config), ("final_in",), ("final_out",), False))
    matrix = "W_E" if config.tie_embeddings else "W_U"
    return [
        *rows,
        ("unembed", f"z = {matrix} x", (x,), ("logits",), False),
        ("output", "p = softmax(z)", ("logits",), (_WEIGHTED,), False),
    ]


def _ordered(config: ModelConfig, rows: list[_Row]) -> list[_Row]:
    """Move each norm after the residual addition in a post-norm block."""
    if config.norm_placement == "pre":
        return rows
    keys = [row[0] for row in rows]
    for norm, add in (("norm1", "add1"), ("norm2", "add2")):
        row = rows.pop(keys.index(norm))
        keys.remove(norm)
        rows.insert(keys.index(add) + 1, row)
        keys.insert(keys.index(add) + 1, norm)
    return rows


# --- parameters ----------------------------------------------------------------------------------------


@public()
def shares(config: ModelConfig) -> dict[str, ParameterShare]:
    """Return the parameters of each part that has any, by key; a tied unembedding has no entry.

    The `whole` numbers sum to `model.anatomy.anatomy.n_params(config)` and the fractions to 1.
    """
    return shares_of(weights(config))


def shares_of(tensors: Iterable[Weight]) -> dict[str, ParameterShare]:
    """Compute `shares` for the given tensors."""
    by_part: dict[str, list[Weight]] = {}
    for weight in tensors:
        by_part.setdefault(weight.part, []).append(weight)
    total = sum(weight.size for listed in by_part.values() for weight in listed)
    return {part: _share(listed, total) for part, listed in by_part.items()}


def _share(tensors: list[Weight], total: int) -> ParameterShare:
    """Compute the parameters of one part. The first block that has the part represents the others."""
    shown = tuple(weight for weight in tensors if weight.layer == tensors[0].layer)
    count = sum(weight.size for weight in tensors)
    return ParameterShare(shown, sum(weight.size for weight in shown), count, count / total)


def by_component(shares_by_part: Mapping[str, ParameterShare], parts: Mapping[str, str]) -> dict[str, int]:
    """Sum the parameters by component, {component: parameters}; `parts` is `model.anatomy.anatomy.PARTS`."""
    sums = dict.fromkeys(parts.values(), 0)
    for part, share in shares_by_part.items():
        sums[parts[part]] += share.whole
    return {component: n for component, n in sums.items() if n}
