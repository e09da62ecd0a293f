"""The view of approximations in numbers: what the matrix is like, what it costs by formula, what the model loses."""

import numpy as np

from model.attention.approximations import costs as formulas
from model.attention.approximations.measure import Approximation, curve_of
from model.attention.approximations.ways import Way
from model.attention.approximations.whole_model import Experiment
from model.tracing.divergence import Reading
from viz.numbers import NONE, decimals, flops, nats, number, percent, size, whole
from viz.seam.python_lines import script
from viz.seam.view import Payload, Seen
from viz.views.cheaper.approximations.figures import Line, losses_figure
from viz.views.cheaper.approximations.measure import MOST, text_limit, way_of, ways_asked
from viz.words import Words, joined

LENGTHS = (128, 512, 2048, 8192, 32768, 131072)
SAME = 1e-9  # relative: recurrent and parallel form in float64
SHARES = 5e-4  # by which rows that are shown as shares may be off
_CLOSE = 0.05  # nats from softmax that count as the same

# --- words and lines that the pictures share -----------------------------------------------------------------


def kind_name(words: Words, way: Way) -> str:
    """Return a method with what makes it another kind, in words."""
    return words[f"is_{curve_of(way)}"]


def way_name(words: Words, way: Way) -> str:
    """Return a method with its size, in words."""
    if way.method == "linear":
        return kind_name(words, way)
    sized = words[f"size_{way.method}"].format(n=whole(way.size))
    return words["way"].format(kind=kind_name(words, way), size=sized)


def way_python(way: Way) -> str:
    """Return the call that makes the way."""
    more = f", {way.size}" if way.size else ""
    more += f", seed={way.seed}" if way.seed else ""
    more += ", orthogonal=True" if way.orthogonal else ""
    more += f", projection={way.projection!r}" if way.projection != "random" else ""
    return f'Way("{way.method}"{more})'


def head_python(seen: Seen, last: str) -> str:
    """`last` after the lines that approximate the picked head as `found`."""
    layer, head = seen.facts.head
    way = way_python(way_of(seen.settings))
    lines = [f"found = approximate(run.qkv({layer}, {head}), {way}, {layer})", last]
    imports = ["from model.attention.approximations.measure import approximate"]
    return script(seen.facts, lines, [*imports, "from model.attention.approximations.ways import Way"])


# --- one head --------------------------------------------------------------------------------------------


def facts(seen: Seen) -> Payload:
    """What the matrix is like, what that does to the output, and that both forms are one."""
    words, way = seen.here, way_of(seen.settings)
    found: Approximation = seen.result
    key = "worse" if found.error > found.uniform_error else "better"
    items = [
        [words["rows"], words["rows_text"].format(distance=number(found.mean_distance))],
        [
            words["output"],
            words[f"output_{key}"].format(error=percent(found.error), uniform=percent(found.uniform_error)),
        ],
        [words["matrix"], words["matrix_plain" if _plain(found) else "matrix_signed"].format(**_sums(found))],
    ]
    if found.gap is not None:
        said = words["forms_same" if found.gap <= SAME else "forms_differ"]
        items.append([words["forms"], said.format(gap=number(found.gap, 2), E=seen.facts.config.d_head)])
    items.append([words["causal"], words[f"causal_{curve_of(way).removesuffix('_orthogonal')}"]])
    return {"title": words["title"].format(name=way_name(seen.words, way)), "items": items}


def _plain(found: Approximation) -> bool:
    """Whether every row is a distribution."""
    return found.least >= -SHARES and max(abs(each - 1) for each in found.sums) <= SHARES


def _sums(found: Approximation) -> dict[str, str]:
    low, high = found.sums
    return {"low": number(low), "high": number(high), "least": number(found.least)}


def costs(seen: Seen) -> Payload:
    """Return the operations and bytes by formula for growing prompts, and from where on it is cheaper."""
    words, way, E = seen.here, way_of(seen.settings), seen.facts.config.d_head
    nystrom, rows = way.method == "nystrom", []
    for T in LENGTHS:
        exact, ours = formulas.softmax_operations(T, E), formulas.operations(way, T, E)
        state, kept = formulas.softmax_bytes(T, E), formulas.state_bytes(way, T, E)
        published = [flops(formulas.published_operations(way, T, E))] if nystrom else []
        rows.append(
            [whole(T), flops(exact), flops(ours), f"{number(exact / ours)} ×", *published, size(state), size(kept)]
        )
    begins = formulas.cheaper_from(way, E)
    about = words["never"] if begins is None else words["from"].format(n=whole(begins))
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
    """How many runs it takes, and that edits are left out."""
    kind = kind_name(seen.words, way_of(seen.settings))
    n = len(ways_asked(way_of(seen.settings)))
    hint = seen.here["hint" if n > 1 else "hint_one"].format(n=n, kind=kind, layers=seen.facts.config.n_layer)
    return {"text": joined([hint, seen.words["no_edits"]]) if seen.facts.edits else hint}


def _common(seen: Seen) -> Payload:
    """Return the fields that the pictures of the whole model share."""
    words, way, found = seen.words, way_of(seen.settings), seen.result
    values = {"model": seen.facts.label, "dtype": seen.facts.dtype, "n": whole(found.uniform.positions)}
    source = words[f"source_{seen.settings.on}"].format(**values)
    more = f", orthogonal={way.orthogonal}" if way.method == "performer" else ""
    more += f', projection="{way.projection}"' if way.method == "linformer" else ""
    ids, imports = f"run.tokens.ids.tolist()[:{MOST}]", ["from model.attention.approximations import whole_model"]
    if seen.settings.on == "text":
        ids = f"held_out_ids(lm, {text_limit(seen.facts.limit)})"
        imports.append("from model.quantization.texts import held_out_ids")
    lines = [
        f'found = whole_model.measure(lm.model, {ids}, whole_model.ways_of("{way.method}"{more}))',
        "[(each.way.size, each.way.seed, each.reading.loss, each.reading.kl) for each in found.rows]",
    ]
    edited = f" · {words['plain']}" if seen.facts.edits else ""
    title = seen.here["title"].format(kind=kind_name(words, way))
    return {"title": title, "source": source + edited, "python": script(seen.facts, lines, imports)}


def by_size(found: Experiment) -> dict[int, list[Reading]]:
    """Return the readings of the draws by size."""
    return {size: found.of(size) for size in dict.fromkeys(each.way.size for each in found.rows)}


def _value(reading: Reading) -> float:
    """Return the loss; for a text of one token, which has none, the KL."""
    return reading.kl if reading.loss is None else reading.loss


def losses(seen: Seen) -> Payload:
    """Return the loss against size."""
    words, found, way = seen.here, seen.result, way_of(seen.settings)
    groups = by_size(found)
    values = np.array([[_value(reading) for reading in group] for group in groups.values()]).T  # [draws, sizes]
    drawn = Line(curve_of(way), kind_name(seen.words, way), tuple(groups), values)
    said = words.plain() | {"size": seen.words[f"axis_{way.method}"] if way.method != "linear" else ""}
    said["value"] = words["loss" if found.before is not None else "kl"]
    return _common(seen) | {
        "figure": losses_figure(drawn, found.before, _value(found.uniform), said),
        "note": words["note_draws" if values.shape[0] > 1 else "note"].format(n=values.shape[0]),
        "file": f"approximations-losses-{curve_of(way)}",
        "columns": [words["series"], said["size"] or words["none"], said["value"]],
    }


def results(seen: Seen) -> Payload:
    """Return every number, and what follows from them."""
    words, found, way = seen.here, seen.result, way_of(seen.settings)
    rows = [[words["softmax"], nats(found.before), NONE, nats(0.0), percent(1.0)]]
    for n, group in by_size(found).items():
        name = words["size"].format(n=whole(n)) if n else kind_name(seen.words, way)
        rows.append([name, *_cells(group)])
    rows.append([words["uniform"], *_cells([found.uniform])])
    columns = [seen.words[f"axis_{way.method}"] if way.method != "linear" else words["kind"]]
    return _common(seen) | {
        "about": conclusion(seen.words.within("results"), found),
        "columns": [*columns, *(words[key] for key in ("loss", "more", "kl", "agree"))],
        "rows": rows,
    }


def _cells(group: list[Reading]) -> list[str]:
    """Return the means over the draws, the loss with its span."""
    kl, agree = (float(np.mean([getattr(each, name) for each in group])) for name in ("kl", "agree"))
    if group[0].loss is None:
        return [NONE, NONE, nats(kl), percent(agree)]
    loss = [each.loss for each in group]
    span = f" ({decimals(min(loss), 3)}–{decimals(max(loss), 3)})" if len(loss) > 1 else ""
    mean = float(np.mean(loss))
    return [f"{nats(mean)}{span}", nats(mean - group[0].before), nats(kl), percent(agree)]


def conclusion(words: Words, found: Experiment) -> str:
    """Return the sentences that follow from the losses."""
    if found.before is None:
        return words["one_token"]
    groups = by_size(found)
    mean = {size: float(np.mean([each.loss for each in group])) for size, group in groups.items()}
    small, large, floor = min(mean), max(mean), found.uniform.loss
    values = {
        "small": whole(small),
        "large": whole(large),
        "times": number(large / small) if small else NONE,
        "first": nats(mean[small]),
        "last": nats(mean[large]),
        "softmax": nats(found.before),
        "away": nats(mean[large] - found.before),
        "uniform": nats(floor),
    }
    fell = mean[small] - mean[large]
    key = "alone" if small == large else "falls" if fell > 0 else "rises"
    said = [words[key].format(**values)]
    if abs(mean[large] - found.before) <= _CLOSE:
        said.append(words["there"].format(**values))
    elif mean[large] < found.before:
        said.append(words["less"].format(**values))
    elif mean[large] >= floor:
        said.append(words["no_better"].format(**values))
    else:
        share = (floor - mean[large]) / (floor - found.before)
        said.append(words["part"].format(**values, share=percent(share)))
    return joined(said)
