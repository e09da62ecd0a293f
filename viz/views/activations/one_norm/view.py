"""One norm: its formula on one token, its input and output values, its gain and bias, and BatchNorm for comparison."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from model.activations.norm_walk import norms_of
from model.api import LanguageModel
from viz.charts.axes import BLUE, GREEN, PINK, RED, token_names
from viz.labels import plotly_text, quoted
from viz.numbers import number, whole
from viz.seam.programs.endpoint import Endpoint
from viz.seam.programs.reading import at, measured, unprompted
from viz.seam.python_lines import script
from viz.seam.scene import Scene
from viz.seam.settings import Choice
from viz.seam.view import Custom, Figure, Measure, Payload, Seen, View
from viz.theme import HUES
from viz.views.activations.norms import Site, index_of, kind_name, place_key, place_name
from viz.views.activations.one_norm.figures import (
    FIRST,
    LARGEST,
    SITES,
    Counted,
    NormPanel,
    histogram,
    panels_figure,
    size_traces,
    spread_traces,
    walk_steps,
    walk_table,
)
from viz.views.activations.one_norm.measure import (
    measure_all,
    measure_batch,
    measure_gains,
    measure_read,
    measure_values,
    measure_walk,
    place_of,
)
from viz.words import Words, joined, plot_words
from viz.work.playground import Playground


def _norms(scene: Scene) -> tuple[str, ...]:
    return tuple(map(str, range(len(norms_of(scene.model.config)))))


def _option(words: Words, option: str, scene: Scene) -> str:
    config = scene.model.config
    return place_name(words.catalogue, config, norms_of(config)[int(option)])


def _which(words: Words, scene: Scene) -> str:
    return words["norm"].format(kind=kind_name(scene.model.config), n=len(_norms(scene)))


NORM = Choice("norm", _norms, scene_label=_option, title=_which)
_SHOWN_WORDS = ("dimension", "dimension_help", "dimensions", "model")  # read by static/views/activations/norm.js


def _names(seen: Seen) -> dict[str, str]:
    """Return the norm's kind and place, formatted for titles."""
    config = seen.facts.config
    place = place_name(seen.all_words, config, place_of(config, seen.settings))
    return {"kind": kind_name(config), "place": place}


def _figure(seen: Seen, sides: Sequence[NormPanel], notes: Sequence[str]) -> Payload:
    """Build the payload of a figure of this norm, without the columns and Python lines."""
    layer, site = place_of(seen.facts.config, seen.settings)
    return {
        "figure": panels_figure(sides),
        "title": seen.here["title"].format(**_names(seen)),
        "note": joined(notes),
        "file": f"norm-{seen.part}-{layer}-{site}",
    }


def _python(seen: Seen, lines: Sequence[str], names: str) -> str:
    return script(seen.facts, list(lines), [f"from model.activations.norm_walk import {names}"])


def _norm_arguments(seen: Seen) -> str:
    """Format the norm's layer and site as arguments of a Python call."""
    layer, site = place_of(seen.facts.config, seen.settings)
    return f"{layer}, {site!r}"


# --- one token --------------------------------------------------------------------------------------


def walk(seen: Seen) -> Payload:
    """Build the steps of the norm on one token, with a table of selected dimensions and a check against the model."""
    words, result, position = seen.here, seen.result, seen.facts.position
    top, D = float(abs(result.model_out).max()), len(result.x)
    table, n = walk_table(result), min(LARGEST, D)
    layer, site = place_of(seen.facts.config, seen.settings)
    token = quoted(seen.facts.pieces[position])
    return {
        "title": words["title"].format(**_names(seen), token=token, position=position),
        "note": words["note"],
        "steps": walk_steps(result, words),
        "table": table,
        "table_note": words["table_note"].format(n=n, first=FIRST),
        "mean_note": "" if table["mean"] is None else f"μ = {table['mean']}",
        "check": words["check"].format(gap=number(result.gap), top=number(top)),
        "same": result.gap <= 1e-5 * max(1.0, top),
        "colors": {"light": HUES[0], "dark": HUES[5], "mark": HUES[4]},
        "file": f"norm-{layer}-{site}-token-{position}",
        "python": _python(seen, [f"walk(run, {_norm_arguments(seen)}, {position})"], "walk"),
        "words": {name: words[name] for name in _SHOWN_WORDS} | plot_words(seen.all_words),
    }


# --- all tokens -------------------------------------------------------------------------------------


def values(seen: Seen) -> Payload:
    """Draw the histograms of the norm's input and output over all tokens."""
    words, both = seen.here, {"before": seen.result.before, "after": seen.result.after}
    sides = [
        NormPanel([histogram(each, words[name], words["unit"], color)], words[name], words["count"])
        for (name, each), color in zip(both.items(), (RED, BLUE), strict=True)
    ]
    note = words["note"].format(T=whole(len(seen.facts.tokens)), D=whole(seen.facts.config.d_model))
    lines = [f"norm = norm_of(lm.model, {_norm_arguments(seen)})", f"x = norm_input(run, {_norm_arguments(seen)})"]
    return _figure(seen, sides, [note, _outside(seen, {words[name]: each for name, each in both.items()})]) | {
        "columns": [words["series"], words["value"], words["count"]],
        "python": _python(seen, [*lines, "x, norm_output(norm, x)  # [T, D] each"], "norm_input, norm_of, norm_output"),
    }


def gains(seen: Seen) -> Payload:
    """Draw the histograms of the norm's gain and of its bias, if it has one."""
    words, result = seen.here, seen.result
    both = {"gain": result.gain} | ({} if result.bias is None else {"bias": result.bias})
    named = {seen.words[name]: each for name, each in both.items()}
    sides = [
        NormPanel([histogram(each, name, words["unit"], color)], name, words["count"])
        for (name, each), color in zip(named.items(), (GREEN, PINK), strict=False)
    ]
    note = words["note_gain" if result.bias is None else "note"]
    lines = [f"norm = norm_of(lm.model, {_norm_arguments(seen)})", "norm.weight, norm.bias  # gain and bias, [D] each"]
    return _figure(seen, sides, [note, _outside(seen, named)]) | {
        "columns": [words["series"], words["value"], words["count"]],
        "python": _python(seen, lines, "norm_of"),
    }


def _outside(seen: Seen, histograms: Mapping[str, Counted]) -> str:
    """Describe how many values each histogram omits, and the range of all values."""
    text = seen.words["outside"]
    return joined(
        text.format(n=whole(each.outside), name=name, low=number(each.low), high=number(each.high))
        for name, each in histograms.items()
        if each.outside
    )


# --- all norms --------------------------------------------------------------------------------------


def every(seen: Seen) -> Payload:
    """Draw the quantiles of the gain and bias of all norms by layer."""
    words, config, tables = seen.here, seen.facts.config, seen.result
    labels = {name: words[name] for name in ("low", "median", "high", "layer")}
    labels |= {site: words[place_key(config, site)] for site in SITES}
    sides = [
        NormPanel(
            spread_traces(table, norms_of(config), labels, legend=n == 0),
            words["layer"],
            seen.words[name],
            {"tickformat": "d"},
        )
        for n, (name, table) in enumerate(tables.items())
    ]
    return {
        "figure": panels_figure(sides),
        "title": words["title_bias" if "bias" in tables else "title"],
        "note": words["note"] if config.final_norm else joined([words["note"], words["no_final"]]),
        "columns": [words["series"], words["layer"], words["value"]],
        "file": "norm-gains-by-layer",
        "python": _python(seen, ["quantiles(lm.model)  # [norms, 3] each: 5%, median, 95%"], "quantiles"),
    }


# --- BatchNorm --------------------------------------------------------------------------------------


def batch(seen: Seen) -> Payload:
    """Draw the root mean square of each token and the standard deviation of each dimension, under both norms."""
    words, result, kind = seen.here, seen.result, kind_name(seen.facts.config)
    names = (kind, "BatchNorm")
    dimensions = [plotly_text(words["dimension"].format(d=d)) for d in range(len(result.own_dimensions))]
    of_tokens = size_traces(result.own_tokens, result.batch_tokens, names, token_names(seen.facts.pieces), pick=True)
    of_dimensions = size_traces(result.own_dimensions, result.batch_dimensions, names, dimensions)
    sides = [
        NormPanel(of_tokens, words["tokens"], words["token_size"]),
        NormPanel(of_dimensions, words["dimensions"], words["dimension_size"]),
    ]
    lines = [
        f"norm = norm_of(lm.model, {_norm_arguments(seen)})",
        f"compare_batch(norm, norm_input(run, {_norm_arguments(seen)}))",
    ]
    return _figure(seen, sides, [words["note"].format(kind=kind)]) | {
        "columns": [words["series"], words["item"], words["index"], words["size"]],
        "python": _python(seen, lines, "compare_batch, norm_input, norm_of"),
    }


def why(seen: Seen) -> Payload:
    """Explain with numbers from this prompt why the model does not use BatchNorm."""
    words, result, kind = seen.here, seen.result, kind_name(seen.facts.config)
    last = len(seen.facts.tokens) - 1

    def text(key: str, numbers: tuple[float, float]) -> str:
        batch, own = map(number, numbers)
        return words[key].format(last=last, batch=batch, own=own, kind=kind)

    single = result.batch_later is None
    later = words["later_one"] if single else text("later", (result.batch_later, result.own_later))
    return {
        "title": words["title"],
        "about": words["about"],
        "items": [
            [words["later_title"], later],
            [words["alone_title"], text("alone", (result.batch_alone, result.own_alone))],
            [words["use_title"], words["use"].format(kind=kind)],
        ],
    }


# --- for programs -----------------------------------------------------------------------------------


def norm(scene: Scene, layer: int = 0, site: Site = "norm1", position: int = -1) -> dict:
    """Compute every step of one norm (LayerNorm or RMSNorm) on one token, and compare the norm with BatchNorm.

    Args:
        site: norm1 is the norm of the layer's attention, norm2 that of its MLP; after1 and after2 are those of their
            outputs, embed_norm that of the embeddings; final comes before the output head.
        position: Position of the token whose vector is normalized; negative counts from the end.

    Returns:
        walk: x, mean, centered, spread (variance or mean square), divisor, normalized, gain, scaled, bias and out, each
        with d_model numbers if it is a vector; model_out: output of the model's own norm; gap: largest absolute
        difference from it. batch: results of the model's norm (own_) and of BatchNorm (batch_): tokens (root mean
        square of each), dimensions (standard deviation of each), later (largest change of token 0 without the last
        token) and alone (largest absolute value of token 0 as the only token).
    """
    selected = at(scene, position)
    index = index_of(scene.model, layer, site)
    steps, compared = (measured(VIEW, name, selected, norm=str(index)) for name in ("walk", "batch"))
    norm_layer, norm_site = norms_of(scene.model.config)[index]
    where: dict[str, Any] = {"layer": norm_layer, "site": norm_site, "position": selected.position}
    fields = {field.name: getattr(compared, field.name) for field in dataclasses.fields(compared)}
    return where | {"walk": steps, "batch": fields}


def norm_gains(playground: Playground, model: LanguageModel) -> dict:
    """Compute the 5%, 50% and 95% quantiles, over the dimensions, of the gain and bias of every norm of a model.

    Returns:
        norms: layer, site, gain and, if the model has biases, bias. Gain and bias are lists of the three quantiles.
    """
    tables = measured(VIEW, "all", unprompted(playground, model))
    rows = [
        {"layer": layer, "site": site} | {name: table[n] for name, table in tables.items()}
        for n, (layer, site) in enumerate(norms_of(model.config))
    ]
    return {"norms": rows}


_OF = ("norm",)

VIEW = View(
    "one_norm",
    needs=("layers",),
    settings=(NORM,),
    form_depends=("model",),
    measures=(
        Measure("read", measure_read, settings=_OF, keep=False),
        Measure("walk", measure_walk, depends=("token",), settings=_OF, uses=("read",)),
        Measure("values", measure_values, depends=(), settings=_OF, uses=("read",)),
        Measure("gains", measure_gains, depends=("model",), settings=_OF, locks=False),
        Measure("all", measure_all, depends=("model",), locks=False),
        Measure("batch", measure_batch, depends=(), settings=_OF, uses=("read",)),
    ),
    layout=("form", "walk", ("values", "gains"), ("all", "batch"), "why"),
    parts={
        "walk": Custom("normwalk", walk, of="walk"),
        "values": Figure(values, of="values"),
        "gains": Figure(gains, of="gains"),
        "all": Figure(every, of="all", settings=()),
        "batch": Figure(batch, of="batch"),
        "why": Custom("normfacts", why, of="batch", settings=()),
    },
    api=(Endpoint(norm), Endpoint(norm_gains, reads="model", kind="computed")),
)
