"""Statistics of the residual stream: the inputs of every norm, the updates of each sublayer, and outlying dimensions.

One pass over the layers stores reductions only; every figure reads those.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from model.progress import Progress
from model.public import one_of, public
from model.tracing.norm_sites import final_sites, moments, stream_sites
from model.tracing.trace import Trace


@dataclass(frozen=True)
class Rule:
    """Condition for an outlying number x of a layer: |x| >= ratio times the layer's median |x|, and |x| >= size."""

    ratio: float = 0.0
    size: float = 0.0


# "massive": Sun et al. 2024, "Massive Activations in Large Language Models", section 2: magnitude over 100 and about
# 1,000 times the median. "int8": Dettmers et al. 2022, "LLM.int8()", section 3: a magnitude of 6 or more; their further
# conditions, in 25% of the layers and at 6% of the positions, are left out here.
RULES: dict[str, Rule] = {
    "massive": Rule(1000, 100),
    "x1000": Rule(1000),
    "x100": Rule(100),
    "x20": Rule(20),
    "int8": Rule(0, 6),
}


@dataclass(frozen=True, eq=False)
class StreamStatistics:
    """Reductions of one run. N norms in the order of the computation, T tokens, L layers, D dimensions.

    A ratio or a cosine with a stream of length 0 is NaN.
    """

    norms: tuple[tuple[str, int], ...]  # (site, layer) of each of the N norms; the final one has the layer L
    mean: np.ndarray  # of the norm's input, float64 [N, T]
    variance: np.ndarray  # biased, float64 [N, T]
    divisor: np.ndarray  # divisor of the norm: sqrt(variance + eps), or sqrt(mean square + eps). float64 [N, T]
    update: np.ndarray  # |sublayer output| / |stream it is added to|; attention, MLP. float64 [L, 2, T]
    along: np.ndarray  # cosine of the two; below 0 the output opposes the stream. float64 [L, 2, T]
    cosine: np.ndarray  # of the stream before and after a block, float64 [L, T]
    median: np.ndarray  # of |x| over tokens and dimensions of a norm's input, float64 [N]
    largest: np.ndarray  # of each dimension, the x with the largest |x| over tokens, signed, float32 [N, D]
    carrier: np.ndarray  # the token of it, the first of ties, int32 [N, D]
    outlying: Mapping[str, np.ndarray]  # by rule: number of outlying dimensions of a token, int32 [N, T] each

    @property
    def rms(self) -> np.ndarray:
        """Root mean square: rms^2 = mean^2 + variance. float64 [N, T]"""
        return np.sqrt(self.mean**2 + self.variance)

    @property
    def norm(self) -> np.ndarray:
        """Length: rms sqrt(D). float64 [N, T]"""
        return self.rms * np.sqrt(self.largest.shape[1])

    @property
    def nbytes(self) -> int:
        """Bytes of the arrays."""
        arrays = [getattr(self, field.name) for field in fields(self)]
        arrays += self.outlying.values()
        return sum(value.nbytes for value in arrays if isinstance(value, np.ndarray))

    def rows(self, sites: Sequence[str]) -> list[int]:
        """Return the indices of the norms of some sites, in the order of the computation."""
        return [n for n, (site, _) in enumerate(self.norms) if site in sites]


@public()
def survey(run: Trace, progress: Progress | None = None) -> StreamStatistics:
    """Reduce the residual stream of a run, its edits included, in one pass over its layers.

    In a pre-norm block the MLP is not run again: its output is the difference of two streams, to float32 rounding of
    the stream. The update is relative to resid_pre for attention and resid_mid for the MLP; in parallel blocks it is
    resid_pre for both, in post-norm blocks the norm comes after the addition.
    """
    config = run.config
    norms: list[tuple[str, int]] = []
    reduced, moved = [], []
    for layer in range(config.n_layer):
        at = stream_sites(run, layer)
        for site in ("norm1", "norm2"):
            norms.append((site, layer))
            reduced.append(_norm_fields(at[f"{site}_in"], at[f"{site}_scale"]))
        moved.append(_block_fields(at, config.parallel_residual))
        if progress:
            progress(layer + 1, config.n_layer, "layers")
    if last := final_sites(run):
        norms.append(("final", config.n_layer))
        reduced.append(_norm_fields(last["final_in"], last["final_scale"]))
    outlying = [each.pop("outlying") for each in reduced]
    return StreamStatistics(
        tuple(norms),
        **{name: np.stack([each[name] for each in reduced]) for name in reduced[0]},
        **{name: np.stack([each[name] for each in moved]) for name in moved[0]},
        outlying={rule: np.stack([each[rule] for each in outlying]) for rule in RULES},
    )


@torch.inference_mode()
def _norm_fields(x: Tensor, scale: Tensor) -> dict:
    """Return the fields of Stream from one norm's input. x [T, D], scale [T, 1]"""
    mean, variance = moments(x)
    magnitude = x.abs()
    size, token = magnitude.max(0)
    magnitude, size = magnitude.numpy(), size.numpy()
    median = middle_of(magnitude)
    return {
        "mean": mean.numpy(),
        "variance": variance.numpy(),
        "divisor": scale[:, 0].double().numpy(),
        "median": np.float64(median),
        "largest": x.gather(0, token[None])[0].numpy(),
        "carrier": token.to(torch.int32).numpy(),
        "outlying": {name: _count(magnitude, size, limit(rule, median)) for name, rule in RULES.items()},
    }


def middle_of(magnitude: np.ndarray) -> float:
    """Return the median, as np.median does, in a third of the time.

    Floats from 0 up are ordered as their bits: the upper half of the bits selects the few that have to be sorted.
    magnitude float32, at least 0, of any shape.
    """
    flat = magnitude.ravel()
    upper = flat.view(np.uint32) >> 16
    until = np.bincount(upper).cumsum()  # counts of numbers with upper bits up to this value
    low, high = (flat.size - 1) // 2, flat.size // 2
    first, last = np.searchsorted(until, (low, high), side="right")
    around = np.sort(flat[(upper >= first) & (upper <= last)])
    below = until[first - 1] if first else 0
    return (float(around[low - below]) + float(around[high - below])) / 2


def _count(magnitude: np.ndarray, size: np.ndarray, reach: float) -> np.ndarray:
    """Return the number of dimensions per token that reach a magnitude; `size`: largest of each. [T, D], [D] -> int32
    [T]
    """
    some = np.flatnonzero(size >= reach)  # usually few: the others can be skipped
    return np.count_nonzero(magnitude[:, some] >= reach, axis=1).astype(np.int32)


def limit(rule: Rule, median: float) -> float:
    """Return the smallest outlying magnitude; never 0, which a layer of zeros would reach."""
    return max(rule.ratio * median, rule.size, float(np.finfo(np.float32).tiny))


def _block_fields(at: dict[str, Tensor], parallel: bool) -> dict[str, np.ndarray]:
    """Return the fields of Stream from one block. at: norm_sites.stream_sites"""
    names = ("resid_pre", "attn_out", "resid_mid", "mlp_out", "resid_post")
    x = {name: at[name].double().numpy() for name in names}  # [T, D]

    def dot(a: str, b: str) -> np.ndarray:
        return np.einsum("td,td->t", x[a], x[b])

    size = {name: np.sqrt(dot(name, name)) for name in names}
    pairs = (("attn_out", "resid_pre"), ("mlp_out", "resid_pre" if parallel else "resid_mid"))
    return {
        "update": np.stack([_quotient(size[a], size[b]) for a, b in pairs]),
        "along": np.stack([_quotient(dot(a, b), size[a] * size[b]) for a, b in pairs]),
        "cosine": _quotient(dot("resid_pre", "resid_post"), size["resid_pre"] * size["resid_post"]),
    }


def _quotient(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Compute a / b, NaN where b is 0."""
    return np.divide(a, b, out=np.full_like(b, np.nan), where=b != 0)


@public(rule=one_of(RULES), sites=one_of(("norm1", "norm2", "final")))
def outliers(stream: StreamStatistics, rule: str, sites: Sequence[str]) -> pd.DataFrame:
    """Return the outlying dimensions before the norms of some sites, the largest ratio first: one row per (norm,
    dimension).

    Columns: site, layer, dimension, token (with the largest |x|), value (signed), ratio to the layer's median |x|.
    `rule` is a key of RULES. Raises KeyError for another one.
    """
    frames = [pd.DataFrame(columns=_COLUMNS)]
    for n in stream.rows(sites):
        dimensions = np.flatnonzero(np.abs(stream.largest[n]) >= limit(RULES[rule], stream.median[n]))
        numbers = (stream.carrier[n, dimensions], stream.largest[n, dimensions], ratios(stream, n)[dimensions])
        frames.append(pd.DataFrame(dict(zip(_COLUMNS, (*stream.norms[n], dimensions, *numbers), strict=True))))
    table = pd.concat([frame for frame in frames if len(frame)] or frames[:1], ignore_index=True)
    return table.sort_values("ratio", ascending=False, kind="stable", ignore_index=True)


_COLUMNS = ["site", "layer", "dimension", "token", "value", "ratio"]


@public(rule=one_of(RULES), sites=one_of(("norm1", "norm2", "final")))
def carriers(stream: StreamStatistics, rule: str, sites: Sequence[str]) -> pd.DataFrame:
    """Return the tokens with outlying dimensions, sorted by their number.

    Columns: token; entries, the number of outlying numbers over all norms of these sites; norms, the number of norms
    with at least one.
    """
    rows = stream.rows(sites)
    counts = stream.outlying[rule][rows]  # [norms of the sites, T]
    entries = counts.sum(0)
    tokens = [int(t) for t in np.argsort(-entries, kind="stable") if entries[t]]
    return pd.DataFrame({"token": tokens, "entries": entries[tokens], "norms": np.count_nonzero(counts, 0)[tokens]})


def ratios(stream: StreamStatistics, n: int) -> np.ndarray:
    """Return the largest |x| of each dimension of norm n, as a multiple of the layer's median |x|. float64 [D]"""
    return np.abs(stream.largest[n]) / max(stream.median[n], float(np.finfo(np.float32).tiny))


def top_dimensions(stream: StreamStatistics, sites: Sequence[str], most: int) -> list[int]:
    """Return the dimensions with the largest ratio before any norm of these sites, descending, ties by the smaller
    dimension.

    For a model without such a norm, the first dimensions.
    """
    rows = stream.rows(sites)
    highest = np.max([ratios(stream, n) for n in rows], axis=0) if rows else np.zeros(stream.largest.shape[1])
    return [int(d) for d in np.argsort(-highest, kind="stable")[:most]]


# name: its rows. "norms": one per norm; "sublayers": one per attention or MLP; "blocks": one per layer.
STATISTICS: dict[str, str] = {
    "rms": "norms",
    "norm": "norms",
    "mean": "norms",
    "variance": "norms",
    "divisor": "norms",
    "update": "sublayers",
    "along": "sublayers",
    "cosine": "blocks",
}
_HALVES = {"norm1": 0, "attn": 0, "norm2": 1, "mlp": 1, "final": 1, "block": 1}


@public(name=one_of(STATISTICS))
def statistic(stream: StreamStatistics, name: str) -> tuple[list[tuple[str, int]], np.ndarray]:
    """Return a statistic of STATISTICS: its rows as (what, layer) in the order of the computation, and its values. [R,
    T]

    What: "norm1", "norm2" or "final"; "attn" or "mlp"; "block".
    """
    L = len(stream.cosine)
    rows = {
        "norms": list(stream.norms),
        "sublayers": [(what, layer) for layer in range(L) for what in ("attn", "mlp")],
        "blocks": [("block", layer) for layer in range(L)],
    }[STATISTICS[name]]
    return rows, getattr(stream, name).reshape(len(rows), -1)


def nearest_row(rows: list[tuple[str, int]], what: str, layer: int) -> int:
    """Return the row of that name and layer; otherwise the one of the same half of the nearest layer."""
    if (what, layer) in rows:
        return rows.index((what, layer))
    near = min(abs(other - layer) for _, other in rows)
    candidates = [n for n, (_, other) in enumerate(rows) if abs(other - layer) == near]
    return candidates[0] if _HALVES[what] == 0 else candidates[-1]
