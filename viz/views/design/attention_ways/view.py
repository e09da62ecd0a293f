"""The same attention computed in four ways: one row of the online softmax, how exact all are, and what they cost."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import gradio as gr

from model.design.kernel_costs import (
    BUDGET,
    LENGTHS,
    MOST_MATRIX,
    Cost,
    Costs,
    growth,
    lengths_of,
    matrix_bytes,
    measure,
)
from model.design.kernels import WAYS, Exact, Step, blocks_for, exactness, layer_qkv, online_steps
from model.progress import Progress
from viz.labels import visible
from viz.page import background
from viz.page.old_view import View
from viz.page.parts import choice, part, plot_words
from viz.page.picking import position_of, source
from viz.page.python_lines import python_lines
from viz.page.scene import Scene
from viz.page.tab import Picture, Values
from viz.page.typed import quoted
from viz.views.activations.norm.figures import told
from viz.views.design.attention_ways.figures import (
    COLOURS,
    GREY,
    Curve,
    apart,
    dot_scores,
    memory_figure,
    steps_figure,
    times_figure,
    weights_at_once,
)
from viz.views.sampling.kv_cache.figures import told_bytes, told_ms
from viz.words import section

PARTS = (
    "kernels_form",
    "kernels_steps",
    "kernels_rows",
    "kernels_exact",
    "kernels_job",
    "kernels_times",
    "kernels_memory",
    "kernels_costs",
)
BLOCKS = (2, 1, 4, 8, 16, 32, 128)  # the first is the one to start with
PUBLIC_LIMIT = 1024  # context on a server whose jobs end after a minute


def build() -> dict[str, gr.HTML]:
    """One row step by step with its table; then how exact, and the job with what everything costs."""
    made = {"kernels_form": part("kernels_form", None, kind="controls", value={})}
    with gr.Row(elem_classes="pg-columns"):
        with gr.Column(min_width=320):
            made["kernels_steps"] = part("kernels_steps", None, kind="figure")
        with gr.Column(min_width=320):
            made["kernels_rows"] = part("kernels_rows", None, kind="labtable")
    made["kernels_exact"] = part("kernels_exact", None, kind="labtable")
    made["kernels_job"] = part("kernels_job", None, kind="job", events=("start", "cancel"))
    with gr.Row(elem_classes="pg-columns"):
        with gr.Column(min_width=320):
            made["kernels_times"] = part("kernels_times", None, kind="figure")
        with gr.Column(min_width=320):
            made["kernels_memory"] = part("kernels_memory", None, kind="figure")
    made["kernels_costs"] = part("kernels_costs", None, kind="labtable")
    return made


def fixed(words: Mapping[str, str]) -> dict[str, dict]:
    """How many keys a block has."""
    options = [[str(n), words["kernels.block_one" if n == 1 else "kernels.block"].format(n=n)] for n in sorted(BLOCKS)]
    return {
        "kernels_form": {
            "controls": [
                {
                    "name": "block",
                    "kind": "choice",
                    "label": words["kernels.blocks"],
                    "value": str(BLOCKS[0]),
                    "options": options,
                },
            ]
        }
    }


def draw(scene: Scene, values: Values) -> dict[str, Picture]:
    """The row and the exactness at once; costs once they were measured."""
    block = int(choice(values.get("kernels_form"), "block", tuple(map(str, BLOCKS))))
    at, key = position_of(scene), key_of(scene)
    found = scene.playground.results.peek(key)
    state, row = (scene.model.id, key, found is not None, scene.language), (scene.run, scene.head, at, block)

    def measured(name: str, payload: Callable[[Scene, Costs], dict]) -> Picture:
        empty = {"text": scene.words[f"kernels.empty_{name}"], "hint": scene.words["kernels.empty_hint"]}
        return Picture((state, name), lambda: payload(scene, found.value) if found else {"empty": empty})

    return {
        "kernels_steps": Picture(row, lambda: steps_payload(scene, walked(scene, at, block))),
        "kernels_rows": Picture(row, lambda: rows_payload(scene, walked(scene, at, block))),
        "kernels_exact": Picture((scene.run, scene.head[0]), lambda: exact_payload(scene)),
        "kernels_job": Picture(state, lambda: _button(scene, found)),
        "kernels_times": measured("times", times_payload),
        "kernels_memory": measured("memory", memory_payload),
        "kernels_costs": measured("costs", costs_payload),
    }


# --- one row ----------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Walked:
    """One query's row of attention, walked through by blocks of keys."""

    at: int  # the query
    block: int  # keys of a block
    asked: int  # as many were asked for
    scores: object  # float64 [n], -inf where a key is not seen
    steps: list[Step]
    whole: object  # the softmax of the row at once, float64 [n]
    gap: float  # largest |difference| of the last step's weights from it
    output_gap: float  # and of its output from the weighted sum of the values


def walked(scene: Scene, at: int, asked: int) -> Walked:
    """The picked token's row of the main head, from the scores of the run on the page."""

    def make() -> Walked:
        trace, n = scene.trace, at + 1
        with scene.playground.computing:
            scores = dot_scores(trace.scores(*scene.head)[at], n)
            values = trace.qkv(*scene.head).v[:n].astype("float64")
        block, whole = blocks_for(n, asked), weights_at_once(scores)
        steps = online_steps(scores, values, block)
        output = (whole[:, None] * values).sum(0)
        gaps = apart(steps[-1].weights, whole), apart(steps[-1].output, output)
        return Walked(at, block, asked, scores, steps, whole, *gaps)

    key = ("kernels row", scene.trace.key, scene.head, at, asked)
    return background.kept(scene.playground, key, make, lambda found: len(found.steps) * (1000 + 8 * (at + 1)))


def _about_row(scene: Scene, row: Walked) -> dict[str, object]:
    layer, head = scene.head
    token = quoted(scene, int(scene.trace.tokens.ids[row.at]))
    return {"layer": layer, "head": head, "token": token, "position": row.at, "n": row.at + 1, "block": row.block}


def _row_lines(scene: Scene, row: Walked, last: str) -> str:
    layer, head = scene.head
    lines = [
        f"scores = run.scores({layer}, {head})[{row.at}, :{row.at + 1}]",
        f"values = run.qkv({layer}, {head}).v[:{row.at + 1}]",
        f"steps = online_steps(scores, values, {row.block})",
        last,
    ]
    return python_lines(scene, lines, ["from model.design.kernels import online_steps"])


def steps_payload(scene: Scene, row: Walked) -> dict:
    """Scores and running maximum above, the weights after every block below."""
    said, given = section(scene.words, "kernelsteps"), _about_row(scene, row)
    larger = f" {said['larger'].format(block=row.block)}" if row.block != row.asked else ""
    return {
        "figure": steps_figure(row.scores, row.steps, scene.trace.tokens.pieces, said),
        "title": said["title"].format(**given),
        "note": said["note"].format(**given) + larger,
        "source": source(scene),
        "file": f"online-softmax-{given['layer']}-{given['head']}-{row.at}",
        "run": f"{scene.run} {scene.head} {row.at} {row.block} steps",
        "columns": [said["series"], said["key"], said["place"], said["value"]],
        "python": _row_lines(scene, row, "[step.weights for step in steps]  # NaN for keys not yet read"),
        "words": plot_words(scene.words),
    }


def rows_payload(scene: Scene, row: Walked) -> dict:
    """m, l and the scaling after every block, and that the end is the softmax."""
    said, given, rows = section(scene.words, "kernelrows"), _about_row(scene, row), []
    pieces = scene.trace.tokens.pieces
    for n, step in enumerate(row.steps, 1):
        keys = said["keys" if step.end - step.start > 1 else "keys_one"].format(start=step.start, end=step.end - 1)
        rows.append(
            [
                {"text": f"{n}", "help": " ".join(map(visible, pieces[step.start : step.end]))[:200]},
                keys,
                _number(step.block),
                _number(step.maximum),
                f"{step.scale:.4f}",
                f"{step.total:.4f}",
                f"{math.hypot(*step.output.tolist()):.4f}",
            ]
        )
    same = row.gap < 1e-12 and row.output_gap <= 1e-12 * max(1.0, float(abs(row.steps[-1].output).max()))
    own = "" if scene.picked.edits else " " + said["model"].format(gap=_gap(_model_gap(scene, row)))
    return {
        "title": said["title"].format(**given),
        "about": said["about"],
        "columns": [said[key] for key in ("step", "read", "block", "m", "scale", "l", "o")],
        "rows": rows,
        "check": said["same" if same else "differ"].format(gap=_gap(row.gap), output=_gap(row.output_gap)) + own,
        "same": same,
        "run": f"{scene.run} {scene.head} {row.at} {row.block} rows",
        "file": f"online-softmax-{given['layer']}-{given['head']}-{row.at}-steps",
        "source": source(scene),
        "lines": [
            [n, f"{s.start}-{s.end - 1}", s.block, s.maximum, s.scale, s.total, math.hypot(*s.output.tolist())]
            if math.isfinite(s.block) and math.isfinite(s.maximum)
            else [n, f"{s.start}-{s.end - 1}", "", "", s.scale, s.total, math.hypot(*s.output.tolist())]
            for n, s in enumerate(row.steps, 1)
        ],
        "python": _row_lines(scene, row, "[(step.maximum, step.scale, step.total) for step in steps]"),
    }


def _model_gap(scene: Scene, row: Walked) -> float:
    """Largest difference from the float32 row that the model itself used."""
    return apart(row.whole, scene.trace.pattern(*scene.head)[row.at, : row.at + 1])


def _number(value: float) -> str:
    return "−∞" if value == -math.inf else f"{value:.4f}".replace("-", "−")


def _gap(value: float) -> str:
    """A difference: 1.8e−16, or 0."""
    return "0" if value == 0 else f"{value:.1e}".replace("e-0", "e-").replace("-", "−")


# --- how exact ------------------------------------------------------------------------------------


def exact_of(scene: Scene) -> tuple[Exact, ...]:
    """Every way on the q, k, v of the picked layer, against float64."""

    def make() -> tuple[Exact, ...]:
        with scene.playground.computing:
            return exactness(*layer_qkv(scene.trace, scene.head[0]))

    return background.kept(scene.playground, ("kernels exact", scene.trace.key, scene.head[0]), make)


def exact_payload(scene: Scene) -> dict:
    """Differences of every way from float64, and what bounds them."""
    said, found, config = section(scene.words, "kernelexact"), exact_of(scene), scene.model.config
    layer, T = scene.head[0], len(scene.trace.tokens)
    given = {"layer": layer, "T": T, "H": config.n_head, "G": config.n_kv_head, "E": config.d_head}
    rows = [
        [
            scene.words[f"kernels.is_{each.way}"],
            said[f"holds_{each.way}"],
            told_bytes(matrix_bytes(each.way, config.n_head, T, config.d_head)),
            _gap(each.gap),
            f"{100 * each.share:.2g} %",
        ]
        for each in found
    ]
    same = all(each.share <= 1 for each in found)
    return {
        "title": said["title"].format(**given),
        "about": said["about"].format(**given),
        "columns": [said[key] for key in ("way", "holds", "bytes", "gap", "share")],
        "rows": rows,
        "check": said["same" if same else "differ"].format(gap=_gap(max(each.gap for each in found))),
        "same": same,
        "run": f"{scene.run} {layer} exact",
        "file": f"attention-ways-layer-{layer}",
        "source": f"{source(scene)} · {said['derived']}",
        "python": python_lines(
            scene, [f"exactness(*layer_qkv(run, {layer}))"], ["from model.design.kernels import exactness, layer_qkv"]
        ),
    }


# --- what it costs ----------------------------------------------------------------------------------


def limit_of(scene: Scene) -> int:
    """The longest context that is measured on this server."""
    return PUBLIC_LIMIT if math.isfinite(scene.playground.options.allowed.job_seconds) else LENGTHS[-1]


def shape_of(scene: Scene) -> tuple[int, int, int]:
    """Query heads, KV heads and the size of one, as the model's layers have them."""
    config = scene.model.config
    return config.n_head, config.n_kv_head, config.d_head


def key_of(scene: Scene) -> tuple:
    """What decides the measurement: numbers are random, so only their shape does."""
    return ("kernels", shape_of(scene), limit_of(scene))


def plan(scene: Scene, values: Values) -> background.Job:
    """What the button starts."""
    shape, limit = shape_of(scene), limit_of(scene)

    def work(progress: Progress) -> Costs:
        return measure(shape, limit, progress)

    return background.Job(key_of(scene), work)


def _button(scene: Scene, found: background.Result | None) -> dict:
    words, lengths = scene.words, lengths_of(limit_of(scene))
    seconds = round(BUDGET * sum(lengths) / sum(LENGTHS)) + 2
    hint = words["kernels.takes"].format(first=f"{lengths[0]:,}", last=f"{lengths[-1]:,}", seconds=seconds)
    return background.button(words["kernels.start"], words, found, hint)


def _measured_source(scene: Scene, found: Costs) -> str:
    given = {"H": found.heads, "G": found.kv_heads, "E": found.d_head, "threads": found.threads}
    policy = found.waiting or scene.words["cachetimes.policy_none"]
    return scene.words["kernels.source"].format(**given, policy=policy)


def _of(found: Costs, way: str) -> list[Cost]:
    return [cost for cost in found.costs if cost.way == way]


def _frame(scene: Scene, found: Costs, name: str, said: Mapping[str, str]) -> dict:
    """What both figures share."""
    lines = [f"measure({shape_of(scene)}, {limit_of(scene)})"]
    return {
        "title": said["title"],
        "source": _measured_source(scene, found),
        "file": f"attention-{name}",
        "run": f"{key_of(scene)} {scene.language} {name}",
        "python": python_lines(scene, lines, ["from model.design.kernel_costs import measure"]),
        "words": plot_words(scene.words),
    }


def times_payload(scene: Scene, found: Costs) -> dict:
    """Time against context, a line a way."""
    said = section(scene.words, "kerneltimes")
    curves = [
        Curve(
            scene.words[f"kernels.is_{way}"],
            COLOURS[way],
            [c.length for c in rows],
            [c.seconds.median for c in rows],
            [c.seconds.spread for c in rows],
        )
        for way in WAYS
        if (rows := _of(found, way))
    ]
    least = min(len(cost.seconds.seconds) for cost in found.costs)
    note = said["note"].format(n=least) + _left_out(scene, found)
    columns = {"columns": [said["series"], said["spread"], said["context"], said["time"]], "note": note}
    return {"figure": times_figure(curves, said)} | _frame(scene, found, "times", said) | columns


def _left_out(scene: Scene, found: Costs) -> str:
    """What was not run, and why."""
    lengths = list(dict.fromkeys(cost.length for cost in found.costs))
    missing = sorted(set(lengths) - {cost.length for cost in _of(found, "naive")})
    told_ = ""
    if missing:
        size = told_bytes(matrix_bytes("naive", found.heads, missing[0], found.d_head))
        given = {"length": f"{missing[0]:,}", "size": size, "most": told_bytes(MOST_MATRIX)}
        told_ += f" {scene.words['kernels.left_out'].format(**given)}"
    if later := [f"{n:,}" for n in lengths_of(limit_of(scene)) if n > lengths[-1]]:
        told_ += f" {scene.words['kernels.too_slow'].format(lengths=', '.join(later))}"
    return told_


def memory_payload(scene: Scene, found: Costs) -> dict:
    """Measured peaks, and beside them the score matrices by formula."""
    said = section(scene.words, "kernelmemory")
    lengths = list(dict.fromkeys(cost.length for cost in found.costs))
    curves = []
    for way in WAYS:
        rows = [cost for cost in _of(found, way) if cost.peak]
        name = scene.words[f"kernels.is_{way}"]
        if rows:
            curves.append(Curve(name, COLOURS[way], [c.length for c in rows], [c.peak for c in rows]))
    derived = [matrix_bytes("naive", found.heads, length, found.d_head) for length in lengths]
    curves.append(Curve(said["matrix"], GREY, lengths, derived, dash="dot"))
    columns = {"columns": [said["series"], said["context"], said["memory"]], "note": said["note"]}
    return {"figure": memory_figure(curves, said)} | _frame(scene, found, "memory", said) | columns


def costs_payload(scene: Scene, found: Costs) -> dict:
    """Every number, and that all ways agree."""
    said, exact = section(scene.words, "kernelcosts"), dict(found.exact)
    rows = []
    for cost in found.costs:
        told_exact = next(each for each in exact[cost.length] if each.way == cost.way)
        rows.append(
            [
                f"{cost.length:,}",
                scene.words[f"kernels.is_{cost.way}"],
                told_ms(cost.seconds.median),
                "–" if cost.peak is None else told_bytes(cost.peak),
                told_bytes(cost.derived),
                _gap(told_exact.gap),
                f"{100 * told_exact.share:.2g} %",
            ]
        )
    same = all(each.share <= 1 for row in exact.values() for each in row)
    last = found.costs[-1].length
    powers = ", ".join(
        said["power"].format(way=scene.words[f"kernels.is_{way}"], power=told(round(power, 2)))
        for way in WAYS
        if (power := growth(found.costs, way)) is not None
    )
    return {
        "title": said["title"],
        "about": said["about"].format(powers=powers) if powers else said["about_one"].format(n=last),
        "columns": [said[key] for key in ("context", "way", "time", "peak", "derived", "gap", "share")],
        "rows": rows,
        "check": said["same" if same else "differ"],
        "same": same,
    } | {key: value for key, value in _frame(scene, found, "costs", said).items() if key != "words"}


VIEW = View(
    "kernels",
    build,
    draw,
    parts=PARTS,
    fixed=fixed,
    asks=("kernels_form",),
    jobs={"kernels_job": plan},
)
