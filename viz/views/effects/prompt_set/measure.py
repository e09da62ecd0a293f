"""Measurements of a prompt set: its pairs on the loaded model, and the effects with their statistics."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from model.errors import InputError
from model.progress import Progress, ProgressMessage
from model.sets.aligned import SETS, AlignedSet, prompt_set
from model.sets.effects import (
    ABLATED,
    CALIBRATED,
    EFFECTS,
    HEADS,
    METRICS,
    PATCH_SITES,
    SetEffects,
    set_cost,
    set_effects,
)
from model.sets.readings import ATTRIBUTIONS, READINGS
from model.sets.statistics import Statistics, bootstrap, random_column, statistics
from model.sets.templates import MOST_PAIRS
from viz.numbers import whole
from viz.seam.scene import Scene
from viz.seam.settings import Checkbox, Choice, Number, Settings, Text
from viz.seam.view import Measure
from viz.words import Words

OWN = "own"
CHOICES = (*SETS, OWN)
MOST_SEED = 10_000
LEAST, MOST, USUAL = 1, MOST_PAIRS, 32  # scored pairs
LARGE, FEW = 50_000_000, 12  # parameters from which the default is fewer pairs, since each takes seconds
CALIBRATION = 16  # pairs that are not scored
LEVEL = 0.05  # corrected p below which a cell is marked
LEAST_RIGHT = 2 / 3  # share of pairs whose target must beat the distractor, or the model cannot do the task
EXAMPLE = """clean: Yesterday, {name1} and {name2} had lunch. {name2} paid, so the next day it was up to
corrupt: Yesterday, {name1} and {name2} had lunch. {name1} paid, so the next day it was up to
target: {name1}
distractor: {name2}
name: Tom, Lily, Sam, Mia, Ben, Anna, Max, Sue"""
_OWN = {"set": (OWN,)}
_CHANGES = tuple(effect for effect in EFFECTS if effect not in ATTRIBUTIONS)
GROUPS = {"ablate": ABLATED, "patch": (*HEADS, *PATCH_SITES), "read": READINGS, "steer": ("steer",)}
TYPICAL = 20  # tokens of a prompt, for the estimate before the pairs are built


def usual_pairs(n_params: int) -> int:
    """Return the default number of scored pairs for a model of this size."""
    return USUAL if n_params <= LARGE else FEW


def _group(words: Words, effect: str) -> str:
    """Return the heading of an effect in the list."""
    return next(words[f"group_{name}"] for name, effects in GROUPS.items() if effect in effects)


SETTINGS = (
    Choice("set", CHOICES),
    Choice("effect", EFFECTS, group=_group),
    Choice("measured", METRICS, when={"effect": _CHANGES}),
    Number("n", LEAST, MOST, lambda scene: usual_pairs(scene.model.n_params)),
    Number("seed", 0, MOST_SEED, 0),
    Text("own", EXAMPLE, 40_000, lines=7, when=_OWN, file=".csv,.jsonl,.json,.txt"),
    Checkbox("first_token", when=_OWN),
)
OF_PAIRS = ("set", "own", "first_token", "n", "seed")


@dataclass(frozen=True, eq=False)
class SetResult:
    """The effects over a set as the page shows them, C = layers x columns of the map."""

    effects: SetEffects
    values: np.ndarray  # each example's effect, float32 [N, C]; of ablations: original minus ablated
    statistics: Statistics
    right: float  # share of the pairs whose target beats the distractor in the clean prompt
    gap: tuple[float, float, float]  # mean of clean minus corrupt, and its interval

    @property
    def able(self) -> bool:
        """Return whether the model does the task: most targets win, and the two prompts of a pair differ."""
        return self.right >= LEAST_RIGHT and not self.gap[1] <= 0

    @property
    def columns(self) -> int:
        """Return the number of columns of the map."""
        return self.effects.values.shape[2]

    @property
    def strongest(self) -> int:
        """Return the column of `values` with the largest absolute mean."""
        return int(np.abs(self.statistics.mean).argmax())

    def control(self, cell: int) -> np.ndarray:
        """Return the control of a cell: random vectors of the same length, or one random other head per example. [N]"""
        if self.effects.control is not None:
            return self.effects.control.reshape(len(self.values), -1)[:, cell]
        return random_column(self.values, cell)


def pairs_question(scene: Scene, settings: Settings) -> Settings:
    """Leave out the own text and its option where a built-in set is chosen."""
    return settings if settings.set == OWN else settings.but(own="", first_token=False)


def set_question(scene: Scene, settings: Settings) -> Settings:
    """Leave out what does not matter to the effect: also the metric, where there is only one."""
    asked = pairs_question(scene, settings)
    return asked if asked.effect in _CHANGES else asked.but(measured=METRICS[0])


def measure_pairs(scene: Scene, settings: Settings) -> AlignedSet:
    """Build the pairs of the set on this model. Raises InputError for an own text that cannot be read."""
    source = settings.own if settings.set == OWN else settings.set
    if not source.strip():
        raise InputError("The set is empty.", "", "Write templates, or paste lines of CSV or JSON.")
    return prompt_set(
        scene.model,
        source,
        settings.n,
        calibration=CALIBRATION,
        seed=settings.seed,
        first_token=settings.first_token,
    )


def measure_set(scene: Scene, settings: Settings, results: Mapping[str, Any], progress: Progress) -> SetResult:
    """Measure the effects over the set. Raises InputError if no pair is left."""
    pairs: AlignedSet = results["pairs"]
    words, n = Words(scene.words, "prompt_set"), len(pairs.pairs)
    if not n:
        raise InputError("No pair of the set can be used.", "", "See the list of pairs for the reasons.")
    sign = -1 if settings.effect in ABLATED else 1
    latest: list[list[list[float]]] = []

    def see(so_far: np.ndarray) -> None:
        latest[:] = [(sign * so_far.mean(0)).round(4).tolist()]

    def report(done: int, total: int | None, what: str) -> None:
        message = ProgressMessage(words.within("job")["done_so_far"].format(done=whole(done), n=whole(total or 0)))
        message.grid = latest[0] if latest else None
        progress(done, total, message)

    effects = set_effects(
        scene.model,
        pairs.pairs,
        settings.effect,
        calibration=pairs.calibration,
        measured=settings.measured,
        seed=settings.seed,
        progress=report,
        see=see,
    )
    return summarized(effects)


def summarized(effects: SetEffects) -> SetResult:
    """Compute the statistics of the effects."""
    flat = effects.values.reshape(len(effects.values), -1)
    values = 0 - flat if effects.effect in ABLATED else flat
    gap = (effects.clean - effects.corrupt)[:, None]
    low, high = bootstrap(gap)
    least = 0 if effects.metric == "difference" else effects.corrupt
    ends = (float(gap.mean()), float(low[0]), float(high[0]))
    return SetResult(effects, values, statistics(values), float((effects.clean > least).mean()), ends)


def cost(scene: Scene, settings: Settings) -> tuple[float, float]:
    """Estimate the number of runs and of processed tokens."""
    kept = CALIBRATION if settings.effect in CALIBRATED else 0
    return set_cost(scene.model.config, settings.effect, [TYPICAL] * settings.n, [TYPICAL] * kept)


PAIRS = Measure("pairs", measure_pairs, ("model",), OF_PAIRS, question=pairs_question, locks=False)
SET = Measure(
    "set",
    measure_set,
    ("model",),
    (*OF_PAIRS, "effect", "measured"),
    question=set_question,
    uses=("pairs",),
    slow=True,
    cost=cost,
)
