"""Parts of the page that compare two runs."""

from collections.abc import Sequence

import numpy as np
import plotly.graph_objects as go

from model.attention.measures import MEASURES as OF_ATTENTION
from model.records import Tokens
from model.tracing.head_metrics import HEAD_METRICS
from viz.charts.distribution import likeliest
from viz.charts.heatmap import PatternWords
from viz.charts.layer_head_map import HeadWords
from viz.labels import quoted, visible
from viz.numbers import difference as signed
from viz.numbers import nats, percent
from viz.seam.python_lines import script
from viz.seam.scene import Scene
from viz.seam.settings import choice
from viz.seam.view import Payload, Seen
from viz.views.compare.alignment import Alignment, difference, merged
from viz.views.compare.run_b import NoRunB, Other, problem
from viz.views.compare.runs.figures import heads_figure, largest, map_figure
from viz.views.compare.runs.measure import (
    METRICS,
    MOST_LIKELY,
    PATTERN,
    Maps,
    Next,
    divergence,
    likely_of_both,
    too_many,
)
from viz.words import Words, joined, plot_words, some

KINDS = ("same", "replaced", "only_a", "only_b")
ABSENT: Payload = {"absent": True}  # for parts that are hidden if run B is missing; the alignment part explains why
_ALIGN = "from viz.views.compare.alignment import align"


def _other(seen: Seen) -> Other | None:
    """Return run B, or None if it is missing."""
    other = seen.results["other"]
    return None if isinstance(other, NoRunB) else other


def _lines(seen: Seen, lines: list[str], imports: tuple[str, ...] = ()) -> str:
    return script(seen.facts, [seen.results["other"].request.line, *lines], imports)


# --- the tokens of both runs ---


def alignment(seen: Seen) -> Payload:
    """Show the tokens of A above those of B, or explain why run B is missing; raises InputError for a model's error."""
    other, words, facts = seen.results["other"], seen.here, seen.facts
    if isinstance(other, NoRunB):
        return problem(seen.all_words, other)
    result = other.alignment
    # Tokens of different vocabularies are not counted as the same, even if their texts are equal.
    counts = {kind: result.count(kind) for kind in KINDS} if other.one_vocabulary else None
    alike = result.count("same") == len(result.steps)
    notes = [words["alike"]] if alike and other.request.how == "prompt" else []
    if facts.edits and other.request.how != "unedited":
        notes.append(words["edited_a"])
    if not other.one_vocabulary:
        notes.append(words["vocabularies"])
    return {
        "steps": steps_of(result, facts.tokens, other.tokens),
        "counts": counts,
        "note": joined(notes),
        "words": words.plain(),
    }


def steps_of(alignment: Alignment, a: Tokens, b: Tokens) -> list[list]:
    """Format the steps for the page: [kind, position in A, its text, position in B, its text], None for no token."""

    def text(tokens: Tokens, at: int | None) -> str | None:
        return None if at is None else visible(tokens.pieces[at])

    return [[step.kind, step.a, text(a, step.a), step.b, text(b, step.b)] for step in alignment.steps]


# --- maps of one head ---


def map_a(seen: Seen) -> Payload:
    """Draw the map of run A."""
    other, maps = _other(seen), seen.results["maps"]
    if other is None:
        return ABSENT
    return _side(seen, maps, "run", seen.here["note"]) | {"file": _file("a", seen.facts.head)}


def map_b(seen: Seen) -> Payload:
    """Draw the map of run B, on the same color scale."""
    other, maps, words = _other(seen), seen.results["maps"], seen.here
    if other is None:
        return ABSENT
    back = {j: i for i, j in other.alignment.pairs}
    milliseconds = round(other.seconds * 1000)
    notes = [words[f"note_{other.request.how}"].format(model=other.label)]
    request = seen.settings.run_b  # not `other.request`, whose head is dropped
    if not other.one_shape and request.layer is None and request.head is None:
        notes.append(words["nearest"].format(layer=seen.facts.head[0], head=seen.facts.head[1]))
    return _side(seen, maps, "other", joined(notes)) | {
        "file": _file("b", maps.head),
        "places": [back.get(j) for j in range(len(other.tokens))],
        "source": seen.all_words["pattern.source"].format(model=other.label, dtype=other.dtype, ms=milliseconds),
    }


def _file(side: str, head: tuple[int, int]) -> str:
    return f"compare-{side}-{head[0]}-{head[1]}"


def _side(seen: Seen, maps: Maps, variable: str, note: str) -> Payload:
    """Draw the map of one run; the color scales of both runs end at the same value."""
    words, name, entry = seen.words, seen.settings.measure, OF_ATTENTION[seen.settings.measure]
    z, tokens, head = maps.a, seen.facts.tokens, seen.facts.head
    if variable == "other":
        z, tokens, head = maps.b, seen.results["other"].tokens, maps.head
    top = 1.0 if entry.scale == "share" else largest(maps.a, maps.b)
    label = seen.all_words[f"measure.{name}"]
    figure = map_figure(z, tokens, _pattern_words(seen, label), entry.scale, top)
    lines = [f"measure({variable}, {name!r}, {head[0]}, {head[1]})  # [T, T]"]
    return {
        "figure": figure,
        "title": seen.here["title"].format(layer=head[0], head=head[1]),
        "note": f"{note} {_pooled(seen, figure)}".strip(),
        "columns": [words["query"], words["key"], label],
        "python": _lines(seen, lines, ("from model.attention.measures import measure",)),
        "words": _map_words(seen),
        "picks": "pair",
    }


def _pattern_words(seen: Seen, label: str) -> PatternWords:
    words = seen.all_words
    return PatternWords(words["pattern.query"], words["pattern.key"], label, words["pattern.largest"])


def _map_words(seen: Seen) -> dict[str, str]:
    return plot_words(seen.all_words) | some(seen.all_words, "pattern", "query", "key", "weight")


def _pooled(seen: Seen, figure: go.Figure) -> str:
    block = figure.layout.meta["block"]
    return seen.words["pooled"].format(n=block) if block > 1 else ""


def map_difference(seen: Seen) -> Payload:
    """Draw the difference A minus B at the aligned cells."""
    other, maps, words, name = _other(seen), seen.results["maps"], seen.here, seen.settings.measure
    if other is None:
        return ABSENT
    if not other.one_vocabulary:
        return ABSENT  # the alignment part explains why
    z, measure = difference(maps.a, maps.b, other.alignment.pairs), seen.all_words[f"measure.{name}"]
    tokens, label = merged(seen.facts.tokens, other.tokens, other.alignment), seen.words["minus"].format(number=measure)
    figure = map_figure(z, tokens, _pattern_words(seen, label), "signed", largest(z))
    a, b = seen.facts.head, maps.head
    lines = [
        f"a, b = measure(run, {name!r}, {a[0]}, {a[1]}), measure(other, {name!r}, {b[0]}, {b[1]})",
        "pairs = align(run.tokens.ids.tolist(), other.tokens.ids.tolist()).pairs",
        "difference(a, b, pairs)  # [T, T], NaN where a token has no counterpart",
    ]
    return {
        "figure": figure,
        "title": words["title"].format(measure=measure),
        "note": f"{words['note']} {_pooled(seen, figure)}".strip(),
        "file": _file("difference", a),
        "columns": [seen.words["query"], seen.words["key"], label],
        "python": _lines(seen, lines, ("from model.attention.measures import measure", f"{_ALIGN}, difference")),
        "words": _map_words(seen),
        "picks": "pair",
    }


# --- all heads ---


def read_metric(sent: object, scene: Scene) -> str:
    """Parse the requested metric."""
    return choice(sent, "metric", METRICS)


def metrics(seen: Seen) -> Payload:
    """Build the menu of metrics."""
    words, all_words = seen.here, seen.all_words
    options = [[key, all_words[f"metric.{key}"], all_words[f"metric_help.{key}"]] for key in HEAD_METRICS]
    options.append([PATTERN, words["metric_pattern"], words["metric_pattern_help"]])
    control = {"name": "metric", "kind": "choice", "label": words["metric"], "value": METRICS[0], "options": options}
    return {"controls": [control]}


def _metric_words(seen: Seen) -> Words:
    return seen.words.within("metric")


def heads(seen: Seen) -> Payload:
    """Draw A minus B of the selected metric for every head, or the distance between the patterns."""
    other, result, words, name = _other(seen), seen.results["heads"], seen.here, seen.settings.metric
    if other is None:
        return ABSENT
    if not other.one_shape:
        return _none(seen, "other_shape")
    metric = _metric_words(seen)["metric_pattern"] if name == PATTERN else seen.all_words[f"metric.{name}"]
    if result is None:
        if too_many(seen.facts.config, len(seen.facts.tokens), len(other.tokens)):
            return {"problem": {"text": words["too_many"], "hint": words["too_many_hint"]}}
        return {"problem": {"text": seen.words["no_difference"], "hint": seen.words["no_difference_hint"]}}
    if not np.isfinite(result.difference).any():
        return {"empty": {"text": words["no_numbers"], "hint": words["no_numbers_hint"].format(metric=metric)}}
    label = metric if name == PATTERN else seen.words["minus"].format(number=metric)
    lines, imports = _heads_lines(name)
    return {
        "figure": heads_figure(result.difference, result.both, HeadWords(words["layer"], words["head"], label), metric),
        "title": words["title"].format(metric=label),
        "note": _metric_words(seen)["metric_pattern_help"] if name == PATTERN else words["note"],
        "file": f"compare-heads-{name}",
        "columns": [words["layer"], words["head"], label],
        "python": _lines(seen, lines, imports),
        "words": _map_words(seen),
    }


def _none(seen: Seen, word: str) -> Payload:
    return {"empty": {"text": seen.here[word], "hint": seen.here[f"{word}_hint"]}}


def _heads_lines(name: str) -> tuple[list[str], tuple[str, ...]]:
    if name != PATTERN:
        return [f"(run.head_metrics() - other.head_metrics())[{name!r}].unstack()  # [L, H]"], ()
    lines = [
        "pairs = align(run.tokens.ids.tolist(), other.tokens.ids.tolist()).pairs",
        "layers, heads = range(lm.config.n_layer), range(lm.config.n_head)",
        "of = lambda trace, layer: np.stack([trace.pattern(layer, head) for head in heads])  # [H, T, T]",
        "np.stack([gaps(of(run, layer), of(other, layer), pairs) for layer in layers])  # [L, H]",
    ]
    return lines, ("import numpy as np", f"{_ALIGN}, gaps")


# --- next tokens ---


def next_tokens(seen: Seen) -> Payload:
    """Build the table of most likely next tokens of both runs: one list for a shared vocabulary, else one per run."""
    other, result, words, facts = _other(seen), seen.results["next"], seen.here, seen.facts
    if other is None:
        return ABSENT
    notes, (i, j) = [words["note"]], result.at
    if other.one_vocabulary:
        notes.append(words["kl"].format(kl=nats(divergence(result.a, result.b))))
    else:
        notes.append(words["two_lists"])
    lines = [f"a, b = (softmax(trace.logits_at(t)) for trace, t in ((run, {i}), (other, {j})))  # [V] each"]
    payload: Payload = {
        "title": words["title"].format(a=quoted(facts.pieces[i]), i=i, b=quoted(other.tokens.pieces[j]), j=j),
        "note": joined(notes),
        **_tables(seen, other, result),
        "file": "compare-next-tokens",
        "python": _lines(seen, lines, ("from model.sampling.pipeline import softmax",)),
    }
    if not other.same_model:
        b = {"model": other.label, "dtype": other.dtype, "ms": round(other.seconds * 1000)}
        payload["source"] = f"{facts.source} · {seen.all_words['pattern.source'].format(**b)}"
    return payload


def _tables(seen: Seen, other: Other, result: Next) -> Payload:
    """Build the rows of the next-token table, and the lines of its file.

    With a shared vocabulary, build one table with the probabilities in both runs, else one table per run.
    """
    words, piece = seen.here, seen.facts.piece
    if other.one_vocabulary:
        tokens = [(i, piece(i), (result.a[i], result.b[i])) for i in likely_of_both(result.a, result.b, MOST_LIKELY)]
        rows = [[*_cells(*each), signed(100 * (each[2][0] - each[2][1]), places=2)] for each in tokens]
        return {
            "columns": [words[name] for name in ("token", "in_a", "in_b", "change")],
            "rows": rows,
            "names": [words[name] for name in ("token", "in_a", "in_b")],
            "lines": [[visible(text), *map(float, shares)] for _, text, shares in tokens],
        }
    ours = [(i, piece(i), (result.a[i],)) for i in likeliest(result.a, MOST_LIKELY)]
    theirs = zip(result.pieces_b, likeliest(result.b, MOST_LIKELY), strict=True)
    sides = {"a": ours, "b": [(None, text, (result.b[i],)) for text, i in theirs]}
    return {
        "tables": [
            {"columns": [words["token"], words[f"in_{side}"]], "rows": [_cells(*each) for each in tokens]}
            for side, tokens in sides.items()
        ],
        "names": ["", words["token"], words["probability"]],
        "lines": [
            [side.upper(), visible(text), float(p)] for side, tokens in sides.items() for _, text, (p,) in tokens
        ],
    }


def _cells(token: int | None, piece: str, shares: Sequence[float]) -> list:
    """Build the cells of a row: a token and its probabilities as bars.

    `token` is the token's id, or None if it belongs to another vocabulary.
    """
    bars = [{"text": percent(share), "bar": float(share)} for share in shares]
    return [{"text": visible(piece), "token": token}, *bars]
