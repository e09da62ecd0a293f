"""Measurements of the view of probes: the labeled examples, and a probe at every layer and site."""

import dataclasses
from collections.abc import Mapping
from typing import Any

from model.probes.examples import READS, SETS, Labeled, labeled
from model.probes.probe import Probes, cells_of, probe
from model.progress import Progress
from viz.seam.scene import Scene
from viz.seam.settings import Choice, Number, Settings, Text
from viz.seam.view import Measure

OWN = "own"
CHOICES = (*SETS, OWN)
DRAWS = 19  # shuffled labelings: p is at least 1 / 20
EXAMPLE = """The [animal:cat] saw a [animal:dog] and a ball.
A [animal:bird] sat in the tree, and a [animal:frog] sat in the grass.
The [animal:horse] ran to the house. Lily gave the [animal:rabbit] a cake.
One day, a big [animal:bear] found a car and a little [animal:mouse].
The [animal:fox] and the [animal:duck] went to the park with a book."""
_OWN = {"set": (OWN,)}
SITE_CHOICES = ("resid_post", "resid_mid", "attn_out", "mlp_out")


def sites_in(scene: Scene) -> tuple[str, ...]:
    """Return the sites that at least one layer of the model has."""
    there = {site for site, _ in cells_of(scene.model)}
    return tuple(site for site in SITE_CHOICES if site in there)


SETTINGS = (
    Choice("set", CHOICES),
    Choice("site", sites_in),
    Number("layer", 0, lambda scene: scene.model.config.n_layer - 1, lambda scene: scene.model.config.n_layer // 2),
    Choice("read", READS, when=_OWN),
    Text("own", EXAMPLE, 40_000, lines=6, when=_OWN, file=".txt,.tsv"),
)
_OF = ("set", "own", "read")


def question(scene: Scene, settings: Settings) -> Settings:
    """Leave out the own lines and how they are read where a built-in set is chosen."""
    asked = settings if settings.set == OWN else settings.but(own="", read=READS[0])
    return asked.only(_OF)


def source_of(settings: Settings) -> str:
    """Return the name of the set, or the own lines."""
    return settings.own if settings.set == OWN else settings.set


def measure_examples(scene: Scene, settings: Settings) -> Labeled:
    """Build the labeled examples. Raises InputError for lines that cannot be read."""
    return labeled(scene.model, source_of(settings))


def measure_probes(scene: Scene, settings: Settings, results: Mapping[str, Any], progress: Progress) -> Probes:
    """Fit and test the probes; of two classes, only the direction to the first is kept."""
    found = probe(scene.model, results["examples"], read=settings.read, draws=DRAWS, progress=progress)
    return dataclasses.replace(found, directions=found.directions[:, :1])


EXAMPLES = Measure("examples", measure_examples, ("model",), _OF, question=question, locks=False)
PROBES = Measure("probes", measure_probes, ("model",), _OF, question=question, uses=("examples",), slow=True)
