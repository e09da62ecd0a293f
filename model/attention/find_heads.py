"""Search for heads that attend from the given tokens to others, by one score per head."""

import unicodedata
from collections.abc import Callable, Sequence
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from model.arguments import check_positions
from model.attention.measures import attend_rows, gate_rows, output_weights, query_chunks, value_rows
from model.errors import InputError
from model.public import listed, public
from model.tracing.trace import Trace

# (weights of queries on the keys [H, n, m], the queries) -> score of each query [H, n]
Reader = Callable[[Tensor, Sequence[int]], Tensor]


def _weight_on_keys(trace: Trace, layer: int, keys: Sequence[int]) -> Reader:
    return lambda weight, queries: weight.sum(-1)


def _output_length(trace: Trace, layer: int, keys: Sequence[int]) -> Reader:
    v = value_rows(trace, layer, keys)  # [G, m, E], or [H, m, E'] of a layer without queries and keys
    v = v.repeat_interleave(trace.config.n_head // len(v), 0)
    o = output_weights(trace, layer)  # [H, E, D]

    def read(weight: Tensor, queries: Sequence[int]) -> Tensor:
        gates = gate_rows(trace, layer, queries)
        return ((weight @ v if gates is None else (weight @ v) * gates) @ o).norm(dim=-1)

    return read


RANKINGS: dict[str, Callable[[Trace, int, Sequence[int]], Reader]] = {
    "weights": _weight_on_keys,
    "value_weighted": _output_length,
}


@public(queries=listed, keys=listed)
@torch.inference_mode()
def rank_heads(
    trace: Trace,
    queries: Sequence[int],
    keys: Sequence[int],
    measure: Literal["weights", "value_weighted"] = "weights",
) -> np.ndarray:
    """Compute how much each head reads from the keys, averaged over the queries. float32 [L, H]

    `weights`: the total attention weight on the keys, from 0 to 1. `value_weighted`: the L2 norm of the keys' total
    output, |sum_k A[q, k] v_k W_O| (Kobayashi et al. 2020, section 3, for one key). A key after a query contributes 0
    for that query; repeated positions count once. If all positions are keys, `weights` is 1 for all heads. Raises
    InputError for an unknown measure, an empty list, a position out of range, or if all keys are after all queries.
    """
    _check(queries, keys, len(trace.tokens))
    queries, keys = sorted(set(queries)), sorted(set(keys))
    chunks = query_chunks(trace, queries)
    scores = []
    for layer in range(trace.config.n_layer):
        read = RANKINGS[measure](trace, layer, keys)
        scores.append(torch.cat([read(_weights(trace, layer, chunk, keys), chunk) for chunk in chunks], -1).mean(-1))
    return torch.stack(scores).numpy()


def _weights(trace: Trace, layer: int, queries: Sequence[int], keys: Sequence[int]) -> Tensor:
    """Return the attention weights of the given queries on the given keys, with 0 for later keys, which an edited
    pattern may attend to. [H, n, m]
    """
    visible = torch.tensor(keys) <= torch.tensor(queries)[:, None]
    return attend_rows(trace, layer, queries)[:, :, keys] * visible


@public(pieces=listed)
def punctuation(pieces: Sequence[str]) -> list[int]:
    """Return the positions of the tokens that are only punctuation or a line break, without the first token of the
    text, which attracts attention whatever it is.
    """
    return [at for at, piece in enumerate(pieces) if at and _is_mark(piece)]


def _is_mark(piece: str) -> bool:
    text = piece.strip()
    return all(unicodedata.category(char).startswith("P") for char in text) if text else "\n" in piece


def _check(queries: Sequence[int], keys: Sequence[int], T: int) -> None:
    if len(queries) == 0:
        raise InputError("No query token is selected.", "", "Select at least one.")
    if len(keys) == 0:
        raise InputError("No key token is selected.", "", "Select at least one.")
    check_positions(queries, T)
    check_positions(keys, T)
    if min(keys) > max(queries):
        got = f"from {max(queries)} to {min(keys)}"
        raise InputError(
            "A token can only attend to earlier tokens.", got, "Select a key token before the query token."
        )
