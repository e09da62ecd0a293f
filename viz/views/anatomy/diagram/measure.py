"""The parts of an architecture, and the prompt's live numbers in the parts of the loaded model."""

from collections.abc import Mapping
from dataclasses import dataclass

from model.activations.site_statistics import (
    Passed,
    Vector,
    VectorSizes,
    block_numbers,
    outside_numbers,
    vector,
)
from model.anatomy.blueprint import Component, Flow, ParameterShare, blueprint, shares
from model.sampling.pipeline import softmax
from model.source_code.excerpts import Code
from model.source_code.parts import Wiring, code_of_part, wiring_of
from viz.charts.distribution import entropy, likeliest
from viz.seam.scene import Scene
from viz.seam.settings import Settings
from viz.views.anatomy.subject import Subject, is_live, subject_of

FIRST = "q"  # part shown before a click
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
NEXT = 5  # number of most likely next tokens in the list


@dataclass(frozen=True)
class Parts:
    """The parts of an architecture, with shapes for a prompt of `tokens` tokens."""

    subject: Subject
    tokens: int
    parts: dict[str, Component]  # by key, in the order of the computation
    shares: dict[str, ParameterShare]  # parameters of the parts that have any

    def chosen(self, key: str) -> str:
        """Return the clicked part if this architecture has it, else `q`."""
        return key if key in self.parts else FIRST


@dataclass(frozen=True)
class Logits:
    """Statistics of the logits at one position. `largest` is the maximum, not the largest absolute value."""

    n: int
    rms: float
    mean: float
    largest: float
    place: int  # token id of the largest logit


@dataclass(frozen=True)
class Outside:
    """The vectors before and after the blocks at one token, and the prediction at this token."""

    sizes: dict[str, VectorSizes]  # by site, for this token only
    logits: Logits
    ids: tuple[int, ...]  # ids of the most likely next tokens
    shares: tuple[float, ...]  # their probabilities
    entropy: float  # entropy of the prediction, in nats


def measure(scene: Scene, settings: Settings) -> Parts:
    """Build all parts of the selected architecture from its config alone."""
    subject, T = subject_of(scene, settings), len(scene.tokens)
    return Parts(subject, T, blueprint(subject.config, T), shares(subject.config))


def measure_code(scene: Scene, settings: Settings) -> Code:
    """Return the source lines of the clicked part; for the loaded model, those of its own modules."""
    subject, T = subject_of(scene, settings), len(scene.tokens)
    part = settings.figure if settings.figure in blueprint(subject.config, T) else FIRST
    wiring = wiring_of(scene.model.model, scene.head[0]) if subject.live else Wiring(subject.config)
    return code_of_part(wiring, part, T)


def measure_inside(scene: Scene, settings: Settings) -> Passed | None:
    """Measure the vectors in the selected block; None if the architecture is not loaded."""
    return block_numbers(scene.trace, scene.head[0]) if is_live(settings) else None


def measure_outside(scene: Scene, settings: Settings) -> Outside | None:
    """Measure the vectors outside the blocks; None if the architecture is not loaded."""
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
class PartVector:
    """A vector that a part reads or outputs."""

    way: str  # "reads" or "gives"
    site: str
    head: int | None
    vector: Vector


def vectors(parts: Parts, key: str, sizes: Mapping[str, VectorSizes], head: int, position: int) -> list[PartVector]:
    """Return the vectors of one part at one token.

    `sizes` holds the statistics of the block's vectors for a part of the block, and of those outside the blocks
    otherwise.
    """
    part, config = parts.parts[key], parts.subject.config
    result = []
    for way, flows in (("reads", part.reads), ("gives", part.gives)):
        for flow in flows:
            site = flow.site
            if config.qk_norm and (key in "qk" or (key == "qk_norm" and way == "reads")):
                site = {"q": "q_raw", "k": "k_raw"}.get(site, site)
            if key == "o" and way == "reads":
                site = "heads"
            if site in sizes:
                owner = _head(flow, head, config.group_size) if part.block and site != "heads" else None
                result.append(PartVector(way, site, owner, vector(sizes[site], position if part.block else 0, owner)))
    return result


def _head(flow: Flow, head: int, group_size: int) -> int | None:
    """Return the head of a tensor: the selected query head or its KV head; None for a tensor without a head axis."""
    letter = flow.axes[0][0]
    return {"H": head, "G": head // group_size}.get(letter)
