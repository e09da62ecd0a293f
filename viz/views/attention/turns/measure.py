"""Attention, parts of a logit and gradients of it, summed by the turns of a conversation."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from model.attention.turns import by_turn
from model.errors import InputError
from model.predictions.attribution import attribute, by_source, components
from model.predictions.gradients import Gradients, affordable, forwards, gradients
from model.progress import Progress
from viz.charts.distribution import likeliest
from viz.seam.scene import Scene
from viz.seam.settings import Settings


@dataclass(frozen=True, eq=False)
class Reads:
    """What the picked heads read from one token, by turn. The last number of each is the template's."""

    position: int  # of the token that reads
    turns: np.ndarray  # [T] the turn of each token, -1 for the template's
    roles: tuple[str, ...]  # of each turn that has tokens of its own
    tokens: np.ndarray  # [turns + 1] how many of them it can read
    weights: np.ndarray  # [heads, turns + 1] shares of the attention: a row sums to 1


@dataclass(frozen=True, eq=False)
class Writes:
    """What the heads write into the logit of the likeliest next token, by the turn that they read it from."""

    token: int
    logits: np.ndarray | None  # [heads, turns + 1]; None where an output is edited, which is then no sum over tokens


@dataclass(frozen=True, eq=False)
class Rests:
    """What the logit of the likeliest next token rests on, through every path, by turn. In logits."""

    token: int
    by_token: Gradients  # of the token at the position that is looked at
    turns: np.ndarray  # [2, turns + 1] gradient x activation and integrated gradients: rows add up to those by token


def measure_reads(scene: Scene, settings: Settings) -> Reads | None:
    """Return the sums of the picked heads' attention; None without a conversation."""
    turns, query = scene.turns, scene.position
    if turns is None:
        return None
    messages = scene.prompt.messages
    rows = np.stack([scene.trace.pattern(*head)[query] for head in scene.picked.heads])
    seen = (np.arange(len(turns)) <= query).astype(float)
    return Reads(
        query,
        turns,
        tuple(message["role"] for message in messages),
        by_turn(seen, turns, len(messages)),
        by_turn(rows, turns, len(messages)),
    )


def measure_writes(scene: Scene, settings: Settings, results: Mapping[str, Any]) -> Writes | None:
    """Return the same of their parts of a logit."""
    reads: Reads | None = results["main"]
    if reads is None:
        return None
    token = likeliest(scene.trace.logits_at(reads.position), 1)[0]
    parts = attribute(components(scene.trace, reads.position), scene.model.model, token)
    try:
        rows = [
            by_source(scene.trace, layer, head, parts.position, parts.directions[layer])
            for layer, head in scene.picked.heads
        ]
    except InputError:  # an edited output
        return Writes(token, None)
    return Writes(token, by_turn(np.stack(rows), reads.turns, len(reads.roles)))


def measure_rests(scene: Scene, settings: Settings, progress: Progress) -> Rests:
    """Return the gradients of the same logit by turn; raises InputError without a conversation."""
    turns, at = scene.turns, scene.position
    if turns is None:
        raise InputError(scene.words["turns.none"], "", scene.words["turns.none_hint"])
    token = likeliest(scene.trace.logits_at(at), 1)[0]
    found = gradients(scene.trace, at, token, None, affordable(at + 1), progress)
    rows = np.stack([found.gradient_x_activation, found.integrated])
    return Rests(token, found, by_turn(rows, turns[: at + 1], len(scene.prompt.messages)))


def cost_of_rests(scene: Scene, settings: Settings) -> tuple[float, float]:
    """As many forwards as its gradients are worth."""
    runs = forwards(affordable(scene.position + 1))
    return runs, runs * (scene.position + 1)
