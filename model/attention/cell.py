"""Derivation of one attention weight with all intermediate results, which can be verified by hand."""

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
    """All intermediate results of one cell. E d_head, D d_model, n = query + 1 visible keys, r = d_rotary / 2 pairs.

    Vectors are the model's own float32; products and sums are float64. Vaswani et al. 2017, eq. 1. Everything is
    computed from q, k and v, except the last two fields, which come from the model's own run.
    """

    layer: int
    head: int
    query: int
    key: int
    q_raw: np.ndarray  # [E] projected query, with bias, before norm and rotation
    k_raw: np.ndarray  # [E]
    q_normed: np.ndarray | None  # [E] query after the q-norm; None without one
    k_normed: np.ndarray | None  # [E] key after the k-norm; None without one
    q: np.ndarray  # [E] query in the dot product, after any rotation
    k: np.ndarray  # [E]
    angles: np.ndarray | None  # [r] relative rotation of RoPE in radians: (query - key) x frequency; None without RoPE
    products: np.ndarray  # [E] q * k
    dot: float  # sum of the products
    scale: float  # sqrt(d_head)
    score: float  # dot / scale
    row_scores: np.ndarray  # [n] scores of all visible keys
    peak: float  # the largest of these scores
    exponentials: np.ndarray  # [n] exp(score - peak)
    denominator: float  # sum of the exponentials
    weight: float  # exponentials[key] / denominator
    value: np.ndarray  # [E] v of the key
    weighted: np.ndarray  # [E] weight * value
    output: np.ndarray  # [D] W_O of this head times `weighted`, the cell's contribution to attn_out
    output_norm: float  # L2 norm of `output`
    row_output_norm: float  # L2 norm of the sum of outputs over all visible keys
    model_score: float  # the run's own score, equal to `score` up to rounding unless edited; NaN if the key is blocked
    model_weight: float  # the run's own weight, after edits


@public(query=unchecked, key=unchecked)
@torch.inference_mode()
def explain(trace: Trace, layer: int, head: int, query: int, key: int) -> Explanation:
    """Compute all steps from the projected query and key to the cell's contribution to the residual stream.

    Identities: the outputs of all keys and heads and the bias of o sum to attn_out at the query. With RoPE, dimensions
    i and i + r of the products sum to |a| |b| cos(arg a - arg b + angles[i]), where a and b are these two dimensions of
    q and k before rotation, as complex numbers: only the distance matters. Su et al. 2021, eq. 16. The bias of o and,
    in a post-norm model, the norm are applied after the output. In a run with edits, all vectors are the edited ones.
    Raises InputError for a layer, head or position out of range, or a key after the query.
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
    """Return (q, k) of all positions as projected, and after the q/k norm (None without one). [T, E] each"""
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
    """Project x with the rows of head n. [T, D] -> [T, E]"""
    rows = slice(n * width, (n + 1) * width)
    return F.linear(x, linear.weight[rows], None if linear.bias is None else linear.bias[rows])
