"""Tables and texts of the approximations: properties of the matrix, costs by formula, and the model's loss."""

import numpy as np

from model.attention.approximations import costs as formulas
from model.attention.approximations.measure import Approximation, curve_of
from model.attention.approximations.ways import Way
from model.attention.approximations.whole_model import Experiment
from model.tracing.divergence import PredictionDivergence
from viz.numbers import NONE, decimals, flops, nats, number, percent, size, whole
from viz.seam.python_lines import script
from viz.seam.view import Payload, Seen
from viz.views.cheaper.approximations.figures import ApproximationLine, losses_figure
from viz.views.cheaper.approximations.measure import MOST, text_limit, way_of, ways_of_kind
from viz.words import Words, joined

LENGTHS = (128, 512, 2048, 8192, 32768, 131072)
SAME = 1e-9  # tolerance for the relative difference of the recurrent and the parallel form, in float64
SHARES = 5e-4  # tolerance within which a row counts as a probability distribution
_CLOSE = 0.05  # difference in nats up to which a loss counts as equal to that of softmax

# --- shared names and Python lines -----------------------------------------------------------------


def kind_name(words: Words, way: Way) -> str:
    """Return the name of the kind of an approximation, without its size."""
    return words[f"is_{curve_of(way)}"]


def way_name(words: Words, way: Way) -> str:
    """Format the name of an approximation with its size."""
    if way.method == "linear":
        return kind_name(words, way)
    sized = words[f"size_{way.method}"].format(n=whole(way.size))
    return words["way"].format(kind=kind_name(words, way), size=sized)


def way_python(way: Way) -> str:
    """Format the Python call that constructs an approximation method."""
    arguments = f", {way.size}" if way.size else ""
    arguments += f", seed={way.seed}" if way.seed else ""
    arguments += ", orthogonal=True" if way.orthogonal else ""
    arguments += f", projection={way.projection!r}" if way.projection != "random" else ""
    return f'Way("{way.method}"{arguments})'


def head_python(seen: Seen, last: str) -> str:
    """Build the Python lines that approximate the selected head as `found` and end with `last`."""
    layer, head = seen.facts.head
    way = way_python(way_of(seen.settings))
    lines = [f"found = approximate(run.qkv({layer}, {head}), {way}, {layer})", last]
    imports = ["from model.attention.approximations.measure import approximate"]
    return script(seen.facts, lines, [*imports, "from model.attention.approximations.ways import Way"])


# --- one head --------------------------------------------------------------------------------------------


def facts(seen: Seen) -> Payload:
    """List properties of the matrix: errors of its rows and output, row sums, and agreement of its two forms."""
    words, way = seen.here, way_of(seen.settings)
    result: Approximation = seen.result
    key = "worse" if result.error > result.uniform_error else "better"
    items = [
        [words["rows"], words["rows_text"].format(distance=number(result.mean_distance))],
        [
            words["output"],
            words[f"output_{key}"].format(error=percent(result.error), uniform=percent(result.uniform_error)),
        ],
        [words["matrix"], words["matrix_plain" if _plain(result) else "matrix_signed"].format(**_sums(result))],
    ]
    if result.gap is not None:
        template = words["forms_same" if result.gap <= SAME else "forms_differ"]
        items.append([words["forms"], template.format(gap=number(result.gap, 2), E=seen.facts.config.d_head)])
    items.append([words["causal"], words[f"causal_{curve_of(way).removesuffix('_orthogonal')}"]])
    return {"title": words["title"].format(name=way_name(seen.words, way)), "items": items}


def _plain(result: Approximation) -> bool:
    """Return whether every row of the matrix is a probability distribution, within the tolerance SHARES."""
    return result.least >= -SHARES and max(abs(each - 1) for each in result.sums) <= SHARES


def _sums(result: Approximation) -> dict[str, str]:
    low, high = result.sums
    return {"low": number(low), "high": number(high), "least": number(result.least)}


def costs(seen: Seen) -> Payload:
    """Build the table of operations and bytes by formula, with the prompt length from which the method is cheaper."""
    words, way, E = seen.here, way_of(seen.settings), seen.facts.config.d_head
    nystrom, rows = way.method == "nystrom", []
    for T in LENGTHS:
        exact, replaced = formulas.softmax_operations(T, E), formulas.operations(way, T, E)
        softmax_size, state_size = formulas.softmax_bytes(T, E), formulas.state_bytes(way, T, E)
        published = [flops(formulas.published_operations(way, T, E))] if nystrom else []
        rows.append(
            [
                whole(T),
                flops(exact),
                flops(replaced),
                f"{number(exact / replaced)} ×",
                *published,
                size(softmax_size),
                size(state_size),
            ]
        )
    shortest = formulas.cheaper_from(way, E)
    about = words["never"] if shortest is None else words["from"].format(n=whole(shortest))
    names = ["length", "softmax", "ours", "ratio", *(["published"] if nystrom else []), "softmax_bytes", "bytes"]
    name = way_name(seen.words, way)
    lines = [f"way = {way_python(way)}", f"[(operations(way, T, {E}), softmax_operations(T, {E})) for T in {LENGTHS}]"]
    imports = [
        "from model.attention.approximations.costs import operations, softmax_operations",
        "from model.attention.approximations.ways import Way",
    ]
    return {
        "title": words["title"].format(E=E),
        "about": joined([about, words["about"]]),
        "columns": [words[each].format(name=name) for each in names],
        "rows": rows,
        "source": words["counted"].format(model=seen.facts.label, E=E),
        "python": "\n".join([*imports, "", *lines]),
    }


# --- the whole model -------------------------------------------------------------------------------------


def job(seen: Seen) -> Payload:
    """Describe the measurement: the number of forward passes, and that edits are ignored."""
    kind = kind_name(seen.words, way_of(seen.settings))
    n = len(ways_of_kind(way_of(seen.settings)))
    hint = seen.here["hint" if n > 1 else "hint_one"].format(n=n, kind=kind, layers=seen.facts.config.n_layer)
    return {"text": joined([hint, seen.words["no_edits"]]) if seen.facts.edits else hint}


def _common(seen: Seen) -> Payload:
    """Build the payload fields shared by the parts on the whole model."""
    words, way, experiment = seen.words, way_of(seen.settings), seen.result
    values = {"model": seen.facts.label, "dtype": seen.facts.dtype, "n": whole(experiment.uniform.positions)}
    source = words[f"source_{seen.settings.on}"].format(**values)
    arguments = f", orthogonal={way.orthogonal}" if way.method == "performer" else ""
    arguments += f', projection="{way.projection}"' if way.method == "linformer" else ""
    ids, imports = f"run.tokens.ids.tolist()[:{MOST}]", ["from model.attention.approximations import whole_model"]
    if seen.settings.on == "text":
        ids = f"held_out_ids(lm, {text_limit(seen.facts.limit)})"
        imports.append("from model.quantization.texts import held_out_ids")
    lines = [
        f'found = whole_model.measure(lm.model, {ids}, whole_model.ways_of("{way.method}"{arguments}))',
        "[(each.way.size, each.way.seed, each.reading.loss, each.reading.kl) for each in found.rows]",
    ]
    edited = f" · {words['plain']}" if seen.facts.edits else ""
    title = seen.here["title"].format(kind=kind_name(words, way))
    return {"title": title, "source": source + edited, "python": script(seen.facts, lines, imports)}


def by_size(experiment: Experiment) -> dict[int, list[PredictionDivergence]]:
    """Group the readings of all draws by size."""
    return {size: experiment.of(size) for size in dict.fromkeys(each.way.size for each in experiment.rows)}


def _value(reading: PredictionDivergence) -> float:
    """Return the loss of a reading, or its KL divergence for a text of one token, which has no loss."""
    return reading.kl if reading.loss is None else reading.loss


def losses(seen: Seen) -> Payload:
    """Draw the model's loss as a function of the size of the approximation."""
    words, experiment, way = seen.here, seen.result, way_of(seen.settings)
    groups = by_size(experiment)
    values = np.array([[_value(reading) for reading in group] for group in groups.values()]).T  # [draws, sizes]
    curve = ApproximationLine(curve_of(way), kind_name(seen.words, way), tuple(groups), values)
    labels = words.plain() | {"size": seen.words[f"axis_{way.method}"] if way.method != "linear" else ""}
    labels["value"] = words["loss" if experiment.before is not None else "kl"]
    return _common(seen) | {
        "figure": losses_figure(curve, experiment.before, _value(experiment.uniform), labels),
        "note": words["note_draws" if values.shape[0] > 1 else "note"].format(n=values.shape[0]),
        "file": f"approximations-losses-{curve_of(way)}",
        "columns": [words["series"], labels["size"] or words["none"], labels["value"]],
    }


def results(seen: Seen) -> Payload:
    """Build the table of loss, KL and agreement by size, with a conclusion."""
    words, experiment, way = seen.here, seen.result, way_of(seen.settings)
    rows = [[words["softmax"], nats(experiment.before), NONE, nats(0.0), percent(1.0)]]
    for n, group in by_size(experiment).items():
        name = words["size"].format(n=whole(n)) if n else kind_name(seen.words, way)
        rows.append([name, *_cells(group)])
    rows.append([words["uniform"], *_cells([experiment.uniform])])
    columns = [seen.words[f"axis_{way.method}"] if way.method != "linear" else words["kind"]]
    return _common(seen) | {
        "about": conclusion(seen.words.within("results"), experiment),
        "columns": [*columns, *(words[key] for key in ("loss", "more", "kl", "agree"))],
        "rows": rows,
    }


def _cells(group: list[PredictionDivergence]) -> list[str]:
    """Format the means over the draws: loss with its range, extra loss relative to softmax, KL, and agreement."""
    kl, agree = (float(np.mean([getattr(each, name) for each in group])) for name in ("kl", "agree"))
    if group[0].loss is None:
        return [NONE, NONE, nats(kl), percent(agree)]
    loss = [each.loss for each in group]
    span = f" ({decimals(min(loss), 3)}–{decimals(max(loss), 3)})" if len(loss) > 1 else ""
    mean = float(np.mean(loss))
    return [f"{nats(mean)}{span}", nats(mean - group[0].before), nats(kl), percent(agree)]


def conclusion(words: Words, experiment: Experiment) -> str:
    """Describe how the loss changes with size, and how close it is to that of softmax at the largest size."""
    if experiment.before is None:
        return words["one_token"]
    groups = by_size(experiment)
    mean = {size: float(np.mean([each.loss for each in group])) for size, group in groups.items()}
    small, large, floor = min(mean), max(mean), experiment.uniform.loss
    values = {
        "small": whole(small),
        "large": whole(large),
        "times": number(large / small) if small else NONE,
        "first": nats(mean[small]),
        "last": nats(mean[large]),
        "softmax": nats(experiment.before),
        "away": nats(mean[large] - experiment.before),
        "uniform": nats(floor),
    }
    decrease = mean[small] - mean[large]
    key = "alone" if small == large else "falls" if decrease > 0 else "rises"
    sentences = [words[key].format(**values)]
    if abs(mean[large] - experiment.before) <= _CLOSE:
        sentences.append(words["there"].format(**values))
    elif mean[large] < experiment.before:
        sentences.append(words["less"].format(**values))
    elif mean[large] >= floor:
        sentences.append(words["no_better"].format(**values))
    else:
        share = (floor - mean[large]) / (floor - experiment.before)
        sentences.append(words["part"].format(**values, share=percent(share)))
    return joined(sentences)
