"""Effects over a prompt set, on every pair: each head switched off, each head or vector patched, the logit lens,
attribution, and steering.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from model.api import LanguageModel
from model.attention.effects import (
    PATCH_SITES,
    everywhere,
    patch,
    patch_heads,
    replaced,
    replacement_cost,
    sweep,
)
from model.attention.targets import Target, metric
from model.errors import InputError
from model.gpt.config import ModelConfig
from model.gpt.mixers.needs import need_alone, need_qkv
from model.predictions.gradients import affordable, forwards
from model.progress import Progress, silent
from model.public import MOST_SEED, nonempty, one_of, public, whole
from model.sets.aligned import AlignedPair
from model.sets.readings import ATTRIBUTIONS, READINGS, attributed, lens_difference, random_answers
from model.sets.steered import FACTORS, directions, set_vectors, steered_metric
from model.steering.effects import sweep_cost
from model.tracing.trace import Trace

ABLATED = ("zero", "mean", "resample")  # replacements of a head's output
HEADS = ("z", "q", "k", "v")  # sites of heads that can be patched; k and v belong to KV heads
EFFECTS = (*ABLATED, *HEADS, *PATCH_SITES, *READINGS, "steer")
METRICS = ("difference", "probability")
_BATCHES = 12  # least number of batches of points along the path of integrated gradients
CALIBRATED = ("mean", "resample", "steer")
BY_POSITION = (*PATCH_SITES, "slots")  # effects whose columns are positions


@dataclass(frozen=True, eq=False)
class SetEffects:
    """The effects on every example, N of a set's pairs."""

    effect: str  # one of EFFECTS
    metric: str  # one of METRICS
    numbers: tuple[int, ...]  # indices of the N examples among the pairs; the others have no such effect
    # change of the metric, float32 [N, L, H], [N, L, G] for k and v, [N, L, T] for vectors, [N, L, F] for "steer"; of
    # READINGS the value itself: [N, L + 1, 1] for "lens", [N, L, H], [N, L, 2] for layers, [N, 1, T] for "slots"
    values: np.ndarray
    # the same with random vectors of the same length, or for "lens" with two random answers of the set; else None
    control: np.ndarray | None
    clean: np.ndarray  # metric of the clean prompt, float64 [N]
    corrupt: np.ndarray  # metric of the corrupt prompt with the clean pair's answers, float64 [N]
    rough: int = 0  # examples whose integrated gradients miss their sum

    @property
    def by_position(self) -> bool:
        """Return whether the columns are positions."""
        return self.effect in BY_POSITION


@public(pairs=nonempty, effect=one_of(EFFECTS), measured=one_of(METRICS), seed=whole(0, MOST_SEED))
@torch.inference_mode()
def set_effects(
    lm: LanguageModel,
    pairs: Sequence[AlignedPair],
    effect: str,
    *,
    calibration: Sequence[AlignedPair] = (),
    measured: str = "difference",
    seed: int = 0,
    progress: Progress = silent,
    see: Callable[[np.ndarray], None] = lambda so_far: None,
) -> SetEffects:
    """Measure one kind of effect of every head, or of every layer and position, on every pair.

    Ablations run the clean prompt with one head's output replaced at all positions: "zero" by 0; "mean" by its mean
    over all positions of the clean prompts of `calibration`; "resample" by its output at the same position of one of
    these prompts of the same length, drawn by `seed`. Patches run the corrupt prompt with one part of the clean run:
    "z", "q", "k" or "v" of a head at all positions (k and v of a KV head, which all its heads read), or the vector of
    PATCH_SITES at one position. An effect is the change of the metric: the logit of the target minus that of the
    distractor after the last token, or the target's probability.

    READINGS are no changes but values of the clean run: "lens" is target minus distractor as the logit lens reads it
    before each layer and at the end; the others split their logit difference ("probability" is refused): by head, by
    attention and MLP of each layer, or by token. "steer" adds each layer's mean difference of the calibration pairs,
    times each of FACTORS, to the last token of the corrupt prompts, towards the clean side of the pair.

    Positions of different pairs compare only if the pairs have the same length: effects BY_POSITION keep the pairs of
    the commonest length. Resampling keeps the pairs with a calibration prompt of their length. On one pair, "zero"
    equals `sweep`, "z" `patch_heads`, PATCH_SITES `patch`, and attribution `attribute` or `gradients`, exactly.

    The control of vectors replaces by corrupt + |clean - corrupt| u with a random direction u: as far, elsewhere. That
    of the lens reads two random answers of the set; that of steering has a random direction of the vector's length.
    `progress(pairs done, pairs, "Measuring the set")` may raise an exception to cancel; `see` gets the values so far
    after each pair. Raises InputError if no pair is left, for a missing calibration, and for a model without such
    parts. Sources: Wang et al. 2022 (mean, and patching over a set); Chan et al. 2022 (resampling); Heimersheim & Nanda
    2024.
    """
    need_alone(lm.config)
    if effect in HEADS:
        for layer in range(lm.config.n_layer if effect != "z" else 0):
            need_qkv(lm.config, layer)
    if effect in ATTRIBUTIONS and measured != "difference":
        hint = "Choose the logit difference as the metric."
        raise InputError("Attribution splits a logit difference, not a probability.", effect, hint)
    numbers = usable(pairs, effect, calibration)
    if not numbers:
        what = "No calibration prompt is as long as a pair of the set."
        raise InputError(what, effect, "Add pairs of the same length.")
    meter = _Meter(lm, pairs, effect, calibration, seed)
    rows: list[np.ndarray] = []
    controls: list[np.ndarray] = []
    ends: list[tuple[float, float]] = []
    for done, number in enumerate(numbers):
        progress(done, len(numbers), "Measuring the set")
        pair = pairs[number]
        target = _target(pair, measured)
        clean, corrupt = lm.trace(pair.clean), lm.trace(pair.corrupt)
        ends.append((metric(clean, target), metric(corrupt, target)))
        row, control = meter.measure(number, clean, corrupt, target, _within(progress, done, len(numbers)))
        rows.append(row)
        controls += [] if control is None else [control]
        see(np.stack(rows))
    progress(len(numbers), len(numbers), "Measuring the set")
    clean_ends, corrupt_ends = np.array(ends).T
    drawn = np.stack(controls) if controls else None
    return SetEffects(effect, measured, numbers, np.stack(rows), drawn, clean_ends, corrupt_ends, meter.rough)


def set_cost(
    config: ModelConfig, effect: str, lengths: Sequence[int], calibration: Sequence[int] = ()
) -> tuple[float, float]:
    """Estimate the cost of an effect on pairs of these lengths: the number of runs and of processed tokens."""
    L, each = config.n_layer, [(2.0 * len(calibration), 2.0 * sum(calibration))]
    for T in lengths:
        each.append((2, 2 * T))
        if effect in PATCH_SITES:
            each += 2 * [replacement_cost(L, T, T)]
        elif effect == "steer":
            each.append(sweep_cost(L, range(L), 2 * len(FACTORS), T))
        elif effect == "slots":
            passes = forwards(affordable(T))
            each.append((max(_BATCHES, passes * T / 1024), passes * T))
        elif effect not in READINGS:
            each.append(replacement_cost(L, config.n_kv_head if effect in ("k", "v") else config.n_head, T))
    runs, tokens = (float(sum(column)) for column in zip(*each, strict=True))
    return runs, tokens


def _target(pair: AlignedPair, measured: str) -> Target:
    """Return the target metric of a pair, after its last token."""
    if measured == "probability":
        return Target("probability", -1, pair.target)
    return Target("difference", -1, pair.target, pair.distractor)


def _within(progress: Progress, done: int, total: int) -> Callable[..., None]:
    """Return the progress of one pair, which keeps the bar at the number of finished pairs."""
    return lambda *_: progress(done, total, "Measuring the set")


def usable(pairs: Sequence[AlignedPair], effect: str, calibration: Sequence[AlignedPair] = ()) -> tuple[int, ...]:
    """Return the indices of the pairs on which an effect is defined. Raises InputError without a needed calibration."""
    lengths = [len(pair.clean) for pair in pairs]
    allowed = set(lengths)
    if effect in CALIBRATED and not calibration:
        raise InputError("This effect needs prompts for calibration.", effect, "Give pairs that are not scored.")
    if effect in BY_POSITION and lengths:
        allowed = {max(sorted(allowed), key=lengths.count)}
    elif effect == "resample":
        allowed = {len(each.clean) for each in calibration}
    return tuple(at for at, length in enumerate(lengths) if length in allowed)


class _Meter:
    """The measurement of one effect on one pair after another, with its control."""

    def __init__(
        self,
        lm: LanguageModel,
        pairs: Sequence[AlignedPair],
        effect: str,
        calibration: Sequence[AlignedPair],
        seed: int,
    ) -> None:
        self.pairs, self.effect, self.seed, self.rough = pairs, effect, seed, 0
        self.rng = np.random.default_rng(seed)
        self.answers = [(each.target, each.distractor) for each in pairs]
        if effect == "steer":
            self.vectors = set_vectors(lm, calibration)
            self.ways = directions((*calibration, *pairs))[len(calibration) :]
        elif effect in CALIBRATED:
            self.source = _Calibration(lm, [each.clean for each in calibration], seed)

    def measure(
        self, number: int, clean: Trace, corrupt: Trace, target: Target, tell: Callable[..., None]
    ) -> tuple[np.ndarray, np.ndarray | None]:
        """Return a pair's effects and, where the control is an effect of its own, the control's."""
        pair, effect = self.pairs[number], self.effect
        if effect == "steer":
            return steered_metric(corrupt, target, self.ways[number] * self.vectors, seed=self.seed + number)
        if effect == "lens":
            other = random_answers(self.answers, self.rng)
            kind = target.kind
            own = lens_difference(clean, pair.target, pair.distractor, kind)
            return own, lens_difference(clean, *other, kind)
        if effect in ATTRIBUTIONS:
            row, rough = attributed(clean, pair.target, pair.distractor, effect, tell)
            self.rough += rough
            return row, None
        if effect in CALIBRATED:
            return replaced(clean, target, "z", self.source.outputs(effect, len(pair.clean)), tell), None
        row = _effects(clean, corrupt, target, effect, tell)
        random = effect in PATCH_SITES
        return row, _random_vectors(clean, corrupt, target, effect, self.rng, tell) if random else None


def _effects(clean: Trace, corrupt: Trace, target: Target, effect: str, tell: Callable[..., None]) -> np.ndarray:
    """Measure an effect that needs no calibration on one pair."""
    if effect == "zero":
        return sweep(clean, "zero", target, tell)
    if effect == "z":
        return patch_heads(clean, corrupt, target, None, tell)
    if effect in PATCH_SITES:
        return patch(clean, corrupt, target, effect, tell)  # type: ignore[arg-type]
    return replaced(corrupt, target, effect, everywhere(clean, effect), tell)


def _random_vectors(
    clean: Trace, corrupt: Trace, target: Target, site: str, rng: np.random.Generator, tell: Callable[..., None]
) -> np.ndarray:
    """Replace each vector of the corrupt run by one as far from it as the clean run's, in a random direction. [L, T]"""
    new, old = (everywhere(trace, site) for trace in (clean, corrupt))
    way = torch.from_numpy(rng.standard_normal(old.shape)).to(old.dtype)
    distance = (new - old).norm(dim=-1, keepdim=True)
    values = old + distance * way / way.norm(dim=-1, keepdim=True)
    effects = replaced(corrupt, target, site, values, tell)
    effects[(distance[..., 0] == 0).numpy()] = 0
    return effects


class _Calibration:
    """The heads' outputs on prompts that are not scored."""

    def __init__(self, lm: LanguageModel, prompts: Sequence[tuple[int, ...]], seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.outputs_of = [everywhere(lm.trace(prompt), "z") for prompt in prompts]  # [L, H, T, E] each
        self.mean = torch.cat(self.outputs_of, 2).mean(2, keepdim=True)

    def outputs(self, effect: str, length: int) -> Tensor:
        """Return the replacement of every head: their means [L, H, 1, E], or their outputs on a random prompt of this
        length [L, H, T, E].
        """
        if effect == "mean":
            return self.mean
        fitting = [each for each in self.outputs_of if each.shape[2] == length]
        return fitting[int(self.rng.integers(len(fitting)))]
