"""Measurement of the loss by position, within and beyond the trained length, and its plan."""

import math
from dataclasses import dataclass

from model.design.past_length import (
    FAMILIES,
    INSIDE,
    LEAST_WINDOWS,
    Past,
    Scheme,
    cost,
    past_trained,
    schemes_of,
    windows_of,
    windows_within,
)
from model.errors import InputError, say
from model.gpt.config import ModelConfig
from model.progress import Progress
from model.text.held_out import bundled_text
from viz.numbers import number, whole
from viz.seam.scene import Scene
from viz.seam.settings import Choice, Settings, Text
from viz.words import Words
from viz.work.limits import PRIVATE

WORK = 1e12  # approximate floating-point operations per measurement
SPEED = 5e10  # approximate operations per second on two cores
MOST = 2048  # maximum number of tokens per window
SHORTER = (256, 512, 1024)  # window lengths offered besides the trained length and its multiples
AUTO, FACTORS = "auto", ("2", "4", "8", "16")


# --- settings ---


def least_work(scene: Scene, length: int) -> float:
    """Return the number of operations of the smallest measurement at the given window length."""
    ways = len(schemes_of(scene.model.config, length, INSIDE))
    return LEAST_WINDOWS * ways * cost(scene.model.model, length)


def lengths_of(scene: Scene) -> tuple[int, ...]:
    """Return the selectable window lengths, the default first: the longest quick length up to twice the trained length.

    A server that limits the duration of a job offers only quick lengths.
    """
    n, allowed = scene.model.config.n_ctx, scene.playground.options.allowed
    offered = sorted({*(each for each in SHORTER if each < n and n > SHORTER[1]), n, 2 * n, 4 * n})
    offered = [each for each in offered if each <= MOST] or [SHORTER[0]]
    quick = [each for each in offered if least_work(scene, each) <= 2 * WORK]
    if math.isfinite(allowed.job_seconds):
        offered = quick or offered[:1]
    fitting = [each for each in quick if each <= 2 * n]
    default = fitting[-1] if fitting else offered[0]
    return (default, *(each for each in offered if each != default))


def automatic(config: ModelConfig, length: int) -> float:
    """Return the scale factor that maps `length` to the trained length; INSIDE if it is not longer."""
    return length / config.n_ctx if length > config.n_ctx else INSIDE


def _name_of_length(words: Words, option: str, scene: Scene) -> str:
    ratio = number(int(option) / scene.model.config.n_ctx)
    return words["length_of"].format(n=whole(int(option)), ratio=ratio)


LENGTH = Choice(
    "length",
    lambda scene: tuple(map(str, sorted(lengths_of(scene)))),
    default=lambda scene: str(lengths_of(scene)[0]),
    scene_label=_name_of_length,
)
FAMILY = Choice("family", lambda scene: FAMILIES if scene.model.config.positions == "rope" else ())
FACTOR = Choice(
    "factor",
    lambda scene: () if scene.model.config.positions in ("none", "alibi") else (AUTO, *FACTORS),
    when={"family": (FAMILIES[0],)},
    label=lambda words, option: words["factor_auto"] if option == AUTO else option,
)
SHOW = Choice("show", ("loss", "difference"))
TEXT = Choice("text", ("bundled", "own"))
OWN = Text("own", max_length=2 * PRIVATE.characters, lines=5, when={"text": ("own",)})
SETTINGS = (LENGTH, FAMILY, FACTOR, SHOW, TEXT, OWN)
QUESTION = ("length", "family", "factor", "text", "own")  # settings on which the results depend


def question(scene: Scene, settings: Settings) -> Settings:
    """Convert the settings to numbers and names; `own` becomes None when the bundled text is selected."""
    config, length = scene.model.config, int(settings.length)
    factor = automatic(config, length) if settings.factor in ("", AUTO) else float(settings.factor)
    family = settings.family if config.positions == "rope" else FAMILIES[0]
    text = settings.own if settings.text == "own" else None
    return Settings((("length", length), ("family", family), ("factor", factor), ("own", text)))


# --- measures ---


@dataclass(frozen=True)
class LengthPlan:
    """The schemes to evaluate, and the number and length of the windows."""

    length: int  # tokens per window
    family: str  # one of FAMILIES
    factor: float  # scale factor s
    own_text: bool  # whether the visitor provided the text
    schemes: tuple[Scheme, ...]
    windows: int  # maximum number of windows
    seconds: float  # approximate duration on two cores


@dataclass(frozen=True, eq=False)
class MeasuredLengths:
    """A plan and its results."""

    plan: LengthPlan
    past: Past


def plan(scene: Scene, settings: Settings) -> LengthPlan:
    """Choose the schemes, and the number of windows to evaluate with each. `settings` are those of `question`."""
    model = scene.model.model
    schemes = schemes_of(scene.model.config, settings.length, settings.factor, settings.family)
    windows = windows_within(model, settings.length, len(schemes), WORK)
    seconds = windows * len(schemes) * cost(model, settings.length) / SPEED
    has_text = settings.own is not None
    return LengthPlan(settings.length, settings.family, settings.factor, has_text, schemes, windows, seconds)


def text_of(text: str | None, limit: int) -> str:
    """Return the text to evaluate: the given one, or the bundled text for None.

    Raises InputError if the given text is blank or has more than `limit` characters.
    """
    if text is None:
        return bundled_text()
    if len(text) > limit:
        raise InputError("The text is too long.", f"{len(text)} characters", say("Give at most {} characters.", limit))
    if not text.strip():
        raise InputError("Text is missing.", "", "Paste a text of a few thousand words.")
    return text


def measure(scene: Scene, settings: Settings, progress: Progress) -> MeasuredLengths:
    """Compute the loss of each token under each scheme, without edits. Raises InputError as `text_of` does."""
    planned, lm = plan(scene, settings), scene.model
    first = lm.tokenizer.begin_id
    ids = lm.tokenizer.encode_ids(text_of(settings.own, scene.playground.options.allowed.characters))
    windows = windows_of(ids, planned.length, planned.windows, first)
    return MeasuredLengths(planned, past_trained(lm.model, windows, planned.schemes, first, progress))
