"""Sizes: statistics of the inputs of all norms, and of the changes by each sublayer and block."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated

import numpy as np

from model.activations.residual_statistics import STATISTICS, StreamStatistics, nearest_row, statistic
from model.gpt.config import ModelConfig
from viz.charts.shades import shade_of, wide
from viz.labels import quoted
from viz.numbers import number, signed
from viz.seam.programs.arguments import OneOf
from viz.seam.programs.endpoint import Endpoint
from viz.seam.programs.reading import measured, prompt_tokens
from viz.seam.python_lines import script
from viz.seam.scene import Scene
from viz.seam.settings import Choice, Settings
from viz.seam.view import Asking, Figure, Measure, Payload, Seen, View
from viz.views.activations.figures import Grid, grid_figure, layer_line, token_line
from viz.views.activations.norms import kind_name
from viz.views.activations.sizes.figures import LayerCurve, profile_figure, row_figure, series_of
from viz.views.activations.stream import STREAM, Row, row_name, row_of, rows_payload, shared
from viz.words import joined

NUMBER = Choice("number", tuple(STATISTICS), default="rms")
_SIGNED = ("mean", "along")
_LOW = ("cosine",)  # statistics whose extreme cell is the smallest value
_NORM_NUMBERS = ("mean", "variance", "rms", "norm", "divisor")


@dataclass(frozen=True, eq=False)
class StreamSizes:
    """One statistic of the residual stream, with its extreme cell."""

    name: str  # key of STATISTICS
    rows: tuple[Row, ...]
    values: np.ndarray  # float64 [R, T]
    row: int  # row and token of the extreme cell
    token: int

    @property
    def shade(self) -> str:
        """The color scale, one of viz.charts.shades."""
        return shade_of(self.values, self.name in _SIGNED)

    @property
    def log(self) -> bool:
        """True if the curves have logarithmic axes."""
        return self.name not in _SIGNED and wide(self.values)


def measure(scene: Scene, settings: Settings, results: Mapping[str, StreamStatistics]) -> StreamSizes:
    """Compute the selected statistic and find its extreme cell."""
    rows, values = statistic(results["stream"], settings.number)
    return StreamSizes(settings.number, tuple(rows), values, *extreme(values, settings.number in _LOW))


def extreme(values: np.ndarray, smallest: bool) -> tuple[int, int]:
    """Return the row and column of the smallest value or of the largest magnitude; the first of ties. values [R, T]"""
    finite = np.isfinite(values)
    if not finite.any():
        return 0, 0
    at = np.where(finite, values, np.inf).argmin() if smallest else np.where(finite, np.abs(values), -1).argmax()
    row, token = divmod(int(at), values.shape[1])
    return row, token


# --- the selection ---


def _row(seen: Seen) -> int:
    """Return the index of the clicked row, by default the row of the extreme cell."""
    sizes: StreamSizes = seen.results["main"]
    return nearest_row(list(sizes.rows), *seen.settings.map) if seen.settings.map else sizes.row


def _tokens(seen: Seen) -> tuple[int, ...]:
    """Return the selected tokens in order of selection; by default the extreme cell's and the one at the position."""
    return seen.facts.picked or tuple(dict.fromkeys((seen.results["main"].token, seen.facts.position)))


def _value(seen: Seen) -> str:
    """Return the statistic's name for an axis."""
    return seen.words[f"value_{seen.results['main'].name}"]


def _name(seen: Seen) -> str:
    """Return the statistic's name for a title."""
    return seen.words[f"settings.number_{seen.results['main'].name}"]


def _python(seen: Seen, lines: Sequence[str], imports: Sequence[str] = ()) -> str:
    first = f"rows, values = statistic(survey(run), {seen.results['main'].name!r})"
    names = "from model.activations.residual_statistics import statistic, survey"
    return script(seen.facts, [first, *lines], [names, *imports])


# --- drawing ---


def grid(seen: Seen) -> Payload:
    """Draw the map of the statistic: one row per norm, sublayer or block, one column per token."""
    words, sizes = seen.here, seen.result
    names = [row_name(seen, row) for row in sizes.rows]
    rows = layer_line(_rows_title(seen), names, [layer for _, layer in sizes.rows])
    columns = token_line(words["token"], seen.facts.pieces)
    figure = grid_figure(Grid(sizes.values, _value(seen), rows, columns, sizes.shade))
    return rows_payload(seen, figure, sizes.rows, _row(seen)) | {
        "title": words[f"title_{sizes.name}"].format(kind=kind_name(seen.facts.config)),
        "note": joined([_reads(seen), shared(seen)[f"colours_{sizes.shade}"], *_opened(seen)]),
        "columns": [seen.words["column_row"], words["token"], _value(seen)],
        "file": f"sizes-{sizes.name}",
        "python": _python(seen, ["rows, values  # values [R, T], a row each of rows"]),
    }


def _rows_title(seen: Seen) -> str:
    """Return the title of the rows' axis, with the order of a layer's rows if it has several."""
    key, config = f"rows_{STATISTICS[seen.result.name]}", seen.facts.config
    per_layer = sum(layer == 0 for _, layer in seen.result.rows)
    if per_layer == 1:
        return seen.here["rows_blocks"]
    return seen.here[f"{key}_sandwich" if key == "rows_norms" and config.norm_placement == "sandwich" else key]


def _wiring(config: ModelConfig, of: str) -> str:
    """Return the words key for the order of norms and sublayers."""
    if config.mlp == "none":
        return "alone"
    if of == "norms" and config.norm_placement in ("output", "sandwich"):
        return config.norm_placement
    if of == "norms" and config.shared_norm:
        return "shared"
    return "post" if config.norm_placement == "post" else "parallel" if config.parallel_residual else "pre"


def _reads(seen: Seen) -> str:
    """Describe the tensors behind the rows for this model's wiring."""
    words, config, name = seen.here, seen.facts.config, seen.result.name
    if STATISTICS[name] == "blocks":
        return words["reads_blocks"]
    kind = kind_name(config)
    text = words[f"reads_{STATISTICS[name]}_{_wiring(config, STATISTICS[name])}"].format(kind=kind)
    return joined([text, words[f"divides_{config.norm}"]]) if name == "divisor" else text


def _opened(seen: Seen) -> list[str]:
    """Explain which row is displayed by default; empty after a click."""
    return [] if seen.settings.map else [seen.here["opened_low" if seen.result.name in _LOW else "opened_high"]]


_PLACES = {"after1": 0.25, "norm2": 0.5, "after2": 0.75}  # of a norm within its layer


def _curves(seen: Seen) -> list[LayerCurve]:
    """Group the rows into curves across the layers: one for attention and one for MLP, or else a single curve."""
    words, sizes = seen.here, seen.result
    if STATISTICS[sizes.name] != "sublayers":
        places = [layer + _PLACES.get(what, 0) for what, layer in sizes.rows]
        return [LayerCurve("", range(len(sizes.rows)), places, [row_name(seen, row) for row in sizes.rows])]
    curves = []
    for what in ("attn", "mlp"):
        rows = [n for n, (kind, _) in enumerate(sizes.rows) if kind == what]
        names = [row_name(seen, sizes.rows[n]) for n in rows]
        curves.append(LayerCurve(words[what], rows, [sizes.rows[n][1] for n in rows], names))
    return curves


def profile(seen: Seen) -> Payload:
    """Draw the statistic across the layers for the selected tokens, with the median and range of all tokens."""
    words, sizes, tokens = seen.here, seen.result, _tokens(seen)
    log = sizes.log
    labels = words.plain() | {"value": _value(seen), "layers": seen.words["layers"]}
    note = words["picked" if seen.facts.picked else "low" if sizes.name in _LOW else "high"]
    lines = [f"values[:, {list(tokens)}]  # of these tokens", "np.percentile(values, [10, 50, 90], axis=1)"]
    series = series_of(tokens, seen.facts.pieces)
    return {
        "figure": profile_figure(sizes.values, _curves(seen), series, labels, log),
        "title": words["title"].format(value=_name(seen)),
        "note": joined([note, words["log_axis"]]) if log else note,
        "columns": [seen.words["column_row"], seen.words["layers"], _value(seen)],
        "file": f"sizes-{sizes.name}-layers",
        "python": _python(seen, lines, ["import numpy as np"]),
    }


def row(seen: Seen) -> Payload:
    """Draw the selected row's values by token, with a note on one of its cells."""
    words, sizes, tokens, at = seen.here, seen.result, _tokens(seen), _row(seen)
    what, layer = sizes.rows[at]
    series, labels = series_of(tokens, seen.facts.pieces), words.plain() | {"value": _value(seen)}
    return {
        "figure": row_figure(sizes.values[at], seen.facts.pieces, series, labels, sizes.log),
        "title": words["title"].format(value=_name(seen), row=row_name(seen, (what, layer))),
        "note": cell_note(seen, (what, layer), seen.facts.position if seen.facts.picked else tokens[0]),
        "columns": [words["token"], words["position"], _value(seen)],
        "file": f"sizes-{sizes.name}-{what}-{layer}",
        "python": _python(seen, [f"values[rows.index({(what, layer)!r})]  # [T]"]),
    }


def cell_note(seen: Seen, row: Row, at: int) -> str:
    """Describe the statistics of a row at one token."""
    stream, (what, layer) = seen.results["stream"], row
    values = {"token": quoted(seen.facts.pieces[at]), "position": at}
    if what == "block":
        return seen.here["cell_block"].format(**values, cosine=number(float(stream.cosine[layer, at])))
    if what in ("attn", "mlp"):
        half = ("attn", "mlp").index(what)
        update, along = (float(each[layer, half, at]) for each in (stream.update, stream.along))
        return seen.here["cell_update"].format(**values, update=number(update), along=signed(along))
    n = stream.norms.index(row)
    return seen.here["cell_norm"].format(
        **values, **{name: number(float(getattr(stream, name)[n, at])) for name in _NORM_NUMBERS}
    )


# --- for programs ---


def stream_sizes(scene: Scene, number: Annotated[str, OneOf(tuple(STATISTICS))] = "rms") -> dict:
    """Measure each token's residual stream at the input of every norm, or its change by each sublayer or block.

    Args:
        number: rms, norm (length), mean, variance, divisor (the norm's denominator): of the norm's input. update:
            length of a sublayer's output relative to that of the stream; along: cosine between the two. cosine: between
            the stream before and after a block.

    Returns:
        rows: where (norm1, norm2, final; attn, mlp; or block), layer, and values, one per token.
    """
    sizes: StreamSizes = measured(VIEW, "main", scene, number=number)
    rows = [
        {"where": where, "layer": layer, "values": values}
        for (where, layer), values in zip(sizes.rows, sizes.values, strict=True)
    ]
    return {"number": number, "tokens": prompt_tokens(scene), "rows": rows}


_SELECTION = ("token", "tokens")

VIEW = View(
    "sizes",
    needs=("layers",),
    settings=(NUMBER,),
    measures=(
        STREAM,
        Measure("main", measure, depends=(), settings=("number",), locks=False, uses=("stream",)),
    ),
    layout=("form", ("map", ("profile", "row"))),
    parts={
        "map": Asking("gridmap", row_of, grid, of="main"),  # the page itself moves the row on a click
        "profile": Figure(profile, depends=_SELECTION, settings=()),
        "row": Figure(row, of=("main", "stream"), depends=_SELECTION, settings=("map",)),
    },
    api=(Endpoint(stream_sizes),),
)
