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
from model.gpt.layers import (
    MLPS,
    NORMS,
    attention_pattern,
    attention_scores,
    future,
    merge_heads,
    mix,
    rmsnorm_parts,
    rope_table,
    rotate,
    sinusoidal_positions,
    split_heads,
)
from model.gpt.linear import Linear
from model.gpt.mixers.attention import Attention
from model.gpt.mixers.projection import project
from model.gpt.norm import Norm
from model.gpt.transformer import MLP, Block, Transformer
from model.sampling.pipeline import softmax
from model.source_code.excerpts import Code, Sizes, Span, excerpts
from model.text.tokenizer import Tokenizer

MINI = "docs/mini_gpt.py"
_ALONE = ("pos_embed",)  # one table for all sequences of a batch


@dataclass(frozen=True)
class Wiring:
    """A config and the classes that compute the model's parts."""

    config: ModelConfig
    model: type[nn.Module] = Transformer
    block: type[nn.Module] = Block
    mixer: type[nn.Module] = Attention
    mlp: type[nn.Module] = MLP
    norm: type[nn.Module] = Norm
    linear: type[nn.Module] = Linear
    head: type[nn.Module] = Linear
    window: bool = False


def wiring_of(model: Transformer, layer: int) -> Wiring:
    """Collect the classes of a model's own modules."""
    block = model.blocks[layer]
    window = getattr(block.attn, "window", None) is not None
    modules = model, block, block.attn, block.mlp, block.norm1, block.attn.o, model.unembed
    return Wiring(model.config, *(type(module) for module in modules), window)


def code_of_part(wiring: Wiring, part: str, T: int) -> Code:
    """Find the lines that compute a part, with the shapes for T tokens.

    Raises InputError if the model lacks the part or the part has no drawing.
    """
    parts = blueprint(wiring.config, T)
    if part not in parts:
        raise InputError("No part of the model has this name.", part, say("Choose one of: {}.", ", ".join(parts)))
    sizes = sizes_of(wiring.config, T)
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
    scaled = ("sqrt",) if w.config.embed_scale else ()
    return [Span(w.model.embed_tokens, ("embed", *scaled, '"embed"'), (("embed", "embed"),))]


def _pos_embed(w: Wiring) -> list[Span]:
    if w.config.positions == "learned":
        return [Span(w.model.embed_tokens, ("pos_embed",))]
    return [Span(w.model.embed_tokens, ("sinusoidal_positions",)), Span(sinusoidal_positions)]


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
    return [
        Span(project, ("q_norm",), (("q_norm", "q"), ("q_norm", "k"))),
        Span(w.norm.forward, ("rms_norm",)),
        Span(rmsnorm_parts),
    ]


def _rope(w: Wiring) -> list[Span]:
    return [Span(project, ("rotate",)), Span(rotate), Span(rope_table)]


def _scores(w: Wiring) -> list[Span]:
    return [Span(attention_scores, (), (("=scores", "scores"),)), Span(future)]


def _softmax(w: Wiring) -> list[Span]:
    return [Span(attention_pattern, (), (("return", "pattern"),))]


def _mix(w: Wiring) -> list[Span]:
    return [Span(mix, (), (("return", "z"),))]


def _o(w: Wiring) -> list[Span]:
    return [Span(w.mixer.forward, ("return",)), Span(merge_heads)]


def _branch(w: Wiring) -> str:
    return "if post_norm" if w.config.norm_placement == "post" else "else post_norm"


def _add1(w: Wiring) -> list[Span]:
    return [Span(w.block.middle, (_branch(w),), (("=mid", "resid_mid"),))]


def _add2(w: Wiring) -> list[Span]:
    both = _add1(w) if w.config.parallel_residual else []
    return [*both, Span(w.block.forward, (_branch(w),), (("=out", "resid_post"),))]


def _gate(w: Wiring) -> list[Span]:
    return [Span(w.mlp.forward, ("else gate",)), Span(w.linear.forward)]


def _up(w: Wiring) -> list[Span]:
    return [Span(w.mlp.forward, ("else gate" if w.config.mlp == "swiglu" else "if gate",)), Span(w.linear.forward)]


def _act(w: Wiring) -> list[Span]:
    function = MLPS[w.config.mlp]
    own = (
        [Span(function)] if function.__module__.startswith(f"{PREFIX}model.") else []
    )  # the other functions are in torch
    branch = "else gate" if w.config.mlp == "swiglu" else "if gate"
    return [Span(w.mlp.__init__, ("=act",)), Span(w.mlp.forward, (branch,)), *own]


def _down(w: Wiring) -> list[Span]:
    return [Span(w.mlp.forward, ("return",)), Span(w.linear.forward)]


def _unembed(w: Wiring) -> list[Span]:
    return [Span(w.model.logits), Span(w.head.forward)]


def _output(w: Wiring) -> list[Span]:
    return [Span(softmax)]


PARTS: dict[str, Callable[[Wiring], list[Span]]] = {
    "tokens": _tokens,
    "embed": _embed,
    "pos_embed": _pos_embed,
    "norm1": _norm("norm1"),
    "q": _projected("q"),
    "k": _projected("k"),
    "v": _projected("v"),
    "qk_norm": _qk_norm,
    "rope": _rope,
    "scores": _scores,
    "softmax": _softmax,
    "mix": _mix,
    "o": _o,
    "add1": _add1,
    "norm2": _norm("norm2"),
    "gate": _gate,
    "up": _up,
    "act": _act,
    "down": _down,
    "add2": _add2,
    "final_norm": _final_norm,
    "unembed": _unembed,
    "output": _output,
}

# --- docs/mini_gpt.py ------------------------------------------------------------------------------------

Lines = tuple[tuple[str, tuple[str, ...]], ...]  # dotted names of the file's functions, and the lines of each
_ATTENTION, _BLOCK, _MODEL = "Attention.forward", "Block.forward", "MiniGPT.forward"
MINI_PARTS: dict[str, Lines] = {
    "tokens": (("main", ("encode",)),),
    "embed": ((_MODEL, ("positions",)),),
    "pos_embed": ((_MODEL, ("positions",)),),
    "norm1": ((_BLOCK, ("norm1",)),),
    "q": ((_ATTENTION, ("qkv",)),),
    "k": ((_ATTENTION, ("qkv",)),),
    "v": ((_ATTENTION, ("qkv",)),),
    "scores": ((_ATTENTION, ("=scores", "=future")),),
    "softmax": ((_ATTENTION, ("=pattern",)),),
    "mix": ((_ATTENTION, ("=mixed",)),),
    "o": ((_ATTENTION, ("return",)),),
    "add1": ((_BLOCK, ("norm1",)),),
    "norm2": ((_BLOCK, ("return",)),),
    "up": (("Block.__init__", ("=expand",)), (_BLOCK, ("return",))),
    "act": ((_BLOCK, ("return",)),),
    "down": (("Block.__init__", ("=contract",)), (_BLOCK, ("return",))),
    "add2": ((_BLOCK, ("return",)),),
    "final_norm": ((_MODEL, ("return",)),),
    "unembed": ((_MODEL, ("return",)),),
    "output": (("choose", ("softmax",)),),
}
_MINI_GIVES = {  # tensors that lines of docs/mini_gpt.py compute
    (_MODEL, "positions"): "resid_pre",
    (_MODEL, "return"): "logits",
    (_ATTENTION, "qkv"): "q",
    (_ATTENTION, "=scores"): "scores",
    (_ATTENTION, "=pattern"): "pattern",
    (_ATTENTION, "=mixed"): "z",
    (_ATTENTION, "return"): "attn_out",
    (_BLOCK, "norm1"): "resid_mid",
    (_BLOCK, "return"): "resid_post",
}


def like_mini(config: ModelConfig) -> bool:
    """Return whether a model has the architecture of docs/mini_gpt.py, so that both compute the same."""
    expected = {
        "norm": "layernorm",
        "norm_placement": "pre",
        "positions": "learned",
        "mlp": "gelu_tanh",
        "parallel_residual": False,
        "qk_norm": False,
        "embed_scale": False,
        "tie_embeddings": True,
        "final_norm": True,
        "group_size": 1,
        "n_expert": 1,
        "mixer": "softmax",
    }
    return all(getattr(config, name) == value for name, value in expected.items())


def mini_spans(lines: Lines) -> list[Span]:
    """Return the spans of the given lines of docs/mini_gpt.py."""

    def gives(name: str, anchors: tuple[str, ...]) -> tuple[tuple[str, str], ...]:
        return tuple((each, _MINI_GIVES[name, each]) for each in anchors if (name, each) in _MINI_GIVES)

    return [Span((MINI, name), anchors, gives(name, anchors)) for name, anchors in lines]
