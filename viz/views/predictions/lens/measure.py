"""Lens readings of one page of the table, of the whole prompt, and of followed tokens at one position."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from model.errors import InputError
from model.predictions.tuned_lens import TunedLens, load_lens
from model.progress import Progress, silent
from model.tracing.logit_lens import LensReading, lens_gap, read_layers, read_position, some_positions
from viz.charts.distribution import likeliest
from viz.seam.scene import Scene
from viz.seam.settings import Settings
from viz.seam.typed import typed_token

LENSES = ("plain", "tuned")
FOLLOWING = ("probability", "rank")  # curves of single tokens; the other curves describe the whole prediction
BUDGET = 30_000_000_000  # maximum multiply-adds of the output head without a request, about 0.5 s
_FOLLOWED = 5  # number of top tokens of the final prediction to follow
_TOP = 5  # number of top tokens per cell
_MOST_CELLS = 1200  # maximum number of cells in the table; each cell is a button
_MOST_COLUMNS = 64


@dataclass(frozen=True)
class Availability:
    """The availability of the lens for a model, and its quality on held-out text."""

    missing: bool
    kl: Mapping[str, float] | None = None  # mean KL to the final prediction in nats, for `plain` and `tuned`


@dataclass(frozen=True, eq=False)
class Curves:
    """The lens reading at all points of the stream at one position, with the followed tokens."""

    reading: LensReading  # arrays [K, 1, ...]; the candidates are the followed tokens
    typed: int  # number of candidates, at the end, that the reader selected or typed
    settled: float  # number of layers passed from which on the top token equals the final one


def translator(scene: Scene, kind: str) -> TunedLens | None:
    """Load the tuned lens; return None if the plain lens is requested.

    Raises InputError, in the reader's language, if the model has no tuned lens.
    """
    if kind == "plain":
        return None
    lens = load_lens(scene.model.id, scene.model.config)
    if lens is None:
        raise InputError(scene.words["lens.no_tuned"], "", scene.words["lens.no_tuned_hint"])
    return lens


def has_lens(scene: Scene, kind: str) -> bool:
    """Return whether the model has this kind of lens."""
    return kind == "plain" or load_lens(scene.model.id, scene.model.config) is not None


def measure_availability(scene: Scene, settings: Settings) -> Availability:
    """Check whether the model has the lens, and average the KL on held-out text over layers."""
    if settings.lens == "plain":
        return Availability(False)
    lens = load_lens(scene.model.id, scene.model.config)
    if lens is None:
        return Availability(True)
    kl = lens.about.get("kl", {})  # by layer, on held-out text
    measured = {"plain", "tuned"} <= set(kl)
    return Availability(False, {name: sum(each) / len(each) for name, each in kl.items()} if measured else None)


# --- the whole prompt and the table ---


def is_cheap(scene: Scene) -> bool:
    """Return whether the whole prompt is cheap enough to be read without a request by the reader."""
    return len(scene.tokens) * _cost(scene) <= BUDGET


def _cost(scene: Scene) -> int:
    """Count the multiply-adds of the output head for one position at all layers."""
    config = scene.model.config
    return (config.n_layer + 1) * config.d_model * config.vocab_size


def columns_of(scene: Scene, read: bool) -> int:
    """Return the number of positions per page of the table. `read`: whether the whole prompt has already been read."""
    room = min(_MOST_COLUMNS, max(4, _MOST_CELLS // (scene.model.config.n_layer + 1)))
    if read or is_cheap(scene):
        return room
    return max(1, min(room, BUDGET // 2 // _cost(scene)))  # half, because the curves also take time


def page_of(T: int, position: int, columns: int) -> tuple[int, int]:
    """Return the start and end of the page that contains `position`.

    Pages of `columns` positions are counted from the end of the prompt, so that the last page is full.
    """
    end = T - (T - 1 - position) // columns * columns
    return max(0, end - columns), end


def measure_all(scene: Scene, settings: Settings) -> LensReading | None:
    """Read the lens on the whole prompt; return None if that is not cheap or if the model lacks the lens."""
    if not is_cheap(scene) or not has_lens(scene, settings.lens):
        return None
    return measure_whole(scene, settings)


def measure_whole(scene: Scene, settings: Settings, progress: Progress = silent) -> LensReading:
    """Read the lens on the whole prompt, regardless of the cost; raises InputError if the model lacks the lens."""
    lens = translator(scene, settings.lens)
    return read_layers(scene.trace, range(len(scene.tokens)), top=_TOP, lens=lens, progress=progress)


def page_question(scene: Scene, settings: Settings) -> Settings:
    """Add the page that contains the selected position: `narrow` if read alone, `wide` if cut from a full reading."""
    T, at = len(scene.tokens), scene.position
    pages = (("narrow", page_of(T, at, columns_of(scene, False))), ("wide", page_of(T, at, columns_of(scene, True))))
    return Settings((*settings.items(), *pages))


def measure_page(scene: Scene, settings: Settings, results: Mapping[str, Any]) -> LensReading | None:
    """Return the lens reading at the positions that the table shows; None if the model lacks the lens."""
    if not has_lens(scene, settings.lens):
        return None
    read = results["all"] or results["whole"]
    if read is not None:
        return some_positions(read, *settings.wide)
    lens = translator(scene, settings.lens)
    return read_layers(scene.trace, range(*settings.narrow), top=_TOP, lens=lens)


# --- one position ---


def curves_question(scene: Scene, settings: Settings) -> Settings:
    """Reduce the settings of the curves: selected and typed tokens are kept only if single tokens are followed."""
    single = settings.curve in FOLLOWING
    picked = (scene.picked.target, scene.picked.distractor) if single else ()
    return Settings((("lens", settings.lens), ("picked", picked), ("more", settings.more if single else "")))


def measure_curves(scene: Scene, settings: Settings) -> Curves | None:
    """Follow through the stream the final prediction's top tokens and the tokens that the reader added.

    Returns None if the model lacks the lens. Raises InputError, in the reader's language, if the typed text is not a
    single token.
    """
    if not has_lens(scene, settings.lens):
        return None
    tokens, typed = followed(scene, settings)
    lens = translator(scene, settings.lens)
    reading = read_position(scene.trace, scene.position, top=1, candidates=tokens, lens=lens)
    return Curves(reading, typed, settled(reading))


def followed(scene: Scene, settings: Settings) -> tuple[list[int], int]:
    """Return the tokens to follow, and the number of those that the reader added.

    The final prediction's top tokens come first, then the selected and typed tokens that are not among them.
    """
    final = likeliest(scene.trace.logits_at(scene.position), _FOLLOWED)
    added = dict.fromkeys((*settings.picked, typed_token(scene, settings, "more")))
    new = [token for token in added if token is not None and token not in final]
    return [*final, *new], len(new)


def settled(reading: LensReading) -> float:
    """Return the number of layers passed from which on the top token at the first position equals the final one."""
    differing = np.flatnonzero(reading.ids[:, 0, 0] != reading.ids[-1, 0, 0])
    return float(reading.places[0 if not len(differing) else differing[-1] + 1])


def measure_gap(scene: Scene, settings: Settings) -> float:
    """Measure the largest difference between the lens after the last layer and the model's own logits."""
    return float(lens_gap(scene.trace, scene.position))
