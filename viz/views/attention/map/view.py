"""The map: one row per query token, one column per key token, colored by a measure of attention."""

from collections.abc import Mapping
from typing import Annotated

import numpy as np

from model.attention.measures import MEASURES
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
from viz.views.attention.patterns import HEADS, MEASURE, PATTERNS, hidden_note, lines_of, titles, value_name
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
    words = PatternWords(texts["pattern.query"], texts["pattern.key"], measure, texts["pattern.largest"])
    panels = [Panel(name, z) for name, z in zip(shown.panels, result.z, strict=True)]
    look = Look(MEASURES[settings.measure].scale, settings.curve)
    window, n = settings.plot, len(panels)
    meta = {"whole": _is_complete(seen)} | ({"height": PANEL * -(-n // 2), "narrow": PANEL * n} if n > 1 else {})
    figure = pattern_figure(panels, facts.tokens, words, window, look, meta=meta, revision=facts.run)
    ramp = texts["attention.ramp"].format(curve=texts[f"attention.settings.curve_{settings.curve}"])
    return {
        "figure": figure,
        "title": shown.title,
        "note": joined(notes(seen, pooling(window, n))),
        "source": f"{facts.source} · {ramp}",
        "file": shown.file,
        "run": f"{facts.run} {shown.name}",
        "columns": [texts["pattern.query"], texts["pattern.key"], measure],
        "python": lines_of(facts, settings.measure, settings.of),
        "picks": "pair",
        "zooms": True,
    }


def _is_complete(seen: Seen) -> bool:
    """Return whether every token of the prompt is drawn."""
    return seen.settings.plot == Window.whole(len(seen.facts.tokens))


def notes(seen: Seen, block: int) -> list[str]:
    """List the notes below the map: its window, its pooling, undefined rows, and layers without a softmax."""
    words, window, texts = seen.here, seen.settings.plot, []
    if not _is_complete(seen):
        place = {"q0": window.q0, "q1": window.q1 - 1, "k0": window.k0, "k1": window.k1 - 1}
        texts.append(words["window"].format(**place))
    if block > 1:
        texts.append(words["pooled"].format(n=block))
    if seen.result.blank:
        texts.append(words["blank"].format(n=whole(seen.result.blank)))
    if hidden := hidden_note(seen.facts, seen.all_words, seen.settings.measure, seen.settings.of):
        texts.append(hidden)
    return texts


# --- for programs ---

MeasureName = Annotated[str, OneOf(tuple(MEASURES))]


def matrix(scene: Scene, name: str, layer: int, head: int) -> np.ndarray:
    """Return the matrix of a measure for one head, [T, T], NaN where undefined.

    Raises PlaygroundError if it cannot be measured.
    """
    (z,) = measured(VIEW, "main", on(scene, layer, head), measure=name, of="each").z
    return z


def attention(scene: Scene, layer: int, head: int, measure: MeasureName = "weights", queries: list[int] = ()) -> dict:
    """Return one head's attention as a matrix, with one row per query and one column per key.

    Args:
        measure: weights: attention after the softmax. scores: q.k / sqrt(d_head), before the softmax. without_first:
            weights without the first token. value_weighted: length of each key's output. rollout and flow: fraction of
            the information from each input token, through all heads of all layers up to this one.
        queries: Positions of the rows, counted from 0; negative counts from the end. By default all, which are tokens x
            tokens numbers.

    Returns:
        rows: one list per query, null for keys that it cannot attend to; queries: their positions; tokens: strings of
        the prompt's tokens.
    """
    rows, z = places(scene, queries), matrix(scene, measure, layer, head)
    return {
        "layer": layer,
        "head": head,
        "measure": measure,
        "tokens": prompt_tokens(scene),
        "queries": rows,
        "rows": z[rows],
    }


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
    tab_settings=(MEASURE, HEADS, Choice("curve", tuple(CURVES))),
    measures=(PATTERNS,),
    layout=("plot",),
    parts={"plot": Asking("figure", window_of, plot, of="main", settings=None)},
    api=(Endpoint(attention), Endpoint(attention_links, ("attention.lines", "attention.text"))),
)
