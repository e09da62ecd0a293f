"""The parts of an architecture, and the prompt's live numbers in the parts of the loaded model."""

import math
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
from model.anatomy.blueprint import Component, Flow, blueprint
from model.anatomy.mixers.kinds import kinds, layers_with
from model.anatomy.parameter_shares import ParameterShare, shares
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
    *("tokens", "embed", "pos_embed", "segment_embed", "embed_norm", "entry_embed", "entry_proj", "norm1"),
    *("in_proj", "conv", "rates", "state", "state_gate", "out_proj", "k", "v", "v_norm", "borrowed", "qk_norm", "rope"),
    *("scores", "cap", "alibi", "window", "sinks", "softmax", "mix", "gate_o", "o", "after1", "add1"),
    *("norm2", "router", "gate", "up", "act", "down", "shared", "dense", "after2", "add2", "entry", "add3", "scale"),
    *("final_norm", "head_dense", "head_norm", "unembed", "output"),
)
NEXT = 5  # number of most likely next tokens in the list


@dataclass(frozen=True)
class Parts:
    """The parts of an architecture, with shapes for a prompt of `tokens` tokens."""

    subject: Subject
    tokens: int
    parts: dict[str, Component]  # by key, in the order of the computation
    shares: dict[str, ParameterShare]  # parameters of the parts that have any
    sized: tuple[dict[str, Component], ...] = ()  # where layers differ in size, the parts of each kind of layer

    def chosen(self, key: str, layer: int) -> str:
        """Return the clicked part if this architecture has it, else the one that is shown before a click."""
        return key if key in self.parts else first_of(self.subject, layer)

    def of(self, key: str, layer: int) -> Component:
        """Return a part with the sizes of the selected layer of the loaded model if it has the part, else with those of
        the first layers that have it.
        """
        layers = layers_with(self.subject.config, key) if self.sized and self.parts[key].block else []
        if not layers:
            return self.parts[key]
        layer = layer if self.subject.live and layer in layers else layers[0]
        found = kinds(self.subject.config)
        return next(own for kind, own in zip(found, self.sized, strict=True) if layer in kind.layers)[key]


def first_of(subject: Subject, layer: int) -> str:
    """Return the part that is shown before a click: `q`, or the input projection if the model, or the selected layer of
    the loaded model, has no queries.
    """
    layers = layers_with(subject.config, FIRST)
    return FIRST if (layer in layers if subject.live else layers) else "in_proj"


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
    logits: Logits | None  # None without an output head, as are the ids
    ids: tuple[int, ...]  # ids of the most likely next tokens
    shares: tuple[float, ...]  # their probabilities
    entropy: float  # entropy of the prediction, in nats


def measure(scene: Scene, settings: Settings) -> Parts:
    """Build all parts of the selected architecture from its config alone."""
    subject, T = subject_of(scene, settings), len(scene.tokens)
    config = subject.config
    first = [] if config.alone else [kind.layers[0] for kind in kinds(config)]
    sized = tuple(blueprint(config, T, layer) for layer in first)
    return Parts(subject, T, blueprint(config, T), shares(config), sized)


def measure_code(scene: Scene, settings: Settings) -> Code:
    """Return the source lines of the clicked part; for the loaded model, those of its own modules."""
    subject, T = subject_of(scene, settings), len(scene.tokens)
    parts = blueprint(subject.config, T)
    part = settings.figure if settings.figure in parts else first_of(subject, scene.head[0])
    wiring = wiring_of(scene.model.model, scene.head[0]) if subject.live else Wiring(subject.config)
    return code_of_part(wiring, part, T)


def measure_inside(scene: Scene, settings: Settings) -> Passed | None:
    """Measure the vectors in the selected block; None if the architecture is not loaded."""
    return block_numbers(scene.trace, scene.head[0]) if is_live(settings) else None


def measure_outside(scene: Scene, settings: Settings) -> Outside | None:
    """Measure the vectors outside the blocks; None if the architecture is not loaded."""
    if not is_live(settings):
        return None
    sizes = outside_numbers(scene.trace, scene.position)
    if scene.model.config.headless:
        return Outside(sizes, None, (), (), math.nan)
    logits = scene.trace.logits_at(scene.position)
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
    of: str  # its key among the sizes
    head: int | None
    vector: Vector


# The sites of model.gpt.tap with the vectors between the parts of a mixer with channels.
_OF_CHANNELS = {"channels": "v", "state_out": "mixed", "gated": "z"}


def vectors(
    parts: Parts, key: str, sizes: Mapping[str, VectorSizes], head: tuple[int, int], position: int
) -> list[PartVector]:
    """Return the vectors of one part at one token, of the selected (layer, head).

    `sizes` holds the statistics of the block's vectors for a part of the block, and of those outside the blocks
    otherwise.
    """
    part, config = parts.parts[key], parts.subject.config
    group_size = config.at(head[0]).group_size
    result = []
    for way, flows in (("reads", part.reads), ("gives", part.gives)):
        for flow in flows:
            site = flow.site
            if config.qk_norm and (key in "qk" or (key == "qk_norm" and way == "reads")):
                site = {"q": "q_raw", "k": "k_raw"}.get(site, site)
            if key in ("o", "out_proj") and way == "reads":
                site = "heads"
            of = site if config.ssm_beside else _OF_CHANNELS.get(site, site)
            if of in sizes:
                owner = _head(flow, head[1], group_size) if part.block and of != "heads" else None
                result.append(PartVector(way, site, of, owner, vector(sizes[of], position if part.block else 0, owner)))
    return result


def _head(flow: Flow, head: int, group_size: int) -> int | None:
    """Return the head of a tensor: the selected query head or its KV head; None for a tensor without a head axis."""
    letter = flow.axes[0][0]
    return {"H": head, "G": head // group_size}.get(letter)
