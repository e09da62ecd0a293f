"""Measurements of claims: all of them in one pass over the texts, or one, and the stored results of built-in models."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from model.claims.registry import CLAIMS
from model.claims.study import Study, study
from model.claims.texts import PASSAGES
from model.progress import Progress
from viz.seam.jobs.stored import MODELS, stored
from viz.seam.scene import Scene
from viz.seam.settings import Settings
from viz.seam.view import Measure

FEW = 40  # number of texts for a large model
LARGE = 50_000_000  # parameters


@dataclass(frozen=True, eq=False)
class StoredStudies:
    """The stored results of all claims on built-in models, by model id."""

    studies: dict[str, Study]


@dataclass(frozen=True, eq=False)
class TestedAlone:
    """The claims that were tested alone on the loaded model, by key."""

    studies: dict[str, Study]


def texts_for(n_params: int) -> int:
    """Return on how many texts claims are tested: all of them, or FEW on a large model, which reads more slowly."""
    return PASSAGES if n_params <= LARGE else FEW


def chosen(value: object, scene: Scene) -> str:
    """Return the chosen claim, by default the first."""
    return value if isinstance(value, str) and value in CLAIMS else next(iter(CLAIMS))


def measure_all(scene: Scene, settings: Settings, progress: Progress) -> Study:
    """Test all claims."""
    return study(scene.model, texts=texts_for(scene.model.n_params), progress=progress)


def measure_one(scene: Scene, settings: Settings, progress: Progress) -> Study:
    """Test the chosen claim."""
    return study(scene.model, [settings.list], texts_for(scene.model.n_params), progress)


def measure_stored(scene: Scene, settings: Settings) -> StoredStudies:
    """Look up the stored results of the built-in models; none if this server shows no examples."""
    if not scene.playground.options.examples:
        return StoredStudies({})
    found = {model: stored(key_of(model)) for model in MODELS}
    return StoredStudies({model: each.value for model, each in found.items() if each})


def measure_alone(scene: Scene, settings: Settings, results: Mapping[str, Any]) -> TestedAlone:
    """Look up which claims were tested alone, so that their verdicts stay in the list while others are chosen."""
    keys = {claim: key_of(scene.model.id, ONE, Settings((("list", claim),))) for claim in CLAIMS}
    found = {claim: scene.playground.results.peek(key) for claim, key in keys.items()}
    return TestedAlone({claim: each.value for claim, each in found.items() if each})


def key_of(model_id: str, measure: Measure | None = None, settings: Settings | None = None) -> tuple:
    """Return the key of a result on a model, as viz.seam.panels.key_of builds it; by default that of all claims."""
    return ("measure", "claims", (measure or ALL).name, model_id, settings or Settings())


ALL = Measure("all", measure_all, depends=("model",), slow=True, needs=("weights",))
ONE = Measure("one", measure_one, depends=("model",), settings=("list",), slow=True, needs=("weights",))
# It reads the results of this process, and is not kept: it changes with every test.
ALONE = Measure("alone", measure_alone, depends=("model",), uses=("one",), at_page=True, locks=False, keep=False)
STORED = Measure("stored", measure_stored, depends=(), locks=False)
