"""The compare tab: this run (A) beside another prompt, another model or the run without edits (B), and patching."""

from collections.abc import Callable, Mapping, Sequence

import gradio as gr
import plotly.graph_objects as go

from model.attention.measures import MEASURES, attend_rows, measure
from model.errors import InputError, PlaygroundError
from model.gpt.head_metrics import HEAD_METRICS
from viz.charts.heatmap import PatternWords
from viz.labels import visible
from viz.page import background
from viz.page.background import kept
from viz.page.parts import choice, part, plot_words
from viz.page.picking import source
from viz.page.python_lines import python_lines
from viz.page.scene import Scene
from viz.page.tab import Picture, Tab, Values
from viz.views.compare.patching import view as patching
from viz.views.compare.runs import figures as compare
from viz.views.compare.runs.figures import HeadWords
from viz.views.compare.runs.run_b import WITH, Other, models_ready, other_run, suggestion
from viz.words import section, some

OF_HEADS = tuple(name for name, entry in MEASURES.items() if entry.of == "head")
METRICS = (*HEAD_METRICS, "pattern")
MOST_LIKELY = 10
MOST_CELLS = 80_000_000  # of all heads' patterns together that are compared without being asked for
_MAPS = ("compare_a", "compare_b", "compare_diff")
_DRAWN = ("alignment", *_MAPS, "compare_heads", "compare_next", *patching.PARTS)


# --- layout and words ---


def build(first: Mapping[str, dict]) -> dict[str, gr.HTML]:
    """The form and the two token rows; three maps; heads, next tokens and patching below."""
    made = {
        f"compare_{kind}": part(f"compare_{kind}", first.get(f"compare_{kind}"), kind=kind)
        for kind in ("question", "howto")
    }
    made["compare_form"] = part("compare_form", None, kind="controls", value={})
    made["alignment"] = part("alignment", None)
    with gr.Row(elem_classes="pg-columns"):
        for name in _MAPS[:2]:
            with gr.Column(min_width=300):
                made[name] = part(name, None, kind="compared")
    with gr.Row(elem_classes="pg-columns"):
        with gr.Column(min_width=300):
            made["compare_diff"] = part("compare_diff", None, kind="compared")
        with gr.Column(min_width=300):
            made["compare_metric"] = part("compare_metric", first.get("compare_metric"), kind="controls", value={})
            made["compare_heads"] = part("compare_heads", None, kind="compared")
    with gr.Row(elem_classes="pg-columns"):
        with gr.Column(min_width=300):
            made["compare_next"] = part("compare_next", None)
        with gr.Column(min_width=300):
            made["patch_about"] = part("patch_about", first.get("patch_about"))
            made["patch_form"] = part("patch_form", None, kind="controls", value={})
            made["patch_job"] = part("patch_job", None, kind="job", events=("start", "cancel"))
            made["patch_map"] = part("patch_map", None, kind="compared")
    return made


def fixed(words: Mapping[str, str]) -> dict[str, dict]:
    """What the tab answers, how to read it, and what is said of heads and of patching."""
    pattern = words["compare.metric_pattern_help"]
    options = [[key, words[f"metric.{key}"], words[f"metric_help.{key}"]] for key in HEAD_METRICS]
    options.append(["pattern", words["compare.metric_pattern"], pattern])
    metrics = {
        "name": "metric",
        "kind": "choice",
        "label": words["compare.metric"],
        "value": METRICS[0],
        "options": options,
    }
    howto = some(words, "compare_howto", "body", "formula", "caveat", "try")
    return {
        "compare_question": {"text": words["tab.compare_question"]},
        "compare_howto": {"title": words["howto.title"], "parts": howto},
        "compare_metric": {"controls": [metrics]},
        "patch_about": {"title": words["compare.patch_title"], "text": words["compare.patch_about"]},
    }


def _form(scene: Scene, ready: Mapping[str, str]) -> dict:
    """What to compare with."""
    words = scene.words
    head = {"kind": "number", "min": 0, "max": 999, "value": "", "when": {"with": ["model"]}}
    measures = [[key, words[f"measure.{key}"], words[f"measure_help.{key}"]] for key in OF_HEADS]
    return {
        "controls": [
            {
                "name": "with",
                "kind": "views",
                "label": words["compare.with"],
                "value": "prompt",
                "options": [[key, words[f"compare.with_{key}"]] for key in WITH],
            },
            {
                "name": "prompt",
                "kind": "text",
                "lines": 2,
                "label": words["compare.prompt"],
                "value": "",
                "placeholder": suggestion(scene.prompt),
                "when": {"with": ["prompt"]},
            },
            {
                "name": "model",
                "kind": "choice",
                "label": words["compare.model"],
                "value": next(iter(ready), ""),
                "options": [[key, label] for key, label in ready.items()],
                "when": {"with": ["model"]},
            },
            {"name": "layer", "label": words["compare.layer_b"], **head},
            {"name": "head", "label": words["compare.head_b"], "help": words["compare.head_help"], **head},
            {
                "name": "measure",
                "kind": "choice",
                "label": words["compare.measure"],
                "value": OF_HEADS[0],
                "options": measures,
            },
        ]
    }


# --- what is drawn ---


def draw(scene: Scene, values: Values) -> dict[str, Picture]:
    """Everything about the two runs; where there is no run B, why not, and nothing else."""
    asked, ready = values.get("compare_form"), models_ready(scene)
    form = Picture((suggestion(scene.prompt), ready, scene.model.id), lambda: _form(scene, ready))
    try:
        other = other_run(scene, asked, ready)
    except PlaygroundError as error:
        return {"compare_form": form} | _without(scene, error)
    name = choice(asked, "measure", OF_HEADS)
    of_heads = choice(values.get("compare_metric"), "metric", METRICS)
    runs = (scene.run, other.run, other.model.id)
    heads, last = (*runs, scene.head, other.head, name), position(scene, other)
    maps = {each: Picture((*heads, other.how), _maker(each, scene, other, name)) for each in _MAPS}
    return {
        "compare_form": form,
        "alignment": Picture((*runs, other.how), lambda: _alignment(scene, other)),
        **maps,
        "compare_heads": Picture((*runs, of_heads), lambda: _heads(scene, other, of_heads)),
        "compare_next": Picture((*runs, last), lambda: _next(scene, other, last)),
        **patching.pictures(scene, other, values.get("patch_form")),
    }


def _without(scene: Scene, error: PlaygroundError) -> dict[str, Picture]:
    """The first part says why there is nothing, the others keep quiet."""

    def fail() -> dict:
        raise error

    told = (error.what, error.got, error.hint)
    pictures = {name: Picture(("nothing", *told), lambda: {"absent": True}) for name in _DRAWN}
    pictures["patch_form"] = Picture("nothing", lambda: {"controls": []})
    idle = background.unready(scene.words, scene.words["compare.patch_start"], scene.words["compare.patch_no_b"])
    return pictures | {"alignment": Picture(told, fail), "patch_job": Picture(told, lambda: idle)}


def position(scene: Scene, other: Other) -> tuple[int, int]:
    """Where next tokens are compared: at the token picked last that has a counterpart, else at both runs' last."""
    places = dict(other.alignment.pairs)
    picked = [t for t in scene.picked.tokens if t in places]
    return (picked[-1], places[picked[-1]]) if picked else (len(scene.trace.tokens) - 1, len(other.trace.tokens) - 1)


def _alignment(scene: Scene, other: Other) -> dict:
    words, found = scene.words, other.alignment
    counts = {kind: found.count(kind) for kind in ("same", "replaced", "only_a", "only_b")}
    alike = counts["same"] == len(found.steps)
    notes = [words["compare.alike"]] if alike and other.how == "prompt" else []
    if scene.picked.edits and other.how != "unedited":
        notes.append(words["compare.edited_a"])
    return {
        "steps": compare.alignment_payload(found, scene.trace.tokens, other.trace.tokens),
        "counts": counts,
        "note": " ".join(notes),
        "run": f"{scene.run} {other.run}",
        "words": section(words, "compare"),
    }


def _title(scene: Scene, side: str, head: tuple[int, int], name: str) -> str:
    return scene.words[f"compare.{side}"].format(layer=head[0], head=head[1], measure=scene.words[f"measure.{name}"])


def _figure(scene: Scene, other: Other, figure: go.Figure, said: dict) -> dict:
    """A payload of the kind "compared"."""
    return {
        "figure": figure.to_json(),
        "note": "",
        "source": source(scene),
        "run": f"{scene.run} {other.run}",
        "words": plot_words(scene.words) | some(scene.words, "pattern", "query", "key", "weight"),
        **said,
    }


def _empty(text: str, hint: str) -> dict:
    """What is shown where there is nothing to draw."""
    return {"empty": {"text": text, "hint": hint}}


def _maps_of(scene: Scene, other: Other, name: str) -> tuple:
    return measure(scene.trace, name, *scene.head), measure(other.trace, name, *other.head)


def _lines(scene: Scene, other: Other, lines: Sequence[str], imports: Sequence[str]) -> str:
    return python_lines(scene, [other.line, *lines], imports)


def _side(scene: Scene, other: Other, name: str, side: str) -> dict:
    """The map of A or of B, on one scale."""
    words, kind = scene.words, MEASURES[name].scale
    maps = _maps_of(scene, other, name)
    trace, z, head, variable = (
        (scene.trace, maps[0], scene.head, "run") if side == "a" else (other.trace, maps[1], other.head, "other")
    )
    top = 1.0 if kind == "share" else compare.largest(*maps)
    said = PatternWords(
        words["pattern.query"], words["pattern.key"], words[f"measure.{name}"], words["pattern.largest"]
    )
    figure = compare.map_figure(z, trace.tokens, said, kind, top)
    back = {j: i for i, j in other.alignment.pairs}
    places = None if side == "a" else [back.get(j) for j in range(len(trace.tokens))]
    lines = [f"measure({variable}, {name!r}, {head[0]}, {head[1]})  # [T, T]"]
    made = _figure(
        scene,
        other,
        figure,
        {
            "title": _title(scene, side, head, name),
            "file": f"compare-{side}-{head[0]}-{head[1]}",
            "places": places,
            "columns": [words["pattern.query"], words["pattern.key"], words[f"measure.{name}"]],
            "python": _lines(scene, other, lines, ["from model.attention.measures import measure"]),
            "note": _about_b(scene, other) if side == "b" else words["compare.about_a"],
            "source": source(scene) if side == "a" else _source_b(scene, other),
        },
    )
    return made | {"note": f"{made['note']} {_pooled(scene, figure)}".strip()}


def _source_b(scene: Scene, other: Other) -> str:
    milliseconds = round(other.trace.seconds * 1000)
    return scene.words["pattern.source"].format(model=other.model.label, dtype=other.model.dtype, ms=milliseconds)


def _about_b(scene: Scene, other: Other) -> str:
    return scene.words[f"compare.about_{other.how}"].format(model=other.model.label)


def _pooled(scene: Scene, figure: go.Figure) -> str:
    block = figure.layout.meta["block"]
    return scene.words["compare.pooled"].format(n=block) if block > 1 else ""


def _difference(scene: Scene, other: Other, name: str) -> dict:
    """A minus B on the aligned cells."""
    words = scene.words
    if not other.one_vocabulary:
        return _empty(words["compare.no_difference"], words["compare.no_difference_hint"])
    z = compare.difference(*_maps_of(scene, other, name), other.alignment.pairs)
    tokens = compare.merged(scene.trace.tokens, other.trace.tokens, other.alignment)
    label = words["compare.minus"].format(measure=words[f"measure.{name}"])
    said = PatternWords(words["pattern.query"], words["pattern.key"], label, words["pattern.largest"])
    figure = compare.map_figure(z, tokens, said, "signed", compare.largest(z))
    a, b = scene.head, other.head
    lines = [
        f"a, b = measure(run, {name!r}, {a[0]}, {a[1]}), measure(other, {name!r}, {b[0]}, {b[1]})",
        "pairs = align(run.tokens.ids.tolist(), other.tokens.ids.tolist()).pairs",
        "difference(a, b, pairs)  # [T, T], NaN where a token has no counterpart",
    ]
    imports = [
        "from model.attention.measures import measure",
        "from viz.views.compare.runs.figures import align, difference",
    ]
    return _figure(
        scene,
        other,
        figure,
        {
            "title": words["compare.diff"].format(measure=words[f"measure.{name}"]),
            "note": f"{words['compare.about_diff']} {_pooled(scene, figure)}".strip(),
            "file": f"compare-difference-{a[0]}-{a[1]}",
            "columns": [words["pattern.query"], words["pattern.key"], label],
            "python": _lines(scene, other, lines, imports),
        },
    )


def _maker(which: str, scene: Scene, other: Other, name: str) -> Callable[[], dict]:
    """What makes one of the three maps."""
    if which == "compare_diff":
        return lambda: _difference(scene, other, name)
    return lambda: _side(scene, other, name, which.removeprefix("compare_"))


# --- all heads ---


def _heads(scene: Scene, other: Other, name: str) -> dict:
    """A number of every head, A minus B; or how far the patterns are apart."""
    words = scene.words
    if not other.one_shape:
        return _empty(words["compare.no_heads"], words["compare.no_heads_hint"])
    said = words["compare.metric_pattern" if name == "pattern" else f"metric.{name}"]
    if name == "pattern":
        z, both, label = _pattern_gaps(scene, other), None, said
    else:
        n = list(HEAD_METRICS).index(name)
        both = scene.trace.metrics[..., n], other.trace.metrics[..., n]
        z, label = both[0] - both[1], words["compare.minus"].format(measure=said)
    if not compare.defined(z):
        return _empty(words["compare.no_numbers"], words["compare.no_numbers_hint"].format(metric=said))
    figure = compare.heads_figure(z, both, HeadWords(words["compare.layer"], words["compare.head"], said, label))
    return _figure(
        scene,
        other,
        figure,
        {
            "title": words["compare.heads_title"].format(metric=label),
            "note": words["compare.metric_pattern_help" if name == "pattern" else "compare.about_heads"],
            "file": f"compare-heads-{name}",
            "columns": [words["compare.head"], words["compare.layer"], label],
            "python": _lines(scene, other, *_heads_lines(name)),
        },
    )


def _heads_lines(name: str) -> tuple[list[str], list[str]]:
    if name != "pattern":
        return [f"(run.head_metrics() - other.head_metrics())[{name!r}].unstack()  # [L, H]"], []
    lines = [
        "pairs = align(run.tokens.ids.tolist(), other.tokens.ids.tolist()).pairs",
        "layers, heads = range(lm.config.n_layer), range(lm.config.n_head)",
        "of = lambda trace, layer: np.stack([trace.pattern(layer, head) for head in heads])  # [H, T, T]",
        "np.stack([gaps(of(run, layer), of(other, layer), pairs) for layer in layers])  # [L, H]",
    ]
    return lines, ["import numpy as np", "from viz.views.compare.runs.figures import align, gaps"]


def _pattern_gaps(scene: Scene, other: Other) -> object:
    """Mean |A - B| of every head's weights over the aligned cells. [L, H]"""
    words, config = scene.words, scene.model.config
    if not other.one_vocabulary:
        raise InputError(words["compare.no_difference"], "", words["compare.no_difference_hint"])
    lengths = [len(trace.tokens) for trace in (scene.trace, other.trace)]
    if config.n_layer * config.n_head * max(lengths) ** 2 > MOST_CELLS:
        raise InputError(words["compare.too_many"], "", words["compare.too_many_hint"])

    def layer_of(layer: int) -> tuple:
        runs = zip((scene.trace, other.trace), lengths, strict=True)
        return tuple(attend_rows(trace, layer, range(T)).numpy() for trace, T in runs)

    def make() -> object:
        return compare.all_gaps(map(layer_of, range(config.n_layer)), other.alignment.pairs)

    return kept(scene.playground, ("gaps", scene.trace.key, other.trace.key), make)


# --- next tokens ---


def _next(scene: Scene, other: Other, at: tuple[int, int]) -> dict:
    """The likeliest next tokens of both runs: one list where both have the same vocabulary, else two."""
    words, models = scene.words, (scene.model, other.model)
    a, b = (
        compare.shares_of(trace.logits_at(t)[: model.tokenizer.vocab_size])
        for trace, t, model in zip((scene.trace, other.trace), at, models, strict=True)
    )
    notes = [words["compare.about_next"]]
    if other.one_vocabulary:
        ids = sorted({*compare.likely(a, MOST_LIKELY), *compare.likely(b, MOST_LIKELY)}, key=lambda i: -max(a[i], b[i]))
        lists = [[[visible(scene.model.tokenizer.piece(i)), float(a[i]), float(b[i])] for i in ids]]
        notes.append(words["compare.kl"].format(kl=f"{compare.divergence(a, b):.3g}"))
    else:
        lists = [
            [[visible(model.tokenizer.piece(i)), float(p[i])] for i in compare.likely(p, MOST_LIKELY)]
            for model, p in zip(models, (a, b), strict=True)
        ]
        notes.append(words["compare.two_lists"])
    lines = [f"a, b = (shares_of(trace.logits_at(t)) for trace, t in ((run, {at[0]}), (other, {at[1]})))  # [V] each"]
    return {
        "title": words["compare.next_title"].format(
            a=visible(scene.trace.tokens.pieces[at[0]]), i=at[0], b=visible(other.trace.tokens.pieces[at[1]]), j=at[1]
        ),
        "note": " ".join(notes),
        "lists": lists,
        "file": "compare-next-tokens",
        "source": source(scene) if other.model is scene.model else f"{source(scene)} · {_source_b(scene, other)}",
        "names": some(words, "compare", "token", "in_a", "in_b", "change", "probability"),
        "run": f"{scene.run} {other.run}",
        "words": plot_words(words),
        "python": _lines(scene, other, lines, ["from viz.views.compare.runs.figures import shares_of"]),
    }


TAB = Tab(
    "compare",
    build,
    fixed,
    draw,
    parts=(
        "compare_question",
        "compare_howto",
        "compare_form",
        "alignment",
        *_MAPS,
        "compare_metric",
        "compare_heads",
        "compare_next",
        "patch_about",
        *patching.PARTS,
    ),
    asks=("compare_form", "compare_metric", "patch_form"),
    jobs={"patch_job": patching.plan},
)
