"""The parts of an architecture, and the numbers of the prompt that pass through those of the loaded model."""

from collections.abc import Mapping
from dataclasses import dataclass

from model.activations.site_statistics import (
    Passed,
    Sizes,
    Vector,
    block_numbers,
    outside_numbers,
    vector,
)
from model.anatomy.blueprint import Flow, Part, Share, blueprint, shares
from model.sampling.pipeline import softmax
from model.source_code.excerpts import Code
from model.source_code.parts import Wiring, code_of_part, wiring_of
from viz.charts.distribution import entropy, likeliest
from viz.seam.scene import Scene
from viz.seam.settings import Settings
from viz.views.anatomy.subject import Subject, is_live, subject_of

FIRST = "q"  # the part that is shown before a click
KEYS = (
    FIRST,
    "tokens",
    "embed",
    "pos_embed",
    "norm1",
    "k",
    "v",
    "qk_norm",
    "rope",
    "scores",
    "softmax",
    "mix",
    "o",
    "add1",
    "norm2",
    "gate",
    "up",
    "act",
    "down",
    "add2",
    "final_norm",
    "unembed",
    "output",
)
NEXT = 5  # likeliest next tokens that are named


@dataclass(frozen=True)
class Parts:
    """An architecture's parts for a prompt of so many tokens."""

    subject: Subject
    tokens: int
    parts: dict[str, Part]  # by key, in the order of the computation
    shares: dict[str, Share]  # parameters of the parts that have some

    def chosen(self, key: str) -> str:
        """Return the part that was clicked where this architecture has it, else q."""
        return key if key in self.parts else FIRST


@dataclass(frozen=True)
class Logits:
    """The logits of one position in a few numbers; `largest` is the largest one, not that of the largest size."""

    n: int
    rms: float
    mean: float
    largest: float
    place: int


@dataclass(frozen=True)
class Outside:
    """The vectors before and after the blocks at one token."""

    sizes: dict[str, Sizes]  # by site, of one vector
    logits: Logits
    ids: tuple[int, ...]  # the likeliest next tokens
    shares: tuple[float, ...]  # their probabilities
    entropy: float  # of the prediction, in nats


def measure(scene: Scene, settings: Settings) -> Parts:
    """Return all parts, from the config alone."""
    subject, T = subject_of(scene, settings), len(scene.tokens)
    return Parts(subject, T, blueprint(subject.config, T), shares(subject.config))


def measure_code(scene: Scene, settings: Settings) -> Code:
    """Return the lines that compute the part that was clicked; of the loaded model those of its own modules."""
    subject, T = subject_of(scene, settings), len(scene.tokens)
    part = settings.figure if settings.figure in blueprint(subject.config, T) else FIRST
    wiring = wiring_of(scene.model.model, scene.head[0]) if subject.live else Wiring(subject.config)
    return code_of_part(wiring, part, T)


def measure_inside(scene: Scene, settings: Settings) -> Passed | None:
    """Return the vectors in the block that is looked at; None for an architecture that is not loaded."""
    return block_numbers(scene.trace, scene.head[0]) if is_live(settings) else None


def measure_outside(scene: Scene, settings: Settings) -> Outside | None:
    """Return the vectors outside the blocks; None for an architecture that is not loaded."""
    if not is_live(settings):
        return None
    sizes, logits = outside_numbers(scene.trace, scene.position), scene.trace.logits_at(scene.position)
    usable = logits[: scene.model.tokenizer.vocab_size]
    ids = likeliest(usable, NEXT)
    rms = float((logits.astype(float) ** 2).mean() ** 0.5)
    return Outside(
        sizes,
        Logits(len(logits), rms, float(logits.mean()), float(logits.max()), int(logits.argmax())),
        tuple(ids),
        tuple(softmax(usable)[ids].tolist()),
        entropy(usable),
    )


@dataclass(frozen=True)
class Way:
    """A vector that a part reads or gives."""

    way: str  # "reads" or "gives"
    site: str
    head: int | None
    vector: Vector


def vectors(parts: Parts, key: str, sizes: Mapping[str, Sizes], head: int, position: int) -> list[Way]:
    """Return the vectors of one part at one token. `sizes`: those of the block for a part of it, else those outside."""
    part, config = parts.parts[key], parts.subject.config
    ways = []
    for way, flows in (("reads", part.reads), ("gives", part.gives)):
        for flow in flows:
            site = flow.site
            if config.qk_norm and (key in "qk" or (key == "qk_norm" and way == "reads")):
                site = {"q": "q_raw", "k": "k_raw"}.get(site, site)
            if key == "o" and way == "reads":
                site = "heads"
            if site in sizes:
                owner = _head(flow, head, config.group_size) if part.block and site != "heads" else None
                ways.append(Way(way, site, owner, vector(sizes[site], position if part.block else 0, owner)))
    return ways


def _head(flow: Flow, head: int, group_size: int) -> int | None:
    """Return the head of a tensor with heads: the picked one, or the KV head that it reads."""
    letter = flow.axes[0][0]
    return {"H": head, "G": head // group_size}.get(letter)
