"""Effect of token order on the last token's output: with positions, without positions, and also without the causal
mask.

Attention is a sum over keys and does not depend on their order: without positions, a query attends to the same keys
with the same weights wherever they are (Vaswani et al. 2017, section 3.5; Lee et al. 2019, section 3). A causal mask
adds information about order: only earlier tokens are visible to a token, so its output depends on them. All tokens are
visible to the last token, but from the second block on, its inputs are outputs that differ because of the mask (Haviv
et al. 2022).
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from model.design.past_length import Placed, Scheme, placed
from model.errors import InputError
from model.gpt.config import ModelConfig
from model.gpt.layers import attention_pattern, attention_scores, fused_attention
from model.gpt.mixers.needs import need_attention
from model.gpt.passes import Pass, attend_fused
from model.gpt.transformer import Transformer
from model.public import MOST_SEED, array, nonempty, one_of, public, whole

WAYS = ("model", "no_positions", "no_mask")  # unchanged; without positions; without positions and causal mask
LEAST = 3  # minimum number of tokens: two to swap, and the last


@dataclass(frozen=True, eq=False)
class Shuffled:
    """The last token of a prompt in the original order and in another one, under one of WAYS.

    The first axis of `weights` and `logits` is the order: 0 original, 1 shuffled. The keys of both are in the original
    order, so equal entries mean that a token gets the same weight in both.
    """

    way: str
    weights: np.ndarray  # float32 [2, L, H, T], weights of the last query
    distance: np.ndarray  # float64 [L + 1], `relative` change of the input of each block and the output of the last
    logits: np.ndarray  # float32 [2, V]

    @property
    def gaps(self) -> np.ndarray:
        """The largest absolute change of a weight in each layer, over its heads and all tokens. [L]"""
        return np.abs(self.weights[1] - self.weights[0]).max((1, 2))


def ways_of(config: ModelConfig) -> tuple[str, ...]:
    """Return those of WAYS that differ for this model; without positions, "no_positions" is the same as "model"."""
    return tuple(way for way in WAYS if way != "no_positions" or config.positions != "none")


@public(T=whole(0), seed=whole(0, MOST_SEED), first=whole(0))
def new_order(T: int, seed: int, first: int = 0) -> np.ndarray:
    """Draw a random order of T tokens as the index of the token for each position. int64 [T]

    The `first` tokens at the beginning and the last token keep their positions. The order always differs from the
    original: a draw that changes nothing is rotated by one position. Raises InputError if too few tokens remain to be
    shuffled.
    """
    moved = np.arange(first, T - 1)
    if len(moved) < LEAST - 1:
        hint = "Type a prompt of three tokens or more."
        raise InputError("The prompt has too few tokens to shuffle.", str(T), hint)
    drawn = np.random.default_rng(seed).permutation(moved)
    drawn = np.roll(moved, 1) if (drawn == moved).all() else drawn
    return np.concatenate((np.arange(first), drawn, [T - 1]))


@public(ids=nonempty, order=array("T"), way=one_of(WAYS))
@torch.inference_mode()
def shuffled(model: Transformer, ids: Sequence[int], order: np.ndarray, way: str) -> Shuffled:
    """Run the model on both orders, with unchanged weights. Raises InputError unless all layers have softmax
    attention.
    """
    need_attention(model.config)
    if sorted(order.tolist()) != list(range(len(ids))):
        raise ValueError(f"order must name each of the {len(ids)} ids once")
    both = torch.tensor([list(ids), [ids[at] for at in order]])
    T, c = both.shape[1], model.config
    weights: list[Tensor] = []
    at = placed(model, Scheme("as_is" if way == "model" else "zero"), T)

    def attend(layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        weights.append(attention_pattern(attention_scores(q[:, :, -1:], k))[:, :, 0])  # the last query sees all keys
        if way != "no_mask":
            return fused_attention(q, k, v)
        return F.scaled_dot_product_attention(q, k, v, enable_gqa=c.group_size > 1)

    x = model.embed_tokens(both, 0, Pass(None, attend_fused, None, _place(at)))
    stream, run = [x[:, -1]], Pass(at.rope, attend)
    for layer, block in enumerate(model.blocks):
        x = block(x, layer, run)
        stream.append(x[:, -1])
    written = torch.stack(weights, 1).float().numpy()  # [2, L, H, T], the second with keys in the new order
    back = np.argsort(order)
    by_token = np.stack((written[0], written[1][..., back]))
    distance = np.array([relative(*(row.double().numpy() for row in each)) for each in stream])
    return Shuffled(way, by_token, distance, model.logits(x[:, -1:])[:, 0].float().numpy())


def _place(at: Placed):
    """Return a tap that replaces the model's position vectors by the given ones."""
    return lambda site, layer, tensor: at.table if site == "pos_embed" else tensor


def relative(before: np.ndarray, after: np.ndarray) -> float:
    """Return |after - before| / |before|, or 0 if the vectors are equal. [D] and [D]"""
    apart = np.linalg.norm(after - before)
    return float(apart / np.linalg.norm(before)) if apart else 0.0
