"""Statistics of the residual stream: the inputs of each norm, the updates of each sublayer, and outlier dimensions.

One pass over the layers stores only reductions, from which all figures are drawn.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from model.progress import Progress
from model.public import one_of, public
from model.tracing.norm_sites import BLOCK_NORMS, final_sites, moments, stream_sites
from model.tracing.trace import Trace


@dataclass(frozen=True)
class Rule:
    """Criterion for an outlier x of a layer: |x| >= ratio times the layer's median |x|, and |x| >= size."""

    ratio: float = 0.0
    size: float = 0.0


# "massive": Sun et al. 2024, "Massive Activations in Large Language Models", section 2: magnitude over 100 and about
# 1,000 times the median. "int8": Dettmers et al. 2022, "LLM.int8()", section 3: a magnitude of at least 6; their
# further criteria, in 25% of the layers and at 6% of the positions, are omitted here.
RULES: dict[str, Rule] = {
    "massive": Rule(1000, 100),
    "x1000": Rule(1000),
    "x100": Rule(100),
    "x20": Rule(20),
    "int8": Rule(0, 6),
}


@dataclass(frozen=True, eq=False)
class StreamStatistics:
    """Reductions of one run with N norms in the order of the computation, T tokens, L layers and D dimensions.

    A ratio to, or a cosine with, a zero vector is NaN.
    """

    norms: tuple[tuple[str, int], ...]  # (site, layer) of each of the N norms; the final norm has layer L
    mean: np.ndarray  # mean of the norm's input, float64 [N, T]
    variance: np.ndarray  # population variance of the norm's input, float64 [N, T]
    divisor: np.ndarray  # divisor of the norm: sqrt(variance + eps), or sqrt(mean square + eps). float64 [N, T]
    update: np.ndarray  # ||sublayer output|| / ||stream it is added to||, for attention and MLP. float64 [L, 2, T]
    along: np.ndarray  # cosine of the two; if negative, the output opposes the stream. float64 [L, 2, T]
    cosine: np.ndarray  # cosine of the streams before and after a block, float64 [L, T]
    median: np.ndarray  # median |x| over tokens and dimensions of a norm's input, float64 [N]
    largest: np.ndarray  # signed x of largest |x| over the tokens, per dimension; float32 [N, D]
    carrier: np.ndarray  # the token with that x, the first of ties; int32 [N, D]
    outlying: Mapping[str, np.ndarray]  # {rule: number of outlier dimensions of each token, int32 [N, T]}

    @property
    def rms(self) -> np.ndarray:
        """Root mean square: rms^2 = mean^2 + variance. float64 [N, T]"""
        return np.sqrt(self.mean**2 + self.variance)

    @property
    def norm(self) -> np.ndarray:
        """L2 norm: rms sqrt(D). float64 [N, T]"""
        return self.rms * np.sqrt(self.largest.shape[1])

    @property
    def nbytes(self) -> int:
        """Size of the arrays, in bytes."""
        arrays = [getattr(self, field.name) for field in fields(self)]
        arrays += self.outlying.values()
        return sum(value.nbytes for value in arrays if isinstance(value, np.ndarray))

    def rows(self, sites: Sequence[str]) -> list[int]:
        """Return the indices of the norms at the given sites, in the order of the computation."""
        return [n for n, (site, _) in enumerate(self.norms) if site in sites]


@public()
def survey(run: Trace, progress: Progress | None = None) -> StreamStatistics:
    """Reduce the residual stream of a run, its edits included, in one pass over its layers.

    In a pre-norm block the MLP is not rerun: its output is the difference of two streams, to float32 rounding of the
    stream. The update is relative to resid_pre for attention and to resid_mid for the MLP, or to resid_pre for both in
    parallel blocks. It is what is added to the stream: with norms after the sublayers, their outputs. In post-norm
    blocks, the norm follows the addition of the update.
    """
    config = run.config
    norms: list[tuple[str, int]] = []
    reduced, moved = [], []
    for layer in range(config.n_layer):
        at = stream_sites(run, layer)
        for site in (site for site in BLOCK_NORMS if f"{site}_in" in at):
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
    """Compute the fields of StreamStatistics that describe one norm's input. x [T, D], scale [T, 1]"""
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
    """Compute the median, as np.median does, in a third of the time.

    Nonnegative floats have the same order as their bit patterns: a histogram of the upper 16 bits selects the few
    values that have to be sorted. `magnitude` is nonnegative float32 of any shape.
    """
    flat = magnitude.ravel()
    upper = flat.view(np.uint32) >> 16
    until = np.bincount(upper).cumsum()  # number of values whose upper bits are at most this
    low, high = (flat.size - 1) // 2, flat.size // 2
    first, last = np.searchsorted(until, (low, high), side="right")
    around = np.sort(flat[(upper >= first) & (upper <= last)])
    below = until[first - 1] if first else 0
    return (float(around[low - below]) + float(around[high - below])) / 2


def _count(magnitude: np.ndarray, size: np.ndarray, reach: float) -> np.ndarray:
    """Count the dimensions of each token with magnitude >= `reach`; `size` is each dimension's maximum over the tokens.
    [T, D], [D] -> int32 [T]
    """
    some = np.flatnonzero(size >= reach)  # usually few; the other dimensions are skipped
    return np.count_nonzero(magnitude[:, some] >= reach, axis=1).astype(np.int32)


def limit(rule: Rule, median: float) -> float:
    """Compute a layer's outlier threshold, which is positive even for a layer of zeros."""
    return max(rule.ratio * median, rule.size, float(np.finfo(np.float32).tiny))


def _block_fields(at: dict[str, Tensor], parallel: bool) -> dict[str, np.ndarray]:
    """Compute the fields of StreamStatistics that describe one block, from the tensors of norm_sites.stream_sites."""
    added = ("attn_out", "mlp_out") if "after1_out" not in at else ("after1_out", "after2_out")
    names = ("resid_pre", added[0], "resid_mid", added[1], "resid_post")
    x = {name: at[name].double().numpy() for name in names}  # [T, D]

    def dot(a: str, b: str) -> np.ndarray:
        return np.einsum("td,td->t", x[a], x[b])

    size = {name: np.sqrt(dot(name, name)) for name in names}
    pairs = ((added[0], "resid_pre"), (added[1], "resid_pre" if parallel else "resid_mid"))
    return {
        "update": np.stack([_quotient(size[a], size[b]) for a, b in pairs]),
        "along": np.stack([_quotient(dot(a, b), size[a] * size[b]) for a, b in pairs]),
        "cosine": _quotient(dot("resid_pre", "resid_post"), size["resid_pre"] * size["resid_post"]),
    }


def _quotient(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Compute a / b, with NaN where b is 0."""
    return np.divide(a, b, out=np.full_like(b, np.nan), where=b != 0)


@public(rule=one_of(RULES), sites=one_of((*BLOCK_NORMS, "final")))
def outliers(stream: StreamStatistics, rule: str, sites: Sequence[str]) -> pd.DataFrame:
    """Return the outlier dimensions at the inputs of the norms at the given sites, by decreasing ratio: one row per
    (norm, dimension).

    Columns: `site`, `layer`, `dimension`, `token` (the one with the largest |x|), `value` (signed), and `ratio` (|x| to
    the layer's median |x|). `rule` is a key of RULES. Raises KeyError for an unknown rule.
    """
    frames = [pd.DataFrame(columns=_COLUMNS)]
    for n in stream.rows(sites):
        dimensions = np.flatnonzero(np.abs(stream.largest[n]) >= limit(RULES[rule], stream.median[n]))
        numbers = (stream.carrier[n, dimensions], stream.largest[n, dimensions], ratios(stream, n)[dimensions])
        frames.append(pd.DataFrame(dict(zip(_COLUMNS, (*stream.norms[n], dimensions, *numbers), strict=True))))
    table = pd.concat([frame for frame in frames if len(frame)] or frames[:1], ignore_index=True)
    return table.sort_values("ratio", ascending=False, kind="stable", ignore_index=True)


_COLUMNS = ["site", "layer", "dimension", "token", "value", "ratio"]


@public(rule=one_of(RULES), sites=one_of((*BLOCK_NORMS, "final")))
def carriers(stream: StreamStatistics, rule: str, sites: Sequence[str]) -> pd.DataFrame:
    """Return the tokens with outliers, sorted by decreasing number of outliers.

    Columns: `token`; `entries`, the total number of outliers over the norms at these sites; `norms`, the number of
    norms with at least one.
    """
    rows = stream.rows(sites)
    counts = stream.outlying[rule][rows]  # [norms of the sites, T]
    entries = counts.sum(0)
    tokens = [int(t) for t in np.argsort(-entries, kind="stable") if entries[t]]
    return pd.DataFrame({"token": tokens, "entries": entries[tokens], "norms": np.count_nonzero(counts, 0)[tokens]})


def ratios(stream: StreamStatistics, n: int) -> np.ndarray:
    """Compute each dimension's largest |x| at norm n, as a multiple of the layer's median |x|. float64 [D]"""
    return np.abs(stream.largest[n]) / max(stream.median[n], float(np.finfo(np.float32).tiny))


def top_dimensions(stream: StreamStatistics, sites: Sequence[str], most: int) -> list[int]:
    """Return the `most` dimensions with the largest ratio at any norm of these sites, in decreasing order, ties by the
    lower dimension.

    If the model has no such norm, returns the first dimensions.
    """
    rows = stream.rows(sites)
    highest = np.max([ratios(stream, n) for n in rows], axis=0) if rows else np.zeros(stream.largest.shape[1])
    return [int(d) for d in np.argsort(-highest, kind="stable")[:most]]


# {name of a statistic: its rows}, one per norm, per sublayer (attention or MLP), or per block.
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
_FIRST = ("embed_norm", "norm1", "after1", "attn")  # belong to the attention of their layer, all others to its MLP


@public(name=one_of(STATISTICS))
def statistic(stream: StreamStatistics, name: str) -> tuple[list[tuple[str, int]], np.ndarray]:
    """Return one of STATISTICS as its row labels (what, layer), in the order of the computation, and its values [R, T].

    `what` is `norm1`, `after1`, `norm2`, `after2` or `final` for norms, `attn` or `mlp` for sublayers, and `block` for
    blocks.
    """
    L = len(stream.cosine)
    rows = {
        "norms": list(stream.norms),
        "sublayers": [(what, layer) for layer in range(L) for what in ("attn", "mlp")],
        "blocks": [("block", layer) for layer in range(L)],
    }[STATISTICS[name]]
    return rows, getattr(stream, name).reshape(len(rows), -1)


def nearest_row(rows: list[tuple[str, int]], what: str, layer: int) -> int:
    """Return the index of the row (what, layer), or else of the row in the same half (attention or MLP) of the nearest
    layer.
    """
    if (what, layer) in rows:
        return rows.index((what, layer))
    near = min(abs(other - layer) for _, other in rows)
    candidates = [n for n, (_, other) in enumerate(rows) if abs(other - layer) == near]
    return candidates[0] if what in _FIRST else candidates[-1]
