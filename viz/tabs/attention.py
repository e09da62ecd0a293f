"""The attention tab: all heads at a glance, one head in full."""

from collections.abc import Mapping

import gradio as gr

from model.heads import HEAD_METRICS
from model.trace import Trace
from viz.attention import PatternWords, Window, pattern_figure
from viz.attention import overview as all_heads
from viz.tabs.parts import part
from viz.tabs.tab import Scene, Tab
from viz.words import some


def build(first: Mapping[str, dict]) -> dict[str, gr.HTML]:
    """The question, how to read the pictures, the overview left and the detail right."""
    question, howto = part("question", first.get("question")), part("howto", first.get("howto"))
    with gr.Row(elem_id="attention-row"):
        with gr.Column(min_width=320):
            heads = part("heads", first.get("heads"))
        with gr.Column(min_width=320):
            plot = part("plot", first.get("plot"), value={"run": "", "window": None})
    return {"question": question, "howto": howto, "heads": heads, "plot": plot}


def fixed(words: Mapping[str, str]) -> dict[str, dict]:
    """What the tab answers, and how to read it."""
    return {"question": question_payload(words), "howto": howto_payload(words)}


def draw(scene: Scene, values: Mapping[str, object]) -> dict[str, dict]:
    """The chosen head; all heads where the run is new."""
    plot = values.get("plot")
    asked = plot if isinstance(plot, dict) else {}
    window = asked.get("window") if str(asked.get("run", "")).startswith(scene.run) else None
    parts = {"plot": plot_payload(scene, window)}
    return parts | {"heads": heads_payload(scene)} if scene.fresh else parts


def question_payload(words: Mapping[str, str]) -> dict:
    """What the tab answers."""
    return {"text": words["tab.attention_question"]}


def howto_payload(words: Mapping[str, str]) -> dict:
    """How to read the pictures."""
    return {
        "title": words["howto.title"],
        "parts": some(words, "howto", "body", "formula", "caveat", "try"),
    }


def heads_payload(scene: Scene) -> dict:
    """Every head's thumbnail and numbers."""
    words, metrics = scene.words, scene.trace.head_metrics()
    unit = {"tokens": words["metric.unit_tokens"]}
    names = [
        {"label": words[f"metric.{key}"], "help": words[f"metric_help.{key}"], "unit": unit.get(metric.unit, "")}
        for key, metric in HEAD_METRICS.items()
    ]
    said = some(words, "overview", "title", "about", "about_dark", "group", "button", "hover", "undefined")
    picture = all_heads(scene.trace.thumbnails, metrics, scene.model.config.group_size)
    return picture | {"metric_names": names, "words": said, "run": scene.run}


def plot_payload(scene: Scene, window: object) -> dict:
    """One head's heat map, with what the line below it says."""
    words, (layer, number) = scene.words, scene.head
    T = len(scene.trace.tokens)
    seen = Window.of(window, T)
    pattern = scene.trace.pattern(layer, number)
    said = PatternWords(**some(words, "pattern", "query", "key", "weight", "largest"))
    figure = pattern_figure(pattern, scene.trace.tokens, said, seen)
    meta = figure.layout.meta
    whole = seen == Window.whole(T)
    figure.update_layout(meta={**meta, "whole": whole}, uirevision=f"{scene.run} {meta['window']}")
    notes = [] if whole else [words["pattern.window"].format(q0=seen.q0, q1=seen.q1 - 1, k0=seen.k0, k1=seen.k1 - 1)]
    if meta["block"] > 1:
        notes.append(words["pattern.pooled"].format(n=meta["block"]))
    return {
        "figure": figure.to_json(),
        "title": words["pattern.title"].format(layer=layer, head=number),
        "note": " ".join(notes),
        "source": words["pattern.source"].format(
            model=scene.model.label, dtype=scene.model.dtype, ms=round(scene.trace.seconds * 1000)
        ),
        "file": f"attention-{layer}-{number}",
        "run": f"{scene.run} {layer}.{number}",
        "words": some(words, "plot", "numbers", "csv", "picture", "png", "svg", "table", "table_note", "reset")
        | some(words, "pattern", "query", "key", "weight"),
    }


def chosen_head(value: object, trace: Trace) -> tuple[int, int] | None:
    """The last head of a selection sent by the page, or None where it is not a head of this model."""
    try:
        layer, head = value["heads"][-1]
    except (TypeError, KeyError, IndexError, ValueError):
        return None
    fits = isinstance(layer, int) and isinstance(head, int)
    return (layer, head) if fits and 0 <= layer < trace.config.n_layer and 0 <= head < trace.config.n_head else None


def default_head(trace: Trace) -> tuple[int, int]:
    """The head that most attends to the previous token: the easiest picture to understand first."""
    scores = trace.head_metrics()["previous_token"].fillna(0)
    return tuple(int(n) for n in scores.idxmax())


TAB = Tab("attention", build, fixed, draw, parts=("question", "howto", "heads", "plot"), asks=("plot",))
