"""View of when the answer appears: the lens at every layer and position, and tokens followed at one position."""

from collections.abc import Sequence

from model.tracing.logit_lens import LensReading
from viz.labels import quoted, visible
from viz.numbers import nats, number, whole
from viz.seam.programs.endpoint import Endpoint
from viz.seam.python_lines import script
from viz.seam.selection import WATCHED
from viz.seam.settings import Choice, Text
from viz.seam.targets import OFFERED, fields
from viz.seam.view import Custom, Figure, Job, Measure, Payload, Seen, View
from viz.views.predictions.lens.api import lens, lens_at
from viz.views.predictions.lens.figures import (
    COLORS,
    CURVES,
    LensWords,
    color_scale,
    curve_figure,
    map_figure,
    table_payload,
)
from viz.views.predictions.lens.measure import (
    FOLLOWING,
    LENSES,
    curves_question,
    measure_all,
    measure_availability,
    measure_curves,
    measure_gap,
    measure_page,
    measure_whole,
    page_question,
)
from viz.words import joined, plot_words


def _missing(seen: Seen) -> bool:
    """Return whether the model lacks the selected lens."""
    return seen.results["availability"].missing


def _nothing(seen: Seen) -> Payload:
    return {"empty": {"text": seen.words["nothing"], "hint": ""}}


def _figure_words(seen: Seen, value: str) -> LensWords:
    words = seen.words.within("table")
    return LensWords(words["layers"], words["position"], seen.words[f"value_{value}"], seen.words["likeliest"])


# --- the table ---


def table(seen: Seen) -> Payload:
    """Build the table of layers passed and positions."""
    words, pieces, kind, color = seen.here, seen.facts.pieces, seen.settings.lens, seen.settings.colour
    if _missing(seen):
        return {"empty": {"text": seen.words["no_tuned"], "hint": seen.words["no_tuned_hint"]}}
    reading: LensReading = seen.result
    T, start, end = len(pieces), int(reading.positions[0]), int(reading.positions[-1]) + 1
    shows = seen.words["shows_all" if end - start == T else "shows_some"]
    columns = [
        {"text": visible(pieces[at]), "next": visible(pieces[at + 1]) if at + 1 < T else ""} for at in range(start, end)
    ]
    return (
        table_payload(reading, seen.facts.piece)
        | color_scale(color, reading, seen.facts.config.vocab_size)
        | {
            "columns": columns,
            "last": T - 1,
            "title": words["title"],
            "note": joined([shows.format(first=start, last=end - 1, n=T), words["about"], *_tuned_notes(seen)]),
            "file": f"lens-{kind}-{start}-{end - 1}",
            "legend": seen.words[f"value_{color}"],
            "python": table_lines(seen, start, end),
            "words": words.plain() | plot_words(seen.all_words),
        }
    )


def _tuned_notes(seen: Seen) -> list[str]:
    """Return the notes on the tuned lens: where it can be read, its quality, and a warning if the run has edits."""
    words, kl = seen.here, seen.results["availability"].kl
    if seen.settings.lens == "plain":
        return []
    notes = [words["tuned_note"]]
    if kl:
        notes.append(words["tuned_measured"].format(plain=nats(kl["plain"]), tuned=nats(kl["tuned"])))
    return [*notes, *([words["tuned_edited"]] if seen.facts.edits else [])]


# --- one position ---


def curve(seen: Seen) -> Payload:
    """Draw the followed tokens, or the prediction's entropy or KL, along the stream at the selected position."""
    if _missing(seen):
        return _nothing(seen)
    words, facts, shown, kind = seen.here, seen.facts, seen.settings.curve, seen.settings.lens
    reading, at = seen.result.reading, facts.position
    text = _figure_words(seen, "ranks" if shown == "rank" else shown)
    names = [f"“{quoted(facts.piece(int(token)))}”" for token in reading.candidates[0]]
    answer = quoted(facts.piece(int(reading.ids[-1, 0, 0])))
    note = words["settled"].format(token=answer, place=_place(seen, seen.result.settled))
    inside = bool((reading.places % 1).any())  # a hooked model has no points inside a layer
    points = "points_tuned" if kind != "plain" else "points" if inside else "points_layers"
    return {
        "figure": curve_figure(reading, shown, names, seen.result.typed, text, lambda place: _place(seen, place)),
        "title": words[f"title_{shown}"].format(token=quoted(facts.pieces[at]), position=at),
        "note": f"{note} {words[points]}",
        "file": f"lens-{kind}-{shown}-{at}",
        "columns": [words["followed"], text.place, text.value],
        "python": curve_lines(seen, reading.candidates[0].tolist() if shown in FOLLOWING else []),
    }


def _roles(seen: Seen) -> tuple[str, ...]:
    """Return the roles of the selected tokens that the curves follow; empty if the curves show entropy or KL."""
    return WATCHED if seen.settings.curve in FOLLOWING else ()


def _place(seen: Seen, place: float) -> str:
    """Describe in words the location of a point in the stream."""
    words, L = seen.words.within("curve"), seen.facts.config.n_layer
    if place == 0:
        return words["place_embedding"]
    if place % 1:
        return words["place_middle"].format(layer=int(place))
    return words["place_after"].format(layer=int(place) - 1, n=int(place), total=L)


def check(seen: Seen) -> Payload:
    """Report the difference between the lens after the last layer and the model's own logits."""
    values = {"position": seen.facts.position, "blocks": seen.facts.config.n_layer}
    return {"text": seen.here["text"].format(gap=number(seen.result, 2), **values)}


# --- the whole prompt ---


def job(seen: Seen) -> Payload:
    """Describe the cost of reading the whole prompt, or report that it has already been read."""
    words, T = seen.here, len(seen.facts.tokens)
    if _missing(seen):
        return {"text": seen.words["nothing"], "unready": True}
    if seen.results["all"] is not None:
        return {"text": words["at_once"], "done": True}
    return {"text": words["hint"].format(n=whole(T), rows=whole(T * (seen.facts.config.n_layer + 1)))}


def whole_map(seen: Seen) -> Payload:
    """Draw the heatmap of all positions, or explain that it is not measured yet."""
    words, facts, color, kind = seen.here, seen.facts, seen.settings.colour, seen.settings.lens
    if _missing(seen):
        return _nothing(seen)
    reading = seen.results["all"] or seen.results["whole"]
    if reading is None:
        return {"empty": {"text": words["empty"], "hint": words["empty_hint"]}}
    text, T = _figure_words(seen, color), len(facts.tokens)
    return {
        "figure": map_figure(reading, color, facts.piece, facts.pieces, text, facts.config.vocab_size),
        "title": words[f"title_{color}"],
        "note": f"{seen.words['shows_all'].format(first=0, last=T - 1, n=T)} {words['about']}",
        "file": f"lens-{kind}-{color}",
        "last": T - 1,
        "columns": [text.place, text.position, text.value],
        "python": map_lines(seen),
        "picks": "column",
    }


# --- Python lines ---


def _lines(seen: Seen, request: str, then: Sequence[str]) -> str:
    function = request.split("(")[0]
    imports, lines = [f"from model.tracing.logit_lens import {function}"], []
    imports += ["import numpy as np"] if any("np." in each for each in then) else []
    if seen.settings.lens == "tuned":
        imports.append("from model.predictions.tuned_lens import load_lens")
        lines.append("lens = load_lens(lm.id, lm.config)")
        request = f"{request[:-1]}, lens=lens)"
    return script(seen.facts, [*lines, f"reading = {request}", *then], imports)


def table_lines(seen: Seen, start: int, end: int) -> str:
    """Write the Python lines that compute the table."""
    then = [
        "reading.ids, reading.probabilities  # [layer, position, rank]",
        "reading.entropy / np.log(2), reading.kl  # [layer, position], bits and nats",
        "reading.ranks  # [layer, position, 1], of the final answer",
    ]
    return _lines(seen, f"read_layers(run, range({start}, {end}))", then)


def curve_lines(seen: Seen, tokens: Sequence[int]) -> str:
    """Write the Python lines that compute the curves."""
    shown = seen.settings.curve
    followed = {"probability": "shares[:, 0]  # [point, token]", "rank": "ranks[:, 0]  # [point, token]"}
    followed |= {"entropy": "entropy[:, 0] / np.log(2)  # [point], bits", "kl": "kl[:, 0]  # [point], nats"}
    then = ["reading.places  # layers passed", f"reading.{followed[shown]}"]
    argument = f", candidates={list(tokens)}" if tokens else ""
    return _lines(seen, f"read_position(run, {seen.facts.position}{argument})", then)


def map_lines(seen: Seen) -> str:
    """Write the Python lines that compute the heatmap."""
    color = seen.settings.colour
    named = {"probability": "probabilities[..., 0]", "rank": "ranks[..., 0]", "entropy": "entropy / np.log(2)"}
    shown = named.get(color, color)
    return _lines(seen, "read_layers(run, range(len(run.tokens)))", [f"reading.{shown}  # [layer, position]"])


VIEW = View(
    "lens",
    needs=("lens",),
    settings=(
        Choice("lens", LENSES),
        Choice("colour", COLORS),
        Choice("curve", CURVES),
        Text("more", when={"curve": FOLLOWING}),
    ),
    measures=(
        Measure("availability", measure_availability, depends=("model",), settings=("lens",), locks=False),
        Measure("all", measure_all, settings=("lens",)),
        Measure("whole", measure_whole, settings=("lens",), slow=True),
        Measure("page", measure_page, settings=("lens",), question=page_question, uses=("all", "whole")),
        Measure(
            "curves",
            measure_curves,
            depends=("run", "plain", "token"),
            settings=("lens", "curve", "more"),
            question=curves_question,
        ),
        Measure("gap", measure_gap, depends=("run", "token")),
        OFFERED,
    ),
    layout=("form", "table", (("targets", "curve", "check"), ("job", "map"))),
    parts={
        "table": Custom("lenstable", table, of=("page", "availability"), settings=("lens", "colour")),
        "targets": fields(_roles, settings=("curve",)),
        "curve": Figure(curve, of=("curves", "availability"), depends=("token",), settings=("lens", "curve")),
        "check": Custom("about", check, of="gap", settings=()),
        "job": Job("whole", job, also=("availability", "all"), settings=("lens",)),
        "map": Figure(whole_map, of="availability", also=("all", "whole"), settings=("lens", "colour")),
    },
    api=(Endpoint(lens, long=True), Endpoint(lens_at)),
)
