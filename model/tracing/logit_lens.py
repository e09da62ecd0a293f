"""The logit lens: the model's prediction if it stopped at an earlier point of the residual stream.

An earlier stream passes through the final norm and the output head as if it were the last one: nostalgebraist 2020,
"interpreting GPT: the logit lens". The tuned lens first maps it to the basis of the last one: Belrose et al. 2023. The
logits of all points are never in memory together; they are reduced to a few statistics as soon as they are computed.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from model.arguments import check_position, check_whole, is_whole
from model.gpt.passes import Pass
from model.gpt.tap import Tap
from model.gpt.transformer import Transformer
from model.progress import Progress, silent
from model.public import MOST
from model.tracing.one_token import single_token_pass
from model.tracing.ranking import ranks_of, top_ids

_HELD = 6_000_000  # maximum number of logits in memory at once, which also limits the time between two progress reports


class Run(Protocol):
    """The members of model.tracing.trace.Trace that are used here."""

    model: Transformer
    residuals: Tensor  # [L + 1, T, D]
    head_tap: Tap | None  # what changes the logits of a stream
    kept: object | None  # what a hooked model gave, whose layers cannot be recomputed

    def prepare(self, layer: int, T: int) -> Pass:
        """Return a Pass that runs layer `layer` as in this trace."""

    def logits_at(self, position: int) -> np.ndarray:
        """Compute the logits at a position. [V]"""


class Translator(Protocol):
    """The members of model.predictions.tuned_lens.TunedLens that are used here."""

    def translate(self, layer: int, x: Tensor) -> Tensor:
        """Map the stream entering layer `layer` to the basis of the last one. [..., D] -> [..., D]"""


@dataclass(frozen=True, eq=False)
class LensReading:
    """Lens predictions at K points of the stream and P positions; the last point is the model's own prediction.

    `places` counts the layers that a stream has passed: 0 before the first, l + 1/2 between the attention and the MLP
    of layer l.
    """

    places: np.ndarray  # float32 [K]
    positions: np.ndarray  # int64 [P]
    ids: np.ndarray  # int32 [K, P, k], the most likely next tokens, ties by the smaller id
    probabilities: np.ndarray  # float32 [K, P, k]
    entropy: np.ndarray  # float32 [K, P], nats
    kl: np.ndarray  # float32 [K, P], KL(last point || this one) in nats
    candidates: np.ndarray  # int64 [P, C], tokens tracked across the points
    ranks: np.ndarray  # int32 [K, P, C], 1 for the most likely; ties are broken by the smaller id
    shares: np.ndarray  # float32 [K, P, C], probabilities of `candidates`

    @property
    def nbytes(self) -> int:
        """The bytes of all arrays."""
        return sum(array.nbytes for array in vars(self).values())


@torch.inference_mode()
def lens_logits(model: Transformer, x: Tensor, tap: Tap | None = None) -> Tensor:
    """Compute the logits of a stream as if it were the last one. x [N, D] -> [N, V]

    The final norm, if the model has one, is recomputed on x, with the scale of x. For the stream that leaves the last
    layer, these are the model's logits. nostalgebraist 2020.
    """
    return model.logits(x[None], tap=tap)[0]


def read_layers(
    run: Run,
    positions: Sequence[int],
    *,
    top: int = 5,
    candidates: Sequence[int] | None = None,
    lens: Translator | None = None,
    progress: Progress = silent,
) -> LensReading:
    """Compute lens predictions from the stream that enters each layer, and from the one that leaves the last. K = L +
    1

    `candidates` are the tokens to track by rank and probability, by default each position's `top` most likely next
    tokens. `lens` translates the streams first. Row -1 is the softmax of the run's logits, and its KL is 0.
    `progress(rows done, total rows, "Reading the stream")` may raise to cancel. Raises InputError if a position does
    not exist or `top` is below 1, ValueError if `positions` is empty or a token is outside the vocabulary.
    """
    L = len(run.residuals) - 1

    def streams(rows: Tensor) -> Tensor:
        at = [run.residuals[layer][rows] for layer in range(L + 1)]
        return torch.stack(at if lens is None else [lens.translate(layer, x) for layer, x in enumerate(at)])

    request = _checked(run, positions, candidates, top)
    return _read(run, streams, np.arange(L + 1, dtype=np.float32), request, progress)


def read_position(
    run: Run, position: int, *, top: int = 5, candidates: Sequence[int] | None = None, lens: Translator | None = None
) -> LensReading:
    """Compute lens predictions at one position, also between the attention and the MLP of every layer. K = 2 L + 1, P
    = 1

    With a translator, and for a hooked model, K = L + 1: neither covers the streams inside a layer. Otherwise as
    `read_layers`.
    """
    if lens is not None or run.kept is not None:
        return read_layers(run, [position], top=top, candidates=candidates, lens=lens)
    request = _checked(run, [position], candidates, top)
    x = checkpoints(run, int(request.positions[0]))
    return _read(run, lambda rows: x[:, None], np.arange(len(x), dtype=np.float32) / 2, request, silent)


def lens_rows(reading: LensReading, piece: Callable[[int], str]) -> pd.DataFrame:
    """Return a reading as a table with columns layer, position, rank (1 is the most likely), token id, piece and
    probability.
    """
    K, P, k = reading.ids.shape
    ids = reading.ids.ravel()
    pieces = {number: piece(number) for number in np.unique(ids).tolist()}
    return pd.DataFrame(
        {
            "layer": np.repeat(np.arange(K), P * k),
            "position": np.tile(np.repeat(reading.positions, k), K),
            "rank": np.tile(np.arange(1, k + 1), K * P),
            "token id": ids,
            "piece": [pieces[i] for i in ids.tolist()],
            "probability": reading.probabilities.ravel(),
        }
    )


def some_positions(reading: LensReading, start: int, end: int) -> LensReading:
    """Select the positions start .. end - 1 of a reading."""
    cut = {
        name: value
        if name == "places"
        else value[start:end]
        if name in ("positions", "candidates")
        else value[:, start:end]
        for name, value in vars(reading).items()
    }
    return LensReading(**cut)


@torch.inference_mode()
def checkpoints(run: Run, position: int) -> Tensor:
    """Compute the stream of one position before the first layer, and inside and after each layer. [2 L + 1, D]"""
    L = len(run.residuals) - 1
    rows = []
    for layer in range(L):
        rows += [run.residuals[layer, position], middle_at(run, layer, position)]
    return torch.stack([*rows, run.residuals[L, position]])


@torch.inference_mode()
def middle_at(run: Run, layer: int, position: int) -> Tensor:
    """Compute the stream of one position between the attention and the MLP of a layer, edits included. [D]

    Equals the row of `Trace.middle`. Without edits, only this position's query is computed, with the keys and values
    that it sees.
    """
    two_way = run.model.config.two_way  # a token then depends on later ones, too
    whole = two_way or not run.model.config.alone
    T = len(run.residuals[layer]) if two_way else position + 1
    block, each = run.model.blocks[layer], run.prepare(layer, T)
    if each.tap is not None or whole:
        x = each.at("resid_pre", layer, run.residuals[layer][None, :T])
        return block.middle(x, layer, each)[0, position]
    x = run.residuals[layer][None, position : position + 1]
    return block.middle(x, layer, single_token_pass(run.model, run.residuals[layer], layer, position))[0, 0]


def lens_gap(run: Run, position: int) -> float:
    """Compute the largest absolute difference between the lens on a position's last stream and the run's own logits
    there.
    """
    ours = lens_logits(run.model, run.residuals[-1, position][None], run.head_tap)[0].numpy()
    return float(np.abs(ours - run.logits_at(position)).max())


# --- reductions -------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class _Request:
    """Validated arguments of a reading."""

    positions: Tensor  # [P], nonnegative
    candidates: Tensor | None  # [C]
    top: int


def _checked(run: Run, positions: Sequence[int], candidates: Sequence[int] | None, top: int) -> _Request:
    T, V = run.residuals.shape[1], run.model.config.vocab_size
    if len(positions) == 0:
        raise ValueError("positions must name at least one position, got none")
    for position in positions:
        check_position(position, T, from_end=True)
    check_whole("top", top, 1, MOST)
    if candidates is not None and not all(is_whole(token) and 0 <= token < V for token in candidates):
        raise ValueError(f"candidates must lie in 0 .. {V - 1}, got {list(candidates)}")
    at = torch.tensor([position % T for position in positions])
    tracked = None if candidates is None else torch.tensor(list(candidates), dtype=torch.long)
    return _Request(at, tracked, min(top, V))


@dataclass(frozen=True, eq=False)
class _Truth:
    """The reference prediction, which is that of the last point."""

    share: Tensor  # [p, V]
    entropy: Tensor  # [p]
    tracked: Tensor  # tokens to track, [p, C]


@torch.inference_mode()
def _read(
    run: Run, streams: Callable[[Tensor], Tensor], places: np.ndarray, request: _Request, progress: Progress
) -> LensReading:
    """Reduce the logits of `streams(positions)`, [K, p, D], a few positions and points at a time."""
    rows = max(1, _HELD // run.model.config.vocab_size)
    K, P, done, parts = len(places), len(request.positions), 0, []
    for at in request.positions.split(rows):
        x, reduced = streams(at), []
        last, truth = _truth(run, x[-1], request.candidates)
        for points in (*x[:-1].split(max(1, rows // len(at))), None):
            logits = last
            if points is not None:
                logits = lens_logits(run.model, points.flatten(0, 1), run.head_tap).unflatten(0, points.shape[:2])
            reduced.append(_reduce(logits, truth, request.top))
            done += logits.shape[0] * logits.shape[1]
            progress(done, K * P, "Reading the stream")
        parts.append([torch.cat(group) for group in zip(*reduced, strict=True)] + [truth.tracked[None]])
    ids, probabilities, entropy, kl, ranks, shares, tracked = (
        torch.cat(group, 1).numpy() for group in zip(*parts, strict=True)
    )
    return LensReading(places, request.positions.numpy(), ids, probabilities, entropy, kl, tracked[0], ranks, shares)


def _truth(run: Run, x: Tensor, candidates: Tensor | None) -> tuple[Tensor, _Truth]:
    """Compute the logits of the last point's streams, [1, p, V], and the reference prediction. x [p, D]"""
    last = lens_logits(run.model, x, run.head_tap)
    share, likeliest = last.softmax(-1), top_ids(last, 1)
    tracked = likeliest if candidates is None else candidates.expand(len(x), -1)
    return last[None], _Truth(share, _uncertainty(last, share, likeliest)[1], tracked)


def _uncertainty(logits: Tensor, share: Tensor, likeliest: Tensor) -> tuple[Tensor, Tensor]:
    """Compute the log-sum-exp of the logits, and the entropy of their softmax `share`. [..., V], [..., 1] -> [...]"""
    total = (logits.gather(-1, likeliest) - share.gather(-1, likeliest).log())[..., 0]
    return total, total - (share * logits).sum(-1)


def _reduce(logits: Tensor, truth: _Truth, top: int) -> tuple[Tensor, ...]:
    """Reduce the logits [g, p, V] to ids, probabilities, entropy, KL, ranks, and tracked probabilities: see
    LensReading.
    """
    share = logits.softmax(-1)
    ids = top_ids(logits, top)
    total, entropy = _uncertainty(logits, share, ids[..., :1])
    kl = (total - (truth.share * logits).sum(-1) - truth.entropy).clamp(min=0)  # cross-entropy minus entropy
    tracked = truth.tracked.expand(len(logits), -1, -1)  # [g, p, C]
    return ids.int(), share.gather(-1, ids), entropy, kl, ranks_of(logits, tracked), share.gather(-1, tracked)
