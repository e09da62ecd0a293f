"""By turn: attention to the turns of a conversation, contributions to a logit, and gradients of this logit.

A plain prompt is divided into sentences instead of turns.
"""

from collections.abc import Mapping

from model.predictions.gradients import affordable
from viz.labels import axis_name, quoted
from viz.numbers import logit, percent, signed, whole
from viz.seam.programs.endpoint import Endpoint
from viz.seam.programs.reading import at, measured, named, on, place
from viz.seam.python_lines import script
from viz.seam.scene import Scene
from viz.seam.view import Depends, Facts, Figure, Job, Measure, Payload, Seen, View
from viz.views.attention.turns.figures import turn_figure
from viz.views.attention.turns.measure import (
    Reads,
    Rests,
    cost_of_rests,
    measure_reads,
    measure_rests,
    measure_writes,
)
from viz.words import Words, joined
from viz.work.prompt import turn_names


def _names(reads: Reads, catalogue: Mapping[str, str]) -> list[str]:
    """Return the names of the turns, followed by that of the tokens in no turn."""
    return [*turn_names(reads.roles, catalogue), catalogue[f"chat.{_outside(reads)}"]]


def _outside(reads: Reads) -> str:
    """Return what the tokens are that belong to no turn."""
    return "template" if reads.is_chat else "first_token"


def _titled(seen: Seen, reads: Reads, token: str) -> str:
    """Format a title, which names the token and the parts of the prompt."""
    part = seen.words["turn" if reads.is_chat else "sentence"]
    return seen.here["title"].format(token=token, part=part)


def _heads(facts: Facts, words: Words) -> list[str]:
    return [words["head"].format(layer=layer, head=head) for layer, head in facts.heads]


_IMPORTS = ("import numpy as np", "from model.attention.turns import by_turn, sentences")


def _lines(facts: Facts, reading: Reads) -> list[str]:
    chat = f"turns = lm.turns({facts.prompt.messages!r}{facts.prompt.ending})  # [T], -1: the template's"
    return [
        chat if reading.is_chat else "turns = sentences(run.tokens)  # [T], -1: the first token",
        f"heads = {[list(head) for head in facts.heads]}",
        f"rows = np.stack([run.pattern(layer, head)[{reading.position}] for layer, head in heads])",
        f"by_turn(rows, turns, {len(reading.roles)})  # [heads, turns + 1], the rest last; rows sum to 1",
    ]


def reads(seen: Seen) -> Payload:
    """Draw the attention of each head by turn."""
    reading: Reads = seen.result
    words, facts = seen.here, seen.facts
    names = _names(reading, seen.all_words)
    texts = [
        [words["hover"].format(share=percent(share), n=whole(n)) for share, n in zip(row, reading.tokens, strict=True)]
        for row in reading.weights
    ]
    more = {"rangemode": "tozero", "tickformat": ".0%"}
    token = axis_name(reading.position, facts.pieces[reading.position])
    return {
        "figure": turn_figure(names, _heads(facts, seen.words), reading.weights, texts, words, more),
        "title": _titled(seen, reading, token),
        "note": words["note"],
        "columns": [words["by"], words["turn"], words["value"]],
        "python": script(facts, _lines(facts, reading), _IMPORTS),
    }


def writes(seen: Seen) -> Payload:
    """Draw each head's contributions to the logit of the most likely next token, by turn."""
    words, reading, result = seen.here, seen.results["main"], seen.results["writes"]
    facts = seen.facts
    if result.logits is None:
        return {"empty": {"text": words["edited"], "hint": words["edited_hint"]}}
    token = quoted(facts.piece(result.token))
    texts = [[logit(value) for value in row] for row in result.logits]
    more = [
        *_lines(facts, reading)[:-1],
        f"parts = attribute(components(run, {reading.position}), lm.model, {result.token})",
        "rows = [by_source(run, layer, head, parts.position, parts.directions[layer]) for layer, head in heads]",
        f"by_turn(np.stack(rows), turns, {len(reading.roles)})  # [heads, turns + 1], the rest last",
    ]
    imports = [*_IMPORTS, "from model.predictions.attribution import attribute, by_source, components"]
    return {
        "figure": turn_figure(_names(reading, seen.all_words), _heads(facts, seen.words), result.logits, texts, words),
        "title": _titled(seen, reading, token),
        "note": words["note"],
        "columns": [words["by"], words["turn"], words["value"]],
        "python": script(facts, more, imports),
    }


# --- gradients of the logit ---


def job(seen: Seen) -> Payload:
    """Describe the number of gradients."""
    return {"text": seen.here["hint"].format(most=whole(affordable(seen.facts.position + 1)))}


def rests(seen: Seen) -> Payload:
    """Draw gradient x activation and integrated gradients by turn, with notes on their sums and their gap."""
    words, reading, result = seen.here, seen.results["main"], seen.results["rests"]
    if result is None:
        return {"empty": {"text": words["empty"], "hint": words["empty_hint"]}}
    shown: Rests = result
    slopes, at = shown.by_token, reading.position
    series = [words["gradient_x_activation"], words["integrated"]]
    texts = [
        [words["hover"].format(value=signed(value), n=whole(n)) for value, n in zip(row, reading.tokens, strict=True)]
        for row in shown.turns
    ]
    numbers = {"activation": shown.turns[0].sum(), "sum": shown.turns[1].sum(), "change": slopes.moved}
    numbers |= {"baseline": slopes.baseline, "value": slopes.value}
    formatted = {name: logit(float(value)) for name, value in numbers.items()}
    notes = [words["adds_up"].format(**formatted, gap=signed(slopes.gap), taken=whole(slopes.taken))]
    if slopes.rough:
        notes.append(words["rough"])
    lines = [
        _lines(seen.facts, reading)[0],
        f"slopes = gradients(run, {at}, {shown.token}, None, {affordable(at + 1)})",
        "rows = np.stack([slopes.gradient_x_activation, slopes.integrated])",
        f"by_turn(rows, turns[: {at + 1}], {len(reading.roles)})  # [2, turns + 1], the rest last",
    ]
    imports = [*_IMPORTS, "from model.predictions.gradients import gradients"]
    return {
        "figure": turn_figure(_names(reading, seen.all_words), series, shown.turns, texts, words),
        "title": _titled(seen, reading, quoted(seen.facts.piece(shown.token))),
        "note": joined(notes),
        "columns": [words["method"], words["turn"], words["value"]],
        "python": script(seen.facts, lines, imports),
    }


# --- for programs ---


def attention_by_turn(scene: Scene, layer: int, head: int, position: int = -1) -> dict:
    """Measure a head's attention from a token to each turn of a conversation, and its contribution to a logit.

    A plain prompt is divided into sentences.

    Returns:
        turns: records with role (system, user, assistant, or template for tokens of the chat template; in a plain
        prompt, sentence and first_token), tokens (number of visible ones), weight (fraction of the attention; they
        add up to 1) and logit (contribution to the logit of the most likely next token; null if the head's output
        is edited). target: that token.
    """
    selected = at(on(scene, layer, head), place(scene, position))
    reading, parts = measured(VIEW, "main", selected), measured(VIEW, "writes", selected)
    logits = [None] * (len(reading.roles) + 1) if parts.logits is None else parts.logits[0].tolist()
    rows = zip(
        [*reading.roles, _outside(reading)],
        reading.tokens.astype(int).tolist(),
        reading.weights[0].tolist(),
        logits,
        strict=True,
    )
    return {
        "position": reading.position,
        "target": named(scene.model, parts.token),
        "turns": [dict(zip(("role", "tokens", "weight", "logit"), row, strict=True)) for row in rows],
    }


def gradients_by_turn(scene: Scene, position: int = -1) -> dict:
    """Compute each turn's contribution to the logit of the most likely next token, by gradients.

    A plain prompt is divided into sentences.

    Returns:
        turns: records with role (system, user, assistant, or template for tokens of the chat template; in a plain
        prompt, sentence and first_token), gradient_x_activation and integrated, in logits. value and baseline: the
        logit on the prompt and with all embeddings at the baseline; gap: sum of integrated minus (value -
        baseline); taken: number of computed gradients. target: that token.
    """
    selected = at(scene, position)
    result: Rests = measured(VIEW, "rests", selected)
    reading: Reads = measured(VIEW, "main", selected)
    roles = (*reading.roles, _outside(reading))
    names = ("role", "gradient_x_activation", "integrated")
    slopes = result.by_token
    return {
        "position": selected.position,
        "target": named(scene.model, result.token),
        "turns": [dict(zip(names, row, strict=True)) for row in zip(roles, *result.turns.tolist(), strict=True)],
        "value": slopes.value,
        "baseline": slopes.baseline,
        "gap": slopes.gap,
        "taken": slopes.taken,
    }


_OF: tuple[Depends, ...] = ("run", "heads", "token", "prompt")
VIEW = View(
    "turns",
    needs=(),
    measures=(
        Measure("main", measure_reads, _OF, locks=False),
        Measure("writes", measure_writes, _OF, uses=("main",), needs=("layers", "next")),
        Measure(
            "rests", measure_rests, ("run", "token", "prompt"), slow=True, cost=cost_of_rests, needs=("layers", "next")
        ),
    ),
    layout=("reads", "writes", "job", "rests"),
    parts={
        "reads": Figure(reads, depends=("heads",)),
        "writes": Figure(writes, ("main", "writes"), depends=("heads",)),
        "job": Job("rests", job, also=("main",)),
        "rests": Figure(rests, also=("rests",)),
    },
    api=(Endpoint(attention_by_turn), Endpoint(gradients_by_turn, long=True)),
)
