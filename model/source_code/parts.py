"""The lines of the project that compute each part of a model, given its modules.

The parts are those of `model.anatomy.blueprint`. Functions are referenced directly, lines by the names in them.
"""

from collections.abc import Callable
from dataclasses import dataclass

from torch import nn

from model import PREFIX
from model.anatomy.blueprint import blueprint, site_axes
from model.errors import InputError, say
from model.gpt.config import ModelConfig
from model.gpt.experts import Experts, Mlps, Stack, route
from model.gpt.layers import (
    MLPS,
    NORMS,
    attention_pattern,
    attention_scores,
    capped,
    future,
    merge_heads,
    mix,
    rope_frequencies,
    rope_table,
    rotate,
    rotate_adjacent,
    sinusoidal_positions,
    split_heads,
)
from model.gpt.linear import Linear
from model.gpt.mixers.attention import Attention
from model.gpt.mixers.projection import Turn, project, values_normed
from model.gpt.mixers.scoring import Scoring, alibi_slopes
from model.gpt.mlp import MLP, through_gate
from model.gpt.norm import Norm, normed_qk
from model.gpt.passes import Beside
from model.gpt.rope_scaling import scaled
from model.gpt.transformer import Block, Entry, Transformer
from model.sampling.pipeline import softmax
from model.source_code.excerpts import Code, Sizes, Span, excerpts
from model.source_code.mini import MINI_PARTS, like_mini, mini_spans
from model.source_code.state_parts import STATE_PARTS, state_lines
from model.text.tokenizer import Tokenizer

_ALONE = ("pos_embed",)  # one table for all sequences of a batch


@dataclass(frozen=True)
class Wiring:
    """A config and the classes that compute the model's parts."""

    config: ModelConfig
    model: type[nn.Module] = Transformer
    block: type[nn.Module] = Block
    mixer: type[nn.Module] = Attention
    mlp: type[nn.Module] = MLP  # of a single MLP
    norm: type[nn.Module] = Norm
    linear: type[nn.Module] = Linear
    head: type[nn.Module] = Linear
    window: bool = False


def wiring_of(model: Transformer, layer: int) -> Wiring:
    """Collect the classes of a model's own modules."""
    block = model.blocks[layer]
    window = getattr(block.attn, "window", None) is not None
    mlp = MLP if isinstance(block.mlp, Experts) else type(block.mlp)
    norm = next((each for each in (block.norm1, block.after1) if each is not None), None)
    classes = mlp, Norm if norm is None else type(norm), type(block.attn.o), type(model.unembed)
    mixer = type(block.attn) if hasattr(block.attn, "q") else Attention
    return Wiring(model.config.at(layer), type(model), type(block), mixer, *classes, window)


def code_of_part(wiring: Wiring, part: str, T: int) -> Code:
    """Find the lines that compute a part, with the shapes for T tokens.

    Raises InputError if the model lacks the part or the part has no drawing.
    """
    parts = blueprint(wiring.config, T)
    if part not in parts:
        raise InputError("No part of the model has this name.", part, say("Choose one of: {}.", ", ".join(parts)))
    sizes = sizes_of(wiring.config, T)
    if part in STATE_PARTS and "channels" in sizes:
        sizes = {**sizes, "v": sizes["channels"], "mixed": sizes["state_out"], "z": sizes["gated"]}
    mini = mini_spans(MINI_PARTS.get(part, ())) if like_mini(wiring.config) else []
    return Code(excerpts(PARTS[part](wiring), sizes), excerpts(mini, sizes))


def sizes_of(config: ModelConfig, T: int) -> Sizes:
    """Compute the shapes of the tensors in a run of one prompt of T tokens, by site."""
    shapes = {site: tuple(length for _, length in axes) for site, axes in site_axes(config, T).items()}
    return {site: shape if site in _ALONE else (1, *shape) for site, shape in shapes.items()}


# --- the project's own code ---------------------------------------------------------------------------------


def _tokens(w: Wiring) -> list[Span]:
    return [Span(Tokenizer.prompt_ids, ("=ids", "return")), Span(Tokenizer.encode_ids, ("return",))]


def _embed(w: Wiring) -> list[Span]:
    scaled = ("if embed_factor",) if w.config.embed_factor != 1 else ()
    spans = [Span(w.model.embed_tokens, ("embed", *scaled, '"embed"'), (("embed", "embed"),))]
    return [*spans, Span(ModelConfig.embed_factor.fget)] if scaled and w.config.embed_scale else spans


def _embed_norm(w: Wiring) -> list[Span]:
    return [Span(w.model.embed_tokens, ("embed_norm",)), *_norm("embed_norm")(w)]


def _pos_embed(w: Wiring) -> list[Span]:
    if w.config.positions == "learned":
        return [Span(w.model.embed_tokens, ("pos_embed",))]
    return [Span(w.model.embed_tokens, ("sinusoidal_positions",)), Span(sinusoidal_positions)]


def _segment_embed(w: Wiring) -> list[Span]:
    return [Span(w.model.embed_tokens, ("segment_embed",)), Span(w.model.segments)]


def _norm(name: str) -> Callable[[Wiring], list[Span]]:
    def spans(w: Wiring) -> list[Span]:
        steps = Span(w.norm.tapped, ("=numerator", "=y", "return"), (("return", f"{name}_out"),))
        return [steps, Span(NORMS[w.config.norm])]

    return spans


def _final_norm(w: Wiring) -> list[Span]:
    return [Span(w.model.normed, ("return",)), *_norm("final")(w)]


def _projected(part: str) -> Callable[[Wiring], list[Span]]:
    def spans(w: Wiring) -> list[Span]:
        return [Span(project, ("split_heads",), (("split_heads", part),)), Span(w.linear.forward), Span(split_heads)]

    return spans


def _qk_norm(w: Wiring) -> list[Span]:
    kind, each = normed_qk(w.config).norm, w.config.qk_norm_over == "each"
    fused = {"rmsnorm": "rms_norm", "layernorm": "layer_norm"}[kind]
    return [
        Span(project, ("_normed",), (("_normed", "q"), ("_normed", "k"))),
        Span(w.norm.by_group, ("=norm", "return")) if each else Span(w.norm.forward, (fused,)),
        Span(NORMS[kind]),
    ]


def _rope(w: Wiring) -> list[Span]:
    turn = rotate_adjacent if w.config.rope_pairs == "adjacent" else rotate
    angles = (
        Span(rope_frequencies, ("return",))
        if w.config.rope_scaling is None
        else Span(scaled, _SCALED[w.config.rope_scaling.kind])
    )
    return [
        Span(project, ("rotated",)),
        Span(Turn.rotated, ("return",)),
        Span(turn),
        Span(rope_table, ("=angle", "=cos")),
        angles,
    ]


def _v_norm(w: Wiring) -> list[Span]:
    return [Span(project, ("values_normed",)), Span(values_normed)]


def _borrowed(w: Wiring) -> list[Span]:
    return [Span(project, ("if source",)), Span(Beside.shared), Span(ModelConfig.kv_source)]


def _scores(w: Wiring) -> list[Span]:
    mask = [] if w.config.two_way else [Span(future)]
    return [Span(attention_scores, (), (("=scores", "scores"),)), *mask]


def _cap(w: Wiring) -> list[Span]:
    return [Span(Scoring.changed, ("capped",), (("capped", "scores"),)), Span(capped)]


def _alibi(w: Wiring) -> list[Span]:
    return [Span(Scoring.changed, ("=distance", "if slopes"), (("if slopes", "scores"),)), Span(alibi_slopes)]


def _window(w: Wiring) -> list[Span]:
    return [Span(Scoring.changed, ("=distance", "=hidden", "return"), (("return", "scores"),))]


def _sinks(w: Wiring) -> list[Span]:
    return [
        Span(w.mixer.__init__, ("=sinks",)),
        Span(Scoring.pattern, ("=sink",)),
        Span(Scoring.pattern, ("return",), (("return", "pattern"),)),
    ]


def _softmax(w: Wiring) -> list[Span]:
    sinks = [Span(Scoring.pattern, ("=sink", "return"))] if w.config.sinks else []
    return [*sinks, Span(attention_pattern, (), (("return", "pattern"),))]


def _mix(w: Wiring) -> list[Span]:
    return [Span(mix, (), (("return", "z"),))]


def _gate_o(w: Wiring) -> list[Span]:
    return [Span(Attention.forward, ("if gate",)), Span(w.linear.forward)]


def _o(w: Wiring) -> list[Span]:
    return [Span(w.mixer.forward, ("=out", "return")), Span(merge_heads)]


def _of_state(part: str) -> Callable[[Wiring], list[Span]]:
    return lambda w: state_lines(part)(w.config)


def _branch(w: Wiring) -> str:
    return "if post_norm" if w.config.norm_placement == "post" else "else post_norm"


def _add1(w: Wiring) -> list[Span]:
    return [Span(w.block._attended, ("=written", _branch(w)), (("=written", "attn_out"), (_branch(w), "resid_mid")))]


def _add2(w: Wiring) -> list[Span]:
    if w.config.parallel_residual:
        return [*_add1(w), Span(w.block.forward, ("=written", "=out"), (("=out", "resid_post"),))]
    return [Span(w.block.forward, (_branch(w),), (("=out", "resid_post"),))]


def _gate(w: Wiring) -> list[Span]:
    return [_inside(w), _linear(w)]


def _up(w: Wiring) -> list[Span]:
    return [_inside(w), _linear(w)]


def _inside(w: Wiring) -> Span:
    """Return the lines between an MLP's input and the input of down."""
    if w.config.n_expert > 1:
        return Span(Mlps.one, (), (("=up", "expert_pre" if not w.config.gated else "expert_up"),))
    return Span(w.mlp.forward, ("else gate" if w.config.gated else "if gate",))


def _linear(w: Wiring) -> Span:
    return Span(Stack.one if w.config.n_expert > 1 else w.linear.forward)


def _act(w: Wiring) -> list[Span]:
    function = MLPS[w.config.mlp]
    own = (
        [Span(function)] if function.__module__.startswith(f"{PREFIX}model.") else []
    )  # the other functions are in torch
    gate = [Span(through_gate)] if w.config.gated else []
    return [Span(w.mlp.__init__, ("=act",)), _inside(w), *gate, *own]


def _down(w: Wiring) -> list[Span]:
    if w.config.n_expert > 1:
        return [Span(Experts.forward, ("=output", "index_add_"), (("=output", "mlp_out"),)), _inside(w), _linear(w)]
    return [Span(w.mlp.forward, ('"mlp_out"',)), _linear(w)]


def _entry_embed(w: Wiring) -> list[Span]:
    return [Span(w.model.enter), Span(w.model.layer_input, ("return",))]


def _entry_proj(w: Wiring) -> list[Span]:
    return [Span(w.model.layer_input, ("=part", "=projected", "return"))]


def _entry(w: Wiring) -> list[Span]:
    return [Span(Entry.forward), _linear(w)]


def _added_entry(w: Wiring) -> list[Span]:
    return [Span(w.block.forward, ("if entry",))]


def _scale(w: Wiring) -> list[Span]:
    return [Span(w.block.forward, ("if scale",), (("if scale", "resid_post"),))]


def _router(w: Wiring) -> list[Span]:
    lines = ("=scores", "=experts", "=weights", "return")
    return [Span(Experts.forward, ("=logits", "=routing")), Span(route, lines)]


def _shared(w: Wiring) -> list[Span]:
    return [Span(Experts.forward, ("if shared",)), Span(w.mlp.forward, ("else gate" if w.config.gated else "if gate",))]


def _dense(w: Wiring) -> list[Span]:
    return [Span(w.block.__init__, ("=mlp",)), Span(w.mlp.forward, ("else gate" if w.config.gated else "if gate",))]


def _head_dense(w: Wiring) -> list[Span]:
    return [Span(w.model.head, ("head_dense",)), _linear(w)]


def _head_norm(w: Wiring) -> list[Span]:
    return [Span(w.model.head, ("head_norm",)), Span(w.norm.forward), Span(NORMS[w.config.norm])]


def _unembed(w: Wiring) -> list[Span]:
    changed = (
        [Span(w.model.head, ("return",)), Span(capped)] if w.config.logit_cap is not None else [Span(w.model.head)]
    )
    return [Span(w.model.logits, ("return",), (("return", "logits"),)), *changed, Span(w.head.forward)]


def _output(w: Wiring) -> list[Span]:
    return [Span(softmax)]


_SCALED: dict[str, tuple[str, ...]] = {  # the lines of model.gpt.rope_scaling.scaled for each kind
    "linear": ("=frequency", 'if "linear"'),
    "proportional": ("=frequency", "=pairs"),
    "dynamic": ("=exponent", 'if "dynamic"'),
    "llama3": ("=frequency", 'if "llama3"'),
    "yarn": ("=frequency", 'if "yarn"'),
    "longrope": ("=frequency", "=factors", "return"),
}
PARTS: dict[str, Callable[[Wiring], list[Span]]] = {
    "tokens": _tokens,
    "embed": _embed,
    "pos_embed": _pos_embed,
    "segment_embed": _segment_embed,
    "embed_norm": _embed_norm,
    "entry_embed": _entry_embed,
    "entry_proj": _entry_proj,
    "norm1": _norm("norm1"),
    "q": _projected("q"),
    "k": _projected("k"),
    "v": _projected("v"),
    "v_norm": _v_norm,
    "borrowed": _borrowed,
    **{part: _of_state(part) for part in STATE_PARTS},
    "qk_norm": _qk_norm,
    "rope": _rope,
    "scores": _scores,
    "cap": _cap,
    "alibi": _alibi,
    "window": _window,
    "sinks": _sinks,
    "softmax": _softmax,
    "mix": _mix,
    "gate_o": _gate_o,
    "o": _o,
    "after1": _norm("after1"),
    "add1": _add1,
    "norm2": _norm("norm2"),
    "router": _router,
    "gate": _gate,
    "up": _up,
    "act": _act,
    "down": _down,
    "shared": _shared,
    "dense": _dense,
    "after2": _norm("after2"),
    "add2": _add2,
    "entry": _entry,
    "add3": _added_entry,
    "scale": _scale,
    "final_norm": _final_norm,
    "head_dense": _head_dense,
    "head_norm": _head_norm,
    "unembed": _unembed,
    "output": _output,
}
