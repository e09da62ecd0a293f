"""Tokens whose vectors point in similar directions, in the embedding W_E and in the unembedding W_U."""

from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from model.arguments import check_token
from model.gpt.mixers.needs import need_directions
from model.gpt.transformer import Transformer
from model.public import one_of, public, whole
from model.tracing.ranking import top_ids

Side = Literal["embedding", "unembedding"]
SIDES: tuple[Side, ...] = ("embedding", "unembedding")


@dataclass(frozen=True, eq=False)
class Neighbors:
    """The tokens nearest to one token, nearest first, without the token itself. Ties: smaller id."""

    ids: np.ndarray  # [n]
    cosines: np.ndarray  # [n] float32
    typical: float  # 99th percentile of the cosines with all tokens


@public(side=one_of(SIDES), vocab=whole(1))
@torch.inference_mode()
def token_vectors(model: Transformer, side: Side, *, centered: bool = True, vocab: int | None = None) -> torch.Tensor:
    """Return the vector of every token. float32 [V, D]

    The embedding is the row of W_E. The unembedding is the row of W_U with the gain and, for LayerNorm, the centering
    of the final norm folded in: the direction of the stream that raises the logit. So they differ even if W_E and W_U
    are tied. `centered`: less the mean over the vocabulary, which all tokens share. Raises InputError for the
    unembedding of a model whose tokens have no direction.
    """
    if side == "unembedding":
        need_directions(model.config)
        vectors = model.unembed.weight[:vocab].float()
        vectors = vectors if model.final_norm is None else _read_back(model, vectors)
    else:
        vectors = model.embed.weight[:vocab].float()
    return vectors - vectors.mean(0) if centered else vectors.clone()


def _read_back(model: Transformer, rows: Tensor) -> Tensor:
    """Fold the final norm into rows of W_U: gain, then centering for LayerNorm. [V, D]"""
    rows = rows * model.final_norm.weight.float()
    return rows - rows.mean(-1, keepdim=True) if model.final_norm.kind == "layernorm" else rows


@public(side=one_of(SIDES), most=whole(1), vocab=whole(1))
@torch.inference_mode()
def nearest_tokens(
    model: Transformer, token: int, side: Side, most: int = 12, *, centered: bool = True, vocab: int | None = None
) -> Neighbors:
    """Find the tokens with the largest cosine to one token's vector. Vectors: `token_vectors`.

    A vector of zeros has cosine 0 with all. Raises InputError for a token that does not exist.
    """
    vectors = token_vectors(model, side, centered=centered, vocab=vocab)
    check_token(token, len(vectors))
    unit = torch.nn.functional.normalize(vectors, dim=1)
    cosines = unit @ unit[token]
    typical = float(np.quantile(cosines.numpy(), 0.99))
    cosines[token] = -2.0  # below every cosine
    ids = top_ids(cosines, min(most, len(cosines) - 1))
    return Neighbors(ids.numpy(), cosines[ids].numpy(), typical)
