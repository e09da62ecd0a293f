"""A mixture of experts in a config.json, and the names of the experts' weights.

Published files have a tensor for every expert and matrix. Models of transformers 5 in memory have a stacked one for
each matrix, with the gate and the up projection in one: [N, 2 M, D].
"""

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from model.errors import UnsupportedModel
from model.gpt.config import ModelConfig
from model.loading.convert import Into, Names
from model.loading.families.common import flag, integer


def expert_fields(
    hf: Mapping, count: str, n: int, k: int, divides: bool | None, width: int, used: str = "num_experts_per_tok"
) -> dict:
    """Return the fields about experts. `count` is the key of their number and `used` that of the number per token, n
    and k are their defaults; `divides` is the default of norm_topk_prob, None for a family that always divides.

    Raises UnsupportedModel for a single expert, whether in a layer or per token with weights divided by their sum.
    """
    n, k = integer(hf, count, n), integer(hf, used, k)
    divide = True if divides is None else flag(hf, "norm_topk_prob", divides)
    if n == 1 or (divide and k == 1):
        got = f"{count} = {n}, {used} = {k}"
        raise UnsupportedModel(
            "The model uses a feature that is not supported.", got, "Choose a model with several experts."
        )
    return {"n_expert": n, "experts_per_token": k, "d_expert": width, "divide_weights": divide}


def experts_told(c: ModelConfig, count: str) -> dict:
    """Return the values common to all families with experts, the inverse of `expert_fields`."""
    return {count: c.n_expert, "num_experts_per_tok": c.experts_per_token}


def split_gate(tensor: Tensor, config: ModelConfig) -> tuple[Tensor, ...]:
    """Split gate and up, of one MLP or of all experts. [2 M, D] -> two of [M, D], or [N, 2 M, D] -> two of [N, M, D]"""
    return tensor.unflatten(-2, (2, -1)).unbind(-3)


def join_gate(parts: Sequence[Tensor], config: ModelConfig) -> Tensor:
    """Concatenate gate and up, the inverse of `split_gate`."""
    return torch.cat(tuple(parts), -2)


_ROUTER = "blocks.{i}.mlp.router.weight"
STACKED = tuple(f"blocks.{{i}}.mlp.experts.{part}.weight" for part in ("gate", "up", "down"))


def expert_names(parts: Sequence[str], published: str = "layers.{i}.mlp") -> Names:
    """Return the names of a router and its experts, in memory and published: `parts` are those of gate, up and down."""
    return {
        "layers.{i}.mlp.gate.weight": _ROUTER,
        "layers.{i}.mlp.experts.gate_up_proj": Into(STACKED[:2], split_gate, join_gate),
        "layers.{i}.mlp.experts.down_proj": STACKED[2],
        f"{published}.gate.weight": _ROUTER,
        **{f"{published}.experts.{{e}}.{part}.weight": ours for part, ours in zip(parts, STACKED, strict=True)},
    }
