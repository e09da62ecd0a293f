"""Softmax replaced by what costs less: the same head's map, its errors by size, and the whole model's loss."""

from typing import Annotated

from model.attention.approximations.measure import ROWS, Approximation, Curve, Sweep, curve_of
from model.attention.approximations.ways import METHODS, PROJECTIONS
from model.attention.approximations.whole_model import Experiment
from model.errors import InputError, say
from model.tracing.divergence import Reading
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
    Line,
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


def _map(seen: Seen, shown: list, look: Look, last: str) -> Payload:
    """Return the fields that the maps share."""
    words, T = seen.words, len(seen.facts.tokens)
    axes = PatternWords(*(words[key] for key in ("query", "key", "weight", "largest")))
    meta = {"whole": True, "height": 380, "narrow": 740 if len(shown) > 1 else 360}  # no part of it can be asked for
    figure = pattern_figure(shown, seen.facts.tokens, axes, Window.whole(T), look, meta=meta, revision=seen.facts.run)
    return {
        "figure": figure,
        "title": seen.here["title"].format(**_heading(seen)),
        "file": f"approximations-{seen.part}-{curve_of(way_of(seen.settings))}",
        "columns": [words["map"], words["query"], words["key"], words["weight"]],
        "python": head_python(seen, last),
    }


def maps(seen: Seen) -> Payload:
    """Return the head's map, and what replaces it."""
    words, found = seen.here, seen.result
    names = words["exact"], way_name(seen.words, way_of(seen.settings))
    note = words["note"].format(distance=number(found.mean_distance))
    shown = panels(found.exact, found.matrix, names)
    return _map(seen, shown, look_of(found.matrix), "found.exact, found.matrix  # [T, T] each") | {"note": note}


def difference(seen: Seen) -> Payload:
    """Return their difference."""
    found = seen.result
    shown = difference_panel(found.exact, found.matrix, seen.here["name"])
    return _map(seen, shown, Look("signed"), "found.matrix - found.exact") | {"note": seen.here["note"]}


def sweep(seen: Seen) -> Payload:
    """Errors of all kinds by size."""
    words, swept, found = seen.here, seen.results["sweep"], seen.results["main"]
    by, way, (layer, head) = seen.settings.error, way_of(seen.settings), seen.facts.head
    at = 1 if by == "output" else 0
    lines = [
        Line(each.key, seen.words[f"is_{each.key}"], each.sizes, each.errors if at else each.distances)
        for each in swept.curves
    ]
    chosen = (way.size, found.error if at else found.mean_distance) if way.size else None
    said = words.plain() | {"error": words[by]}
    note = [words["note"].format(n=whole(len(swept.curves[0].errors)))]
    if swept.queries < len(seen.facts.tokens):
        note.append(words["few"].format(n=ROWS))
    python = [f"found = sweep(run.qkv({layer}, {head}), {layer})"]
    python.append(f"[(each.key, each.sizes, each.{'errors' if at else 'distances'}.mean(0)) for each in found.curves]")
    return {
        "figure": sweep_figure(lines, swept.uniform[at], chosen, said),
        "title": words["title"].format(layer=layer, head=head),
        "note": joined(note),
        "file": f"approximations-sweep-{by}",
        "columns": [words["series"], words["size"], words[by]],
        "python": script(seen.facts, python, ["from model.attention.approximations.measure import sweep"]),
    }


def rows(seen: Seen) -> Payload:
    """Return each row's distance and its output's error."""
    words, found = seen.here, seen.result
    return {
        "figure": rows_figure(found.distance, found.off, seen.facts.pieces, words.plain()),
        "title": words["title"].format(**_heading(seen)),
        "note": words["note"].format(error=percent(found.error)),
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
    """Return one head with its softmax replaced: how far its map and its output are from the exact ones, by size and
    draw.

    Args:
        method: performer (positive random features), linear (elu + 1), linformer (projected keys) or nystrom
            (landmarks); each in a causal form.
        size: Random features (8 to 1024), projected keys (4 to 256) or landmarks (2 to 32), a power of two; linear
            has none.
        orthogonal: Whether Performer's features stand at right angles.
        projection: Linformer's, untrained: random, or mean (of segments).
        seed: Of random draws.

    Returns:
        distance: mean over the rows of the sum of |difference|; error: |Z' - Z| / |Z| of the output; uniform_error: the
        same for reading all tokens alike; sums: smallest and largest sum of a row; least: smallest weight; gap: largest
        relative difference of recurrent and parallel form, null where there is none; rows: distance and off (of the
        output) of each query. sweep: for every kind its sizes, errors and distances, a list of draws each.
    """
    if method in SIZES and str(size) not in SIZES[method]:
        raise InputError(
            "An argument is none of its names.", f"size: {size}", say("Choose one of: {}.", ", ".join(SIZES[method]))
        )
    looked, chosen = on_head(scene, layer, head), {"method": method, "orthogonal": orthogonal, "seed": seed}
    chosen |= {"projection": projection} | ({SIZE_NAMES[method]: str(size)} if method in SIZES else {})
    found: Approximation = measured(VIEW, "main", looked, **chosen)
    swept: Sweep = measured(VIEW, "sweep", looked)
    return {
        "layer": layer,
        "head": head,
        "distance": found.mean_distance,
        "error": found.error,
        "uniform_error": found.uniform_error,
        "sums": list(found.sums),
        "least": found.least,
        "gap": found.gap,
        "rows": [{"distance": d, "off": o} for d, o in zip(found.distance.tolist(), found.off.tolist(), strict=True)],
        "sweep": [_curve(each) for each in swept.curves],
    }


def _curve(curve: Curve) -> dict:
    draws = {"errors": curve.errors.tolist(), "distances": curve.distances.tolist()}
    return {"kind": curve.key, "sizes": list(curve.sizes), **draws}


def softmax_replaced(
    scene: Scene,
    method: Annotated[str, OneOf(METHODS)] = "performer",
    orthogonal: bool = False,
    projection: Annotated[str, OneOf(PROJECTIONS)] = "random",
    on: Annotated[str, OneOf(ON)] = "text",
) -> dict:
    """What the model's predictions lose when the softmax of every head is replaced, size after size.

    Args:
        method: performer, linear, linformer or nystrom, in a causal form.
        orthogonal: Whether Performer's features stand at right angles.
        projection: Linformer's, untrained: random, or mean (of segments).
        on: text: a bundled one, or the prompt.

    Returns:
        tokens; softmax: loss in nats (null for one token); uniform: with all tokens read alike; rows: size, seed, loss,
        kl to the model with softmax (nats) and agree (share of positions with the same likeliest token).
    """
    chosen = {"method": method, "orthogonal": orthogonal, "projection": projection, "on": on}
    found: Experiment = measured(VIEW, "model", scene, **chosen)
    return {
        "tokens": found.uniform.positions,
        "softmax": found.before,
        "uniform": _reading(found.uniform),
        "rows": [{"size": each.way.size, "seed": each.way.seed} | _reading(each.reading) for each in found.rows],
    }


def _reading(reading: Reading) -> dict:
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
