"""Random heads as a control: Gaussian matrices of the shape of a head's, and as large as those of the head.

An entry of 3 or a list of similar tokens means nothing by itself, since every direction of the stream has largest
tokens. A random head shows what chance alone gives.
"""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from model.arguments import check_token
from model.attention.circuits import copying, matching, random_scores
from model.gpt.transformer import Transformer
from model.progress import Progress, silent
from model.public import MOST_SEED, one_of, public, whole
from model.token_tables.head_tables import (
    check_distance,
    check_ov,
    chunks,
    head_keys,
    head_queries,
    head_values,
    read_by,
    unembedded,
    written,
)
from model.token_tables.token_table import CIRCUITS, Circuit, TokenTable, own_rank


@dataclass(frozen=True, eq=False)
class HeadScores:
    """Two scores of every head's table, and of random heads."""

    circuit: Circuit
    eigenvalues: np.ndarray  # [L, H] `copying` or `matching`, -1 to 1; NaN without attention
    own: np.ndarray  # [L, H] mean place of a token's own entry in its row, -1 to 1; NaN without attention
    random_eigenvalues: np.ndarray  # [draws]
    random_own: np.ndarray  # [draws]
    sample: int  # number of sampled tokens


@public(draws=whole(1, 256), seed=whole(0, MOST_SEED))
@torch.inference_mode()
def random_rows(model: Transformer, table: TokenTable, token: int, draws: int = 16, seed: int = 0) -> np.ndarray:
    """Compute the row of a token in the tables of random heads. float32 [draws, V]

    A random head has the same row vector (value or query), turned to a random direction, and columns of a Gaussian
    matrix: the root mean square of its entries is that of a row of the head's own size. The same seed gives the same
    rows. Raises InputError for a token outside the table.
    """
    check_token(token, len(table))
    generator = torch.Generator().manual_seed(seed)
    directions = torch.randn(model.config.d_model, draws, generator=generator)  # W a, for Gaussian W and a fixed a
    values = _across(model, table.circuit, table.layer, directions, len(table))  # [V, draws]
    size = table.columns.square().mean().sqrt() * table.rows[token].norm()
    return (values * size / values.square().mean().sqrt()).T.numpy()


@public(
    circuit=one_of(CIRCUITS),
    distance=whole(0),
    vocab=whole(1),
    sample=whole(1),
    draws=whole(1, 256),
    seed=whole(0, MOST_SEED),
)
@torch.inference_mode()
def head_scores(
    model: Transformer,
    circuit: Circuit,
    distance: int = 0,
    *,
    vocab: int | None = None,
    sample: int = 256,
    draws: int = 32,
    seed: int = 0,
    progress: Progress = silent,
) -> HeadScores:
    """Compute the scores of all heads, and of random heads of the same shape.

    `sample` tokens are drawn without replacement, the same for all heads, and each is compared with all tokens.
    `distance` is that of QK tables; eigenvalues are those of distance 0. The same seed gives the same numbers.
    `progress(heads done, all, "Reading heads")` may raise an exception to cancel. Raises InputError as `ov_table` and
    `qk_table` do.
    """
    config = model.config
    for layer in filter(config.is_attention, range(config.n_layer)):
        check_ov(model, layer) if circuit == "ov" else check_distance(model, layer, distance)
    layers = [layer for layer in range(config.n_layer) if config.is_attention(layer)]
    V = min(vocab or config.vocab_size, config.vocab_size)
    generator = torch.Generator().manual_seed(seed)
    ids = torch.randperm(V, generator=generator)[:sample]
    eigenvalues = (copying if circuit == "ov" else matching)(model)
    own = np.full((config.n_layer, config.n_head), np.nan, np.float32)
    total = len(layers) * config.n_head + draws
    for n, layer in enumerate(layers):
        for head in range(config.n_head):
            progress(n * config.n_head + head, total, "Reading heads")
            own[layer, head] = _own(model, circuit, layer, head, distance, ids, V)
    random = []
    for n in range(draws):
        progress(len(layers) * config.n_head + n, total, "Reading heads")
        random.append(_random_own(model, circuit, layers[0], ids, V, generator))
    of_random = random_scores(model, circuit, draws, seed)
    return HeadScores(circuit, eigenvalues, own, of_random, np.array(random), len(ids))


def _own(model: Transformer, circuit: Circuit, layer: int, head: int, distance: int, ids: Tensor, V: int) -> float:
    """Compute `own_rank` of one head."""
    if circuit == "ov":
        return own_rank(
            head_values(model, layer, head, ids), unembedded(model, layer, written(model, layer, head), V), ids
        )
    k = torch.cat([head_keys(model, layer, head, some, distance) for some in chunks(model, V)])
    return own_rank(head_queries(model, layer, head, ids, distance), k, ids)


def _random_own(
    model: Transformer, circuit: Circuit, layer: int, ids: Tensor, V: int, generator: torch.Generator
) -> float:
    """Compute `own_rank` of one random head."""
    D, E = model.config.d_model, model.config.d_head
    read, write = torch.randn(2, D, E, generator=generator)
    rows = read_by(model, layer, ids).float() @ read
    return own_rank(rows, _across(model, circuit, layer, write, V), ids)


def _across(model: Transformer, circuit: Circuit, layer: int, directions: Tensor, V: int) -> Tensor:
    """Compute the columns that directions of the stream give: through the unembedding for OV, through what attention
    reads for QK. [D, n] -> [V, n]
    """
    if circuit == "ov":
        return unembedded(model, layer, directions.T, V)
    return torch.cat([read_by(model, layer, some).float() @ directions for some in chunks(model, V)])
