"""The lines of docs/mini_gpt.py that compute the parts of a model with the same architecture."""

from model.gpt.config import ModelConfig
from model.source_code.excerpts import Span

MINI = "docs/mini_gpt.py"
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
        "embed_norm": False,
        "embed_factor": 1,
        "residual_multiplier": 1,
        "logit_multiplier": 1,
        "query_factor": 1,
        "qkv_limit": None,
        "plain_scores": True,
        "logit_cap": None,
        "head_bias": False,
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
