"""A head's score and weight against the distance of the tokens, and what of it positions alone explain."""

import math
from collections.abc import Mapping
from dataclasses import dataclass

import gradio as gr

from model.attention.distance import (
    Buckets,
    ByDistance,
    buckets,
    by_distance,
    first_layer_parts,
    layer_weights,
    near,
    position_score,
    share_of_distance,
    sink_scores,
)
from viz.charts.layer_head_map import EffectWords, effect_figure
from viz.page import background
from viz.page.old_view import View
from viz.page.parts import choice, part, plot_words
from viz.page.picking import source
from viz.page.python_lines import python_lines
from viz.page.scene import Scene
from viz.page.tab import Picture, Values
from viz.views.activations.norm.figures import told
from viz.views.design.distance.figures import (
    Curves,
    layer_figure,
    over_buckets,
    scores_figure,
    uniform_weight,
    weights_figure,
)
from viz.views.predictions.figures import percent
from viz.words import some

PARTS = (
    "distance_form",
    "distance_scores",
    "distance_weights",
    "distance_map",
    "distance_layer",
    "distance_table",
)
AXES, FIRST = ("log", "linear"), ("apart", "in")
_IMPORT = "from model.attention.distance import"


@dataclass(frozen=True)
class Asked:
    """What the form says."""

    axis: str  # of AXES
    first: str  # of FIRST

    @property
    def counted(self) -> bool:
        """Whether the first token counts among the keys."""
        return self.first == "in"


@dataclass(frozen=True, eq=False)
class Read:
    """One head, read once."""

    found: ByDistance
    alone: object  # float32 [T], or None
    sink: object  # [T], or None
    share: float
    near: float
    nbytes: int = 1 << 17


def build() -> dict[str, gr.HTML]:
    """The picked heads on top; all heads below."""
    made = {"distance_form": part("distance_form", None, kind="controls", value={})}
    with gr.Row(elem_classes="pg-columns"):
        with gr.Column(min_width=320):
            made["distance_scores"] = part("distance_scores", None, kind="figure")
        with gr.Column(min_width=320):
            made["distance_weights"] = part("distance_weights", None, kind="figure")
    made["distance_table"] = part("distance_table", None, kind="labtable")
    with gr.Row(elem_classes="pg-columns"):
        with gr.Column(min_width=320):
            made["distance_map"] = part("distance_map", None, kind="figure")
        with gr.Column(min_width=320):
            made["distance_layer"] = part("distance_layer", None, kind="figure")
    return made


def fixed(words: Mapping[str, str]) -> dict[str, dict]:
    """How distances are laid out, and what becomes of the first token."""

    def options(name: str, keys: tuple[str, ...]) -> list[list[str]]:
        return [[key, words[f"distance.{name}_{key}"], words[f"distance.{name}_{key}_help"]] for key in keys]

    return {
        "distance_form": {
            "controls": [
                {
                    "name": "axis",
                    "kind": "choice",
                    "label": words["distance.axis"],
                    "value": AXES[0],
                    "options": options("axis", AXES),
                },
                {
                    "name": "first",
                    "kind": "choice",
                    "label": words["distance.first"],
                    "value": FIRST[0],
                    "options": options("first", FIRST),
                },
            ]
        }
    }


def asked_of(values: Values) -> Asked:
    """What the page asked for, or the first of each."""
    form = values.get("distance_form")
    return Asked(choice(form, "axis", AXES), choice(form, "first", FIRST))


def groups_of(scene: Scene, asked: Asked) -> Buckets:
    """The distances that are pooled."""
    T = len(scene.trace.tokens)
    return buckets(T) if asked.axis == "log" else buckets(T, whole=T)


def read(scene: Scene, head: tuple[int, int], asked: Asked) -> Read:
    """What there is to say of one head, worked out once."""
    trace = scene.trace

    def make() -> Read:
        with scene.playground.computing:
            scores, pattern = trace.scores(*head), trace.pattern(*head)
            alone = position_score(trace, *head, first=asked.counted)
            parts = first_layer_parts(trace, head[1]) if alone is None and head[0] == 0 else None
        T = len(trace.tokens)
        if parts is not None:
            alone = by_distance(parts.position, pattern, buckets(T, whole=T), first=asked.counted).mean
        found = by_distance(scores, pattern, groups_of(scene, asked), first=asked.counted)
        sink = None if asked.counted else sink_scores(scores)
        return Read(found, alone, sink, share_of_distance(scores, first=asked.counted), near(pattern))

    return background.kept(scene.playground, ("distance", trace.key, head, asked), make)


def draw(scene: Scene, values: Values) -> dict[str, Picture]:
    """The picked heads, then all heads."""
    asked, layer = asked_of(values), scene.head[0]
    state = (scene.run, scene.picked.heads, asked)
    return {
        "distance_scores": Picture((state, "scores"), lambda: scores_payload(scene, asked)),
        "distance_weights": Picture((state, "weights"), lambda: weights_payload(scene, asked)),
        "distance_table": Picture((state, "table"), lambda: table_payload(scene, asked)),
        "distance_map": Picture(scene.run, lambda: map_payload(scene)),
        "distance_layer": Picture((scene.run, layer, asked.first), lambda: layer_payload(scene, asked)),
    }


def _name(scene: Scene, head: tuple[int, int]) -> str:
    return scene.words["distance.head_name"].format(layer=head[0], head=head[1])


def _file(scene: Scene, what: str) -> str:
    return f"distance-{what}-{'_'.join(f'{layer}-{head}' for layer, head in scene.picked.heads)}"


def _lines(scene: Scene, asked: Asked, lines: list[str], names: str) -> str:
    """After those that read the main head."""
    layer, head = scene.head
    whole = "" if asked.axis == "log" else ", whole=len(run.tokens)"
    first = [
        f"scores, pattern = run.scores({layer}, {head}), run.pattern({layer}, {head})",
        f"groups = buckets(len(run.tokens){whole})",
    ]
    return python_lines(scene, [*first, *lines], [f"{_IMPORT} {names}"])


def curves_of(scene: Scene, asked: Asked) -> list[Curves]:
    """The picked heads as they are drawn."""
    groups, made = groups_of(scene, asked), []
    for head in scene.picked.heads:
        each = read(scene, head, asked)
        alone, sink = (None if one is None else over_buckets(one, groups) for one in (each.alone, each.sink))
        found = each.found
        made.append(
            Curves(
                head, _name(scene, head), found.pairs, found.median, found.low, found.high, found.weight, alone, sink
            )
        )
    return made


def scores_payload(scene: Scene, asked: Asked) -> dict:
    """Scores before the softmax by distance."""
    words, groups = scene.words, groups_of(scene, asked)
    said = some(words, "distance", "distance", "score", "tokens", "pairs", "median", "alone", "sink")
    lines = [f"by_distance(scores, pattern, groups, first={asked.counted})"]
    names, (layer, head) = "buckets, by_distance", scene.head
    if scene.model.config.positions in ("rope", "none"):
        lines.append(f"position_score(run, {layer}, {head}, first={asked.counted})  # [T], the dashed line")
        names += ", position_score"
    elif layer == 0 and not scene.picked.edits:
        lines.append(f"first_layer_parts(run, {head}).position  # [T, T]; the dashed line is its mean at each distance")
        names += ", first_layer_parts"
    return {
        "figure": scores_figure(curves_of(scene, asked), groups, said, log=asked.axis == "log"),
        "title": words["distance.scores_title"],
        "note": " ".join((words["distance.scores_note"], _alone_note(scene))),
        "source": source(scene),
        "file": _file(scene, "scores"),
        "run": f"{scene.run} {asked} {scene.picked.heads}",
        "columns": [words["distance.series"], words["distance.bucket"], said["distance"], said["score"]],
        "python": _lines(scene, asked, lines, names),
        "words": plot_words(words),
    }


def _alone_note(scene: Scene) -> str:
    """What the dashed line is, or why there is none."""
    words, positions = scene.words, scene.model.config.positions
    if positions in ("rope", "none"):
        return words[f"distance.alone_{positions}"]
    if any(layer == 0 for layer, _ in scene.picked.heads):
        return words["distance.alone_edited" if scene.picked.edits else "distance.alone_first"]
    return words["distance.alone_deeper"]


def weights_payload(scene: Scene, asked: Asked) -> dict:
    """Mean attention weights by distance."""
    words, groups = scene.words, groups_of(scene, asked)
    said = some(words, "distance", "distance", "weight", "tokens", "uniform")
    uniform = uniform_weight(len(scene.trace.tokens), groups, asked.counted)
    lines = [f"by_distance(scores, pattern, groups, first={asked.counted}).weight"]
    return {
        "figure": weights_figure(curves_of(scene, asked), uniform, groups, said, log=asked.axis == "log"),
        "title": words["distance.weights_title"],
        "note": words[f"distance.weights_note_{asked.first}"],
        "source": source(scene),
        "file": _file(scene, "weights"),
        "run": f"{scene.run} {asked} {scene.picked.heads} weights",
        "columns": [words["distance.series"], words["distance.bucket"], said["distance"], said["weight"]],
        "python": _lines(scene, asked, lines, "buckets, by_distance"),
        "words": plot_words(words),
    }


def table_payload(scene: Scene, asked: Asked) -> dict:
    """A few numbers of each picked head."""
    words, metrics = scene.words, scene.trace.head_metrics()
    rows = []
    for head in scene.picked.heads:
        each, row = read(scene, head, asked), metrics.loc[head]
        share, sink = float(each.share), float(row["first_token"])
        rows.append(
            [
                _name(scene, head),
                told(float(row["distance"])),
                _share(sink),
                _share(each.near),
                {"text": "–"} if math.isnan(share) else {"text": percent(share), "bar": share},
            ]
        )
    lines = [
        "run.head_metrics()[['distance', 'first_token']]",
        "near(pattern)",
        f"share_of_distance(scores, first={asked.counted})",
    ]
    return {
        "title": words["distance.table_title"],
        "about": words["distance.table_about"],
        "columns": [words[f"distance.{key}"] for key in ("head", "mean", "on_first", "near", "share")],
        "rows": rows,
        "source": source(scene),
        "file": _file(scene, "table"),
        "run": f"{scene.run} {asked} {scene.picked.heads} table",
        "python": _lines(scene, asked, lines, "buckets, near, share_of_distance"),
    }


def _share(value: float) -> str:
    return "–" if math.isnan(value) else percent(value)


def map_payload(scene: Scene) -> dict:
    """Mean distance of all heads."""
    words, config = scene.words, scene.model.config
    found = scene.trace.head_metrics()["distance"].to_numpy().reshape(config.n_layer, config.n_head)
    said = EffectWords(words["distance.layer"], words["distance.head"], words["distance.mean"], words["distance.unit"])
    return {
        "figure": effect_figure(found, said, signed=False).to_json(),
        "title": words["distance.map_title"],
        "note": words["distance.map_note"],
        "source": source(scene),
        "file": "distance-all-heads",
        "run": f"{scene.run} map",
        "columns": [words["distance.head"], words["distance.layer"], words["distance.mean"]],
        "python": python_lines(scene, ["run.head_metrics()['distance']"]),
        "words": plot_words(words),
    }


def layer_payload(scene: Scene, asked: Asked) -> dict:
    """All heads of the main head's layer by distance."""
    words, trace, layer = scene.words, scene.trace, scene.head[0]
    groups = buckets(len(trace.tokens))

    def make() -> object:
        with scene.playground.computing:
            return layer_weights(trace, layer, groups, first=asked.counted)

    found = background.kept(scene.playground, ("distance layer", trace.key, layer, asked.counted), make)
    said = some(words, "distance", "distance", "head", "weight", "tokens")
    lines = [f"layer_weights(run, {layer}, buckets(len(run.tokens)), first={asked.counted})  # [H, buckets]"]
    return {
        "figure": layer_figure(found, layer, groups, said),
        "title": words["distance.layer_title"].format(layer=layer),
        "note": words["distance.layer_note"],
        "source": source(scene),
        "file": f"distance-layer-{layer}",
        "run": f"{scene.run} {layer} {asked.first} layer",
        "columns": [said["head"], said["distance"], said["weight"]],
        "python": python_lines(scene, lines, [f"{_IMPORT} buckets, layer_weights"]),
        "words": plot_words(words),
    }


VIEW = View("distance", build, draw, parts=PARTS, fixed=fixed, asks=("distance_form",))
