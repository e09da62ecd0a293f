"""Fewer bits: bytes, errors of the weights, and what changes of the output, format by format."""

from collections.abc import Mapping

import gradio as gr

from model.quantization.experiments import Outcome, kinds_of
from model.quantization.formats import FORMATS, WeightError
from viz.charts.heatmap import PatternWords, Window, pattern_figure
from viz.page import background
from viz.page.old_view import View
from viz.page.parts import part, plot_words
from viz.page.python_lines import python_lines
from viz.page.scene import Scene
from viz.page.tab import Picture, Values
from viz.views.activations.norm.figures import told
from viz.views.predictions.figures import percent
from viz.views.quantization.formats.figures import (
    SAME,
    STILL,
    Dot,
    bounded,
    map_panels,
    mean_moved,
    most_moved,
    scatter_figure,
    small,
)
from viz.views.quantization.formats.job import (
    WHICH,
    Asked,
    Run,
    asked_of,
    decibels,
    family_of,
    key_of,
    matrix_errors,
    matrix_lines,
    measure_lines,
    measured_line,
    name_of,
    perplexity,
    place_of,
    plan,
    short_of,
    usable_of,
)
from viz.views.quantization.formats.tables import facts_payload, levels_payload, table_payload
from viz.views.sampling.kv_cache.figures import told_bytes
from viz.words import section

PARTS = (
    "formats_form",
    "formats_job",
    "formats_scatter",
    "formats_maps",
    "formats_table",
    "formats_levels",
    "formats_facts",
)


def build() -> dict[str, gr.HTML]:
    """The form; bits against damage and a head before and after; the table; one matrix and what is known of it."""
    made = {
        "formats_form": part("formats_form", None, kind="controls", value={}),
        "formats_job": part("formats_job", None, kind="job", events=("start", "cancel")),
    }
    with gr.Row(elem_classes="pg-columns"):
        with gr.Column(min_width=320):
            made["formats_scatter"] = part("formats_scatter", None, kind="figure")
        with gr.Column(min_width=320):
            made["formats_maps"] = part("formats_maps", None, kind="figure")
    made["formats_table"] = part("formats_table", None, kind="labtable")
    with gr.Row(elem_classes="pg-columns"):
        with gr.Column(min_width=320):
            made["formats_levels"] = part("formats_levels", None, kind="figure")
        with gr.Column(min_width=320):
            made["formats_facts"] = part("formats_facts", None, kind="normfacts")
    return made


def fixed(words: Mapping[str, str]) -> dict[str, dict]:
    """Nothing: the form depends on the model."""
    return {}


def draw(scene: Scene, values: Values) -> dict[str, Picture]:
    """Bytes and one matrix at once; outputs once they were measured."""
    asked = asked_of(scene, values)
    key = key_of(scene, asked)
    found = scene.playground.results.peek(key)
    run = found.value if found else None
    layer = scene.head[0]
    state = (key, found is not None, bool(scene.picked.edits))
    place = (*state, layer, asked.matrix, asked.one)
    return {
        "formats_form": Picture(scene.model.id, lambda: form_payload(scene)),
        "formats_job": Picture(state, lambda: _button(scene, asked, found)),
        "formats_scatter": Picture((*state, layer, asked.matrix), lambda: scatter_payload(scene, asked, run)),
        "formats_maps": Picture((*place, scene.head), lambda: maps_payload(scene, asked, run)),
        "formats_table": Picture((*state, layer, asked.matrix), lambda: table_payload(scene, asked, run)),
        "formats_levels": Picture((*place[3:], scene.model.id), lambda: levels_payload(scene, asked)),
        "formats_facts": Picture(place, lambda: facts_payload(scene, asked, run)),
    }


# --- the form and the button ---------------------------------------------------------------------------


def form_payload(scene: Scene) -> dict:
    """Which formats, whether the head too, and the format and matrix that are looked at."""
    words, model = scene.words, scene.model.model
    tied = scene.model.config.tie_embeddings
    which = [[key, words[f"formats.which_{key}"].format(n=len(each))] for key, each in WHICH.items()]
    one = [[key, name_of(each, words)] for key, each in FORMATS.items() if key != "float32"]
    kinds = [[kind, words[f"formats.matrix_{kind}"]] for kind in kinds_of(model)]
    return {
        "controls": [
            {"name": "which", "kind": "choice", "label": words["formats.which"], "value": "usual", "options": which},
            {
                "name": "head",
                "kind": "check",
                "label": words["formats.head_tied" if tied else "formats.head"],
                "value": False,
            },
            {"name": "one", "kind": "choice", "label": words["formats.one"], "value": "int4-32", "options": one},
            {"name": "matrix", "kind": "choice", "label": words["formats.matrix"], "value": "down", "options": kinds},
        ]
    }


def _button(scene: Scene, asked: Asked, found: background.Result | None) -> dict:
    words = scene.words
    hint = words["formats.takes"].format(n=len(usable_of(scene, asked)))
    if scene.picked.edits:
        hint = f"{hint} {words['formats.no_edits']}"
    return background.button(words["formats.start"], words, found, hint)


# --- bits against damage ---------------------------------------------------------------------------------


def scatter_payload(scene: Scene, asked: Asked, run: Run | None) -> dict:
    """Bits a weight against KL, or against the error of one matrix as long as nothing was measured."""
    said = section(scene.words, "formatsscatter")
    named = {kind.key: name_of(kind, scene.words) for kind in usable_of(scene, asked)}
    if run:
        dots = [_dot(scene, said, run.outcomes[key], name) for key, name in named.items() if key in run.outcomes]
        none = [dot.hover[0] for dot in dots if dot.damage <= SAME]
        dots = [dot for dot in dots if dot.damage > SAME]
        note = said["note"] + (f" {said['none'].format(names=', '.join(none))}" if none else "")
        title, damage, line = said["title"], said["kl"], measured_line(scene, run)
        python = measure_lines(scene, asked, "[(each.key, each.error.bits, each.text.kl) for each in found]")
    else:
        found = matrix_errors(scene, asked)
        dots = [
            Dot(
                short_of(kind),
                family_of(kind),
                found[kind.key].bits,
                found[kind.key].relative,
                [named[kind.key], *_told(said, found[kind.key])],
            )
            for kind in usable_of(scene, asked)
            if kind.key in found
        ]
        place = place_of(scene, asked)
        note, title, damage = said["note_matrix"], said["title_matrix"].format(place=place), said["relative"]
        line = said["source_matrix"].format(model=scene.model.label)
        python = matrix_lines(scene, asked, "[weight_error(weight, *stored(weight, FORMATS[key])) for key in FORMATS]")
    return {
        "figure": scatter_figure(dots, said | {"damage": damage}),
        "title": title,
        "note": note,
        "source": line,
        "file": "formats-bits-and-damage",
        "run": f"{scene.run} {key_of(scene, asked)[4:]} {place_of(scene, asked)} {run is not None}",
        "columns": [said["family"], said["format"], said["bits"], damage],
        "python": python,
        "words": plot_words(scene.words),
    }


def _told(said: Mapping[str, str], error: WeightError) -> list[str]:
    """An error in lines."""
    return [
        said["hover_bits"].format(bits=told(error.bits), size=told_bytes(error.nbytes)),
        said["hover_error"].format(
            relative=small(error.relative), largest=small(error.largest), snr=decibels(error.snr)
        ),
    ]


def _dot(scene: Scene, said: Mapping[str, str], found: Outcome, name: str) -> Dot:
    lines = [
        name,
        *_told(said, found.error),
        said["hover_kl"].format(prompt=bounded(found.prompt.kl, SAME), text=bounded(found.text.kl, SAME)),
        said["hover_agree"].format(prompt=percent(found.prompt.agree), text=percent(found.text.agree)),
        said["hover_perplexity"].format(before=perplexity(found.text.before), after=perplexity(found.text.loss)),
        said["hover_moved"].format(moved=bounded(mean_moved(found.moved), STILL)),
        said["hover_speed"].format(n=told(float(f"{found.speed:.3g}"))) if found.speed else said["simulated"],
    ]
    kind = FORMATS[found.key]
    return Dot(short_of(kind), family_of(kind), found.error.bits, found.text.kl, lines)


# --- one head ------------------------------------------------------------------------------------------


def maps_payload(scene: Scene, asked: Asked, run: Run | None) -> dict:
    """The picked head's pattern before and after."""
    said, (layer, head) = section(scene.words, "formatsmaps"), scene.head
    maps = scene.playground.results.peek((*key_of(scene, asked), "maps"))
    if run is None or maps is None:
        return {"empty": {"text": said["empty"], "hint": said["empty_hint"]}}
    kept, outcome = maps.value.by_format.get(asked.one), run.outcomes.get(asked.one)
    if kept is None or outcome is None:
        return {"empty": {"text": said["not_measured"], "hint": said["not_measured_hint"]}}
    after, name = kept[layer, head], name_of(FORMATS[asked.one], scene.words)
    panels = map_panels(scene.unedited.pattern(layer, head), after, (said["before"], name))
    words = PatternWords(*(said[key] for key in ("query", "key", "weight", "largest")))
    figure = pattern_figure(panels, scene.trace.tokens, words, Window(0, len(after), 0, len(after)))
    # No part of it can be asked for.
    figure.update_layout(meta={**figure.layout.meta, "whole": True, "height": 400, "narrow": 660})
    most = most_moved(outcome.moved)
    note = said["note"].format(
        moved=bounded(float(outcome.moved[layer, head]), STILL),
        mean=bounded(mean_moved(outcome.moved), STILL),
        layer=most[0],
        head=most[1],
        most=bounded(most[2], STILL),
    )
    if len(after) < len(scene.trace.tokens):
        note = f"{note} {said['first'].format(n=len(after))}"
    lines = [
        f'rounded = with_format(lm.model, FORMATS["{asked.one}"], head={asked.head})',
        f"retrace(rounded, run.tokens).pattern({layer}, {head})",
    ]
    imports = [
        "from model.quantization.formats import FORMATS",
        "from model.quantization.experiments import with_format",
        "from model.gpt.trace import run as retrace",
    ]
    return {
        "figure": figure.to_json(),
        "title": said["title"].format(layer=layer, head=head),
        "note": note,
        "source": measured_line(scene, run),
        "file": f"formats-{asked.one}-{layer}-{head}",
        "run": f"{scene.run} {asked.one} {asked.head} {scene.head} maps",
        "columns": [said["map"], said["query"], said["key"], said["weight"]],
        "python": python_lines(scene, lines, imports),
        "words": plot_words(scene.words),
    }


VIEW = View(
    "formats",
    build,
    draw,
    parts=PARTS,
    fixed=fixed,
    asks=("formats_form",),
    jobs={"formats_job": plan},
)
