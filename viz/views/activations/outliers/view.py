"""Outliers: the few dimensions that are far larger than the rest, and the tokens at which they occur."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated

import numpy as np
import pandas as pd

from model.activations.norm_walk import norm_input
from model.activations.residual_statistics import (
    RULES,
    StreamStatistics,
    carriers,
    limit,
    nearest_row,
    ratios,
    top_dimensions,
)
from model.activations.residual_statistics import outliers as outlying
from viz.charts.shades import shade_of
from viz.labels import plotly_text, quoted
from viz.numbers import number, percent, signed, whole
from viz.seam.programs.arguments import OneOf, Rows
from viz.seam.programs.endpoint import Endpoint
from viz.seam.programs.reading import measured, prompt_tokens
from viz.seam.python_lines import script
from viz.seam.scene import Scene
from viz.seam.settings import Choice, Settings
from viz.seam.view import Asking, Custom, Figure, Measure, Payload, Seen, View
from viz.views.activations.figures import AxisLabels, Grid, grid_figure, layer_line
from viz.views.activations.outliers.figures import dimension_figure
from viz.views.activations.stream import STREAM, Row, row_name, row_of, rows_payload, shared
from viz.words import joined

SITES = ("norm1", "norm2")  # the first or the second norm of each layer
DIMENSIONS = 16  # number of columns of the map
LISTED, CARRIERS = 100, 12  # maximum number of rows of each table
RULE, SITE = Choice("rule", tuple(RULES)), Choice("site", SITES)


@dataclass(frozen=True, eq=False)
class Outliers:
    """The outliers under one rule in the inputs of R norms, and the C dimensions with the largest ratios."""

    rule: str  # key of RULES
    sites: tuple[str, ...]
    norms: tuple[Row, ...]  # the R norms in the order of the computation
    row: int  # index of the norm with the largest ratio
    median: np.ndarray  # median of |x| over tokens and dimensions, float64 [R]
    limit: np.ndarray  # smallest outlying |x|, float64 [R]
    dimensions: tuple[int, ...]  # the C dimensions, by decreasing ratio
    value: np.ndarray  # x with the largest |x| over tokens, float32 [R, C]
    ratio: np.ndarray  # |value| / median, float64 [R, C]
    carrier: np.ndarray  # position of the token with this x, int32 [R, C]
    table: pd.DataFrame  # from model.activations.residual_statistics.outliers
    carriers: pd.DataFrame  # from model.activations.residual_statistics.carriers
    attention: float  # mean weight on the first token, over heads and later tokens; NaN for a prompt of one token


@dataclass(frozen=True, eq=False)
class Dimensions:
    """The magnitudes of all dimensions of one norm's input, at one token and over the other tokens."""

    row: int  # index in Outliers.norms
    token: int
    size: np.ndarray  # |x| at the token, float32 [D]
    others: np.ndarray | None  # median of |x| over the other tokens, float32 [D]; None for a prompt of one token


def _sites(stream: StreamStatistics, settings: Settings) -> tuple[str, ...]:
    """Return the sites of the selected norms: with the final norm, the first or the second norm of each layer, which in
    some models is the norm of a sublayer's output or the same.
    """
    sites = dict.fromkeys(site for site, _ in stream.norms if site != "final")
    known = [site for site in sites if site.startswith("norm")] or list(sites)
    return known[0 if settings.site == "norm1" else -1], "final"


def measure(scene: Scene, settings: Settings, results: Mapping[str, StreamStatistics]) -> Outliers:
    """Find the outliers in the inputs of the norms at the selected sites."""
    stream, rule, sites = results["stream"], settings.rule, _sites(results["stream"], settings)
    rows, dimensions = stream.rows(sites), top_dimensions(stream, sites, DIMENSIONS)
    ratio = np.stack([ratios(stream, n)[dimensions] for n in rows])
    return Outliers(
        rule,
        sites,
        tuple(stream.norms[n] for n in rows),
        _highest(stream, rows),
        stream.median[rows],
        np.array([limit(RULES[rule], stream.median[n]) for n in rows]),
        tuple(dimensions),
        stream.largest[rows][:, dimensions],
        ratio,
        stream.carrier[rows][:, dimensions],
        outlying(stream, rule, sites),
        carriers(stream, rule, sites),
        float(scene.trace.head_metrics()["first_token"].mean()),
    )


def _highest(stream: StreamStatistics, rows: Sequence[int]) -> int:
    """Return the index in `rows` of the norm with the largest ratio; ties go to the first."""
    return int(np.argmax([ratios(stream, n).max() for n in rows]))


def measure_one(scene: Scene, settings: Settings, results: Mapping[str, StreamStatistics]) -> Dimensions:
    """Measure one norm's input at one token: the clicked row and the selected token, or those of the largest ratio."""
    stream = results["stream"]
    rows = stream.rows(_sites(stream, settings))
    norms = [stream.norms[n] for n in rows]
    row = nearest_row(norms, *settings.map) if settings.map else _highest(stream, rows)
    n = rows[row]
    token = scene.position if scene.picked.tokens else int(stream.carrier[n, ratios(stream, n).argmax()])
    what, layer = norms[row]
    size = abs(norm_input(scene.trace, layer, what))  # [T, D]
    return Dimensions(row, token, size[token], median_of_others(size, token))


def median_of_others(sizes: np.ndarray, token: int) -> np.ndarray | None:
    """Compute each dimension's median over all tokens except `token`; None if there is only one. [T, D] -> [D]"""
    return np.median(np.delete(sizes, token, 0), 0) if len(sizes) > 1 else None


# --- drawing ---


def _token(seen: Seen, at: int) -> str:
    """Format a token's position and string."""
    return f"{at} {quoted(seen.facts.pieces[at])}"


def _python(seen: Seen, lines: Sequence[str], names: str, imports: Sequence[str] = ()) -> str:
    from_model = f"from model.activations.residual_statistics import {names}"
    return script(seen.facts, ["stream = survey(run)", *lines], [from_model, *imports])


def grid(seen: Seen) -> Payload:
    """Draw the map of the dimensions with the largest ratios at the input of every norm; dots mark outliers."""
    words, result, dimensions = seen.here, seen.result, seen.result.dimensions
    size = abs(result.value)  # [R, C]
    names = [row_name(seen, norm) for norm in result.norms]
    notes = [[_cell(seen, r, c) for c in range(len(dimensions))] for r in range(len(names))]
    marked = [(int(r), int(c)) for r, c in np.argwhere(size >= result.limit[:, None])]
    columns = AxisLabels(
        seen.words["dimension"], [f"d{d}" for d in dimensions], range(len(dimensions)), [str(d) for d in dimensions]
    )
    rows = layer_line(words["layer"], names, [layer for _, layer in result.norms])
    shade = shade_of(size, signed=False)
    figure = grid_figure(Grid(size, words["largest"], rows, columns, shade, notes, marked))
    lines = [
        f"dimensions = top_dimensions(stream, {result.sites!r}, {DIMENSIONS})",
        f"abs(stream.largest[stream.rows({result.sites!r})][:, dimensions])",
    ]
    shown = seen.settings.map
    return rows_payload(
        seen, figure, result.norms, nearest_row(list(result.norms), *shown) if shown else result.row
    ) | {
        "title": words["title"],
        "note": joined([words["note"], shared(seen)[f"colours_{shade}"]]),
        "columns": [seen.words["norm"], seen.words["dimension"], words["largest"]],
        "cells": result.carrier.tolist(),
        "file": f"outliers-{result.sites[0]}",
        "python": _python(seen, lines, "survey, top_dimensions"),
    }


def _cell(seen: Seen, r: int, c: int) -> str:
    """Format the hover text of a cell: its value, ratio and token."""
    result = seen.result
    value, ratio = signed(float(result.value[r, c])), number(float(result.ratio[r, c]))
    return plotly_text(seen.here["cell"].format(value=value, ratio=ratio, token=_token(seen, result.carrier[r, c])))


def tables(seen: Seen) -> Payload:
    """Build the tables of the outlying values and of the tokens that carry them."""
    words, result = seen.here, seen.result
    rows = [
        {
            "row": row_name(seen, (each.site, each.layer)),
            "dimension": int(each.dimension),
            "token": int(each.token),
            "text": _token(seen, each.token),
            "value": float(each.value),
            "ratio": float(each.ratio),
            "shown": [signed(float(each.value)), number(float(each.ratio))],
        }
        for each in result.table.head(LISTED).itertuples()
    ]
    by_token = [
        {
            "token": int(each.token),
            "text": _token(seen, each.token),
            "entries": int(each.entries),
            "norms": int(each.norms),
            "shown": [whole(each.entries), whole(each.norms)],
        }
        for each in result.carriers.head(CARRIERS).itertuples()
    ]
    arguments = f"stream, {result.rule!r}, {result.sites!r}"
    captions = {"shown": len(by_token), "n": whole(len(result.carriers)), "norms": len(result.norms)}
    has_first = any(each["token"] == 0 for each in by_token) and result.attention == result.attention
    names = ("norm", "dimension", "token", "value", "ratio", "entries", "norms")
    return {
        "title": words["title"],
        "note": words[f"definition_{result.rule}"],
        "none": "" if rows else _largest(seen),
        "rows": rows,
        "carriers": by_token,
        "caption": words["dimensions"].format(shown=len(rows), n=whole(len(result.table))),
        "caption_carriers": words["tokens"].format(**captions),
        "attention": words["attention"].format(percent=percent(result.attention)) if has_first else "",
        "names": {name: seen.words[name] if name in ("norm", "dimension") else words[name] for name in names},
        "file": f"outliers-{result.rule}-{result.sites[0]}",
        "python": _python(seen, [f"carriers({arguments})", f"outliers({arguments})"], "carriers, outliers, survey"),
    }


def _largest(seen: Seen) -> str:
    """Describe the largest value of a run without outliers."""
    result, r = seen.result, seen.result.row
    return seen.here["none"].format(
        value=signed(float(result.value[r, 0])),
        ratio=number(float(result.ratio[r, 0])),
        dimension=result.dimensions[0],
        row=row_name(seen, result.norms[r]),
        token=_token(seen, result.carrier[r, 0]),
    )


def one(seen: Seen) -> Payload:
    """Draw every dimension of one norm's input, at the measured token and over the other tokens."""
    words, shown, result = seen.here, seen.results["one"], seen.results["main"]
    site, layer = result.norms[shown.row]
    at, reach, n = shown.token, float(result.limit[shown.row]), len(shown.size)
    labels = words.plain() | {"dimension": seen.words["dimension"], "limit": words["limit"].format(limit=number(reach))}
    note = words["note" if seen.facts.picked else "default"]
    count, median = int((shown.size >= reach).sum()), float(result.median[shown.row])
    row = f"stream.norms.index({(site, layer)!r})"
    lines = [
        f"sizes = abs(norm_input(run, {layer}, {site!r}))  # [T, D]",
        f"sizes[{at}], np.median(np.delete(sizes, {at}, 0), 0)",
        f"limit(RULES[{result.rule!r}], stream.median[{row}])",
    ]
    imports = ["import numpy as np", "from model.activations.norm_walk import norm_input"]
    return {
        "figure": dimension_figure(shown.size, shown.others, _token(seen, at), reach, labels),
        "title": words["title"].format(token=_token(seen, at), row=row_name(seen, (site, layer))),
        "note": note.format(count=whole(count), n=whole(n), median=number(median)),
        "columns": [seen.words["dimension"], words["size"]],
        "file": f"dimensions-{site}-{layer}-{at}",
        "python": _python(seen, lines, "RULES, limit, survey", imports),
    }


# --- for programs ---


def outliers(
    scene: Scene,
    rule: Annotated[str, OneOf(tuple(RULES))] = "massive",
    site: Annotated[str, OneOf(SITES)] = "norm1",
    most: Rows = 30,
) -> dict:
    """Find the few residual stream dimensions that are far larger than the others, and the tokens that carry them.

    Args:
        rule: Definition of an outlier. massive: |x| at least 1000 times the median |x| and at least 100. x1000, x100,
            x20: at least that multiple of the median. int8: at least 6.
        site: Site of the norms whose inputs are searched: norm1 or norm2; the final norm is always included.

    Returns:
        dimensions: site, layer, dimension, token (position), value, ratio (|value| relative to the median); carriers:
        tokens with entries (number of outlying values) and norms (number of norms with an outlier); count: total number
        of outlying (norm, dimension) pairs.
    """
    result: Outliers = measured(VIEW, "main", scene, rule=rule, site=site)
    return {
        "rule": rule,
        "count": len(result.table),
        "dimensions": result.table[:most],
        "carriers": result.carriers[:most],
        "tokens": prompt_tokens(scene),
    }


VIEW = View(
    "outliers",
    needs=("layers",),
    settings=(RULE, SITE),
    measures=(
        STREAM,
        Measure("main", measure, settings=("rule", "site"), locks=False, uses=("stream",)),
        Measure("one", measure_one, depends=("run", "token", "tokens"), settings=("site", "map"), uses=("stream",)),
    ),
    layout=("form", ("map", "list"), "one"),
    parts={
        "map": Asking("gridmap", row_of, grid, of="main"),  # the page itself moves the row on a click
        "list": Custom("outlierlist", tables, settings=()),
        "one": Figure(one, of=("one", "main"), settings=()),
    },
    api=(Endpoint(outliers),),
)
