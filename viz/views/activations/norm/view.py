"""One norm: its formula walked on one token, its values before and after, its gain and bias, and BatchNorm instead."""

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass

import gradio as gr

from model.activations.norm_walk import (
    BatchCompared,
    Place,
    compare_batch,
    norm_input,
    norm_of,
    norm_output,
    norms_of,
    quantiles,
    walk_vector,
)
from model.errors import InputError
from model.gpt.config import ModelConfig
from viz.page.old_view import View
from viz.page.parts import choice, part, plot_words
from viz.page.picking import position_of, source
from viz.page.python_lines import python_lines
from viz.page.scene import Scene
from viz.page.tab import Picture, Values
from viz.page.typed import quoted
from viz.theme import HUES
from viz.views.activations.norm.figures import (
    FIRST,
    LARGEST,
    Counted,
    Side,
    counted,
    histogram,
    panels,
    size_traces,
    spread_traces,
    token_label,
    told,
    walk_steps,
    walk_table,
)
from viz.words import section, some

PARTS = (
    "onenorm_form",
    "onenorm_walk",
    "onenorm_values",
    "onenorm_gains",
    "onenorm_all",
    "onenorm_batch",
    "onenorm_why",
)


@dataclass(frozen=True, eq=False)
class Shown:
    """The norm that is looked at, and what it read."""

    scene: Scene
    place: Place
    read: Callable[[], object]  # float32 [T, D]; recomputed once a drawing, and only where a picture needs it
    compared: Callable[[], BatchCompared]

    @property
    def norm(self):
        """The model's own module."""
        return norm_of(self.scene.model.model, *self.place)

    @property
    def name(self) -> str:
        """What the page calls it."""
        return place_name(self.scene, self.place)


def build() -> dict[str, gr.HTML]:
    """The walk in full width; below, values and parameters side by side, then BatchNorm."""
    made = {
        "onenorm_form": part("onenorm_form", None, kind="controls", value={}),
        "onenorm_walk": part("onenorm_walk", None, kind="normwalk"),
    }
    for pair in (("onenorm_values", "onenorm_gains"), ("onenorm_all", "onenorm_batch")):
        with gr.Row(elem_classes="pg-columns"):
            for name in pair:
                with gr.Column(min_width=320):
                    made[name] = part(name, None, kind="figure")
    made["onenorm_why"] = part("onenorm_why", None, kind="normfacts")
    return made


def draw(scene: Scene, values: Values) -> dict[str, Picture]:
    """All of one norm. What does not depend on the token stays when another one is picked."""
    config, at = scene.model.config, position_of(scene)
    places = norms_of(config)
    place = places[int(choice(values.get("onenorm_form"), "norm", tuple(map(str, range(len(places))))))]
    read = functools.cache(lambda: _read(scene, place))
    compared = functools.cache(lambda: compare_batch(norm_of(scene.model.model, *place), read()))
    shown, key = Shown(scene, place, read, compared), (scene.run, place)
    model = (scene.model.id, scene.language)
    return {
        "onenorm_form": Picture((model, config), lambda: form(scene)),
        "onenorm_walk": Picture((key, at), lambda: walk_payload(shown, at)),
        "onenorm_values": Picture(key, lambda: values_payload(shown)),
        "onenorm_gains": Picture((key, "gains"), lambda: gains_payload(shown)),
        "onenorm_all": Picture((scene.run, "all"), lambda: all_payload(scene)),
        "onenorm_batch": Picture((key, "batch"), lambda: batch_payload(shown)),
        "onenorm_why": Picture((key, "why"), lambda: why_payload(shown)),
    }


def _read(scene: Scene, place: Place) -> object:
    """What the norm read, [T, D]; raises InputError where edits have driven it beyond the range of float32."""
    x = norm_input(scene.trace, *place)
    if not math.isfinite(float(abs(x).max())):
        raise InputError(scene.words["onenorm.not_finite"], "", scene.words["onenorm.not_finite_hint"])
    return x


# --- which norm -------------------------------------------------------------------------------------


def place_name(scene: Scene, place: Place) -> str:
    """A norm as the page calls it: where it stands depends on how the model's blocks are wired."""
    layer, site = place
    return scene.words[f"onenorm.{place_key(scene.model.config, site)}"].format(layer=layer)


def place_key(config: ModelConfig, site: str) -> str:
    """The word for a norm's place: before its sublayer, or after it where the model is post-norm."""
    if site == "final":
        return "at_final"
    return f"at_{site}_{config.norm_placement}"


def kind_name(scene: Scene) -> str:
    """LayerNorm or RMSNorm."""
    return {"layernorm": "LayerNorm", "rmsnorm": "RMSNorm"}[scene.model.config.norm]


def form(scene: Scene) -> dict:
    """The list of all norms."""
    options = [[str(n), place_name(scene, place)] for n, place in enumerate(norms_of(scene.model.config))]
    label = scene.words["onenorm.which"].format(kind=kind_name(scene), n=len(options))
    return {"controls": [{"name": "norm", "kind": "choice", "label": label, "value": "0", "options": options}]}


# --- one token --------------------------------------------------------------------------------------


def walk_payload(shown: Shown, at: int) -> dict:
    """The steps on one token, some of its dimensions in a table, and the model's own output as the check."""
    scene, words = shown.scene, shown.scene.words
    found = walk_vector(shown.norm, shown.read()[at])
    said = section(words, "onenorm")
    top = float(abs(found.model_out).max())
    table = walk_table(found)
    steps = walk_steps(found, said)
    given = {"n": min(LARGEST, len(found.x)), "rest": len(table["rows"]) - min(LARGEST, len(found.x)), "first": FIRST}
    lines = [f"walk(run, {shown.place[0]}, {shown.place[1]!r}, {at})"]
    check = words["onenorm.check"].format(gap=told(found.gap), top=told(top))
    return {
        "title": words["onenorm.walk_title"].format(
            kind=kind_name(scene), place=shown.name, token=quoted(scene, int(scene.trace.tokens.ids[at])), position=at
        ),
        "note": words["onenorm.walk_note"],
        "steps": [step | {"title": said[f"step_{step['name']}"]} for step in steps],
        "table": table,
        "table_note": words["onenorm.table_note"].format(**given),
        "mean_note": "" if table["mean"] is None else f"μ = {table['mean']}",
        "check": check,
        "same": found.gap <= 1e-5 * max(1.0, top),
        "colours": {"light": HUES[0], "dark": HUES[5], "mark": HUES[4]},
        "source": source(scene),
        "file": f"norm-{shown.place[0]}-{shown.place[1]}-token-{at}",
        "run": f"{scene.run} {shown.place} {at}",
        "python": python_lines(scene, lines, ["from model.activations.norm_walk import walk"]),
        "words": some(words, "onenorm", "dimension", "dimension_help", "dimensions", "model") | plot_words(words),
    }


# --- all tokens -------------------------------------------------------------------------------------


def values_payload(shown: Shown) -> dict:
    """Histograms of what the norm reads and of what it writes, over all tokens."""
    words, before = shown.scene.words, shown.read()
    both = [counted(before), counted(norm_output(shown.norm, before))]
    names = [words["onenorm.before"], words["onenorm.after"]]
    sides = [
        Side([histogram(found, name, words["onenorm.values"], colour)], name, words["onenorm.count"])
        for found, name, colour in zip(both, names, (HUES[1], HUES[0]), strict=True)
    ]
    layer, site = shown.place
    lines = [
        f"norm = norm_of(lm.model, {layer}, {site!r})",
        f"x = norm_input(run, {layer}, {site!r})",
        "x, norm_output(norm, x)  # [T, D] each",
    ]
    note = words["onenorm.values_note"].format(T=before.shape[0], D=before.shape[1])
    return _figure(shown, sides, "values", note, _outside(shown.scene, both, names)) | {
        "columns": [words["onenorm.series"], words["onenorm.value"], words["onenorm.count"]],
        "python": _lines(shown.scene, lines, "norm_input, norm_of, norm_output"),
    }


def gains_payload(shown: Shown) -> dict:
    """Histograms of the norm's gain and, where it has one, bias."""
    words, norm = shown.scene.words, shown.norm
    names = ["gain"] if norm.bias is None else ["gain", "bias"]
    given = {"gain": norm.weight, "bias": norm.bias}
    both = [counted(given[name].detach().numpy()) for name in names]
    titles = [words[f"onenorm.{name}"] for name in names]
    unit, count = words["onenorm.dimension_unit"], words["onenorm.dimension_count"]
    sides = [
        Side([histogram(found, title, unit, colour)], title, count)
        for found, title, colour in zip(both, titles, (HUES[2], HUES[3]), strict=False)
    ]
    layer, site = shown.place
    lines = [f"norm = norm_of(lm.model, {layer}, {site!r})", "norm.weight, norm.bias  # gain and bias, [D] each"]
    note = words["onenorm.gains_note" if norm.bias is not None else "onenorm.gain_note"]
    return _figure(shown, sides, "gains", note, _outside(shown.scene, both, titles)) | {
        "columns": [words["onenorm.series"], words["onenorm.value"], count],
        "python": _lines(shown.scene, lines, "norm_of"),
    }


def _outside(scene: Scene, both: list[Counted], names: list[str]) -> str:
    """How many values lie beyond the ends of a histogram, and how far they go."""
    said = [
        scene.words["onenorm.outside"].format(n=found.outside, name=name, low=told(found.low), high=told(found.high))
        for found, name in zip(both, names, strict=True)
        if found.outside
    ]
    return " ".join(said)


def _figure(shown: Shown, sides: list[Side], name: str, *notes: str) -> dict:
    """A figure of this norm, without its columns and lines of Python."""
    words, (layer, site) = shown.scene.words, shown.place
    title = words[f"onenorm.{name}_title"].format(kind=kind_name(shown.scene), place=shown.name)
    return {
        "figure": panels(sides, legend=name == "batch").to_json(),
        "title": title,
        "note": " ".join(note for note in notes if note),
        "source": source(shown.scene),
        "file": f"norm-{name}-{layer}-{site}",
        "run": f"{shown.scene.run} {shown.place} {name}",
        "words": plot_words(words),
    }


def _lines(scene: Scene, lines: list[str], names: str) -> str:
    return python_lines(scene, lines, [f"from model.activations.norm_walk import {names}"])


# --- all norms --------------------------------------------------------------------------------------


def all_payload(scene: Scene) -> dict:
    """Gain and bias of all norms by layer."""
    words, config = scene.words, scene.model.config
    found, places = quantiles(scene.model.model), norms_of(config)
    said = some(words, "onenorm", "low", "median", "high", "layer")
    for site in ("norm1", "norm2", "final"):
        said[site] = words[f"onenorm.all_{place_key(config, site)}"]
    sides = [
        Side(spread_traces(table, places, said), said["layer"], words[f"onenorm.{name}"], {"tickformat": "d"})
        for name, table in found.items()
    ]
    for side in sides[1:]:
        for trace in side.traces:
            trace.showlegend = False
    note = words["onenorm.all_note"]
    return {
        "figure": panels(sides, legend=True).to_json(),
        "title": words["onenorm.all_title_bias" if "bias" in found else "onenorm.all_title"],
        "note": note if config.final_norm else f"{note} {words['onenorm.no_final']}",
        "source": source(scene),
        "file": "norm-gains-by-layer",
        "run": f"{scene.run} all",
        "columns": [words["onenorm.series"], said["layer"], words["onenorm.value"]],
        "python": _lines(scene, ["quantiles(lm.model)  # [norms, 3] each: 5 %, median, 95 %"], "quantiles"),
        "words": plot_words(words),
    }


# --- BatchNorm --------------------------------------------------------------------------------------


def batch_payload(shown: Shown) -> dict:
    """What has the same size after the model's norm, each token; and after BatchNorm, each dimension."""
    scene, words = shown.scene, shown.scene.words
    found, names = shown.compared(), (kind_name(scene), "BatchNorm")
    label, dimension = token_label(scene.trace.tokens), words["onenorm.dimension"]
    sides = [
        Side(
            size_traces(found.own_tokens, found.batch_tokens, names, label, pick=True),
            words["onenorm.token"],
            words["onenorm.token_size"],
        ),
        Side(
            size_traces(found.own_dimensions, found.batch_dimensions, names, lambda d: dimension.format(d=d)),
            words["onenorm.dimension_axis"],
            words["onenorm.dimension_size"],
        ),
    ]
    layer, site = shown.place
    lines = [f"norm = norm_of(lm.model, {layer}, {site!r})", f"compare_batch(norm, norm_input(run, {layer}, {site!r}))"]
    note = words["onenorm.batch_note"].format(kind=kind_name(scene))
    return _figure(shown, sides, "batch", note) | {
        "columns": [words["onenorm.series"], words["onenorm.item"], words["onenorm.index"], words["onenorm.size"]],
        "python": _lines(scene, lines, "compare_batch, norm_input, norm_of"),
    }


def why_payload(shown: Shown) -> dict:
    """Why BatchNorm is not used here, with this prompt's numbers."""
    scene, words = shown.scene, shown.scene.words
    found, kind = shown.compared(), kind_name(scene)
    if found.batch_later is None:
        later = words["onenorm.why_later_one"]
    else:
        later = words["onenorm.why_later"].format(
            last=len(scene.trace.tokens) - 1, batch=told(found.batch_later), own=told(found.own_later), kind=kind
        )
    alone = words["onenorm.why_alone"].format(batch=told(found.batch_alone), own=told(found.own_alone), kind=kind)
    items = [
        [words["onenorm.why_later_title"], later],
        [words["onenorm.why_alone_title"], alone],
        [words["onenorm.why_use_title"], words["onenorm.why_use"].format(kind=kind)],
    ]
    return {
        "title": words["onenorm.why_title"],
        "about": words["onenorm.why_about"],
        "items": items,
        "run": f"{scene.run} {shown.place}",
    }


VIEW = View("onenorm", build=build, draw=draw, parts=PARTS, asks=("onenorm_form",))
