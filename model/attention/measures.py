"""Measures of how much token i reads from token j, each as a [query, key] matrix.

All are computed from a Trace, so they also apply to edited runs: they use the edited scores, patterns and values. None
of them reflects an edit of a head's output z or of anything after it.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from model.arguments import check_head, check_layer, check_positions, shown
from model.errors import InputError, say
from model.gpt.config import ModelConfig
from model.gpt.layers import split_heads
from model.gpt.mixers.needs import need_causal
from model.gpt.mixers.projection import project_rows, unturned
from model.gpt.mixers.traced import hidden_weights, mixer_input
from model.gpt.transformer import attention_input, output_matrix
from model.public import public, unchecked
from model.tracing.trace import Trace

REST_FLOOR = 1e-3  # without_first is undefined in rows with less total weight than this on the other tokens
FLOW_TOKENS = 64  # maximum tokens for flow, which takes 0.5 s at 8 layers and 1.4 s at 30, growing as about T^3
FLOW_UNIT = 1 << 30  # capacities are multiples of 1 / FLOW_UNIT; the outflow of a node fits an int32
_CHUNK = 256  # maximum query rows per head in memory at once

# --- rows of attention, from the weights ------------------------------------------------------------


@torch.inference_mode()
def attend_rows(trace: Trace, layer: int, queries: Sequence[int]) -> Tensor:
    """Compute the attention weights of all heads for the given queries. float32 [H, n, T], rows sum to 1, 0 for later
    keys.

    Equals the rows of `trace.pattern`. No [T, T] matrix is computed, except for an edited run, whose edits may need the
    complete pattern. Raises InputError for a layer or position out of range, ValueError for an empty list of queries.
    """
    T, config = len(trace.tokens), trace.config
    check_layer(layer, config.n_layer)
    check_positions(queries, T)
    if len(queries) == 0:
        raise ValueError("queries must name at least one position, got none")
    rows = torch.tensor(queries)
    if trace.kept is not None:
        return trace.kept.attention[layer][:, rows]
    if not config.is_attention(layer):
        return torch.stack([hidden_weights(trace, layer, head) for head in range(config.n_head)])[:, rows]
    if trace.tap is not None:
        return trace.sites(layer, ["pattern"])["pattern"][0][:, rows]
    last = T if config.two_way else int(rows.max()) + 1  # otherwise no query attends to a later key
    attn, x = trace.model.blocks[layer].attn, attention_input(trace.model, layer, trace.residuals[layer][:last])
    q, k = project_rows(attn, x, trace.prepare(layer, last), rows)
    own = config.at(layer)
    grouped = q.reshape(own.n_kv_head, -1, own.d_head)  # stack the queries that share a KV head
    scores = (grouped @ k[0].mT / math.sqrt(own.d_head)).view(config.n_head, len(rows), last)
    key, scoring = torch.arange(last), attn.scoring
    scores = scoring.changed(scores, rows, key).masked_fill_(scoring.past(rows, key), -math.inf)
    pattern = torch.zeros(config.n_head, len(rows), T)
    pattern[:, :, :last] = scoring.pattern(scores)
    return pattern


def query_chunks(trace: Trace, queries: Sequence[int]) -> list[Sequence[int]]:
    """Split the queries into chunks for `attend_rows`, to limit memory; an edited run gets a single chunk."""
    step = _CHUNK if trace.tap is None else len(queries)  # each call applies edits to a complete layer
    return [queries[start : start + step] for start in range(0, len(queries), step)]


@torch.inference_mode()
def value_rows(trace: Trace, layer: int, keys: Sequence[int]) -> Tensor:
    """Return the values of the given tokens for each KV head. float32 [G, n, E]; for a layer without
    queries and keys, its channels by head [H, n, E'].

    Raises InputError for a position out of range.
    """
    check_layer(layer, trace.config.n_layer)
    check_positions(keys, len(trace.tokens))
    rows, layer = torch.tensor(keys, dtype=torch.long), trace.config.kv_source(layer)
    if trace.tap is not None or trace.config.channels(layer) is not None:
        return trace.sites(layer, ["v"])["v"][0][:, rows]
    attn = trace.model.blocks[layer].attn
    x = attention_input(trace.model, layer, trace.residuals[layer][rows])
    return unturned(attn, x[None])[1][0]


def gate_rows(trace: Trace, layer: int, queries: Sequence[int]) -> Tensor | None:
    """Return the factors of the heads' outputs at the given tokens, 0 to 1, by the layer's output gate. [H, n, E]

    None for a layer without such a gate.
    """
    if not (trace.config.output_gate and trace.config.is_attention(layer)):
        return None
    gate, rows = trace.model.blocks[layer].attn.gate, torch.tensor(queries, dtype=torch.long)
    if trace.tap is not None:
        x = mixer_input(trace, layer)[0][:, rows]
    else:
        x = attention_input(trace.model, layer, trace.residuals[layer][rows])[None]
    return split_heads(gate(x).sigmoid(), trace.config.d_head)[0]


def output_weights(trace: Trace, layer: int) -> Tensor:
    """Return W_O of each head: z @ W_O is the head's contribution to attn_out, before the bias of o.
    float32 [H, E, D]
    """
    weight = output_matrix(trace.model, layer)  # [D, H * E]
    return weight.unflatten(1, (trace.config.n_head, -1)).permute(1, 2, 0)


# --- measures of one head ---------------------------------------------------------------------------


def _visible(trace: Trace, matrix: np.ndarray, layer: int | None = None) -> np.ndarray:
    """Return a copy with NaN where a token does not see a key. [T, T] -> float32 [T, T]

    These are the cells above the diagonal, unless tokens also attend to later ones, and those outside the window of
    the layer, except where an edit has put weight.
    """
    config, T = trace.config, len(matrix)
    hidden = np.zeros((T, T), bool) if config.two_way else ~np.tri(T, dtype=bool)
    if layer is not None and config.mixer_of(layer) == "sliding_window":
        hidden |= outside_window(config, T) & (matrix == 0)
    return np.where(hidden, np.float32(np.nan), matrix.astype(np.float32))


def outside_window(config: ModelConfig, T: int) -> np.ndarray:
    """Return a mask that is True where a sliding window hides a key from a query, on either side of it. bool [T, T]"""
    distance = np.abs(np.arange(T)[:, None] - np.arange(T))
    return 2 * distance > config.window if config.two_way else distance >= config.window


def visible_keys(config: ModelConfig, layer: int, T: int) -> np.ndarray:
    """Return which keys each query of a layer sees: earlier ones and itself, within the window. bool [T, T]"""
    seen = np.ones((T, T), bool) if config.two_way else np.tri(T, dtype=bool)
    return seen & ~outside_window(config, T) if config.mixer_of(layer) == "sliding_window" else seen


def _weights(trace: Trace, layer: int, head: int) -> np.ndarray:
    return _visible(trace, trace.pattern(layer, head), layer)


def _scores(trace: Trace, layer: int, head: int) -> np.ndarray:
    return _visible(trace, trace.scores(layer, head))


def _weight_after_first(pattern: np.ndarray) -> np.ndarray:
    """Compute each row's total weight on the tokens after the first: 1 - A[i, 0] if rows sum to 1. float64 [T]

    The weights are summed, because subtracting from 1 would lose precision. NaN counts as 0.
    """
    return np.nan_to_num(pattern)[:, 1:].sum(1, dtype=np.float64)


def _without_first(trace: Trace, layer: int, head: int) -> np.ndarray:
    pattern = trace.pattern(layer, head)
    later = _weight_after_first(pattern)
    later[later < REST_FLOOR] = np.nan  # includes row 0, which attends only to token 0
    shares = _visible(trace, (pattern / later[:, None]).astype(np.float32), layer)
    shares[:, 0] = np.nan
    return shares


def rows_undefined(pattern: np.ndarray) -> int:
    """Count the rows from 1 on for which without_first is undefined: less than REST_FLOOR of the weight is not on token
    0.

    `pattern` is [T, T], 0 or NaN above the diagonal. Row 0, which attends only to itself, is not counted.
    """
    return int((_weight_after_first(pattern)[1:] < REST_FLOOR).sum())


@torch.inference_mode()
def _value_weighted(trace: Trace, layer: int, head: int) -> np.ndarray:
    pattern, v = trace.pattern(layer, head), torch.from_numpy(trace.qkv(layer, head).v)
    o, gates = output_weights(trace, layer)[head], gate_rows(trace, layer, range(len(v)))
    if gates is None:
        lengths = (v @ o).norm(dim=-1)  # |v_j W_O|, [T]
    else:
        lengths = torch.stack([((v * gate) @ o).norm(dim=-1) for gate in gates[head]])  # by query, [T, T]
    return _visible(trace, np.abs(pattern) * lengths.numpy(), layer)  # an edited weight may be negative


# --- measures of all layers up to one ---------------------------------------------------------------


def with_residual(mean: Tensor) -> Tensor:
    """Compute a layer's mixing matrix, 0.5 A + 0.5 I with rows normalized to 1. [T, T]

    `mean` is A, the pattern averaged over heads. The identity represents the residual connection: Abnar & Zuidema 2020,
    section 3.
    """
    mixed = 0.5 * mean
    mixed.diagonal().add_(0.5)
    return mixed / mixed.sum(1, keepdim=True)


def mixing(trace: Trace, layer: int, dtype: torch.dtype = torch.float32) -> Tensor:
    """Compute `with_residual` of a layer's mean pattern. [T, T], 0 above the diagonal.

    Only this layer's patterns are in memory at a time and, in a run without edits, only a chunk of their rows.
    """
    chunks = query_chunks(trace, range(len(trace.tokens)))
    return with_residual(torch.cat([attend_rows(trace, layer, chunk).mean(0) for chunk in chunks]).to(dtype))


@torch.inference_mode()
def rollout_of(mixed: Iterable[Tensor]) -> Tensor:
    """Compute the attention rollout R = A_l A_(l-1) ... A_0 from the layers' mixing matrices, lowest layer first. [T,
    T]

    Rows sum to 1 if those of each A do. Abnar & Zuidema 2020, section 3, "Attention rollout".
    """
    layers = iter(mixed)
    total = next(layers)
    for each in layers:
        total = each @ total
    return total


def flow_of(mixed: Sequence[Tensor]) -> np.ndarray:
    """Compute the attention flow through causal layers, lowest first. Tensors [T, T] -> float32 [T, T], NaN above the
    diagonal.

    Entry i, j is the maximum flow from token i above the last layer to input j, where entry t, s of layer l's mixing
    matrix is the capacity of an edge. Abnar & Zuidema 2020, section 3, "Attention flow". It is at least the rollout,
    which is one feasible flow, and at most 1, the total capacity out of token i. Capacities are rounded down to
    multiples of 2^-30: a flow is too small by less than 2^-30 for each edge of its minimum cut, or 1e-7 for a cut of
    100 edges.
    """
    from scipy.sparse import csr_array  # imported here, since it takes a quarter of a second
    from scipy.sparse.csgraph import maximum_flow

    n, T = len(mixed), len(mixed[0])
    t, s = np.tril_indices(T)
    level = np.arange(n)[:, None]
    capacity = np.stack([(each.double().numpy()[t, s] * FLOW_UNIT).astype(np.int32) for each in mixed])  # [n, edges]
    # A token's levels are contiguous, so that the subgraph of a flow from i to j, tokens j .. i, is one block.
    ends = (t * (n + 1) + level + 1, s * (n + 1) + level)
    graph = csr_array((capacity.ravel(), tuple(end.ravel() for end in ends)), shape=(T * (n + 1),) * 2)
    graph.eliminate_zeros()
    flow = np.full((T, T), np.nan, np.float32)
    for i, j in zip(t.tolist(), s.tolist(), strict=True):
        part = slice(j * (n + 1), (i + 1) * (n + 1))
        source = (i - j) * (n + 1) + n
        flow[i, j] = maximum_flow(graph[part, part], source, 0).flow_value / FLOW_UNIT
    return flow


def _rollout(trace: Trace, layer: int, head: int) -> np.ndarray:
    check_layer(layer, trace.config.n_layer)
    return _visible(trace, rollout_of(mixing(trace, each) for each in range(layer + 1)).numpy())


def _flow(trace: Trace, layer: int, head: int) -> np.ndarray:
    T = len(trace.tokens)
    if T > FLOW_TOKENS:
        hint = say("Shorten it to {} tokens or fewer.", FLOW_TOKENS)
        raise InputError("The prompt is too long for attention flow.", f"{T} tokens", hint)
    check_layer(layer, trace.config.n_layer)
    need_causal(trace.config)
    return flow_of(
        [mixing(trace, each, torch.float64) for each in range(layer + 1)]
    )  # float64, so that no row sum exceeds 1


# --- all of them ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class AttentionMeasure:
    """A measure of how much token i reads from token j. Its name, meaning and caveat are in viz/words.

    `function` maps (trace, layer, head) to float32 [T, T], with queries as rows and NaN above the diagonal and where
    undefined. `scale`: a `share` is between 0 and 1, a `signed` value may be negative, and a `size` is nonnegative and
    unbounded. `of`: a measure of a layer combines all its heads and all layers below, and ignores `head`.
    """

    formula: str
    source: str
    scale: Literal["share", "signed", "size"]
    of: Literal["head", "layer"]
    function: Callable[[Trace, int, int], np.ndarray]


MEASURES: dict[str, AttentionMeasure] = {
    "weights": AttentionMeasure(
        formula="A = softmax(q·k / √d_head)",
        source="Vaswani et al. 2017, eq. 1",
        scale="share",
        of="head",
        function=_weights,
    ),
    "scores": AttentionMeasure(
        formula="S = q·k / √d_head",
        source="Vaswani et al. 2017, eq. 1",
        scale="signed",
        of="head",
        function=_scores,
    ),
    "without_first": AttentionMeasure(
        formula="A[i,j] / (1 − A[i,0]) for j ≥ 1",
        source="The first token as a resting place: Xiao et al. 2023",
        scale="share",
        of="head",
        function=_without_first,
    ),
    "value_weighted": AttentionMeasure(
        formula="‖A[i,j] (x_j W_V + b_V) W_O‖₂",
        source="Kobayashi et al. 2020, section 3",
        scale="size",
        of="head",
        function=_value_weighted,
    ),
    "rollout": AttentionMeasure(
        formula="R_l = A~_l R_(l−1), A~ = 0.5 · mean over heads of A + 0.5 · I",
        source="Abnar & Zuidema 2020, section 3",
        scale="share",
        of="layer",
        function=_rollout,
    ),
    "flow": AttentionMeasure(
        formula="max-flow from (layer, i) to (input, j) with capacities A~ = 0.5 · mean over heads of A + 0.5 · I",
        source="Abnar & Zuidema 2020, section 3",
        scale="share",
        of="layer",
        function=_flow,
    ),
}


@public(name=unchecked)
def measure(trace: Trace, name: str, layer: int, head: int) -> np.ndarray:
    """Compute one of MEASURES: float32 [T, T], with queries as rows and NaN above the diagonal and where undefined.

    Raises InputError for an unknown name, a layer or head out of range, and a prompt that is too long for flow.
    """
    if not isinstance(name, str) or name not in MEASURES:
        raise InputError("No measure has this name.", shown(name), say("Measures: {}.", ", ".join(MEASURES)))
    check_layer(layer, trace.config.n_layer)
    check_head(head, trace.config.n_head)
    return MEASURES[name].function(trace, layer, head)
