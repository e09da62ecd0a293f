"""The approximations view: cheaper approximations of softmax, on one head's map, by size, and in the whole model."""

from typing import Annotated

from model.attention.approximations.measure import ROWS, Approximation, ErrorCurve, Sweep, curve_of
from model.attention.approximations.ways import METHODS, PROJECTIONS
from model.attention.approximations.whole_model import Experiment
from model.errors import InputError, say
from model.tracing.divergence import PredictionDivergence
from viz.charts.heatmap import Look, PatternWords, Window, pattern_figure
from viz.numbers import number, percent, whole
from viz.seam.programs.arguments import OneOf, Within
from viz.seam.programs.endpoint import Endpoint
from viz.seam.programs.reading import measured
from viz.seam.programs.reading import on as on_head
from viz.seam.python_lines import script
from viz.seam.scene import Scene
from viz.seam.view import Custom, Figure, Job, Measure, Payload, Seen, Table, View
from viz.views.cheaper.approximations.figures import (
    ApproximationLine,
    difference_panel,
    look_of,
    panels,
    rows_figure,
    sweep_figure,
)
from viz.views.cheaper.approximations.measure import (
    MOST_SEED,
    OF_KIND,
    OF_WAY,
    ON,
    SETTINGS,
    SIZE_NAMES,
    SIZES,
    measure,
    measure_model,
    measure_qkv,
    measure_sweep,
    model_question,
    way_of,
    way_question,
)
from viz.views.cheaper.approximations.tables import costs, facts, head_python, job, losses, results, way_name
from viz.words import joined

# --- one head --------------------------------------------------------------------------------------------


def _heading(seen: Seen) -> dict[str, object]:
    layer, head = seen.facts.head
    return {"layer": layer, "head": head, "name": way_name(seen.words, way_of(seen.settings))}


def _map(seen: Seen, panels_shown: list, look: Look, last: str) -> Payload:
    """Build the payload fields shared by the two map figures."""
    words, T = seen.words, len(seen.facts.tokens)
    axes = PatternWords(*(words[key] for key in ("query", "key", "weight", "largest")))
    narrow = 740 if len(panels_shown) > 1 else 360
    meta = {"whole": True, "height": 380, "narrow": narrow}  # zooming needs no further request
    figure = pattern_figure(
        panels_shown, seen.facts.tokens, axes, Window.whole(T), look, meta=meta, revision=seen.facts.run
    )
    return {
        "figure": figure,
        "title": seen.here["title"].format(**_heading(seen)),
        "file": f"approximations-{seen.part}-{curve_of(way_of(seen.settings))}",
        "columns": [words["map"], words["query"], words["key"], words["weight"]],
        "python": head_python(seen, last),
    }


def maps(seen: Seen) -> Payload:
    """Draw the exact attention map of the head and its approximation."""
    words, approximation = seen.here, seen.result
    names = words["exact"], way_name(seen.words, way_of(seen.settings))
    note = words["note"].format(distance=number(approximation.mean_distance))
    shown = panels(approximation.exact, approximation.matrix, names)
    return _map(seen, shown, look_of(approximation.matrix), "found.exact, found.matrix  # [T, T] each") | {"note": note}


def difference(seen: Seen) -> Payload:
    """Draw the approximate attention map minus the exact one."""
    approximation = seen.result
    shown = difference_panel(approximation.exact, approximation.matrix, seen.here["name"])
    return _map(seen, shown, Look("signed"), "found.matrix - found.exact") | {"note": seen.here["note"]}


def sweep(seen: Seen) -> Payload:
    """Draw the errors of all kinds of approximation as a function of size."""
    words, errors, approximation = seen.here, seen.results["sweep"], seen.results["main"]
    by, way, (layer, head) = seen.settings.error, way_of(seen.settings), seen.facts.head
    index = 1 if by == "output" else 0
    lines = [
        ApproximationLine(each.key, seen.words[f"is_{each.key}"], each.sizes, each.errors if index else each.distances)
        for each in errors.curves
    ]
    chosen = (way.size, approximation.error if index else approximation.mean_distance) if way.size else None
    labels = words.plain() | {"error": words[by]}
    note = [words["note"].format(n=whole(len(errors.curves[0].errors)))]
    if errors.queries < len(seen.facts.tokens):
        note.append(words["few"].format(n=ROWS))
    python = [f"found = sweep(run.qkv({layer}, {head}), {layer})"]
    python.append(
        f"[(each.key, each.sizes, each.{'errors' if index else 'distances'}.mean(0)) for each in found.curves]"
    )
    return {
        "figure": sweep_figure(lines, errors.uniform[index], chosen, labels),
        "title": words["title"].format(layer=layer, head=head),
        "note": joined(note),
        "file": f"approximations-sweep-{by}",
        "columns": [words["series"], words["size"], words[by]],
        "python": script(seen.facts, python, ["from model.attention.approximations.measure import sweep"]),
    }


def rows(seen: Seen) -> Payload:
    """Draw the distance of each row and the error of its output."""
    words, approximation = seen.here, seen.result
    return {
        "figure": rows_figure(approximation.distance, approximation.off, seen.facts.pieces, words.plain()),
        "title": words["title"].format(**_heading(seen)),
        "note": words["note"].format(error=percent(approximation.error)),
        "columns": [words["series"], words["query"], words["position"], words["value"]],
        "python": head_python(seen, "found.distance, found.off  # a number a row"),
    }


# --- for programs ----------------------------------------------------------------------------------------

Size = Annotated[int, Within(1, 1024)]


def softmax_approximation(
    scene: Scene,
    layer: int = 0,
    head: int = 0,
    method: Annotated[str, OneOf(METHODS)] = "performer",
    size: Size = 64,
    orthogonal: bool = False,
    projection: Annotated[str, OneOf(PROJECTIONS)] = "random",
    seed: Annotated[int, Within(0, MOST_SEED)] = 0,
) -> dict:
    """Measure the error of one head's map and output under an approximation of softmax, also by size and draw.

    Args:
        method: performer (positive random features), linear (elu + 1), linformer (projected keys) or nystrom
            (landmarks), each in a causal form.
        size: Number of random features (8 to 1024), projected keys (4 to 256) or landmarks (2 to 32), a power of two;
            linear ignores it.
        orthogonal: Whether performer uses orthogonal random features.
        projection: Linformer's untrained projection: random, or mean (of segments).
        seed: Seed of the random draws.

    Returns:
        layer; head; distance: L1 distance of the approximate from the exact weights of a row, averaged over the rows;
        error: relative error |Z' - Z| / |Z| of the output; uniform_error: the same for uniform attention; sums:
        smallest and largest row sum; least: smallest weight; gap: largest relative difference between the recurrent and
        the parallel form, null for a method with only one form; rows: distance and off (relative error of the output)
        of each query; sweep: for each kind, its sizes, and errors and distances with one list per draw.
    """
    if method in SIZES and str(size) not in SIZES[method]:
        raise InputError(
            "An argument has an unknown value.", f"size: {size}", say("Choose one of: {}.", ", ".join(SIZES[method]))
        )
    selected, options = on_head(scene, layer, head), {"method": method, "orthogonal": orthogonal, "seed": seed}
    options |= {"projection": projection} | ({SIZE_NAMES[method]: str(size)} if method in SIZES else {})
    result: Approximation = measured(VIEW, "main", selected, **options)
    errors: Sweep = measured(VIEW, "sweep", selected)
    return {
        "layer": layer,
        "head": head,
        "distance": result.mean_distance,
        "error": result.error,
        "uniform_error": result.uniform_error,
        "sums": list(result.sums),
        "least": result.least,
        "gap": result.gap,
        "rows": [{"distance": d, "off": o} for d, o in zip(result.distance.tolist(), result.off.tolist(), strict=True)],
        "sweep": [_curve(each) for each in errors.curves],
    }


def _curve(curve: ErrorCurve) -> dict:
    draws = {"errors": curve.errors.tolist(), "distances": curve.distances.tolist()}
    return {"kind": curve.key, "sizes": list(curve.sizes), **draws}


def softmax_replaced(
    scene: Scene,
    method: Annotated[str, OneOf(METHODS)] = "performer",
    orthogonal: bool = False,
    projection: Annotated[str, OneOf(PROJECTIONS)] = "random",
    on: Annotated[str, OneOf(ON)] = "text",
) -> dict:
    """Measure the model's predictions with the softmax of every head approximated, for one size after another.

    Args:
        method: performer, linear, linformer or nystrom, in a causal form.
        orthogonal: Whether performer uses orthogonal random features.
        projection: Linformer's untrained projection: random, or mean (of segments).
        on: text (a held-out text) or prompt.

    Returns:
        tokens: number of tokens; softmax: loss of the exact model in nats (null for one token); uniform: loss, kl and
        agree under uniform attention; rows: size, seed, loss, kl (divergence from the exact model, in nats) and agree
        (fraction of positions with the same top token).
    """
    options = {"method": method, "orthogonal": orthogonal, "projection": projection, "on": on}
    experiment: Experiment = measured(VIEW, "model", scene, **options)
    return {
        "tokens": experiment.uniform.positions,
        "softmax": experiment.before,
        "uniform": _reading(experiment.uniform),
        "rows": [{"size": each.way.size, "seed": each.way.seed} | _reading(each.reading) for each in experiment.rows],
    }


def _reading(reading: PredictionDivergence) -> dict:
    return {name: getattr(reading, name) for name in ("loss", "kl", "agree")}


VIEW = View(
    "approximations",
    settings=SETTINGS,
    measures=(
        Measure("qkv", measure_qkv, depends=("run", "head")),
        Measure(
            "main",
            measure,
            depends=("layer",),
            settings=OF_WAY,
            question=way_question,
            locks=False,
            uses=("qkv",),
        ),
        Measure("sweep", measure_sweep, depends=("layer",), locks=False, uses=("qkv",)),
        Measure(
            "model",
            measure_model,
            depends=("model", "limit"),
            settings=(*OF_KIND, "on"),
            question=model_question,
            slow=True,
        ),
    ),
    layout=("form", ("maps", "difference"), ("sweep", "rows"), ("facts", "costs"), "job", ("losses", "results")),
    parts={
        "maps": Figure(maps, settings=()),
        "difference": Figure(difference, settings=()),
        "sweep": Figure(sweep, of=("sweep", "main"), settings=("error",)),
        "rows": Figure(rows, settings=()),
        "facts": Custom("normfacts", facts, settings=()),
        "costs": Table(costs, of=(), depends=("model",), settings=OF_WAY),
        "job": Job("model", job, settings=(*OF_KIND, "on")),
        "losses": Figure(losses, of="model", settings=()),
        "results": Table(results, of="model", settings=()),
    },
    api=(
        Endpoint(softmax_approximation),
        Endpoint(softmax_replaced, reads="plain run", long=True),
    ),
)
