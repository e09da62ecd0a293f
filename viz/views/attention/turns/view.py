"""By turn: which turns of a conversation the picked heads read, and what each turn writes through them into a logit."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from model.attention.turns import by_turn
from model.errors import InputError
from model.predictions.attribution import attribute, by_source, components
from viz.api.endpoint import Endpoint
from viz.api.reading import at, measured, named, on, place
from viz.charts.distribution import likeliest
from viz.labels import axis_name, quoted
from viz.numbers import logit, percent, whole
from viz.seam.python_lines import script
from viz.seam.scene import Scene
from viz.seam.settings import Settings
from viz.seam.turns import turn_names
from viz.seam.view import Depends, Facts, Figure, Measure, Payload, Seen, View
from viz.views.attention.turns.figures import turn_figure
from viz.words import Words


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


def measure_reads(scene: Scene, settings: Settings) -> Reads | None:
    """The sums of the picked heads' attention; None without a conversation."""
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
    """The same of their parts of a logit."""
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


def _names(reads: Reads, catalogue: Mapping[str, str]) -> list[str]:
    """The turns' names, the template last."""
    return [*turn_names(reads.roles, catalogue), catalogue["chat.template"]]


def _heads(facts: Facts, words: Words) -> list[str]:
    return [words["head"].format(layer=layer, head=head) for layer, head in facts.heads]


def _none(seen: Seen) -> Payload:
    """What stands here without a conversation."""
    return {"empty": {"text": seen.words["none"], "hint": seen.words["none_hint"]}}


def reads(seen: Seen) -> Payload:
    """The attention of each head by turn."""
    found: Reads | None = seen.result
    if found is None:
        return _none(seen)
    words, facts = seen.here, seen.facts
    names = _names(found, seen.all_words)
    texts = [
        [words["hover"].format(share=percent(share), n=whole(n)) for share, n in zip(row, found.tokens, strict=True)]
        for row in found.weights
    ]
    more = {"rangemode": "tozero", "tickformat": ".0%"}
    token = axis_name(found.position, facts.pieces[found.position])
    return {
        "figure": turn_figure(names, _heads(facts, seen.words), found.weights, texts, words, more),
        "title": words["title"].format(token=token),
        "note": words["note"],
        "columns": [words["turn"], words["value"]],
        "python": script(facts, _lines(facts, found), _IMPORTS),
    }


def writes(seen: Seen) -> Payload:
    """The parts of the likeliest next token's logit by turn."""
    words, found, result = seen.here, seen.results["main"], seen.results["writes"]
    if found is None:
        return {"empty": {"text": words["none"], "hint": words["none_hint"]}}
    facts = seen.facts
    if result.logits is None:
        return {"empty": {"text": words["edited"], "hint": words["edited_hint"]}}
    token = quoted(facts.piece(result.token))
    texts = [[logit(value) for value in row] for row in result.logits]
    more = [
        *_lines(facts, found)[:-1],
        f"parts = attribute(components(run, {found.position}), lm.model, {result.token})",
        "rows = [by_source(run, layer, head, parts.position, parts.directions[layer]) for layer, head in heads]",
        f"by_turn(np.stack(rows), turns, {len(found.roles)})  # [heads, turns + 1], the template last",
    ]
    imports = [*_IMPORTS, "from model.predictions.attribution import attribute, by_source, components"]
    return {
        "figure": turn_figure(_names(found, seen.all_words), _heads(facts, seen.words), result.logits, texts, words),
        "title": words["title"].format(token=token),
        "note": words["note"],
        "columns": [words["turn"], words["value"]],
        "python": script(facts, more, imports),
    }


_IMPORTS = ("import numpy as np", "from model.attention.turns import by_turn")


def _lines(facts: Facts, found: Reads) -> list[str]:
    messages, answer = facts.prompt.messages, "" if facts.prompt.answer else ", answer=False"
    return [
        f"turns = lm.turns({messages!r}{answer})  # [T], -1: the template's",
        f"heads = {[list(head) for head in facts.heads]}",
        f"rows = np.stack([run.pattern(layer, head)[{found.position}] for layer, head in heads])",
        f"by_turn(rows, turns, {len(found.roles)})  # [heads, turns + 1], the template last; rows sum to 1",
    ]


# --- for programs ---


def attention_by_turn(scene: Scene, layer: int, head: int, position: int = -1) -> dict:
    """Which turns of a conversation one head reads from a token, and what each writes through it into a logit.

    Returns:
        turns: records with role (system, user, assistant, or template for what the chat template wrote), tokens (that
        can be read), weight (share of the attention; they add up to 1) and logit (part of the logit of the likeliest
        next token; null where the head's output is edited). target: that token.
    """
    looked = at(on(scene, layer, head), place(scene, position))
    if not scene.prompt.turns:
        raise InputError(scene.words["turns.none"], "", scene.words["turns.none_hint"])
    found, parts = measured(VIEW, "main", looked), measured(VIEW, "writes", looked)
    logits = [None] * (len(found.roles) + 1) if parts.logits is None else parts.logits[0].tolist()
    rows = zip(
        [*found.roles, "template"], found.tokens.astype(int).tolist(), found.weights[0].tolist(), logits, strict=True
    )
    return {
        "position": found.position,
        "target": named(scene.model, parts.token),
        "turns": [dict(zip(("role", "tokens", "weight", "logit"), row, strict=True)) for row in rows],
    }


_OF: tuple[Depends, ...] = ("run", "heads", "token", "prompt")
VIEW = View(
    "turns",
    measures=(
        Measure("main", measure_reads, _OF, locks=False),
        Measure("writes", measure_writes, _OF, uses=("main",)),
    ),
    layout=("reads", "writes"),
    parts={
        "reads": Figure(reads, depends=("heads",)),
        "writes": Figure(writes, ("main", "writes"), depends=("heads",)),
    },
    api=(Endpoint(attention_by_turn),),
)
