"""Effects over a prompt set: each head switched off, each head or vector patched, on every pair."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from model.api import LanguageModel
from model.attention.effects import PATCH_SITES, everywhere, patch, patch_heads, replaced, sweep
from model.attention.targets import Target, metric
from model.errors import InputError
from model.gpt.mixers.needs import need_alone, need_qkv
from model.progress import Progress, silent
from model.public import MOST_SEED, nonempty, one_of, public, whole
from model.sets.aligned import AlignedPair
from model.tracing.trace import Trace

ABLATED = ("zero", "mean", "resample")  # replacements of a head's output
HEADS = ("z", "q", "k", "v")  # sites of heads that can be patched; k and v belong to KV heads
EFFECTS = (*ABLATED, *HEADS, *PATCH_SITES)
METRICS = ("difference", "probability")
CALIBRATED = ("mean", "resample")


@dataclass(frozen=True, eq=False)
class SetEffects:
    """The effects on every example, N of a set's pairs."""

    effect: str  # one of EFFECTS
    metric: str  # one of METRICS
    numbers: tuple[int, ...]  # indices of the N examples among the pairs; the others have no such effect
    values: np.ndarray  # change of the metric, float32 [N, L, H], [N, L, G] for k and v, [N, L, T] for vectors
    control: np.ndarray | None  # for vectors: the same with random vectors of the same length; else None
    clean: np.ndarray  # metric of the clean prompt, float64 [N]
    corrupt: np.ndarray  # metric of the corrupt prompt with the clean pair's answers, float64 [N]

    @property
    def by_position(self) -> bool:
        """Return whether the columns are positions, not heads."""
        return self.effect in PATCH_SITES


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

    Positions of different pairs compare only if the pairs have the same length: patches of vectors keep the pairs of
    the commonest length. Resampling keeps the pairs with a calibration prompt of their length. On one pair, "zero"
    equals `sweep`, "z" `patch_heads` and PATCH_SITES `patch` of model.attention.effects exactly.

    The control of vectors replaces by corrupt + |clean - corrupt| u with a random direction u: as far, elsewhere.
    `progress(pairs done, pairs, "Measuring the set")` may raise an exception to cancel; `see` gets the values so far
    after each pair. Raises InputError if no pair is left, for a missing calibration, and for a model without such
    parts. Sources: Wang et al. 2022 (mean, and patching over a set); Chan et al. 2022 (resampling); Heimersheim & Nanda
    2024.
    """
    need_alone(lm.config)
    if effect in HEADS:
        for layer in range(lm.config.n_layer if effect != "z" else 0):
            need_qkv(lm.config, layer)
    others = [each.clean for each in calibration]
    numbers = _usable(pairs, effect, others)
    source = _Calibration(lm, others, seed) if effect in CALIBRATED else None
    rng = np.random.default_rng(seed)
    rows: list[np.ndarray] = []
    controls: list[np.ndarray] = []
    ends: list[tuple[float, float]] = []
    for done, number in enumerate(numbers):
        progress(done, len(numbers), "Measuring the set")
        pair = pairs[number]
        target = _target(pair, measured)
        clean, corrupt = lm.trace(pair.clean), lm.trace(pair.corrupt)
        ends.append((metric(clean, target), metric(corrupt, target)))
        tell = _within(progress, done, len(numbers))
        if source is not None:
            rows.append(replaced(clean, target, "z", source.outputs(effect, len(pair.clean)), tell))
        else:
            rows.append(_effects(clean, corrupt, target, effect, tell))
        if effect in PATCH_SITES:
            controls.append(_random_vectors(clean, corrupt, target, effect, rng, tell))
        see(np.stack(rows))
    progress(len(numbers), len(numbers), "Measuring the set")
    clean_ends, corrupt_ends = np.array(ends).T
    control = np.stack(controls) if controls else None
    return SetEffects(effect, measured, numbers, np.stack(rows), control, clean_ends, corrupt_ends)


def _target(pair: AlignedPair, measured: str) -> Target:
    """Return the target metric of a pair, after its last token."""
    if measured == "probability":
        return Target("probability", -1, pair.target)
    return Target("difference", -1, pair.target, pair.distractor)


def _within(progress: Progress, done: int, total: int) -> Callable[..., None]:
    """Return the progress of one pair, which keeps the bar at the number of finished pairs."""
    return lambda *_: progress(done, total, "Measuring the set")


def _usable(pairs: Sequence[AlignedPair], effect: str, others: Sequence[tuple[int, ...]]) -> tuple[int, ...]:
    """Return the indices of the pairs on which an effect is defined. Raises InputError if no pair has one."""
    lengths = [len(pair.clean) for pair in pairs]
    allowed = set(lengths)
    if effect in CALIBRATED and not others:
        raise InputError("This effect needs prompts for calibration.", effect, "Give pairs that are not scored.")
    if effect in PATCH_SITES:
        allowed = {max(sorted(allowed), key=lengths.count)}
    elif effect == "resample":
        allowed = set(map(len, others))
    numbers = tuple(at for at, length in enumerate(lengths) if length in allowed)
    if not numbers:
        what = "No calibration prompt is as long as a pair of the set."
        raise InputError(what, effect, "Add pairs of the same length.")
    return numbers


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
