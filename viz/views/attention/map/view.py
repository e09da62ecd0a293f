"""The map: one row per query token, one column per key token, colored by a measure of attention."""

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from typing import Annotated

import numpy as np

from model.attention.measures import MEASURES
from model.attention.spans import UNITS, Span, spans_of
from model.errors import InputError
from viz.charts.heatmap import Look, Panel, PatternWords, Window, pattern_figure, pooling
from viz.numbers import whole
from viz.seam.programs.answers import largest_cells
from viz.seam.programs.arguments import OneOf, Rows
from viz.seam.programs.endpoint import Endpoint
from viz.seam.programs.reading import measured, on, places, prompt_tokens
from viz.seam.scene import Scene
from viz.seam.settings import Choice
from viz.seam.view import Asking, Payload, Seen, View
from viz.theme import CURVES
from viz.views.attention.patterns import (
    HEADS,
    MEASURE,
    PATTERNS,
    hidden_note,
    lines_of,
    rules_note,
    run_name,
    titles,
    value_name,
)
from viz.views.attention.units import UNIT, merged, shown_spans, unit_note, unit_of, unit_payload, unit_words
from viz.words import joined

PANEL = 330  # height in pixels of a panel if there are several


def window_of(value: object, scene: Scene) -> Window:
    """Parse the zoomed window of the matrices; the complete matrices if the page's value belongs to another run."""
    fields, T = value if isinstance(value, Mapping) else {}, len(scene.tokens)
    is_current = str(fields.get("run", "")).startswith(f"{scene.run} ")
    return Window.of(fields.get("window") if is_current else None, T)


def plot(seen: Seen) -> Payload:
    """Draw the attention maps, with title, notes and Python lines."""
    facts, texts, settings, result = seen.facts, seen.all_words, seen.settings, seen.result
    shown = titles(facts, texts, settings.measure, settings.of)
    measure = value_name(facts, texts, settings.measure, settings.of)
    unit = unit_of(settings.measure, settings.unit)
    spans = shown_spans(facts, unit)
    own = unit_words(texts, unit)
    query, key = own.get("attending", texts["pattern.query"]), own.get("attended", texts["pattern.key"])
    words = PatternWords(query, key, measure, own.get("largest", texts["pattern.largest"]))
    panels = [Panel(name, z) for name, z in zip(shown.panels, result.z, strict=True)]
    look = Look(MEASURES[settings.measure].scale, settings.curve)
    window, n, tokens = window_in(settings.plot, spans), len(panels), merged(facts.tokens, spans)
    meta = {"whole": window == Window.whole(len(tokens))}
    meta |= {"height": PANEL * -(-n // 2), "narrow": PANEL * n} if n > 1 else {}
    revision = facts.run if unit == "tokens" else f"{facts.run} {unit}"
    figure = pattern_figure(panels, tokens, words, window, look, meta=meta, revision=revision, spans=spans)
    ramp = texts["attention.ramp"].format(curve=texts[f"attention.settings.curve_{settings.curve}"])
    return {
        "figure": figure,
        "title": shown.title,
        "note": joined(notes(seen, window, pooling(window, n), spans)),
        "source": f"{facts.source} · {ramp}",
        "file": shown.file,
        "run": run_name(facts, shown.name, unit),
        "columns": [query, key, measure],
        "python": lines_of(facts, settings.measure, settings.of, unit),
        "picks": "pair",
        "zooms": True,
    } | unit_payload(spans)


def window_in(window: Window, spans: Sequence[Span]) -> Window:
    """Convert a window of tokens to the words in it, or the complete map if they are less than two."""
    if not spans:
        return window
    starts = [start for start, _ in spans]
    sides = ((window.q0, window.q1), (window.k0, window.k1))
    q, k = ([bisect_right(starts, start) - 1, bisect_right(starts, max(end - 1, 0))] for start, end in sides)
    return Window.of([*q, *k], len(spans))


def notes(seen: Seen, window: Window, block: int, spans: Sequence[Span]) -> list[str]:
    """List the notes below the map: its unit, its window, its pooling, undefined rows, layers without a softmax."""
    words, settings = seen.here, seen.settings
    texts = [unit_note(seen.facts, seen.all_words, settings.measure, settings.unit)]
    unit = unit_of(settings.measure, settings.unit)
    own, T = unit_words(seen.all_words, unit), len(spans) or len(seen.facts.tokens)
    if window != Window.whole(T):
        edges = spans or [(at, at + 1) for at in range(T)]
        place = {"q0": edges[window.q0][0], "q1": edges[window.q1 - 1][1] - 1}
        place |= {"k0": edges[window.k0][0], "k1": edges[window.k1 - 1][1] - 1}
        texts.append(words["window"].format(**place))
    if block > 1:
        texts.append(words["pooled"].format(n=block))
    if seen.result.blank:
        texts.append(own.get("blank", words["blank"]).format(n=whole(seen.result.blank)))
    if hidden := hidden_note(seen.facts, seen.all_words, settings.measure, settings.of):
        texts.append(hidden)
    one = settings.measure == "weights" and len(seen.result.z) == 1 and unit == "tokens"
    if rules := rules_note(seen.facts, seen.all_words, seen.result.z[0] if one else None, seen.facts.position):
        texts.append(rules)
    return texts


# --- for programs ---

MeasureName = Annotated[str, OneOf(tuple(MEASURES))]
UnitName = Annotated[str, OneOf(UNITS)]


def matrix(scene: Scene, name: str, layer: int, head: int, unit: str = "tokens") -> np.ndarray:
    """Return the matrix of a measure for one head, [T, T], NaN where undefined, or by words or sentences.

    Raises PlaygroundError if it cannot be measured.
    """
    if unit_of(name, unit) != unit:
        raise InputError("Scores have no sum over words.", unit, "Choose another measure, or the unit tokens.")
    (z,) = measured(VIEW, "main", on(scene, layer, head), measure=name, of="each", unit=unit).z
    return z


def attention(
    scene: Scene,
    layer: int,
    head: int,
    measure: MeasureName = "weights",
    queries: list[int] = (),
    unit: UnitName = "tokens",
) -> dict:
    """Return one head's attention as a matrix, with one row per query and one column per key.

    Args:
        measure: weights: attention after the softmax. scores: q.k / sqrt(d_head), before the softmax. without_first:
            weights without the first token. value_weighted: length of each key's output. rollout and flow: fraction of
            the information from each input token, through all heads of all layers up to this one.
        queries: Positions of the rows, counted from 0; negative counts from the end. By default all, which are tokens x
            tokens numbers.
        unit: tokens, or words or sentences: keys are summed over their tokens, queries averaged.

    Returns:
        rows: one list per query, null for keys that it cannot attend to; queries: their positions; tokens: strings of
        the prompt's tokens. For words or sentences, these are their strings and numbers, and spans: for each, its first
        token and the one after its last.
    """
    rows, z = places(scene, queries), matrix(scene, measure, layer, head, unit)
    tokens: dict[str, object] = {"tokens": prompt_tokens(scene)}
    if unit != "tokens":
        spans = spans_of(scene.tokens.raw, unit)
        tokens = {"unit": unit, "tokens": list(merged(scene.tokens, spans).pieces), "spans": spans}
        starts = [start for start, _ in spans]
        rows = list(dict.fromkeys(bisect_right(starts, row) - 1 for row in rows))
    return {"layer": layer, "head": head, "measure": measure} | tokens | {"queries": rows, "rows": z[rows]}


def attention_links(scene: Scene, layer: int, head: int, measure: MeasureName = "weights", most: Rows = 40) -> dict:
    """Return the strongest edges of one head, from query token to key token, in decreasing order.

    Args:
        measure: As in the endpoint attention.

    Returns:
        links: records with query, key (positions), query_text, key_text and value.
    """
    z, tokens = matrix(scene, measure, layer, head), prompt_tokens(scene)
    links = [
        {"query": query, "key": key, "query_text": tokens[query], "key_text": tokens[key], "value": value}
        for query, key, value in largest_cells(z, most)
    ]
    return {"layer": layer, "head": head, "measure": measure, "links": links}


VIEW = View(
    "map",
    needs=(),
    tab_settings=(MEASURE, HEADS, UNIT, Choice("curve", tuple(CURVES))),
    measures=(PATTERNS,),
    layout=("plot",),
    parts={"plot": Asking("figure", window_of, plot, of="main", settings=None)},
    api=(Endpoint(attention), Endpoint(attention_links, ("attention.lines", "attention.text"))),
)
