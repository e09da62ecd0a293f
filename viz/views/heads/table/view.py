"""The heads tab: every head in numbers, on this prompt or over a probe set, and which heads work together."""

import math
from collections.abc import Mapping
from dataclasses import dataclass

import gradio as gr

from model.attention.circuits import composition, copying
from model.attention.surveys import LABELS, MARGIN, SENTENCES, Survey, labels, random_survey, sentence_survey
from model.gpt.head_metrics import HEAD_METRICS
from model.progress import Progress
from viz.page import background
from viz.page.parts import choice, part, plot_words
from viz.page.picking import source
from viz.page.python_lines import python_lines
from viz.page.scene import Scene
from viz.page.tab import Picture, Tab, Values
from viz.theme import HUES
from viz.views.heads.table.figures import (
    Colour,
    Measured,
    Metric,
    Plane,
    Wiring,
    composition_figure,
    head_table,
    named,
    scatter_figure,
)
from viz.words import section, some

SOURCES = ("prompt", "random", "sentences")
METRICS = (*HEAD_METRICS, "copying")
UP = ("induction", *(key for key in METRICS if key != "induction"))  # the first one is the default
COLOURS = ("layer", "label", "first_token", "entropy", "copying")
LEAST = 0.25  # share of the weight that a name needs
_UNITS = {"share": "unit_share", "share of maximum": "unit_most", "tokens": "unit_tokens"}


@dataclass(frozen=True, eq=False)
class Surveyed:
    """What was measured of a model with no prompt of the visitor's."""

    random: Survey
    sentences: Survey
    names: dict[tuple[int, int], list[tuple[str, float, float]]]  # of heads: (name, score, baseline), strongest first
    copying: list[list[float]]  # a row a layer


@dataclass(frozen=True)
class Chosen:
    """What the form asks for."""

    source: str  # of SOURCES
    x: str  # of METRICS
    y: str
    colour: str  # of COLOURS


def build(first: Mapping[str, dict]) -> dict[str, gr.HTML]:
    """The question, the form and the job; below them table and plot, and the wiring of one head."""
    names = {"heads_question": "question", "heads_howto": "howto"}
    made = {name: part(name, first.get(name), kind=kind) for name, kind in names.items()}
    made["heads_form"] = part("heads_form", first.get("heads_form"), kind="controls", value={})
    made["survey"] = part("survey", first.get("survey"), kind="job", events=("start", "cancel"))
    with gr.Row(elem_id="heads-row", elem_classes="pg-columns"):
        with gr.Column(min_width=320, scale=3):
            made["headtable"] = part("headtable", first.get("headtable"))
        with gr.Column(min_width=320, scale=2):
            made["scatter"] = part("scatter", first.get("scatter"), kind="figure")
    return made | {"composition": part("composition", first.get("composition"), kind="panels")}


def fixed(words: Mapping[str, str]) -> dict[str, dict]:
    """What the tab answers, how to read it, and its form."""
    howto = some(words, "heads_howto", "body", "formula", "caveat", "try")
    howto["formula"] = howto["formula"].format(least=LEAST, margin=MARGIN)
    return {
        "heads_question": {"text": words["tab.heads_question"]},
        "heads_howto": {"title": words["howto.title"], "parts": howto},
        "heads_form": {"controls": _controls(words)},
    }


def _controls(words: Mapping[str, str]) -> list[dict]:
    """Where the numbers come from, the two axes of the plot, and its colours."""

    def control(name: str, options: list[list[str]]) -> dict:
        return {
            "name": name,
            "kind": "choice",
            "label": words[f"heads.{name}"],
            "value": options[0][0],
            "options": options,
        }

    def metrics(keys: tuple[str, ...]) -> list[list[str]]:
        found = {metric.key: metric for metric in _metrics(words)}
        return [[key, found[key].label, found[key].help] for key in keys]

    sources = [[key, words[f"heads.source_{key}"], words[f"heads.source_help_{key}"]] for key in SOURCES]
    own = [[key, words[f"heads.colour_{key}"]] for key in COLOURS[:2]]
    return [
        control("source", sources),
        control("x", metrics(METRICS)),
        control("y", metrics(UP)),
        control("colour", own + [row[:2] for row in metrics(COLOURS[2:])]),
    ]


def _metrics(words: Mapping[str, str], missing: Mapping[str, str] | None = None) -> list[Metric]:
    """All metrics in the reader's language; `missing` says why one may have no number."""
    found = []
    for key, metric in HEAD_METRICS.items():
        unit, kind = words[f"heads.{_UNITS[metric.unit]}"], "share" if metric.high == 1 else "size"
        label, told = words[f"metric.{key}"], words[f"metric_help.{key}"]
        found.append(Metric(key, label, told, unit, kind, (missing or {}).get(key, "")))
    copied = some(words, "heads", "copying", "copying_help", "unit_copying", "copying_missing")
    return [*found, Metric("copying", *list(copied.values())[:3], "signed", copied["copying_missing"])]


def draw(scene: Scene, values: Values) -> dict[str, Picture]:
    """The job's button, the table, one metric against another, and the wiring of the main head."""
    asked = values.get("heads_form")
    chosen = Chosen(
        choice(asked, "source", SOURCES),
        choice(asked, "x", METRICS),
        choice(asked, "y", UP),
        choice(asked, "colour", COLOURS),
    )
    result = scene.playground.results.peek(survey_key(scene))
    found = (scene.run if chosen.source == "prompt" else scene.model.id, chosen.source, result is not None)
    wired = (scene.model.id, scene.head, result is not None)
    return {
        "survey": Picture(found[2], lambda: survey_payload(scene, result)),
        "headtable": Picture(found, lambda: table_payload(scene, chosen, result)),
        "scatter": Picture((*found, chosen, scene.picked.heads), lambda: scatter_payload(scene, chosen, result)),
        "composition": Picture(wired, lambda: composition_payload(scene, result)),
    }


# --- the probe set ---------------------------------------------------------------------------------


def survey_key(scene: Scene) -> tuple:
    """Under which the result of the job is kept: it depends on the model alone."""
    return ("survey", scene.model.id)


def plan_survey(scene: Scene, values: Values) -> background.Job:
    """Both probes, the names they give, and the copying scores."""
    lm = scene.model

    def work(progress: Progress) -> Surveyed:
        ran = [0]  # sequences of the first probe

        def random(done: int, total: int | None, what: str) -> None:
            ran[0] = total
            progress(done, total + len(SENTENCES) + 1, what)

        def sentences(done: int, total: int | None, what: str) -> None:
            progress(ran[0] + done, ran[0] + total + 1, what)

        repeated = random_survey(lm.model, pool=lm.tokenizer.vocab_size, progress=random)
        natural = sentence_survey(lm.model, lm.encode, progress=sentences)
        return Surveyed(repeated, natural, named(labels(repeated, LEAST)), copying(lm.model).tolist())

    return background.Job(survey_key(scene), work)


def survey_payload(scene: Scene, result: background.Result | None) -> dict:
    """The button, or what was measured."""
    words = scene.words
    return background.button(words["heads.measure"], words, result, words["heads.measure_hint"])


def _unmeasured(words: Mapping[str, str]) -> dict:
    """Instead of a picture of the probe set that was not measured yet."""
    hint = words["heads.unmeasured_hint"].format(button=words["heads.measure"])
    return {"empty": {"text": words["heads.unmeasured"], "hint": hint}}


# --- the table -------------------------------------------------------------------------------------


def measured_heads(scene: Scene, chosen: Chosen, result: background.Result | None) -> Measured | None:
    """The numbers of all heads from the chosen source; None for a probe set that was not measured yet."""
    surveyed: Surveyed | None = result.value if result else None
    if chosen.source == "prompt":
        values, spread = scene.trace.head_metrics(), None
    elif surveyed is None:
        return None
    else:
        survey = getattr(surveyed, chosen.source)
        values, spread = survey.mean, survey.spread
    if surveyed is None:
        return Measured(values, None, None)
    values = values.assign(copying=[score for row in surveyed.copying for score in row])
    return Measured(values, spread if spread is None else spread.assign(copying=math.nan), surveyed.names)


def _missing(scene: Scene, chosen: Chosen) -> dict[str, str]:
    """Why a metric may have no number, by its key."""
    words = scene.words
    if chosen.source != "prompt":
        return {}
    if len(scene.trace.tokens) == 1:
        return dict.fromkeys(HEAD_METRICS, words["heads.missing_one"])
    return {key: words[f"heads.missing_{key}"] for key in ("duplicate_token", "induction")}


def table_payload(scene: Scene, chosen: Chosen, result: background.Result | None) -> dict:
    """All heads in numbers."""
    words, measured = scene.words, measured_heads(scene, chosen, result)
    if measured is None:
        return _unmeasured(words)
    metrics = [metric for metric in _metrics(words, _missing(scene, chosen)) if metric.key in measured.values]
    return head_table(measured, metrics) | {
        "caption": caption(scene, chosen, result),
        "names_of": [
            [name, words[f"label.{name}"], words[f"metric_help.{name}"], HUES[n]] for n, name in enumerate(LABELS)
        ],
        "source": _source(scene, chosen, result),
        "file": f"heads-{chosen.source}",
        "run": f"{scene.run if chosen.source == 'prompt' else scene.model.id} {chosen.source} {result is not None}",
        "python": _python(scene, chosen),
        "words": plot_words(words) | section(words, "heads") | {"rule": _rule(words)},
    }


def _rule(words: Mapping[str, str]) -> str:
    return words["heads.rule"].format(least=LEAST, margin=MARGIN)


def caption(scene: Scene, chosen: Chosen, result: background.Result | None) -> str:
    """What the numbers are of: one run of this prompt, or means over a probe set."""
    words = scene.words
    if chosen.source == "prompt":
        n = len(scene.trace.tokens)
        return words["heads.caption_prompt" if n > 1 else "heads.caption_one"].format(tokens=n)
    return words[f"heads.caption_{chosen.source}"].format(n=getattr(result.value, chosen.source).sequences)


def _source(scene: Scene, chosen: Chosen, result: background.Result | None) -> str:
    """Whose numbers these are; edits change the run of the prompt only."""
    if chosen.source == "prompt":
        return source(scene)
    told = {"model": scene.model.label, "dtype": scene.model.dtype, "seconds": f"{result.seconds:.1f}"}
    return scene.words["heads.source_probe"].format(**told)


def _python(scene: Scene, chosen: Chosen, axes: tuple[str, ...] = ()) -> str:
    """The lines that make the frame of the chosen source, or its columns that are `axes`."""
    copied = "copying" in axes
    columns = f"[{list(dict.fromkeys(axes))}]" if axes and not copied else ""
    imports = ["from model.attention.circuits import copying"] if copied else []
    last = ["copying(lm.model)  # [L, H]"] if copied else []
    if chosen.source == "prompt":
        return python_lines(scene, [f"run.head_metrics(){columns}  # indexed (layer, head)", *last], imports)
    both = [f"found.mean{columns}, found.spread{columns}  # indexed (layer, head)", *last]
    if chosen.source == "sentences":
        lines = ["found = sentence_survey(lm.model, lm.encode)", *both]
        return python_lines(scene, lines, ["from model.attention.surveys import sentence_survey", *imports])
    lines = ["found = random_survey(lm.model, pool=lm.tokenizer.vocab_size)", *both, f"labels(found, {LEAST})"]
    return python_lines(scene, lines, ["from model.attention.surveys import labels, random_survey", *imports])


# --- one metric against another --------------------------------------------------------------------


def scatter_payload(scene: Scene, chosen: Chosen, result: background.Result | None) -> dict:
    """Every head as a point."""
    words, measured = scene.words, measured_heads(scene, chosen, result)
    if measured is None or (result is None and "copying" in (chosen.x, chosen.y)):
        return _unmeasured(words)
    missing = _missing(scene, chosen)
    metrics = {metric.key: metric for metric in _metrics(words, missing)}
    (x, y), notes = _axes(words, chosen, measured, metrics)
    if measured.values[[x.key, y.key]].isna().all(axis=None):
        return {"empty": {"text": words["heads.no_numbers"], "hint": missing.get(x.key, "")}}
    colour = chosen.colour if result or chosen.colour not in ("label", "copying") else "layer"
    if colour != chosen.colour:
        notes.append(words["heads.colour_later"])
    plane = Plane(measured, x, y, _colour(words, colour, measured, metrics), words["heads.named"])
    return {
        "figure": scatter_figure(plane, scene.picked.heads)
        .update_layout(uirevision=f"{scene.model.id} {chosen.source} {x.key} {y.key}")
        .to_json(),
        "title": words["heads.scatter_title"].format(x=x.label, y=y.label),
        "note": " ".join([caption(scene, chosen, result), words["heads.scatter_note"], *notes]),
        "source": _source(scene, chosen, result),
        "file": f"heads-{x.key}-{y.key}-{chosen.source}",
        "run": f"{scene.run} {chosen.source} {x.key} {y.key} {colour} {scene.picked.heads}",
        "columns": [words["heads.head"], x.label, y.label],
        "python": _python(scene, chosen, (x.key, y.key)),
        "words": plot_words(words) | {"series": words["heads.names"]},
    }


def _axes(
    words: Mapping[str, str], chosen: Chosen, measured: Measured, metrics: Mapping[str, Metric]
) -> tuple[tuple[Metric, Metric], list[str]]:
    """The two metrics; one that no head has on this prompt gives way to another, and that is said."""
    found, notes = [], []
    for key in (chosen.x, chosen.y):
        taken = {chosen.x, chosen.y, *(metric.key for metric in found)}
        others = [each for each in ("first_token", "entropy", "self", "distance") if each not in taken]
        if measured.values[key].isna().all() and measured.values[others[0]].notna().any():
            names = {"metric": metrics[key].label, "other": metrics[others[0]].label}
            notes.append(f"{metrics[key].missing} {words['heads.instead'].format(**names)}")
            key = others[0]
        found.append(metrics[key])
    return tuple(found), notes


def _colour(words: Mapping[str, str], name: str, measured: Measured, metrics: Mapping[str, Metric]) -> Colour:
    """What the colour of a point says."""
    if name == "layer":
        return Colour(words["heads.layer"], measured.values.index.get_level_values("layer").to_numpy(float))
    if name == "label":
        names = tuple((label, words[f"label.{label}"]) for label in LABELS)
        return Colour(words["heads.names"], names=names, nameless=words["heads.nameless"])
    return Colour(metrics[name].label, measured.values[name].to_numpy(float), metrics[name].kind == "signed")


# --- which heads work together ---------------------------------------------------------------------


def composition_payload(scene: Scene, result: background.Result | None) -> dict:
    """How strongly the main head is wired to each head of other layers."""
    words, (layer, head) = scene.words, scene.head
    if scene.model.config.n_layer == 1:
        return {"empty": {"text": words["heads.one_layer"], "hint": words["heads.one_layer_hint"]}}
    names = section(words, "heads")
    names["layer"] = words["heads.composed_layer"].format(head=f"{layer}.{head}")
    lines = [
        f"found = composition(lm.model, {layer}, {head})",
        "found.reads, found.feeds  # by q, k, v: [L, H] each",
        "found.baseline, found.baseline_sd",
        f"copying(lm.model)[{layer}, {head}]",
    ]
    return {
        "figure": composition_figure(wiring(scene), names, across=False).to_json(),
        "wide": composition_figure(wiring(scene), names, across=True).to_dict()["layout"],
        "title": words["heads.composed_title"].format(layer=layer, head=head),
        "note": " ".join(_composition_notes(scene, result)),
        "source": words["heads.source_weights"].format(model=scene.model.label, dtype=scene.model.dtype),
        "file": f"composition-{layer}-{head}",
        "run": f"{scene.model.id} {layer}.{head} {result is not None}",
        "columns": [words["heads.input"], words["heads.head"], words["heads.layer"], words["heads.above"]],
        "python": python_lines(scene, lines, ["from model.attention.circuits import composition, copying"]),
        "words": plot_words(words),
    }


def _composition_notes(scene: Scene, result: background.Result | None) -> list[str]:
    """How to read the maps, what was left out, and whether the head copies."""
    words, (layer, head) = scene.words, scene.head
    notes = [words["heads.composed_note"].format(layer=layer, head=head), words["heads.composed_caveat"]]
    if result is None:
        return [*notes, words["heads.copies_later"].format(button=words["heads.measure"])]
    score = result.value.copying[layer][head]
    if math.isnan(score):
        return [*notes, words["heads.copying_missing"]]
    return [words["heads.copies"].format(score=f"{score:+.2f}".replace("-", "−")), *notes]


def wiring(scene: Scene) -> Wiring:
    """The composition scores of the main head; of a large model they take a second, so they are kept."""

    def make() -> Wiring:
        found = composition(scene.model.model, *scene.head)
        return Wiring(scene.head, found.reads, found.feeds, found.baseline, found.baseline_sd)

    def size(made: Wiring) -> int:
        return sum(z.nbytes for z in (*made.reads.values(), *made.feeds.values()))

    return background.kept(scene.playground, ("composition", scene.model.id, scene.head), make, size)


TAB = Tab(
    "heads",
    build,
    fixed,
    draw,
    parts=("heads_question", "heads_howto", "heads_form", "survey", "headtable", "scatter", "composition"),
    asks=("heads_form",),
    jobs={"survey": plan_survey},
)
