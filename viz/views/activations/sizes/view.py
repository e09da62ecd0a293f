"""Sizes: statistics of what every norm reads, and how far each sublayer moves the stream."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import gradio as gr

from model.activations.residual_statistics import STATISTICS, Stream, nearest_row, statistic, survey
from viz.charts.shades import shade_of
from viz.labels import shorten, visible
from viz.page.background import kept
from viz.page.old_view import View
from viz.page.parts import choice, number, part, plot_words
from viz.page.picking import position_of, source
from viz.page.python_lines import python_lines
from viz.page.scene import Scene
from viz.page.tab import Picture, Values
from viz.views.activations.figures import (
    Curve,
    Grid,
    ProfileWords,
    RowWords,
    extreme,
    grid_figure,
    layer_line,
    profile_figure,
    row_figure,
    said,
    series_of,
    token_line,
)
from viz.words import some

Rows = list[tuple[str, int]]  # (what, layer), as model.stream.statistic names them
_SIGNED = ("mean", "along")
_LOW = ("cosine",)  # where the smallest number is the one to look at
_WHATS = ("norm1", "norm2", "final", "attn", "mlp", "block")


def build() -> dict[str, gr.HTML]:
    """The map left; right, one number along the layers and along the tokens."""
    made = {"sizes_form": part("sizes_form", None, kind="controls", value={})}
    with gr.Row(elem_classes="pg-columns"):
        with gr.Column(min_width=320):
            made["sizes_map"] = part("sizes_map", None, kind="gridmap", value={})
        with gr.Column(min_width=320):
            made["sizes_profile"] = part("sizes_profile", None, kind="figure")
            made["sizes_row"] = part("sizes_row", None, kind="figure")
    return made


def fixed(words: Mapping[str, str]) -> dict[str, dict]:
    """Which number is shown."""
    options = [[name, words[f"sizes.{name}"], words[f"sizes.help_{name}"]] for name in STATISTICS]
    return {
        "sizes_form": {
            "controls": [
                {
                    "name": "number",
                    "kind": "choice",
                    "label": words["sizes.number"],
                    "value": "rms",
                    "options": options,
                },
            ]
        }
    }


def stream_of(scene: Scene) -> Stream:
    """The survey of the run's residual stream, made once."""

    def make() -> Stream:
        with scene.playground.computing:
            return survey(scene.trace)

    return kept(scene.playground, ("stream", scene.trace.key), make)


@dataclass(frozen=True, eq=False)
class Shown:
    """The number that is drawn, and what of it is looked at."""

    name: str  # of STATISTICS
    rows: Rows
    values: object  # array [R, T]
    row: int
    tokens: tuple[int, ...]  # in the order they were picked
    picked: bool  # whether the visitor picked them


def shown_of(scene: Scene, values: Values) -> Shown:
    """What is asked for; without a choice the cell with the largest number, and the last token."""
    name = choice(values.get("sizes_form"), "number", tuple(STATISTICS))
    rows, found = statistic(stream_of(scene), name)
    row, token = extreme(found, name in _LOW)
    asked = values.get("sizes_map")
    if isinstance(asked, Mapping) and "what" in asked:
        layer = int(number(asked, "layer", 0, scene.model.config.n_layer, 0))
        row = nearest_row(rows, choice(asked, "what", _WHATS), layer)
    default = tuple(dict.fromkeys((token, position_of(scene))))
    return Shown(name, rows, found, row, scene.picked.tokens or default, bool(scene.picked.tokens))


def draw(scene: Scene, values: Values) -> dict[str, Picture]:
    """The map, and its number along the layers and along the tokens."""
    shown = shown_of(scene, values)
    looked = (scene.run, shown.name, shown.tokens, shown.picked)
    return {
        "sizes_map": Picture((scene.run, shown.name), lambda: map_payload(scene, shown)),
        "sizes_profile": Picture(looked, lambda: profile_payload(scene, shown)),
        "sizes_row": Picture((*looked, shown.row), lambda: row_payload(scene, shown)),
    }


def row_name(words: Mapping[str, str], what: str, layer: int) -> str:
    """What a row is called, with its layer."""
    return words[f"sizes.row_{what}"].format(layer=layer)


def map_payload(scene: Scene, shown: Shown) -> dict:
    """Every norm, sublayer or block of the model at every token."""
    words, name = scene.words, shown.name
    shade = shade_of(shown.values, name in _SIGNED)
    names = [row_name(words, *row) for row in shown.rows]
    grid = Grid(
        shown.values,
        words[f"sizes.value_{name}"],
        layer_line(words[f"sizes.rows_{STATISTICS[name]}"], names, [layer for _, layer in shown.rows]),
        token_line(words["sizes.token"], scene.trace.tokens.pieces),
        shade,
    )
    figure = grid_figure(grid)
    return {
        "figure": figure.to_json(),
        "title": words[f"sizes.title_{name}"],
        "note": f"{_reads(scene, name)} {words[f'sizes.colours_{shade}']}".strip(),
        "columns": [words["sizes.column_row"], words["sizes.token"], words[f"sizes.value_{name}"]],
        "rows": [list(row) for row in shown.rows],
        "names": names,
        "row": shown.row,
        "left": figure.layout.meta["window"][2],
        "python": _lines(scene, name, ["rows, values  # values [R, T], a row each of rows"]),
        "labels": some(words, "sizes", "looked_at", "row_before", "row_after"),
    } | _frame(scene, f"sizes-{name}", scene.run)


def _frame(scene: Scene, file: str, run: str) -> dict:
    """What stands below every figure."""
    return {"source": source(scene), "file": file, "run": run, "words": plot_words(scene.words)}


def _lines(scene: Scene, name: str, lines: Sequence[str], imports: Sequence[str] = ()) -> str:
    first = f"rows, values = statistic(survey(run), {name!r})"
    return python_lines(
        scene, [first, *lines], ["from model.activations.residual_statistics import statistic, survey", *imports]
    )


def _reads(scene: Scene, name: str) -> str:
    """What the rows are of, as this model is wired."""
    words, config = scene.words, scene.model.config
    if STATISTICS[name] == "blocks":
        return words["sizes.reads_blocks"]
    wiring = "post" if config.norm_placement == "post" else "parallel" if config.parallel_residual else "pre"
    told = words[f"sizes.reads_{STATISTICS[name]}_{wiring}"]
    return f"{told} {words[f'sizes.divides_{config.norm}']}" if name == "divisor" else told


def curves_of(scene: Scene, shown: Shown) -> list[Curve]:
    """The rows as curves along the layers: norms one after the other; attention and MLP each for itself."""
    words = scene.words
    if STATISTICS[shown.name] != "sublayers":
        halves = [layer + (0.5 if what == "norm2" else 0) for what, layer in shown.rows]
        return [Curve("", range(len(shown.rows)), halves, [row_name(words, *row) for row in shown.rows])]
    curves = []
    for what in ("attn", "mlp"):
        rows = [n for n, (kind, _) in enumerate(shown.rows) if kind == what]
        names = [row_name(words, *shown.rows[n]) for n in rows]
        curves.append(Curve(words[f"sizes.only_{what}"], rows, [shown.rows[n][1] for n in rows], names))
    return curves


def profile_payload(scene: Scene, shown: Shown) -> dict:
    """The number along the layers, of the tokens that are looked at and of all."""
    words, name, T = scene.words, shown.name, len(scene.trace.tokens)
    labels = ProfileWords(
        words[f"sizes.value_{name}"],
        words["sizes.layers"],
        words["sizes.median"],
        words["sizes.low"],
        words["sizes.high"],
    )
    series = series_of(shown.tokens, scene.trace.tokens.pieces)
    log = shade_of(shown.values, name in _SIGNED) == "log"
    figure = profile_figure(shown.values, curves_of(scene, shown), series, labels, log)
    told = words["sizes.profile_picked" if shown.picked else f"sizes.profile_{'low' if name in _LOW else 'high'}"]
    lines = [f"values[:, {list(shown.tokens)}]  # of these tokens", "np.percentile(values, [10, 50, 90], axis=1)"]
    return {
        "figure": figure.to_json(),
        "title": words["sizes.profile_title"].format(value=words[f"sizes.{name}"]),
        "note": told + (f" {words['sizes.log_axis']}" if log else ""),
        "columns": [words["sizes.column_row"], words["sizes.layers"], words[f"sizes.value_{name}"]],
        "python": _lines(scene, name, lines, ["import numpy as np"]),
    } | _frame(scene, f"sizes-{name}-layers", f"{scene.run} {name} {T} {shown.tokens}")


def row_payload(scene: Scene, shown: Shown) -> dict:
    """The number at every token of the row that is looked at, and all that is known of one cell of it."""
    words, name = scene.words, shown.name
    what, layer = shown.rows[shown.row]
    at = position_of(scene) if shown.picked else shown.tokens[0]
    labels = RowWords(words[f"sizes.value_{name}"], words["sizes.position"], words["sizes.every"])
    row = shown.values[shown.row]
    log = shade_of(shown.values, name in _SIGNED) == "log"
    figure = row_figure(row, scene.trace.tokens.pieces, series_of(shown.tokens, scene.trace.tokens.pieces), labels, log)
    return {
        "figure": figure.to_json(),
        "title": words["sizes.row_title"].format(value=words[f"sizes.{name}"], row=row_name(words, what, layer)),
        "note": cell_note(scene, shown, at),
        "columns": [words["sizes.token"], words["sizes.position"], words[f"sizes.value_{name}"]],
        "python": _lines(scene, name, [f"values[rows.index({(what, layer)!r})]  # [T]"]),
    } | _frame(scene, f"sizes-{name}-{what}-{layer}", f"{scene.run} {name} {shown.row} {shown.tokens}")


def cell_note(scene: Scene, shown: Shown, at: int) -> str:
    """The numbers of the row at one token."""
    stream, (what, layer) = stream_of(scene), shown.rows[shown.row]
    given = {"token": shorten(visible(scene.trace.tokens.pieces[at]), 40), "position": at}
    if what in ("norm1", "norm2", "final"):
        n = stream.norms.index((what, layer))
        names = ("mean", "variance", "rms", "norm", "divisor")
        given |= {name: said(getattr(stream, name)[n, at]) for name in names}
        return scene.words["sizes.cell_norm"].format(**given)
    if what == "block":
        return scene.words["sizes.cell_block"].format(**given, cosine=f"{stream.cosine[layer, at]:.5f}")
    half = ("attn", "mlp").index(what)
    given |= {"update": said(stream.update[layer, half, at]), "along": f"{stream.along[layer, half, at]:+.4f}"}
    return scene.words["sizes.cell_update"].format(**given)


VIEW = View(
    "sizes",
    build=build,
    draw=draw,
    parts=("sizes_form", "sizes_map", "sizes_profile", "sizes_row"),
    fixed=fixed,
    asks=("sizes_form", "sizes_map"),
)
