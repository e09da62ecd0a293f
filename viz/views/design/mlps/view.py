"""View of three MLPs of equal parameter count: activation functions, costs, and a short training of each."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated

import numpy as np

from model.design.block_trials import LENGTH, ROWS, STARTS, WARMUP
from model.design.mlp_trials import (
    DEPTH,
    KINDS,
    SEEDS,
    WIDTH,
    Compared,
    MlpCost,
    MlpTrial,
    config_of,
    cost,
    curves,
    gated,
    train_mlps,
    verdict,
)
from model.progress import Progress
from viz.charts.lines import SMOOTH
from viz.numbers import milliseconds, nats, number, whole
from viz.seam.programs.arguments import OneOf, Within
from viz.seam.programs.endpoint import Endpoint
from viz.seam.programs.reading import measured, unprompted
from viz.seam.scene import Scene
from viz.seam.settings import Choice, Settings
from viz.seam.view import Custom, Figure, Job, Measure, Payload, Seen, Table, View
from viz.views.design.mlps.figures import (
    functions_figure,
    gate_figure,
    largest_gap,
    loss_figure,
    slices,
    slices_figure,
)
from viz.views.design.trials import data, option_as_label, python_of, training_form
from viz.words import Words
from viz.work.playground import Playground

TAKES = {120: 12, 240: 25, 360: 37}  # approximate duration in seconds, by number of steps
UPS = (-2.0, -1.0, 0.0, 1.0, 2.0)  # values of the linear branch to draw
SHOW = Choice("show", ("functions", "gate"))
TRAINING = (
    Choice("start", STARTS, default="glorot"),
    Choice("rate", ("0.001", "0.003"), label=option_as_label),
    Choice("steps", tuple(map(str, TAKES)), default="240", label=option_as_label),
)


# --- measures ---


@dataclass(frozen=True, eq=False)
class Inside:
    """The activation functions of the MLPs, and the output of SwiGLU's gate."""

    x: np.ndarray  # [P], one entry per point
    functions: dict[str, np.ndarray]  # {name: [2, P]}, values and derivative
    gate_x: np.ndarray  # [Q], axis of both branches
    gate: np.ndarray  # [Q, Q], up by gate


def measure_inside(scene: Scene, settings: Settings) -> Inside:
    """Compute the activation functions and the gate, which are the same for every model."""
    return Inside(*curves(), *gated())


def measure_sizes(scene: Scene, settings: Settings) -> dict[str, MlpCost]:
    """Compute the parameter and operation counts of a model with each kind of MLP."""
    return {kind: cost(config_of(kind, data().vocab_size)) for kind in KINDS}


def training_question(scene: Scene, settings: Settings) -> Settings:
    """Convert the settings of the training form to a trial."""
    training = settings.training
    return Settings((("trial", MlpTrial(training.start, float(training.rate), int(training.steps))),))


def measure_training(scene: Scene, settings: Settings, progress: Progress) -> Compared:
    """Train a model with each kind of MLP and each seed."""
    return train_mlps(data(), settings.trial, progress)


# --- the functions ---


def name_of(words: Words, key: str) -> str:
    """Return the displayed name of an MLP."""
    return words[f"name_{key}"]


def left(seen: Seen) -> Payload:
    """Draw the activation functions, or SwiGLU's gate as a function of both branches."""
    return _functions(seen, 0, "value") if seen.settings.show == "functions" else _gate(seen)


def right(seen: Seen) -> Payload:
    """Draw the derivatives of the activation functions, or SwiGLU's gate at the values of the linear branch in UPS."""
    return _functions(seen, 1, "slope") if seen.settings.show == "functions" else _slices(seen)


def _functions(seen: Seen, which: int, quantity: str) -> Payload:
    """Draw the activation functions, or their derivatives if `which` is 1."""
    words, inside = seen.words.within("functions"), seen.result
    names = {key: seen.words[f"function_{key}"] for key in inside.functions}
    gap, at = largest_gap(inside.x, inside.functions["gelu"][0], inside.functions["gelu_tanh"][0])
    lines = ["x, functions = curves()", f"{{name: values[{which}] for name, values in functions.items()}}"]
    values = {key: both[which] for key, both in inside.functions.items()}
    return {
        "figure": functions_figure(inside.x, values, names, (words["x"], words[quantity])),
        "title": words["title_slope" if which else "title"],
        "note": words["note_slope"] if which else words["note"].format(gap=number(gap), at=number(at)),
        "source": words["source_text"],
        "columns": [words["function"], words["x"], words[quantity]],
        "python": "\n".join(["from model.design.mlp_trials import curves", "", *lines]),
    }


_GATE_LINES = "\n".join(
    ["from model.design.mlp_trials import gated", "", "x, values = gated()", "values  # [up, gate]"]
)


def _gate(seen: Seen) -> Payload:
    words, inside = seen.words.within("gate"), seen.result
    return {
        "figure": gate_figure(inside.gate_x, inside.gate, words),
        "title": words["title"],
        "note": words["note"],
        "source": words["source_text"],
        "columns": [words["up"], words["gate"], words["passed"]],
        "python": _GATE_LINES,
    }


def _slices(seen: Seen) -> Payload:
    """Draw SwiGLU's gate as lines, one per value of the linear branch in UPS."""
    words, inside = seen.words.within("gate"), seen.result
    rows = slices(inside.gate_x, inside.gate, UPS)
    names = [words["line"].format(n=number(up)) for up in UPS]
    return {
        "figure": slices_figure(inside.gate_x, rows, names, (words["gate"], words["passed"])),
        "title": words["lines_title"],
        "note": words["lines_note"],
        "source": words["source_text"],
        "columns": [words["series"], words["gate"], words["passed"]],
        "python": _GATE_LINES,
    }


# --- sizes ---


def draw_cost(seen: Seen) -> Payload:
    """Build the table of the MLPs' widths, parameters and operations."""
    words, sizes = seen.here, seen.result
    rows = [
        [
            name_of(seen.words, kind),
            whole(each.d_mlp),
            whole(3 if kind == "swiglu" else 2),
            whole(each.mlp_params),
            whole(each.params),
            whole(each.mlp_flops),
            whole(each.train_flops),
        ]
        for kind, each in sizes.items()
    ]
    gap = sizes["swiglu"].params - sizes["gelu"].params
    values = {"D": WIDTH, "narrow": sizes["swiglu"].d_mlp, "wide": sizes["gelu"].d_mlp}
    return {
        "title": words["title"],
        "about": words["about"],
        "columns": [words[key] for key in ("mlp", "width", "matrices", "params", "model", "flops", "train")],
        "rows": rows,
        "check": words["difference"].format(n=whole(gap)),
        "same": gap == 0,
        "source": words["source_text"].format(**values),
    }


# --- the training ---


def job(seen: Seen) -> Payload:
    """Describe the training, with its estimated duration."""
    steps = int(seen.settings.training.steps)
    return {"text": seen.here["hint"].format(steps=steps, seeds=SEEDS, seconds=TAKES[steps])}


def _source(seen: Seen, compared: Compared) -> str:
    trial = compared.trial
    return seen.words["loss.source_text"].format(
        depth=DEPTH,
        width=WIDTH,
        start=seen.words[f"settings.start_{trial.start}"],
        rate=number(trial.rate),
        warmup=WARMUP,
        rows=ROWS,
        length=LENGTH,
        tokens=whole(compared.tokens),
    )


def loss(seen: Seen) -> Payload:
    """Draw the held-out losses during training, with mean and range over seeds."""
    words, compared = seen.here, seen.result
    names = {kind: name_of(seen.words, kind) for kind in KINDS}
    held_out = dict(zip(KINDS, compared.held_out, strict=True))
    train = f"result = train_mlps(data, {compared.trial!r})"
    lines = [train, "result.held_out  # [kind, seed, moment], kinds as in KINDS"]
    return {
        "figure": loss_figure(compared.moments, held_out, compared.frequencies, names, words),
        "title": words["title"],
        "note": words["note"].format(seeds=SEEDS),
        "source": _source(seen, compared),
        "columns": [words["series"], words["range"], words["step"], words["loss"]],
        "python": python_of(["from model.design.mlp_trials import KINDS, MlpTrial, train_mlps"], lines),
    }


def table(seen: Seen) -> Payload:
    """Build the table of each kind's losses, time per step, parameters and operations."""
    words, compared, sizes, rows = seen.here, seen.result, seen.results["sizes"], []
    for at, kind in enumerate(KINDS):
        end = compared.held_out[at, :, -1]
        rows.append(
            [
                name_of(seen.words, kind),
                nats(float(compared.losses[at, :, -SMOOTH:].mean())),
                nats(float(end.mean())),
                f"{nats(float(end.min()))} – {nats(float(end.max()))}",
                milliseconds(float(compared.seconds[at])),
                whole(sizes[kind].params),
                whole(sizes[kind].train_flops),
            ]
        )
    columns = [words[key] for key in ("mlp", "train", "held", "spread", "ms", "params", "flops")]
    columns[1] = columns[1].format(n=SMOOTH)
    return {"title": words["title"], "columns": columns, "rows": rows, "source": _source(seen, compared)}


def facts(seen: Seen) -> Payload:
    """Compare the final losses of each pair of kinds with their spread over seeds, and compare the time per step."""
    words, compared, items = seen.here, seen.result, []
    ends = dict(zip(KINDS, compared.held_out[:, :, -1], strict=True))
    for a, b in (("swiglu", "gelu"), ("swiglu", "relu"), ("gelu", "relu")):
        names = {"a": name_of(seen.words, a), "b": name_of(seen.words, b)}
        items.append([words["pair"].format(**names), pair_text(words, names, ends[a], ends[b])])
    first, second = (float(each) for each in compared.seconds[:2])
    times = {"first": milliseconds(first), "second": milliseconds(second), "ratio": number(first / second)}
    names = {"a": name_of(seen.words, "swiglu"), "b": name_of(seen.words, "gelu")}
    items.append([words["time"], words["time_text"].format(**times, **names)])
    items.append([words["caveat"], words["caveat_text"].format(seeds=SEEDS, steps=compared.trial.steps)])
    return {"title": words["title"], "items": items}


def pair_text(words: Words, names: Mapping[str, str], first: np.ndarray, second: np.ndarray) -> str:
    """Format a sentence that compares the final losses of two kinds. first and second: [S], one loss per seed"""
    result = verdict(first, second)
    if not math.isfinite(result.difference):
        return words["astray"]
    side = words["lower" if result.difference < 0 else "higher"]
    key = "within" if abs(result.difference) <= result.spread else "apart" if result.apart else "beyond"
    return words[key].format(**names, gap=nats(abs(result.difference)), side=side, spread=nats(result.spread))


# --- endpoints ---


def mlp_costs(playground: Playground) -> dict:
    """Return widths, parameters and FLOPs of SwiGLU, GELU and ReLU MLPs of equal size, and their activation functions.

    Returns:
        kinds: one record per kind with d_mlp, mlp_params (of one block), params (of the model), mlp_flops (of one MLP,
        per token) and train_flops (of the model, per token, forward and backward pass). x: the points of the functions;
        functions: name, with values and derivative at x. gate: x, and values of silu(gate) * up, one row per value of
        up.
    """
    scene = unprompted(playground)
    inside: Inside = measured(VIEW, "inside", scene)
    sizes: dict[str, MlpCost] = measured(VIEW, "sizes", scene)
    return {
        "kinds": [{"kind": kind, **vars(each)} for kind, each in sizes.items()],
        "x": inside.x,
        "functions": [
            {"name": name, "values": both[0], "derivative": both[1]} for name, both in inside.functions.items()
        ],
        "gate": {"x": inside.gate_x, "values": inside.gate},
    }


def mlp_trial(
    playground: Playground,
    start: Annotated[str, OneOf(STARTS)] = "glorot",
    rate: Annotated[float, Within(1e-5, 0.1)] = 0.001,
    steps: Annotated[int, Within(6, 360)] = 240,
) -> dict:
    """Train models with SwiGLU, GELU and ReLU MLPs of equal size on the same batches. Takes about 25 seconds.

    A model of each kind is trained with each of three seeds.

    Args:
        start: The initialization of the weights: gpt2 or glorot, see gradient_norms.
        rate: The peak learning rate.
        steps: Training steps of each model.

    Returns:
        moments: steps at which the held-out loss was measured; kinds: one record per kind with held_out (held-out
        losses, one row per seed, nats per byte), losses (training loss at each step, one row per seed) and seconds
        (median per step); verdict: final comparison of SwiGLU with GELU: difference of the means, spread over seeds,
        and apart: whether every seed of one is better than every seed of the other.
    """
    training = Settings((("start", start), ("rate", rate), ("steps", steps)))
    result: Compared = measured(VIEW, "training", unprompted(playground), training=training)
    rows = [
        {"kind": kind, "held_out": result.held_out[n], "losses": result.losses[n], "seconds": result.seconds[n]}
        for n, kind in enumerate(KINDS)
    ]
    return {"moments": result.moments, "kinds": rows, "verdict": vars(verdict(*result.held_out[:2, :, -1]))}


VIEW = View(
    "mlps",
    needs=(),
    settings=(SHOW,),
    measures=(
        Measure("inside", measure_inside, depends=(), locks=False),
        Measure("sizes", measure_sizes, depends=(), locks=False),
        Measure(
            "training", measure_training, depends=(), settings=("training",), slow=True, question=training_question
        ),
    ),
    layout=("form", ("left", "right"), "cost", "training", "job", ("loss", ("facts", "table"))),
    parts={
        "left": Figure(left, of="inside", settings=("show",)),
        "right": Figure(right, of="inside", settings=("show",)),
        "cost": Table(draw_cost, of="sizes", settings=()),
        "training": training_form(TRAINING),
        "job": Job("training", job, settings=()),
        "loss": Figure(loss, of="training", settings=()),
        "facts": Custom("normfacts", facts, of="training", settings=()),
        "table": Table(table, of=("training", "sizes"), settings=()),
    },
    api=(
        Endpoint(mlp_costs, reads="server", kind="computed"),
        Endpoint(mlp_trial, reads="server", long=True),
    ),
)
