"""Attention, contributions to a logit, and gradients of this logit, summed by turns of a conversation.

A plain prompt is divided into its sentences instead; its first token takes the place of the template.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from model.attention.turns import by_turn, sentences
from model.errors import InputError
from model.predictions.attribution import attribute, by_source, components
from model.predictions.gradients import Gradients, affordable, forwards, gradients
from model.progress import Progress
from viz.charts.distribution import likeliest
from viz.seam.scene import Scene
from viz.seam.settings import Settings


@dataclass(frozen=True, eq=False)
class Reads:
    """Attention of the selected heads from one token, summed by turn; the tokens in no turn come last."""

    position: int  # position of the query token
    turns: np.ndarray  # [T] index of each token's turn or sentence, -1 for the template or the first token
    roles: tuple[str, ...]  # role of each turn; "sentence" in a plain prompt
    tokens: np.ndarray  # [turns + 1] number of visible tokens by turn
    weights: np.ndarray  # [heads, turns + 1] fraction of the attention; rows sum to 1
    is_chat: bool  # False for a plain prompt


@dataclass(frozen=True, eq=False)
class Writes:
    """The heads' contributions to the logit of the most likely next token, by the turn of the attended tokens."""

    token: int
    logits: np.ndarray | None  # [heads, turns + 1]; None if an edited output is no longer a sum over tokens


@dataclass(frozen=True, eq=False)
class Rests:
    """Attribution of the most likely next token's logit to turns, by gradients through every path, in logits."""

    token: int
    by_token: Gradients  # gradients by token, at the selected position
    turns: np.ndarray  # [2, turns + 1] gradient x activation and integrated gradients; same totals as by_token


def turns_of(scene: Scene) -> tuple[np.ndarray, tuple[str, ...]]:
    """Return the index [T] of each token's turn, and the role of each turn; in a plain prompt, the sentences."""
    if (turns := scene.turns) is not None:
        return turns, tuple(message["role"] for message in scene.prompt.messages)
    places = sentences(scene.tokens)
    return places, ("sentence",) * (1 + int(places.max()))


def measure_reads(scene: Scene, settings: Settings) -> Reads:
    """Sum the selected heads' attention by turn."""
    (turns, roles), query = turns_of(scene), scene.position
    rows = np.stack([scene.trace.pattern(*head)[query] for head in scene.picked.heads])
    visible = (np.arange(len(turns)) <= query).astype(float)
    return Reads(
        query,
        turns,
        roles,
        by_turn(visible, turns, len(roles)),
        by_turn(rows, turns, len(roles)),
        bool(scene.prompt.turns),
    )


def measure_writes(scene: Scene, settings: Settings, results: Mapping[str, Any]) -> Writes:
    """Sum the selected heads' contributions to the logit by turn."""
    reads: Reads = results["main"]
    token = likeliest(scene.trace.logits_at(reads.position), 1)[0]
    parts = attribute(components(scene.trace, reads.position), scene.model.model, token)
    try:
        rows = [
            by_source(scene.trace, layer, head, parts.position, parts.directions[layer])
            for layer, head in scene.picked.heads
        ]
    except InputError:
        if not scene.trace.key.edits:
            raise
        return Writes(token, None)
    return Writes(token, by_turn(np.stack(rows), reads.turns, len(reads.roles)))


def measure_rests(scene: Scene, settings: Settings, progress: Progress) -> Rests:
    """Compute the attribution of the logit to turns by gradients."""
    (turns, roles), at = turns_of(scene), scene.position
    token = likeliest(scene.trace.logits_at(at), 1)[0]
    slopes = gradients(scene.trace, at, token, None, affordable(at + 1), progress)
    rows = np.stack([slopes.gradient_x_activation, slopes.integrated])
    return Rests(token, slopes, by_turn(rows, turns[: at + 1], len(roles)))


def cost_of_rests(scene: Scene, settings: Settings) -> tuple[float, float]:
    """Estimate the cost of the gradients: the number of forward passes, and the total number of tokens they process."""
    runs = forwards(affordable(scene.position + 1))
    return runs, runs * (scene.position + 1)
