"""The output of every part of the model at one position, as parts of one logit, and gradients beside them."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from model.errors import InputError
from model.predictions.attribution import (
    Attribution,
    Components,
    Promoted,
    attribute,
    by_source,
    components,
    promoted,
)
from model.predictions.gradients import Gradients, affordable, gradients
from model.progress import Progress
from viz.charts.distribution import likeliest
from viz.seam.scene import Scene
from viz.seam.settings import Settings

TOP = 10  # tokens promoted, and as many suppressed


@dataclass(frozen=True)
class Watched:
    """The logit that is taken apart; with a distractor, the difference of two."""

    position: int
    token: int
    distractor: int | None = None

    @property
    def arguments(self) -> str:
        """The tokens as the arguments of a call."""
        return f"{self.token}" if self.distractor is None else f"{self.token}, {self.distractor}"


@dataclass(frozen=True)
class Refused:
    """There is no such logit: target and distractor are the same token."""


@dataclass(frozen=True, eq=False)
class Written:
    """The numbers of model.predictions.attribution.Components. float32"""

    position: int
    embed: np.ndarray  # [D]
    pos_embed: np.ndarray | None  # [D]
    z: tuple[np.ndarray, ...]  # a layer each, [H, E]
    mlp: np.ndarray  # [L, D]
    scales: dict[tuple[str, int], float]
    logits: np.ndarray  # [V]
    whole: tuple[int, ...]
    added: dict[int, np.ndarray]  # [D] each

    def components(self) -> Components:
        """Return the same for the model's code."""
        position = None if self.pos_embed is None else torch.from_numpy(self.pos_embed)
        embed, mlp, logits, *z = (torch.from_numpy(each) for each in (self.embed, self.mlp, self.logits, *self.z))
        added = {layer: torch.from_numpy(each) for layer, each in self.added.items()}
        return Components(self.position, embed, position, tuple(z), mlp, self.scales, logits, self.whole, added)


def measure_target(scene: Scene, settings: Settings) -> Watched | Refused:
    """Return the logit of the target, without one of the likeliest next token without edits; less that of a
    distractor.
    """
    token, other = scene.picked.target, scene.picked.distractor
    if token is None:
        token = likeliest(scene.unedited.logits_at(scene.position), 1)[0]
    return Refused() if other == token else Watched(scene.position, token, other)


def measure_written(scene: Scene, settings: Settings) -> Written:
    """Return the output of every part at the position that is looked at, for whichever token."""
    written = components(scene.trace, scene.position)
    position = None if written.pos_embed is None else written.pos_embed.numpy()
    embed, mlp, logits, *z = (each.numpy() for each in (written.embed, written.mlp, written.logits, *written.z))
    added = {layer: each.numpy() for layer, each in written.added.items()}
    return Written(written.position, embed, position, tuple(z), mlp, written.scales, logits, written.whole, added)


def measure_parts(scene: Scene, settings: Settings, results: Mapping[str, Any]) -> Attribution | None:
    """Return the parts of the logit; None where there is none to take apart."""
    watched = results["target"]
    if isinstance(watched, Refused):
        return None
    return attribute(results["written"].components(), scene.model.model, watched.token, watched.distractor)


def measure_sources(scene: Scene, settings: Settings, results: Mapping[str, Any]) -> np.ndarray | None:
    """Return the main head's part of the logit by the token it reads; None for an MLP, which reads its own. [position +
    1]

    Raises InputError for a head whose output is edited.
    """
    parts = results["main"]
    if parts is None or settings.map is not None:
        return None
    layer, head = scene.head
    at = parts.position
    return by_source(scene.trace, layer, head, at, parts.directions[layer])[: at + 1]


def measure_promoted(scene: Scene, settings: Settings, results: Mapping[str, Any]) -> Promoted:
    """Return the tokens that the main head, or the MLP that is looked into, promotes and suppresses most."""
    layer, head = scene.head if settings.map is None else (settings.map, None)
    written, vocab = results["written"].components(), scene.model.tokenizer.vocab_size
    return promoted(written, scene.model.model, layer, head, TOP, vocab)


def measure_gradients(scene: Scene, settings: Settings, results: Mapping[str, Any], progress: Progress) -> Gradients:
    """Return the gradient times activation and integrated gradients of the logit; raises InputError where there is
    none.
    """
    watched = results["target"]
    if isinstance(watched, Refused):
        raise InputError(scene.words["logit_parts.no_target"])
    limit = affordable(watched.position + 1)
    return gradients(scene.trace, watched.position, watched.token, watched.distractor, limit, progress)


def inside_of(sent: object, scene: Scene) -> int | None:
    """Return the layer whose MLP is looked into, None for the main head: an MLP gives way once another head
    is picked.
    """
    values = sent if isinstance(sent, Mapping) else {}
    mlp, head = values.get("mlp"), values.get("head")
    fits = type(mlp) is int and 0 <= mlp < scene.model.config.n_layer
    return mlp if fits and head == list(scene.head) else None
