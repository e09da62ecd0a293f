"""The output of each part of the model at one position, its contribution to a logit, and gradients for comparison."""

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

TOP = 10  # number of promoted tokens and of suppressed tokens


@dataclass(frozen=True)
class Watched:
    """The logit to decompose; if there is a distractor, the difference of two logits."""

    position: int
    token: int
    distractor: int | None = None

    @property
    def arguments(self) -> str:
        """The tokens as arguments of a Python call."""
        return f"{self.token}" if self.distractor is None else f"{self.token}, {self.distractor}"


@dataclass(frozen=True)
class SameTokens:
    """The result if target and distractor are the same token."""


@dataclass(frozen=True, eq=False)
class Written:
    """The fields of a model.predictions.attribution.Components as float32 arrays."""

    position: int
    embed: np.ndarray  # [D]
    pos_embed: np.ndarray | None  # [D]
    z: tuple[np.ndarray, ...]  # one array per layer, [H, E]
    mlp: np.ndarray  # [L, D]
    scales: dict[tuple[str, int], float]
    logits: np.ndarray  # [V]
    edited_mlps: tuple[int, ...]  # layers with an edited MLP output
    added: dict[int, np.ndarray]  # {layer: [D]}, vectors added by edits

    def components(self) -> Components:
        """Convert the arrays back to Components."""
        position = None if self.pos_embed is None else torch.from_numpy(self.pos_embed)
        embed, mlp, logits, *z = (torch.from_numpy(each) for each in (self.embed, self.mlp, self.logits, *self.z))
        added = {layer: torch.from_numpy(each) for layer, each in self.added.items()}
        return Components(self.position, embed, position, tuple(z), mlp, self.scales, logits, self.edited_mlps, added)


def measure_target(scene: Scene, settings: Settings) -> Watched | SameTokens:
    """Return the logit to decompose: that of the target, minus that of the distractor if one is selected.

    The default target is the most likely next token of the unedited run.
    """
    token, other = scene.picked.target, scene.picked.distractor
    if token is None:
        token = likeliest(scene.unedited.logits_at(scene.position), 1)[0]
    return SameTokens() if other == token else Watched(scene.position, token, other)


def measure_written(scene: Scene, settings: Settings) -> Written:
    """Compute the output of each part at the selected position, which does not depend on the target."""
    written = components(scene.trace, scene.position)
    position = None if written.pos_embed is None else written.pos_embed.numpy()
    embed, mlp, logits, *z = (each.numpy() for each in (written.embed, written.mlp, written.logits, *written.z))
    added = {layer: each.numpy() for layer, each in written.added.items()}
    return Written(written.position, embed, position, tuple(z), mlp, written.scales, logits, written.whole, added)


def measure_parts(scene: Scene, settings: Settings, results: Mapping[str, Any]) -> Attribution | None:
    """Decompose the logit; return None if target and distractor are the same token."""
    watched = results["target"]
    if isinstance(watched, SameTokens):
        return None
    return attribute(results["written"].components(), scene.model.model, watched.token, watched.distractor)


def measure_sources(scene: Scene, settings: Settings, results: Mapping[str, Any]) -> np.ndarray | None:
    """Split the main head's contribution by key token; None for an MLP, which reads one position. [position + 1]

    Raises InputError for a head whose output is edited.
    """
    parts = results["main"]
    if parts is None or settings.map is not None:
        return None
    layer, head = scene.head
    at = parts.position
    return by_source(scene.trace, layer, head, at, parts.directions[layer])[: at + 1]


def measure_promoted(scene: Scene, settings: Settings, results: Mapping[str, Any]) -> Promoted:
    """Compute the tokens that the main head or the selected MLP promotes and suppresses most."""
    layer, head = scene.head if settings.map is None else (settings.map, None)
    written, vocab = results["written"].components(), scene.model.tokenizer.vocab_size
    return promoted(written, scene.model.model, layer, head, TOP, vocab)


def measure_gradients(scene: Scene, settings: Settings, results: Mapping[str, Any], progress: Progress) -> Gradients:
    """Compute gradient times activation and integrated gradients of the logit.

    Raises InputError if target and distractor are the same token.
    """
    watched = results["target"]
    if isinstance(watched, SameTokens):
        raise InputError(scene.words["logit_parts.no_target"])
    limit = affordable(watched.position + 1)
    return gradients(scene.trace, watched.position, watched.token, watched.distractor, limit, progress)


def inside_of(sent: object, scene: Scene) -> int | None:
    """Return the layer of the selected MLP, or None for the main head. Selecting another head deselects the MLP."""
    values = sent if isinstance(sent, Mapping) else {}
    mlp, head = values.get("mlp"), values.get("head")
    valid = type(mlp) is int and 0 <= mlp < scene.model.config.n_layer
    return mlp if valid and head == list(scene.head) else None
