"""View of four ways to compute attention: one row of the online softmax, and the accuracy and cost of each way."""

import math
from typing import Annotated

from model.design.kernel_costs import MOST_MATRIX, Costs, KernelCost, growth, matrix_bytes
from model.design.kernels import WAYS, Exact
from viz.labels import quoted, visible
from viz.numbers import NONE, decimals, milliseconds, number, percent, size, whole
from viz.seam.programs.arguments import Within
from viz.seam.programs.endpoint import Endpoint
from viz.seam.programs.reading import at, layer_or_first, measured, on, prompt_tokens
from viz.seam.python_lines import script
from viz.seam.scene import Scene
from viz.seam.view import Figure, Job, Measure, Payload, Seen, Table, View
from viz.views.design.attention_ways.figures import COLORS, ContextCurve, memory_figure, steps_figure, times_figure
from viz.views.design.attention_ways.measure import (
    BLOCK,
    QueryRow,
    measure_costs,
    measure_exact,
    measure_row,
    plan,
    question,
)
from viz.words import Words, joined

# --- one row ---


def _about_row(seen: Seen) -> dict[str, object]:
    (layer, head), row = seen.facts.head, seen.result
    token = quoted(seen.facts.pieces[row.at])
    return {"layer": layer, "head": head, "token": token, "position": row.at, "n": row.at + 1, "block": row.block}


def _row_python(seen: Seen, last: str) -> str:
    (layer, head), row = seen.facts.head, seen.result
    lines = [
        f"scores = run.scores({layer}, {head})[{row.at}, :{row.at + 1}]",
        f"values = run.qkv({layer}, {head}).v[:{row.at + 1}]",
        f"steps = online_steps(scores, values, {row.block})",
        last,
    ]
    return script(seen.facts, lines, ["from model.design.kernels import online_steps"])


def draw_steps(seen: Seen) -> Payload:
    """Draw the scores and their running maximum above the weights after each block."""
    words, row, values = seen.here, seen.result, _about_row(seen)
    larger = f" {words['larger'].format(block=row.block)}" if row.block != row.requested else ""
    return {
        "figure": steps_figure(row.scores, row.steps, seen.facts.pieces, words),
        "title": words["title"].format(**values),
        "note": words["note"].format(**values) + larger,
        "columns": [words["series"], words["key"], words["place"], words["value"]],
        "python": _row_python(seen, "[step.weights for step in steps]  # NaN for keys not yet read"),
    }


def draw_rows(seen: Seen) -> Payload:
    """Build the table of the online softmax after each block: maximum m, scale, sum l and the norm of the output.

    Compares the last block's weights and output with those of the softmax of the full row.
    """
    words, row, rows, lines = seen.here, seen.result, [], []
    for n, step in enumerate(row.steps, 1):
        keys = words["keys" if step.end - step.start > 1 else "keys_one"].format(start=step.start, end=step.end - 1)
        numbers = [step.block, step.maximum, step.scale, step.total, math.hypot(*step.output.tolist())]
        shown = " ".join(map(visible, seen.facts.pieces[step.start : step.end]))[:200]
        rows.append([{"text": whole(n), "help": shown}, keys, *map(_score, numbers)])
        lines.append([n, f"{step.start}-{step.end - 1}", *(each if math.isfinite(each) else "" for each in numbers)])
    same = row.gap < 1e-12 and row.output_gap <= 1e-12 * max(1.0, float(abs(row.steps[-1].output).max()))
    check = words["same" if same else "differ"].format(gap=number(row.gap, 2), output=number(row.output_gap, 2))
    gap = "" if seen.facts.edits else f" {words['model'].format(gap=number(row.model_gap, 2))}"
    return {
        "title": words["title"].format(**_about_row(seen)),
        "about": words["about"],
        "columns": [words[key] for key in ("step", "read", "block", "m", "scale", "l", "o")],
        "rows": rows,
        "lines": lines,
        "check": check + gap,
        "same": same,
        "python": _row_python(seen, "[(step.maximum, step.scale, step.total) for step in steps]"),
    }


def _score(value: float) -> str:
    return "−∞" if value == -math.inf else decimals(value, 4)


# --- accuracy -------------------------------------------------------------------------------------


def draw_exact(seen: Seen) -> Payload:
    """Build the table of each way's largest deviation from float64, beside the bound on float32 rounding errors."""
    words, facts, exact, config = seen.here, seen.facts, seen.result, seen.facts.config
    layer, T = facts.head[0], len(facts.tokens)
    values = {"layer": layer, "T": whole(T), "H": config.n_head, "G": config.n_kv_head, "E": config.d_head}
    rows = [
        [
            way_name(seen.words, each.way),
            words[f"holds_{each.way}"],
            size(matrix_bytes(each.way, config.n_head, T, config.d_head)),
            number(each.gap, 2),
            percent(each.share),
        ]
        for each in exact
    ]
    same = all(each.share <= 1 for each in exact)
    source = words["source_text"].format(model=facts.label, dtype=facts.dtype)
    lines = [f"exactness(*layer_qkv(run, {layer}))"]
    return {
        "title": words["title"].format(**values),
        "about": words["about"].format(**values),
        "columns": [words[key] for key in ("way", "holds", "bytes", "gap", "share")],
        "rows": rows,
        "check": words["same" if same else "differ"].format(gap=number(max(each.gap for each in exact), 2)),
        "same": same,
        "source": f"{source} · {seen.all_words['pattern.edited']}" if facts.edits else source,
        "python": script(facts, lines, ["from model.design.kernels import exactness, layer_qkv"]),
    }


def way_name(words: Words, way: str) -> str:
    """Return the displayed name of a way to compute attention."""
    return words[f"is_{way}"]


# --- costs ------------------------------------------------------------------------------------------


def job(seen: Seen) -> Payload:
    """Describe the measurement that the button starts, with its estimated duration."""
    planned = seen.results["plan"]
    values = {"first": whole(planned.lengths[0]), "last": whole(planned.lengths[-1]), "seconds": planned.seconds}
    return {"text": seen.here["hint"].format(**values)}


def _of(costs: Costs, way: str) -> list[KernelCost]:
    return [cost for cost in costs.costs if cost.way == way]


def _lengths(costs: Costs) -> list[int]:
    """Return the measured context lengths."""
    return list(dict.fromkeys(cost.length for cost in costs.costs))


def _common(seen: Seen) -> Payload:
    """Build the payload fields shared by the time, memory and cost parts."""
    words, costs, planned = seen.words.within("costs"), seen.result, seen.results["plan"]
    values = {"H": costs.heads, "G": costs.kv_heads, "E": costs.d_head, "threads": costs.threads}
    lines = ["from model.design.kernel_costs import measure", "", f"measure({planned.shape}, {planned.limit})"]
    return {
        "title": seen.here["title"],
        "source": words["source_text"].format(**values, policy=costs.waiting or words["policy_none"]),
        "python": "\n".join(lines),
    }


def draw_times(seen: Seen) -> Payload:
    """Draw the time as a function of context length, one line per way."""
    words, costs = seen.here, seen.result
    curves = [
        ContextCurve(
            way_name(seen.words, way),
            [cost.length for cost in rows],
            [cost.seconds.median for cost in rows],
            [cost.seconds.spread for cost in rows],
            COLORS[way],
        )
        for way in WAYS
        if (rows := _of(costs, way))
    ]
    least = min(len(cost.seconds.seconds) for cost in costs.costs)
    return _common(seen) | {
        "figure": times_figure(curves, words),
        "note": joined([words["note"].format(n=least), *_left_out(seen)]),
        "columns": [words["series"], words["spread"], words["context"], words["time"]],
    }


def _left_out(seen: Seen) -> list[str]:
    """Explain which measurements were skipped, one sentence per reason."""
    words, costs, sentences = seen.here, seen.result, []
    lengths = _lengths(costs)
    missing = sorted(set(lengths) - {cost.length for cost in _of(costs, "naive")})
    if missing:
        nbytes = matrix_bytes("naive", costs.heads, missing[0], costs.d_head)
        values = {"length": whole(missing[0]), "size": size(nbytes), "most": size(MOST_MATRIX)}
        sentences.append(words["left_out"].format(**values))
    if later := [whole(n) for n in seen.results["plan"].lengths if n > lengths[-1]]:
        sentences.append(words["too_slow"].format(lengths=", ".join(later)))
    return sentences


def draw_memory(seen: Seen) -> Payload:
    """Draw the measured peak memory and the computed size of the score matrices as functions of context length."""
    words, costs, curves = seen.here, seen.result, []
    for way in WAYS:
        rows = [cost for cost in _of(costs, way) if cost.peak]
        if rows:
            peaks = [cost.peak for cost in rows]
            name = way_name(seen.words, way)
            curves.append(ContextCurve(name, [cost.length for cost in rows], peaks, color=COLORS[way]))
    lengths = _lengths(costs)
    derived = [matrix_bytes("naive", costs.heads, length, costs.d_head) for length in lengths]
    curves.append(ContextCurve(words["matrix"], lengths, derived, dash="dot"))
    return _common(seen) | {
        "figure": memory_figure(curves, words),
        "note": words["note"],
        "columns": [words["series"], words["context"], words["memory"]],
    }


def draw_costs(seen: Seen) -> Payload:
    """Build the table of all measurements, and check that the error of each way is within the rounding bound."""
    words, costs = seen.here, seen.result
    exact = {(length, each.way): each for length, row in costs.exact for each in row}
    rows = [
        [
            whole(cost.length),
            way_name(seen.words, cost.way),
            milliseconds(cost.seconds.median),
            NONE if cost.peak is None else size(cost.peak),
            size(cost.derived),
            number(exact[cost.length, cost.way].gap, 2),
            percent(exact[cost.length, cost.way].share),
        ]
        for cost in costs.costs
    ]
    same = all(each.share <= 1 for each in exact.values())
    powers = [
        words["power"].format(way=way_name(seen.words, way), power=decimals(power, 2))
        for way in WAYS
        if (power := growth(costs.costs, way)) is not None
    ]
    about_one = words["about_one"].format(n=whole(costs.costs[-1].length))
    return _common(seen) | {
        "about": words["about"].format(powers=", ".join(powers)) if powers else about_one,
        "columns": [words[key] for key in ("context", "way", "time", "peak", "derived", "gap", "share")],
        "rows": rows,
        "check": words["same" if same else "differ"],
        "same": same,
    }


# --- endpoints --------------------------------------------------------------------------------------

Block = Annotated[int, Within(1, 128)]


def attention_kernels(scene: Scene, layer: int | None = None, costs: bool = True) -> dict:
    """Compare four ways to compute the same attention: deviation from float64, and time and memory measured on request.

    Args:
        layer: Layer, counted from 0; by default, the first one with attention.
        costs: Also measure time and memory, on random inputs at increasing context lengths; takes about 20 seconds.

    Returns:
        exact: for each way (naive, rows, chunked: online softmax in blocks, fused: PyTorch's kernel) on this layer and
        prompt, gap: the largest absolute difference from float64, and share: the ratio of that difference to the bound
        on float32 rounding errors. costs: for each way and context length, seconds, peak: bytes of tensors (null if
        PyTorch does not report them), and scores_held: bytes of scores by formula.
    """
    layer = layer_or_first(scene.model, layer)
    exact: tuple[Exact, ...] = measured(VIEW, "exact", on(scene, layer, 0))
    answer = {"layer": layer, "exact": [vars(each) for each in exact]}
    if not costs:
        return answer | {"costs": []}
    result: Costs = measured(VIEW, "costs", scene)
    rows = [
        {
            "way": cost.way,
            "length": cost.length,
            "seconds": cost.seconds.median,
            "peak": cost.peak,
            "scores_held": cost.derived,
        }
        for cost in result.costs
    ]
    return answer | {"costs": rows, "threads": result.threads}


def online_softmax(scene: Scene, layer: int | None = None, head: int = 0, position: int = -1, block: Block = 4) -> dict:
    """Compute one row of attention by the online softmax: running maximum, sum and weights after each block of keys.

    Args:
        layer: Layer, counted from 0; by default, the first one with attention.
        block: Keys per block; increased if the row would need more than 16 blocks.

    Returns:
        scores: the row's scores (null for a masked key); steps: for each block, start and end (its keys are start to
        end - 1), largest (its largest score), maximum (running maximum), scale (factor of the earlier sums), total
        (running sum), weights so far and output (norm of o / l); gap: largest absolute difference between the last
        weights and the softmax of the full row.
    """
    selected = on(scene, layer_or_first(scene.model, layer), head)
    row: QueryRow = measured(VIEW, "row", at(selected, position), block=str(block))
    steps = [
        {
            "start": step.start,
            "end": step.end,
            "largest": _finite(step.block),
            "maximum": _finite(step.maximum),
            "scale": step.scale,
            "total": step.total,
            "weights": step.weights[: step.end],
            "output": math.hypot(*step.output.tolist()),
        }
        for step in row.steps
    ]
    return {
        "position": row.at,
        "block": row.block,
        "tokens": prompt_tokens(scene)[: row.at + 1],
        "scores": [_finite(score) for score in row.scores.tolist()],
        "steps": steps,
        "gap": row.gap,
    }


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


VIEW = View(
    "attention_ways",
    settings=(BLOCK,),
    measures=(
        Measure("row", measure_row, depends=("run", "head", "token"), settings=("block",)),
        Measure("exact", measure_exact, depends=("run", "layer")),
        Measure("plan", plan, depends=(), question=question, locks=False),
        Measure("costs", measure_costs, depends=(), question=question, slow=True),
    ),
    layout=("form", ("steps", "rows"), "exact", "job", ("times", "memory"), "costs"),
    parts={
        "steps": Figure(draw_steps, of="row", settings=()),
        "rows": Table(draw_rows, of="row", settings=()),
        "exact": Table(draw_exact, of="exact", settings=()),
        "job": Job("costs", job, also=("plan",), settings=()),
        "times": Figure(draw_times, of="costs", also=("plan",), settings=()),
        "memory": Figure(draw_memory, of="costs", also=("plan",), settings=()),
        "costs": Table(draw_costs, of="costs", also=("plan",), settings=()),
    },
    api=(Endpoint(attention_kernels, long=True), Endpoint(online_softmax)),
)
