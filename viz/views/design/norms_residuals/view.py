"""View of pre- and post-norm, residuals and warm-up in a tiny model: initial gradients, then the first steps."""

from typing import Annotated

import numpy as np

from model.design.block_trials import (
    DEPTHS,
    HEADS,
    LENGTH,
    ROWS,
    SEEDS,
    STARTS,
    VARIANTS,
    WIDTH,
    WIRINGS,
    Starts,
    Trained,
    Trial,
    exponent,
    starts,
    starts_by_depth,
    train_wirings,
)
from model.progress import Progress
from viz.numbers import decimals, number, whole
from viz.seam.programs.arguments import OneOf, Within
from viz.seam.programs.endpoint import Endpoint
from viz.seam.programs.reading import measured, unprompted
from viz.seam.scene import Scene
from viz.seam.settings import Choice, Settings
from viz.seam.view import Custom, Figure, Job, Measure, Payload, Seen, Table, View
from viz.views.design.norms_residuals import first_steps
from viz.views.design.norms_residuals.figures import depths_figure, starts_figure
from viz.views.design.norms_residuals.first_steps import name_of
from viz.views.design.trials import data, option_as_label, python_of, training_form
from viz.work.playground import Playground

RATES = ("0.001", "0.003", "0.01")
STEPS = {4: 200, 8: 160, 16: 100}  # training steps by depth, so that all trainings take about equally long
TAKES = 20  # approximate duration of the training in seconds
LEVEL = 1.1  # gradient norms with a smaller ratio count as equal


DEPTH = Choice("depth", tuple(map(str, DEPTHS)), default="8", label=option_as_label)
START = Choice("start", STARTS)
OF = Choice("of", ("weights", "stream"))
TRAINING = (
    Choice("rate", RATES, default="0.003", label=option_as_label),
    Choice("variant", tuple(VARIANTS)),
)


# --- measures ---


def start_question(scene: Scene, settings: Settings) -> Settings:
    """Convert the depth in the settings to an integer."""
    return settings.but(depth=int(settings.depth))


def measure_starts(scene: Scene, settings: Settings) -> Starts:
    """Compute the gradient norms before the first step, which takes about 0.3 s for 8 blocks."""
    return starts(data(), settings.depth, settings.start)


def measure_depths(scene: Scene, settings: Settings, progress: Progress) -> tuple[Starts, ...]:
    """Compute the gradient norms before the first step for each depth of DEPTHS."""
    return starts_by_depth(data(), settings.start, progress)


def training_question(scene: Scene, settings: Settings) -> Settings:
    """Convert the settings of both forms to a trial. All variants are trained; the selected one is only drawn."""
    depth, training = int(settings.depth), settings.training
    steps = training.get("steps") or STEPS[depth]
    return Settings((("trial", Trial(depth, settings.start, float(training.rate), steps)),))


def measure_training(scene: Scene, settings: Settings, progress: Progress) -> Trained:
    """Train each variant for the first steps."""
    return train_wirings(data(), settings.trial, progress)


# --- before the first step ---


def _names(seen: Seen) -> dict[str, str]:
    return {key: name_of(seen.words, key) for key in WIRINGS}


def _source(seen: Seen, depth: str) -> str:
    values = {"width": WIDTH, "heads": HEADS, "rows": ROWS, "length": LENGTH, "depth": depth}
    return seen.words["starts.source_text"].format(**values, start=seen.words[f"settings.start_{seen.settings.start}"])


def _tail(seen: Seen) -> str:
    """Return the suffix of `words` keys: `_stream` for gradients of the residual stream, empty for the weights."""
    return "" if seen.settings.of == "weights" else "_stream"


def draw_starts(seen: Seen) -> Payload:
    """Draw the gradient norm of each block, one line per wiring."""
    words, of, tail, depth = seen.here, seen.settings.of, _tail(seen), seen.result.depth
    lengths = dict(zip(WIRINGS, getattr(seen.result, of), strict=True))
    line = f"starts(data, {depth}, {seen.settings.start!r}).{of}  # [wiring, seed, block], wirings as in WIRINGS"
    return {
        "figure": starts_figure(lengths, _names(seen), words["block"], words[f"norm{tail}"]),
        "title": words[f"title{tail}"].format(depth=depth),
        "note": words["note"].format(seeds=SEEDS),
        "source": _source(seen, whole(depth)),
        "columns": [words["series"], words["range"], words["block"], words[f"norm{tail}"]],
        "python": python_of(["from model.design.block_trials import WIRINGS, starts"], [line]),
    }


def _last(deep: tuple[Starts, ...], of: str) -> dict[str, np.ndarray]:
    """Return the last block's gradient norm for each wiring. [seeds, depths] each"""
    lasts = np.stack([getattr(each, of)[:, :, -1] for each in deep], axis=-1)  # [wirings, seeds, depths]
    return dict(zip(WIRINGS, lasts, strict=True))


def draw_depths(seen: Seen) -> Payload:
    """Draw the last block's gradient norm as a function of depth and, for weights, the decrease predicted by theory."""
    words, axes, of, tail = seen.here, seen.words.within("starts"), seen.settings.of, _tail(seen)
    theory = words["theory"] if of == "weights" else ""
    named = {"depth": words["depth"], "norm": axes[f"norm{tail}"], "theory": theory}
    call = f"starts_by_depth(data, {seen.settings.start!r})"
    line = f"[each.{of}[:, :, -1] for each in {call}]  # [wiring, seed] of each depth"
    return {
        "figure": depths_figure(DEPTHS, _last(seen.result, of), _names(seen), named),
        "title": words[f"title{tail}"],
        "note": words[f"note{tail}"],
        "source": _source(seen, ", ".join(map(str, DEPTHS))),
        "columns": [axes["series"], axes["range"], words["depth"], axes[f"norm{tail}"]],
        "python": python_of(["from model.design.block_trials import starts_by_depth"], [line]),
    }


def draw_start_facts(seen: Seen) -> Payload:
    """Describe each wiring's gradient norms in a sentence, and their dependence on depth."""
    words, of, deep = seen.here, seen.settings.of, seen.results["depths"]
    lengths = getattr(seen.result, of).mean(1)  # [wirings, L]
    items = []
    for key, row in zip(WIRINGS, lengths, strict=True):
        first, end = float(row[0]), float(row[-1])
        ratio = max(first / end, end / first)
        text = words["level" if ratio < LEVEL else "first_larger" if first > end else "last_larger"]
        values = {"first": number(first), "end": number(end), "last": seen.result.depth - 1, "ratio": number(ratio)}
        items.append([name_of(seen.words, key), text.format(**values)])
    pre, post = float(lengths[0, -1]), float(lengths[1, -1])
    values = {"post": number(post), "pre": number(pre), "ratio": number(post / pre)}
    items.append([words["beside"], words["beside_text"].format(**values)])
    if deep:
        powers = [
            words["depth_item"].format(name=name_of(seen.words, key), a=decimals(exponent(DEPTHS, each.mean(0))))
            for key, each in _last(deep, of).items()
        ]
        theory = f" {words['depth_theory']}" if of == "weights" else ""
        items.append([words["by_depth"], words["depth_text"].format(items=", ".join(powers)) + theory])
    return {"title": words["title"], "items": items}


# --- the buttons ---


def depths_job(seen: Seen) -> Payload:
    """Describe the measurement of all depths that the button starts."""
    return {"text": seen.here["hint"].format(seeds=SEEDS)}


def train_job(seen: Seen) -> Payload:
    """Describe the training, with its estimated duration."""
    return {"text": seen.here["hint"].format(steps=STEPS[int(seen.settings.depth)], seconds=TAKES)}


# --- endpoints ---

Depth = Annotated[int, Within(2, 16)]
Start = Annotated[str, OneOf(STARTS)]


def gradient_norms(playground: Playground, depth: Depth = 8, start: Start = "gpt2") -> dict:
    """Compute the gradient norms of a tiny model before its first step: pre- and post-norm, with and without residuals.

    Args:
        depth: Number of blocks of the tiny model.
        start: The initialization of its weights. gpt2: normal(0, 0.02), scaled down with depth for projections that
            write
            to the residual stream. glorot: by width alone, as in the theory of Xiong et al. 2020.

    Returns:
        wirings: one record per wiring with weights: gradient norms of the blocks' parameters, and stream: gradient
        norms of the blocks' inputs, both with one list over the blocks per seed; losses: one per seed (nats per byte).
    """
    result: Starts = measured(VIEW, "starts", unprompted(playground), depth=str(depth), start=start)
    rows = [
        {"wiring": key, "weights": result.weights[n], "stream": result.stream[n], "losses": result.losses[n]}
        for n, key in enumerate(WIRINGS)
    ]
    return {"depth": result.depth, "start": start, "wirings": rows}


def wiring_trial(
    playground: Playground,
    depth: Depth = 8,
    start: Start = "gpt2",
    rate: Annotated[float, Within(1e-5, 0.1)] = 0.003,
    steps: Annotated[int, Within(2, 200)] = 160,
) -> dict:
    """Train variants of a tiny model on the same batches for their first steps. Takes about 20 seconds.

    The variants are pre- and post-norm, each with and without warm-up, and pre-norm without residuals.

    Args:
        depth: Number of blocks of the tiny model.
        start: The initialization of its weights: gpt2 or glorot, see gradient_norms.
        rate: The peak learning rate; the warm-up takes 30 steps.
        steps: Training steps of each variant.

    Returns:
        variants: one record per variant with losses: loss of each step's batch (nats per byte), norms: gradient norm of
        each block at each step, before clipping, and seconds: median per step. frequencies: at each step, the loss of
        predicting byte frequencies alone.
    """
    training = Settings((("rate", rate), ("steps", steps)))
    scene = unprompted(playground)
    result: Trained = measured(VIEW, "training", scene, depth=str(depth), start=start, training=training)
    rows = [
        {"variant": key, "losses": result.losses[n], "norms": result.norms[n], "seconds": result.seconds[n]}
        for n, key in enumerate(VARIANTS)
    ]
    return {"frequencies": result.frequencies, "variants": rows}


VIEW = View(
    "norms_residuals",
    needs=(),
    settings=(DEPTH, START, OF),
    measures=(
        Measure("starts", measure_starts, depends=(), settings=("depth", "start"), question=start_question),
        Measure("depths", measure_depths, depends=(), settings=("start",), slow=True),
        Measure(
            "training",
            measure_training,
            depends=(),
            settings=("depth", "start", "training"),
            slow=True,
            question=training_question,
        ),
    ),
    layout=(
        "form",
        ("starts", ("depths_job", "depths")),
        "start_facts",
        "training",
        "train_job",
        (("loss", "facts"), ("heat", "table")),
    ),
    parts={
        "starts": Figure(draw_starts, of="starts", settings=("of",)),
        "depths_job": Job("depths", depths_job, settings=()),
        "depths": Figure(draw_depths, of="depths", settings=("of",)),
        "start_facts": Custom("normfacts", draw_start_facts, of="starts", also=("depths",), settings=("of",)),
        "training": training_form(TRAINING),
        "train_job": Job("training", train_job, settings=()),
        "loss": Figure(first_steps.loss, of="training", settings=()),
        "heat": Figure(first_steps.heat, of="training", settings=("training",)),
        "table": Table(first_steps.table, of="training", settings=()),
        "facts": Custom("normfacts", first_steps.facts, of="training", settings=()),
    },
    api=(
        Endpoint(gradient_norms, reads="server", long=True),
        Endpoint(wiring_trial, reads="server", long=True),
    ),
)
