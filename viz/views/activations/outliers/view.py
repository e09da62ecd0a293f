"""Outliers: the few dimensions that are far larger than the rest, and the tokens that carry them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import gradio as gr

from model.activations.norm_walk import norm_input
from model.activations.residual_statistics import (
    RULES,
    Stream,
    carriers,
    limit,
    nearest_row,
    outliers,
    ratios,
    top_dimensions,
)
from viz.charts.shades import plain, shade_of
from viz.labels import plotly_text, shorten, visible
from viz.page.old_view import View
from viz.page.parts import choice, number, part, plot_words
from viz.page.picking import position_of, source
from viz.page.python_lines import python_lines
from viz.page.scene import Scene
from viz.page.tab import Picture, Values
from viz.views.activations.figures import (
    DimensionWords,
    Grid,
    Line,
    dimension_figure,
    grid_figure,
    layer_line,
    median_of_others,
)
from viz.views.activations.sizes.view import row_name, stream_of
from viz.words import some

SITES = {"norm1": ("norm1", "final"), "norm2": ("norm2", "final")}  # what is asked for: the norms that are drawn
DIMENSIONS = 16  # columns of the map
LISTED, CARRIERS = 100, 12  # rows of the two tables


def build() -> dict[str, gr.HTML]:
    """The map left, the tables right, one norm's dimensions below."""
    made = {"outliers_form": part("outliers_form", None, kind="controls", value={})}
    with gr.Row(elem_classes="pg-columns"):
        with gr.Column(min_width=320):
            made["outliers_map"] = part("outliers_map", None, kind="gridmap", value={})
        with gr.Column(min_width=320):
            made["outliers_list"] = part("outliers_list", None, kind="outlierlist")
    made["outliers_one"] = part("outliers_one", None, kind="figure")
    return made


def fixed(words: Mapping[str, str]) -> dict[str, dict]:
    """The threshold, and which norms."""
    rules = [[name, words[f"outliers.rule_{name}"], words[f"outliers.help_{name}"]] for name in RULES]
    sites = [[name, words[f"outliers.site_{name}"]] for name in SITES]
    return {
        "outliers_form": {
            "controls": [
                {
                    "name": "rule",
                    "kind": "choice",
                    "label": words["outliers.rule"],
                    "value": next(iter(RULES)),
                    "options": rules,
                },
                {"name": "site", "kind": "choice", "label": words["outliers.site"], "value": "norm1", "options": sites},
            ]
        }
    }


@dataclass(frozen=True, eq=False)
class Shown:
    """What is asked for, and the norm and token that are looked at."""

    stream: Stream
    rule: str
    sites: tuple[str, ...]
    rows: list[int]  # of the norms that are drawn
    row: int  # place in `rows`
    token: int
    picked: bool  # whether the visitor picked the token


def shown_of(scene: Scene, values: Values) -> Shown:
    """What is asked for; without a choice the norm with the largest ratio, and the token that has it."""
    stream, form = stream_of(scene), values.get("outliers_form")
    rule, sites = choice(form, "rule", tuple(RULES)), SITES[choice(form, "site", tuple(SITES))]
    rows = stream.rows(sites)
    highest = [float(ratios(stream, n).max()) for n in rows]
    row, asked = highest.index(max(highest)), values.get("outliers_map")
    if isinstance(asked, Mapping) and "what" in asked:
        layer = int(number(asked, "layer", 0, scene.model.config.n_layer, 0))
        row = nearest_row([stream.norms[n] for n in rows], choice(asked, "what", sites), layer)
    n = rows[row]
    picked = bool(scene.picked.tokens)
    token = position_of(scene) if picked else int(stream.carrier[n, ratios(stream, n).argmax()])
    return Shown(stream, rule, sites, rows, row, token, picked)


def draw(scene: Scene, values: Values) -> dict[str, Picture]:
    """The map, the tables, and one norm's dimensions at one token."""
    shown = shown_of(scene, values)
    key = (scene.run, shown.rule, shown.sites)
    return {
        "outliers_map": Picture(key, lambda: map_payload(scene, shown)),
        "outliers_list": Picture(key, lambda: list_payload(scene, shown)),
        "outliers_one": Picture((*key, shown.row, shown.token, shown.picked), lambda: one_payload(scene, shown)),
    }


def _frame(scene: Scene, file: str, run: str) -> dict:
    """What stands below every picture."""
    return {"source": source(scene), "file": file, "run": run, "words": plot_words(scene.words)}


def _lines(scene: Scene, lines: Sequence[str], names: str, imports: Sequence[str] = ()) -> str:
    return python_lines(
        scene,
        ["stream = survey(run)", *lines],
        [f"from model.activations.residual_statistics import {names}", *imports],
    )


def _token(scene: Scene, at: int) -> str:
    """A token's place and text."""
    return f"{at} {shorten(visible(scene.trace.tokens.pieces[at]), 40)}"


def _signed(value: float) -> str:
    return f"{value:+,.5g}".replace("-", "−")


def map_payload(scene: Scene, shown: Shown) -> dict:
    """The dimensions with the largest numbers, before every norm; a dot where a number is outlying."""
    words, stream = scene.words, shown.stream
    dimensions = top_dimensions(stream, shown.sites, DIMENSIONS)
    values = abs(stream.largest[shown.rows][:, dimensions])
    norms = [stream.norms[n] for n in shown.rows]
    names = [row_name(words, *norm) for norm in norms]
    told, marked = [], []
    for r, n in enumerate(shown.rows):
        reach, ratio = limit(RULES[shown.rule], stream.median[n]), ratios(stream, n)
        marked += [(r, c) for c in range(len(dimensions)) if values[r, c] >= reach]
        told.append(
            [
                plotly_text(
                    words["outliers.told"].format(
                        value=_signed(stream.largest[n, d]),
                        ratio=plain(ratio[d]),
                        token=_token(scene, stream.carrier[n, d]),
                    )
                )
                for d in dimensions
            ]
        )
    across = Line(
        words["outliers.dimension"], [f"d{d}" for d in dimensions], range(len(dimensions)), [str(d) for d in dimensions]
    )
    rows = layer_line(words["outliers.layer"], names, [layer for _, layer in norms])
    shade = shade_of(values, signed=False)
    figure = grid_figure(Grid(values, words["outliers.largest"], rows, across, shade, told, marked))
    lines = [
        f"dimensions = top_dimensions(stream, {shown.sites!r}, {DIMENSIONS})",
        f"abs(stream.largest[stream.rows({shown.sites!r})][:, dimensions])",
    ]
    return {
        "figure": figure.to_json(),
        "title": words["outliers.map_title"],
        "note": f"{words['outliers.map_note']} {words[f'sizes.colours_{shade}']}",
        "columns": [words["outliers.norm"], words["outliers.dimension"], words["outliers.largest"]],
        "rows": [list(norm) for norm in norms],
        "names": names,
        "row": shown.row,
        "left": figure.layout.meta["window"][2],
        "cells": stream.carrier[shown.rows][:, dimensions].tolist(),
        "python": _lines(scene, lines, "survey, top_dimensions"),
        "labels": some(words, "sizes", "looked_at", "row_before", "row_after"),
    } | _frame(scene, f"outliers-{shown.sites[0]}", scene.run)


def list_payload(scene: Scene, shown: Shown) -> dict:
    """The tokens that carry outlying numbers, and these numbers."""
    words, stream, asked = scene.words, shown.stream, f"{shown.rule}-{shown.sites[0]}"
    table, bearing = outliers(stream, shown.rule, shown.sites), carriers(stream, shown.rule, shown.sites)
    rows = [
        {
            "row": row_name(words, each.site, each.layer),
            "dimension": int(each.dimension),
            "token": int(each.token),
            "text": _token(scene, each.token),
            "value": float(each.value),
            "ratio": float(each.ratio),
        }
        for each in table.head(LISTED).itertuples()
    ]
    by_token = [
        {
            "token": int(each.token),
            "text": _token(scene, each.token),
            "entries": int(each.entries),
            "norms": int(each.norms),
        }
        for each in bearing.head(CARRIERS).itertuples()
    ]
    lines = [f"carriers(stream, {shown.rule!r}, {shown.sites!r})", f"outliers(stream, {shown.rule!r}, {shown.sites!r})"]
    return {
        "title": words["outliers.list_title"],
        "note": words[f"outliers.definition_{shown.rule}"],
        "none": "" if rows else _nothing(scene, shown),
        "rows": rows,
        "carriers": by_token,
        "said": words["outliers.list_note"].format(shown=len(rows), n=len(table)),
        "said_carriers": words["outliers.carriers_note"].format(
            shown=len(by_token), n=len(bearing), norms=len(shown.rows)
        ),
        "attention": _attention(scene) if any(each["token"] == 0 for each in by_token) else "",
        "names": some(words, "outliers", "norm", "dimension", "token", "value", "ratio", "entries", "norms"),
        "python": _lines(scene, lines, "carriers, outliers, survey"),
    } | _frame(scene, f"outliers-{asked}", f"{scene.run} {asked}")


def _nothing(scene: Scene, shown: Shown) -> str:
    """What the largest number is where none is outlying."""
    stream, best = shown.stream, (0, 0, 0.0)
    for n in shown.rows:
        d = int(ratios(stream, n).argmax())
        best = max(best, (n, d, float(ratios(stream, n)[d])), key=lambda each: each[2])
    n, d, ratio = best
    return scene.words["outliers.nothing"].format(
        value=_signed(stream.largest[n, d]),
        ratio=plain(ratio),
        dimension=d,
        row=row_name(scene.words, *stream.norms[n]),
        token=_token(scene, stream.carrier[n, d]),
    )


def _attention(scene: Scene) -> str:
    """How much of all heads' attention the first token gets, "" for a prompt of one token."""
    share = float(scene.trace.head_metrics()["first_token"].mean())
    return scene.words["outliers.attention"].format(percent=f"{100 * share:.0f}") if share == share else ""


def one_payload(scene: Scene, shown: Shown) -> dict:
    """Every dimension of what one norm reads, at the token that is looked at and at the others."""
    words, stream, at = scene.words, shown.stream, shown.token
    n = shown.rows[shown.row]
    site, layer = stream.norms[n]
    with scene.playground.computing:
        sizes = abs(norm_input(scene.trace, layer, site))
    reach = limit(RULES[shown.rule], stream.median[n])
    said = DimensionWords(
        words["outliers.dimension"],
        words["outliers.size"],
        words["outliers.others"],
        words["outliers.limit"].format(limit=plain(reach)),
    )
    figure = dimension_figure(sizes[at], median_of_others(sizes, at), plotly_text(_token(scene, at)), reach, said)
    count = int((sizes[at] >= reach).sum())
    note = words["outliers.one_note" if shown.picked else "outliers.one_default"]
    imports = ["import numpy as np", "from model.activations.norm_walk import norm_input"]
    lines = [
        f"sizes = abs(norm_input(run, {layer}, {site!r}))  # [T, D]",
        f"sizes[{at}], np.median(np.delete(sizes, {at}, 0), 0)",
        f"limit(RULES[{shown.rule!r}], stream.median[{n}])",
    ]
    return {
        "figure": figure.to_json(),
        "title": words["outliers.one_title"].format(token=_token(scene, at), row=row_name(words, site, layer)),
        "note": note.format(count=count, n=sizes.shape[1], median=plain(stream.median[n])),
        "columns": [words["outliers.dimension"], words["outliers.size"]],
        "python": _lines(scene, lines, "RULES, limit, survey", imports),
    } | _frame(scene, f"dimensions-{site}-{layer}-{at}", f"{scene.run} {shown.rule} {n} {at}")


VIEW = View(
    "outliers",
    build=build,
    draw=draw,
    parts=("outliers_form", "outliers_map", "outliers_list", "outliers_one"),
    fixed=fixed,
    asks=("outliers_form", "outliers_map"),
)
