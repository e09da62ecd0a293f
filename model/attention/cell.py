"""Derivation of one attention weight step by step, as a sum that can be checked by hand."""

from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from model.arguments import check_positions
from model.errors import InputError
from model.gpt.layers import rope_frequencies
from model.gpt.linear import Linear
from model.public import public, unchecked
from model.tracing.trace import Trace


@dataclass(frozen=True, eq=False)
class Explanation:
    """One cell, step by step. E d_head, D d_model, n = query + 1 visible keys, r = d_rotary / 2 pairs.

    Vectors are the model's own float32; products and sums are float64. Vaswani et al. 2017, eq. 1. Everything follows
    from q, k and v, except the last two fields, which the model itself computed.
    """

    layer: int
    head: int
    query: int
    key: int
    q_raw: np.ndarray  # [E] as projected, with bias, before norm and rotation
    k_raw: np.ndarray  # [E]
    q_normed: np.ndarray | None  # [E] after the q-norm; None without one
    k_normed: np.ndarray | None  # [E] after the k-norm
    q: np.ndarray  # [E] as it enters the dot product, positions applied
    k: np.ndarray  # [E]
    angles: np.ndarray | None  # [r] relative rotation of RoPE in radians: (query - key) x frequency; None without RoPE
    products: np.ndarray  # [E] q * k
    dot: float  # sum of the products
    scale: float  # sqrt(d_head)
    score: float  # dot / scale
    row_scores: np.ndarray  # [n] scores of all visible keys
    peak: float  # the largest of them
    exponentials: np.ndarray  # [n] exp(score - peak)
    denominator: float  # their sum
    weight: float  # exponentials[key] / denominator
    value: np.ndarray  # [E] v of the key
    weighted: np.ndarray  # [E] weight * value
    output: np.ndarray  # [D] W_O of this head times `weighted`: the cell's part of attn_out
    output_norm: float  # its length
    row_output_norm: float  # length of the sum over all visible keys
    model_score: float  # the run's own score: `score` up to rounding, unless edited; NaN if the key is blocked
    model_weight: float  # the run's own weight, after edits


@public(query=unchecked, key=unchecked)
@torch.inference_mode()
def explain(trace: Trace, layer: int, head: int, query: int, key: int) -> Explanation:
    """Return every step from two projected vectors to the cell's contribution to the residual stream.

    Identities: the outputs of all keys and heads and the bias of o sum to attn_out at the query. With RoPE, dimensions
    i and i + r of the products sum to |a| |b| cos(arg a - arg b + angles[i]), where a and b are those two dimensions of
    q and k before rotation, read as complex numbers: only the distance counts. Su et al. 2021, eq. 16. A bias of o and,
    in a post-norm model, the norm come after the output. In a run with edits, each vector is the edited one. Raises
    InputError for a layer, head or position out of range, or a key after the query.
    """
    qkv = trace.qkv(layer, head)  # checks layer and head
    _check_cell(len(trace.tokens), query, key)
    raw, normed = _before_rotation(trace, layer, head)
    config, width = trace.config, qkv.q.shape[1]
    q, k, v = (part.astype(np.float64) for part in (qkv.q[query], qkv.k[: query + 1], qkv.v[: query + 1]))

    products = k * q  # [n, E]
    dots, scale = products.sum(1), float(np.sqrt(width))
    scores = dots / scale
    peak = scores.max()
    exponentials = np.exp(scores - peak)
    weights = exponentials / exponentials.sum()

    w_o = trace.model.blocks[layer].attn.o.weight[:, head * width : (head + 1) * width].double().numpy()  # [D, E]
    weighted = weights[key] * v[key]
    output = w_o @ weighted
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
        angles=(query - key) * rope_frequencies(config).double().numpy() if config.positions == "rope" else None,
        products=products[key],
        dot=float(dots[key]),
        scale=scale,
        score=float(scores[key]),
        row_scores=scores,
        peak=float(peak),
        exponentials=exponentials,
        denominator=float(exponentials.sum()),
        weight=float(weights[key]),
        value=qkv.v[key],
        weighted=weighted,
        output=output,
        output_norm=float(np.linalg.norm(output)),
        row_output_norm=float(np.linalg.norm(w_o @ (weights @ v))),
        model_score=float(trace.scores(layer, head)[query, key]),
        model_weight=float(trace.pattern(layer, head)[query, key]),
    )


def _check_cell(T: int, query: int, key: int) -> None:
    check_positions((query, key), T)
    if key > query:
        got = f"query {query}, key {key}"
        raise InputError("A query token cannot attend to a later token.", got, "Choose a key at or before the query.")


def _before_rotation(
    trace: Trace, layer: int, head: int
) -> tuple[tuple[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray] | None]:
    """Return q and k of all positions as projected, and after the q/k norm if there is one. Each [T, E]"""
    block, kv = trace.model.blocks[layer], head // trace.config.group_size
    attn = block.attn
    read = "resid_pre" if block.post_norm else "norm1_out"
    at = {} if trace.tap is None else trace.sites(layer, [read, "q", "k"])
    if at:
        x = at[read][0]
    else:
        x = trace.residuals[layer] if block.post_norm else block.norm1(trace.residuals[layer])
    q, k = _project(attn.q, x, head, attn.d_head), _project(attn.k, x, kv, attn.d_head)
    raw = (q.numpy(), k.numpy())
    if attn.q_norm is None:
        return raw, None
    q, k = (at["q"][0, head], at["k"][0, kv]) if at else (attn.q_norm(q), attn.k_norm(k))
    return raw, (q.numpy(), k.numpy())


def _project(linear: Linear, x: Tensor, n: int, width: int) -> Tensor:
    """Project x by the rows of head n. [T, D] -> [T, E]"""
    rows = slice(n * width, (n + 1) * width)
    return F.linear(x, linear.weight[rows], None if linear.bias is None else linear.bias[rows])
