"""The attention tab: all heads at a glance, and the picked ones as a map, as lines, in the text, cell by cell."""

from collections.abc import Callable, Mapping

import gradio as gr

from model.attention.measures import MEASURES, rows_undefined
from model.gpt.head_metrics import HEAD_METRICS
from viz.charts.heatmap import Look, PatternWords, Window, pattern_figure
from viz.charts.heatmap import overview as all_heads
from viz.page.parts import choice, part, plot_words
from viz.page.picking import OF, Shown, cell_of, shown_heads, source
from viz.page.python_lines import head_lines
from viz.page.scene import Scene
from viz.page.tab import Picture, Tab, Values
from viz.theme import CURVES
from viz.views.attention.cell import view as cell
from viz.views.attention.find import view as find
from viz.views.attention.lines.figures import links_payload
from viz.words import section, some

VIEWS = ("map", "lines", "text", "why", "find")
_HOWTO = {
    "map": "howto",
    "lines": "lines_howto",
    "text": "reading_howto",
    "why": "why_howto",
    "find": "find_howto",
}
_PARTS = {"map": ("plot",), "lines": ("lines",), "text": ("reading",), "why": ("why",), "find": ("find", "findmap")}


def build(first: Mapping[str, dict]) -> dict[str, gr.HTML]:
    """The question, how to read the pictures, the overview left and the detail right."""
    made = {"question": part("question", first.get("question"))}
    made |= {name: part(name, first.get(name), kind="howto") for name in _HOWTO.values()}
    with gr.Row(elem_id="attention-row", elem_classes="pg-columns"):
        with gr.Column(min_width=320):
            made["heads"] = part("heads", first.get("heads"))
        with gr.Column(min_width=320):
            made["looking"] = part("looking", first.get("looking"), kind="controls", value={})
            made["plot"] = part("plot", first.get("plot"), value={"run": "", "window": None})
            made["lines"] = part("lines", None)
            made["reading"] = part("reading", None)
            made["why"] = part("why", None)
            made["find"] = part("find", None, value={})
            made["findmap"] = part("findmap", None, kind="figure")
    return made


def fixed(words: Mapping[str, str]) -> dict[str, dict]:
    """What the tab answers, how to read it, and the settings of the detail."""
    howto = {
        name: {"title": words["howto.title"], "parts": some(words, name, "body", "formula", "caveat", "try")}
        for name in _HOWTO.values()
    }
    return {"question": {"text": words["tab.attention_question"]}, "looking": looking_payload(words)} | howto


def looking_payload(words: Mapping[str, str]) -> dict:
    """Which view, which measure, of which heads, on which ramp."""

    def options(section: str, keys: tuple[str, ...]) -> list[list[str]]:
        return [[key, words[f"{section}.{key}"]] for key in keys]

    measures = [[key, words[f"measure.{key}"], _about(words, key)] for key in MEASURES]
    pictures = ["map", "lines", "text"]
    return {
        "controls": [
            {
                "name": "view",
                "kind": "views",
                "label": words["looking.view"],
                "value": "map",
                "options": options("view", VIEWS),
            },
            {
                "name": "measure",
                "kind": "choice",
                "label": words["looking.measure"],
                "value": "weights",
                "options": measures,
                "when": {"view": pictures},
            },
            {
                "name": "of",
                "kind": "choice",
                "label": words["looking.of"],
                "value": "each",
                "options": options("of", OF),
                "when": {"view": pictures},
            },
            {
                "name": "curve",
                "kind": "choice",
                "label": words["looking.curve"],
                "value": "sqrt",
                "options": options("curve", CURVES),
                "when": {"view": ["map"]},
            },
        ],
        "shows": {view: [_HOWTO[view], *_PARTS[view]] for view in VIEWS},
    }


def _about(words: Mapping[str, str], measure: str) -> str:
    """What a measure says, how it is computed, from where, and what to beware of."""
    entry = MEASURES[measure]
    return f"{words[f'measure_help.{measure}']} {entry.formula} ({entry.source}). {words[f'measure_caveat.{measure}']}"


def draw(scene: Scene, values: Values) -> dict[str, Picture]:
    """All heads, and the view that is chosen of the picked ones."""
    asked = values.get("looking")
    view = choice(asked, "view", VIEWS)
    shown = Shown(choice(asked, "measure", tuple(MEASURES)), choice(asked, "of", OF), choice(asked, "curve", CURVES))
    pictures = {"heads": Picture(scene.run, lambda: heads_payload(scene))}
    return pictures | _DRAW[view](scene, shown, values)


def _map(scene: Scene, shown: Shown, values: Values) -> dict[str, Picture]:
    plot = values.get("plot")
    asked = plot if isinstance(plot, dict) else {}
    window = asked.get("window") if str(asked.get("run", "")).startswith(f"{scene.run} ") else None
    seen = Window.of(window, len(scene.trace.tokens))
    key = (scene.run, scene.picked.heads, shown, seen)
    return {"plot": Picture(key, lambda: plot_payload(scene, shown, seen))}


def _links(name: str) -> Callable[[Scene, Shown, Values], dict[str, Picture]]:
    def pictures(scene: Scene, shown: Shown, values: Values) -> dict[str, Picture]:
        key = (scene.run, scene.picked.heads, shown.measure, shown.of)
        return {name: Picture(key, lambda: _links_of(scene, shown))}

    return pictures


def _links_of(scene: Scene, shown: Shown) -> dict:
    """What the lines and the text show; they need numbers from 0 up, so scores give way to weights."""
    signed = MEASURES[shown.measure].scale == "signed"
    usable = Shown("weights", shown.of, shown.curve) if signed else shown
    found = shown_heads(scene, usable)
    panels = [(panel.name, panel.z) for panel in found.panels]
    payload = links_payload(panels, [list(head) for head in found.heads], scene.trace.tokens)
    return payload | {
        "run": f"{scene.run} {found.name}",
        "title": found.title,
        "measure": scene.words[f"measure.{usable.measure}"],
        "note": scene.words["lines.no_scores"] if signed else "",
        "source": source(scene),
        "python": head_lines(scene, usable),
        "words": plot_words(scene.words) | section(scene.words, "lines") | section(scene.words, "reading"),
    }


_DRAW: dict[str, Callable[[Scene, Shown, Values], dict[str, Picture]]] = {
    "map": _map,
    "lines": _links("lines"),
    "text": _links("reading"),
    "why": lambda scene, shown, values: cell.pictures(scene, cell_of(scene)),
    "find": lambda scene, shown, values: find.pictures(scene, values),
}


def heads_payload(scene: Scene) -> dict:
    """Every head's thumbnail and numbers."""
    words, metrics = scene.words, scene.trace.head_metrics()
    unit = {"tokens": words["metric.unit_tokens"]}
    names = [
        {"label": words[f"metric.{key}"], "help": words[f"metric_help.{key}"], "unit": unit.get(metric.unit, "")}
        for key, metric in HEAD_METRICS.items()
    ]
    picture = all_heads(scene.trace.thumbnails, metrics, scene.model.config.group_size)
    return picture | {"metric_names": names, "words": section(words, "overview"), "run": scene.run}


def plot_payload(scene: Scene, shown: Shown, seen: Window) -> dict:
    """Heat maps of what is shown, with what the lines around them say."""
    words, tokens, measure = scene.words, scene.trace.tokens, MEASURES[shown.measure]
    found = shown_heads(scene, shown)
    said = PatternWords(
        words["pattern.query"], words["pattern.key"], words[f"measure.{shown.measure}"], words["pattern.largest"]
    )
    figure = pattern_figure(found.panels, tokens, said, seen, Look(measure.scale, shown.curve))
    meta, whole = figure.layout.meta, seen == Window.whole(len(tokens))
    n = len(found.panels)
    size = {"height": 330 * -(-n // 2), "narrow": 330 * n} if n > 1 else {}
    figure.layout.meta = meta | {"whole": whole} | size
    figure.layout.uirevision = f"{scene.run} {meta['window']}"  # the zoom outlives a change of head
    return {
        "figure": figure.to_json(),
        "title": found.title,
        "note": " ".join(_notes(scene, shown, seen, whole, meta["block"])),
        "source": f"{source(scene)} · {words['looking.ramp_note'].format(curve=words[f'curve.{shown.curve}'])}",
        "file": found.file,
        "run": f"{scene.run} {found.name}",
        "columns": [words["pattern.query"], words["pattern.key"], words[f"measure.{shown.measure}"]],
        "python": head_lines(scene, shown),
        "words": plot_words(words) | some(words, "pattern", "query", "key", "weight"),
    }


def _notes(scene: Scene, shown: Shown, seen: Window, whole: bool, block: int) -> list[str]:
    """What there is to know of this drawing: which part it is, what is pooled, what cannot be told."""
    words, notes = scene.words, []
    if not whole:
        place = {"q0": seen.q0, "q1": seen.q1 - 1, "k0": seen.k0, "k1": seen.k1 - 1}
        notes.append(words["pattern.window"].format(**place))
    if block > 1:
        notes.append(words["pattern.pooled"].format(n=block))
    if shown.measure == "without_first":
        lost = max(rows_undefined(scene.trace.pattern(*head)) for head in scene.picked.heads)
        if lost:
            notes.append(words["pattern.rows_undefined"].format(n=lost))
    return notes


TAB = Tab(
    "attention",
    build,
    fixed,
    draw,
    parts=("question", *_HOWTO.values(), "heads", "looking", "plot", "lines", "reading", "why", "find", "findmap"),
    asks=("looking", "plot", "find"),
)
