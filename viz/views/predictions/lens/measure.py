"""Readings of the lens: of a page of the table, of the whole prompt, and of single tokens at one position."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from model.errors import InputError
from model.predictions.tuned_lens import TunedLens, load_lens
from model.progress import Progress, silent
from model.tracing.logit_lens import Reading, lens_gap, read_layers, read_position, some_positions
from viz.charts.distribution import likeliest
from viz.seam.scene import Scene
from viz.seam.settings import Settings
from viz.seam.typed import typed_token

LENSES = ("plain", "tuned")
FOLLOWING = ("probability", "rank")  # curves of single tokens; the others are of the whole prediction
BUDGET = 30_000_000_000  # multiply-adds of the output head that a drawing may take: about half a second
_FOLLOWED = 5  # of the final prediction's tokens
_TOP = 5  # tokens a cell tells of
_MOST_CELLS = 1200  # of the table, beside its most columns: each is a button
_MOST_COLUMNS = 64


@dataclass(frozen=True)
class There:
    """Whether the model has the lens, and how well it was fitted."""

    missing: bool
    kl: Mapping[str, float] | None = None  # mean KL to the final prediction of the plain and of the tuned lens, nats


@dataclass(frozen=True, eq=False)
class Curves:
    """The points of the stream at one position, with the tokens that are followed."""

    reading: Reading  # [K, 1, ...]; candidates are the tokens
    typed: int  # the last ones, which were picked or typed
    settled: float  # blocks passed from which on the first choice is the final one


def translator(scene: Scene, kind: str) -> TunedLens | None:
    """Return the tuned lens where it is requested; raises InputError, in the reader's language, where the model has
    none.
    """
    if kind == "plain":
        return None
    lens = load_lens(scene.model.id, scene.model.config)
    if lens is None:
        raise InputError(scene.words["lens.no_tuned"], "", scene.words["lens.no_tuned_hint"])
    return lens


def has(scene: Scene, kind: str) -> bool:
    """Whether the model has the lens."""
    return kind == "plain" or load_lens(scene.model.id, scene.model.config) is not None


def measure_there(scene: Scene, settings: Settings) -> There:
    """Whether the model has the lens, and what was measured of it when it was fitted."""
    if settings.lens == "plain":
        return There(False)
    lens = load_lens(scene.model.id, scene.model.config)
    if lens is None:
        return There(True)
    kl = lens.about.get("kl", {})  # of each layer, on text that it was not fitted to
    known = {"plain", "tuned"} <= set(kl)
    return There(False, {name: sum(each) / len(each) for name, each in kl.items()} if known else None)


# --- the whole prompt and the table ---


def at_once(scene: Scene) -> bool:
    """Whether the whole prompt is read by itself."""
    return len(scene.tokens) * _cost(scene) <= BUDGET


def _cost(scene: Scene) -> int:
    """Multiply-adds of the output head for one position."""
    config = scene.model.config
    return (config.n_layer + 1) * config.d_model * config.vocab_size


def columns_of(scene: Scene, read: bool) -> int:
    """How many positions a page of the table has; `read`: the whole prompt was read already."""
    room = min(_MOST_COLUMNS, max(4, _MOST_CELLS // (scene.model.config.n_layer + 1)))
    if read or at_once(scene):
        return room
    return max(1, min(room, BUDGET // 2 // _cost(scene)))  # half, for the curves take their time as well


def page_of(T: int, position: int, columns: int) -> tuple[int, int]:
    """Return the page of at most `columns` positions that holds `position`, counted from the end, so that the last is
    full.
    """
    end = T - (T - 1 - position) // columns * columns
    return max(0, end - columns), end


def measure_all(scene: Scene, settings: Settings) -> Reading | None:
    """Return the lens on the whole prompt; None where that takes too long to be done by itself."""
    if not at_once(scene) or not has(scene, settings.lens):
        return None
    return measure_whole(scene, settings)


def measure_whole(scene: Scene, settings: Settings, progress: Progress = silent) -> Reading:
    """The same however long it takes; raises InputError for a lens that is not there."""
    lens = translator(scene, settings.lens)
    return read_layers(scene.trace, range(len(scene.tokens)), top=_TOP, lens=lens, progress=progress)


def page_question(scene: Scene, settings: Settings) -> Settings:
    """Return the page with the position that is looked at: as it is read by itself, and as it is cut out of what was
    read.
    """
    T, at = len(scene.tokens), scene.position
    pages = (("narrow", page_of(T, at, columns_of(scene, False))), ("wide", page_of(T, at, columns_of(scene, True))))
    return Settings((*settings.items(), *pages))


def measure_page(scene: Scene, settings: Settings, results: Mapping[str, Any]) -> Reading | None:
    """Return the lens on the positions that the table shows; None for a lens that is not there."""
    if not has(scene, settings.lens):
        return None
    read = results["all"] or results["whole"]
    if read is not None:
        return some_positions(read, *settings.wide)
    lens = translator(scene, settings.lens)
    return read_layers(scene.trace, range(*settings.narrow), top=_TOP, lens=lens)


# --- one position ---


def curves_question(scene: Scene, settings: Settings) -> Settings:
    """Return the question of the curves; target, distractor and a typed token count only where single tokens are
    followed.
    """
    single = settings.curve in FOLLOWING
    picked = (scene.picked.target, scene.picked.distractor) if single else ()
    return Settings((("lens", settings.lens), ("picked", picked), ("more", settings.more if single else "")))


def measure_curves(scene: Scene, settings: Settings) -> Curves | None:
    """Return the tokens of the final prediction and those that were picked or typed, at every point of the stream.

    None for a lens that is not there; raises InputError, in the reader's language, for a text that is not one token.
    """
    if not has(scene, settings.lens):
        return None
    tokens, typed = followed(scene, settings)
    lens = translator(scene, settings.lens)
    reading = read_position(scene.trace, scene.position, top=1, candidates=tokens, lens=lens)
    return Curves(reading, typed, settled(reading))


def followed(scene: Scene, settings: Settings) -> tuple[list[int], int]:
    """Return the final prediction's tokens, then those that were picked or typed and are none of them, of which how
    many.
    """
    final = likeliest(scene.trace.logits_at(scene.position), _FOLLOWED)
    asked = dict.fromkeys((*settings.picked, typed_token(scene, settings, "more")))
    more = [token for token in asked if token is not None and token not in final]
    return [*final, *more], len(more)


def settled(reading: Reading) -> float:
    """Blocks passed from which on the likeliest token at the first position is the final one."""
    wrong = np.flatnonzero(reading.ids[:, 0, 0] != reading.ids[-1, 0, 0])
    return float(reading.places[0 if not len(wrong) else wrong[-1] + 1])


def measure_gap(scene: Scene, settings: Settings) -> float:
    """Return the largest difference between the lens after the last block and the model's own logits."""
    return float(lens_gap(scene.trace, scene.position))
