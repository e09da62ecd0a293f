"""Derivation of one attention weight with all intermediate results, which can be verified by hand."""

from dataclasses import dataclass

import numpy as np
import torch

from model.arguments import check_positions
from model.attention.measures import gate_rows
from model.errors import InputError, say
from model.gpt.layers import rope_frequencies
from model.gpt.mixers.needs import need_scores
from model.gpt.mixers.projection import one_head
from model.gpt.mixers.scoring import Scoring
from model.gpt.transformer import attention_input, output_matrix
from model.public import public, unchecked
from model.tracing.trace import Trace


@dataclass(frozen=True, eq=False)
class Explanation:
    """All intermediate results of one cell. E d_head, D d_model, n visible keys from `first` to `last`, r = d_rotary /
    2 pairs.

    Vectors are the model's own float32; products and sums are float64. Vaswani et al. 2017, eq. 1. Everything is
    computed from q, k and v, except the last two fields, which come from the model's own run.
    """

    layer: int
    head: int
    query: int
    key: int
    q_raw: np.ndarray  # [E] projected query, with bias and clamp, before norm, multiplier and rotation
    k_raw: np.ndarray  # [E]
    q_normed: np.ndarray | None  # [E] query after the q-norm, times `factor`; None without one
    k_normed: np.ndarray | None  # [E] key after the k-norm; None without one
    q: np.ndarray  # [E] query in the dot product, after any rotation
    k: np.ndarray  # [E]
    angles: np.ndarray | None  # [r] relative rotation in radians: (query - key) x frequency; None without rotation
    adjacent: bool  # whether RoPE pairs dimensions 2 i and 2 i + 1, in place of i and i + r
    limit: float | None  # q, k and v are clamped to -limit .. limit; None without a clamp
    factor: float | None  # the number by which the query is multiplied; None if 1 (ModelConfig.query_factor)
    products: np.ndarray  # [E] q * k
    dot: float  # sum of the products
    scale: float  # sqrt(d_head)
    scaled: float  # dot / scale
    cap: float | None  # a scaled score s becomes cap tanh(s / cap); None without a cap
    slope: float | None  # ALiBi: a score falls by slope x |query - key|; None without it
    penalty: float | None  # ALiBi with rounded positions: what the score falls by; None without rounding
    score: float  # scaled, with cap and ALiBi
    two_way: bool  # whether later keys are visible, too
    window: int | None  # number of keys visible to a query, itself included; None: all, or all up to the query
    first: int  # position of the first visible key
    last: int  # position of the last visible key, which is the query unless `two_way`
    row_scores: np.ndarray  # [n] scores of all visible keys
    peak: float  # the largest of these scores
    exponentials: np.ndarray  # [n] exp(score - peak)
    sink: float | None  # learned score of the head's sink, which has no key; None without sinks
    sink_exponential: float | None  # exp(sink - peak)
    denominator: float  # sum of the exponentials, the sink's included
    weight: float  # exponentials[key - first] / denominator
    sink_weight: float | None  # sink_exponential / denominator
    value: np.ndarray  # [E] v of the key
    weighted: np.ndarray  # [E] weight * value
    gate: np.ndarray | None  # [E] factors of the head's output at the query, with an output gate
    output: np.ndarray  # [D] W_O of this head times `weighted` (and the gate), the cell's contribution to attn_out
    output_norm: float  # L2 norm of `output`
    row_output_norm: float  # L2 norm of the sum of outputs over all visible keys
    model_score: float  # the run's own score, equal to `score` up to rounding unless edited; NaN if the key is blocked
    model_weight: float  # the run's own weight, after edits


@public(query=unchecked, key=unchecked)
@torch.inference_mode()
def explain(trace: Trace, layer: int, head: int, query: int, key: int) -> Explanation:
    """Compute all steps from the projected query and key to the cell's contribution to the residual stream.

    Identities: the outputs of all keys and heads and the bias of o sum to attn_out at the query. With RoPE, dimensions
    i and i + r (2 i and 2 i + 1 if `adjacent`) of the products sum to |a| |b| cos(arg a - arg b + angles[i]), where a
    and b are these two dimensions of q and k before rotation, as complex numbers: only the distance matters (a scaling
    with an amplitude multiplies this by its square). Su et al. 2021, eq. 16. The bias of o and any norm after the
    attention are applied after the output. In a run with edits, all vectors are the edited ones. Raises InputError for
    a layer, head or position out of range, a layer without scores, or a key that is hidden from the query.
    """
    need_scores(trace.config, layer)
    qkv = trace.qkv(layer, head)  # checks layer and head
    attn = trace.model.blocks[layer].attn
    scoring, turn = attn.scoring.of(head), attn.turn
    first, last = _checked_cell(len(trace.tokens), query, key, scoring)
    raw, normed = _before_rotation(trace, layer, head)
    config, width, here = trace.config, qkv.q.shape[1], key - first
    q, k, v = (part.astype(np.float64) for part in (qkv.q[query], qkv.k[first : last + 1], qkv.v[first : last + 1]))

    products = k * q  # [n, E]
    dots, scale = products.sum(1), float(np.sqrt(width))
    penalties = _penalties(query, np.arange(first, last + 1), scoring)
    scores = _capped(dots / scale, scoring.cap) - penalties
    peak = scores.max()
    exponentials = np.exp(scores - peak)
    sink = None if scoring.sinks is None else float(scoring.sinks[0])
    beside = None if sink is None else float(np.exp(sink - peak))
    denominator = float(exponentials.sum()) + (beside or 0.0)
    weights = exponentials / denominator

    w_o = output_matrix(trace.model, layer)[:, head * width : (head + 1) * width].double().numpy()  # [D, E]
    gates = gate_rows(trace, layer, [query])
    gate = None if gates is None else gates[head, 0].double().numpy()
    weighted = weights[here] * v[here]
    w_o = w_o if gate is None else w_o * gate
    output = w_o @ weighted
    frequencies = rope_frequencies(config, len(trace.tokens), local=turn.local) if turn.rotates else None
    return Explanation(
        layer=layer,
        head=head,
        query=query,
        key=key,
        q_raw=raw[0][query],
        k_raw=raw[1][key],
        q_normed=None if normed is None else normed[0][query],
        k_normed=None if normed is None else normed[1][key],
        q=qkv.q[query],
        k=qkv.k[key],
        angles=None if frequencies is None else (query - key) * frequencies.double().numpy(),
        adjacent=turn.pairs == "adjacent",
        limit=turn.limit,
        factor=None if turn.q_factor == 1 else turn.q_factor,
        products=products[here],
        dot=float(dots[here]),
        scale=scale,
        scaled=float(dots[here] / scale),
        cap=scoring.cap,
        slope=None if scoring.slopes is None else float(scoring.slopes[0]),
        penalty=None if scoring.root is None else float(penalties[here]),
        score=float(scores[here]),
        two_way=scoring.two_way,
        window=scoring.window,
        first=first,
        last=last,
        row_scores=scores,
        peak=float(peak),
        exponentials=exponentials,
        sink=sink,
        sink_exponential=beside,
        denominator=denominator,
        weight=float(weights[here]),
        sink_weight=None if beside is None else beside / denominator,
        value=qkv.v[key],
        weighted=weighted,
        gate=gate,
        output=output,
        output_norm=float(np.linalg.norm(output)),
        row_output_norm=float(np.linalg.norm(w_o @ (weights @ v))),
        model_score=float(trace.scores(layer, head)[query, key]),
        model_weight=float(trace.pattern(layer, head)[query, key]),
    )


def _checked_cell(T: int, query: int, key: int, scoring: Scoring) -> tuple[int, int]:
    """Return the first and the last key that are visible to the query. Raises InputError for a cell that is hidden or
    does not exist.
    """
    check_positions((query, key), T)
    got = f"query {query}, key {key}"
    first, last, window = 0, T - 1 if scoring.two_way else query, scoring.window
    if key > last:
        raise InputError("A query token cannot attend to a later token.", got, "Choose a key at or before the query.")
    if window is not None:
        first = max(query - (window // 2 if scoring.two_way else window - 1), 0)
        last = min(query + window // 2, last)
    if not first <= key <= last:
        hint = say("Choose a key from position {} to {}.", first, last)
        raise InputError("This layer's sliding window hides the key from the query.", got, hint)
    return first, last


def _capped(scaled: np.ndarray, cap: float | None) -> np.ndarray:
    """Apply the cap, if the layer has one, to scaled scores. float64 [n]"""
    return scaled if cap is None else cap * np.tanh(scaled / cap)


def _penalties(query: int, keys: np.ndarray, scoring: Scoring) -> np.ndarray:
    """Return what ALiBi subtracts from the scores of these keys. float64 [n]"""
    if scoring.slopes is None:
        return np.zeros(len(keys))
    if scoring.root is None:
        return float(scoring.slopes[0]) * np.abs(query - keys)
    return scoring.penalty(torch.tensor([query]), torch.from_numpy(keys))[0, 0].double().numpy()


def _before_rotation(
    trace: Trace, layer: int, head: int
) -> tuple[tuple[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray] | None]:
    """Return (q, k) of all positions as projected, and after the q/k norm (None without one). [T, E] each"""
    source, kv = trace.config.kv_source(layer), head // trace.config.at(layer).group_size
    raw_q, q = _unrotated(trace, layer, "q", head)
    raw_k, k = _unrotated(trace, source, "k", kv)
    return (raw_q, raw_k), None if q is None or k is None else (q, k)


def _unrotated(trace: Trace, layer: int, site: str, n: int) -> tuple[np.ndarray, np.ndarray | None]:
    """Return the query or key of one head as projected, and after its norm (None without one). [T, E] each"""
    block = trace.model.blocks[layer]
    attn, turn = block.attn, block.attn.turn
    read = "resid_pre" if block.post_norm or block.norm1 is None else "norm1_out"
    at = {} if trace.tap is None else trace.sites(layer, [read, site])
    x = at[read][0] if at else attention_input(trace.model, layer, trace.residuals[layer])
    linear, norm, factor = (attn.q, attn.q_norm, turn.q_factor) if site == "q" else (attn.k, attn.k_norm, 1.0)
    raw = one_head(attn, linear, None, n, x).numpy()
    if norm is None:
        return raw, None
    return raw, (at[site][0, n] if at else one_head(attn, linear, norm, n, x) * factor).numpy()
