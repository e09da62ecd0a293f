"""The first steps of a tiny training, wiring by wiring: losses, gradients, and what the numbers say."""

import math
from collections.abc import Mapping

import numpy as np

from model.design.block_trials import LENGTH, ROWS, VARIANTS, WARMUP, WIDTH, Trial
from viz.charts.lines import SMOOTH, running_mean
from viz.numbers import NONE, milliseconds, nats, number
from viz.seam.view import Payload, Seen
from viz.views.design.norms_residuals.figures import heat_figure, losses_figure
from viz.views.design.trials import python_of
from viz.words import Words

MARGIN = 0.02  # nats a byte: losses that differ by less are called alike
VANISHED = 1e-3  # a gradient this many times another one is next to nothing beside it
_PAIRS = {
    "placement": ("pre", "post"),
    "warmup_pre": ("pre", "pre_cold"),
    "warmup_post": ("post", "post_cold"),
    "residuals": ("pre", "pre_bare"),
}


# --- numbers ---


def last_mean(losses: np.ndarray, window: int = SMOOTH) -> list[float]:
    """Return the mean of the last losses of each row, NaN where one of them is none. losses [V, N]"""
    return losses[:, -window:].mean(1).tolist()


# --- what is drawn ---


def name_of(words: Words, key: str) -> str:
    """Return the name of a wiring or variant."""
    return words[f"name_{key}"]


def _source(seen: Seen, trial: Trial) -> str:
    words = seen.words.within("loss")
    start = seen.words[f"settings.start_{trial.start}"]
    values = {"depth": trial.depth, "width": WIDTH, "start": start, "rows": ROWS, "length": LENGTH}
    return f"{words['source_text'].format(rate=number(trial.rate), warmup=WARMUP)} · {words['model'].format(**values)}"


def _python(names: str, trial: Trial, line: str) -> str:
    imports = [f"from model.design.block_trials import {names}"]
    return python_of(imports, [f"found = train_wirings(data, {trial!r})", line])


def loss(seen: Seen) -> Payload:
    """Return the losses of all variants step by step, beside that of predicting by frequencies alone."""
    words, trained = seen.here, seen.result
    names = {key: name_of(seen.words, key) for key in VARIANTS}
    losses = {key: running_mean(row) for key, row in zip(VARIANTS, trained.losses, strict=True)}
    line = "found.losses  # [variant, step], variants as in VARIANTS"
    return {
        "figure": losses_figure(losses, running_mean(trained.frequencies), names, words),
        "title": words["title"],
        "note": words["note"].format(n=SMOOTH),
        "source": _source(seen, trained.trial),
        "columns": [words["series"], words["step"], words["loss"]],
        "python": _python("VARIANTS, Trial, train_wirings", trained.trial, line),
    }


def heat(seen: Seen) -> Payload:
    """Return the gradient of every block at every step of one variant."""
    words, trained, variant = seen.here, seen.result, seen.settings.training.variant
    at = list(VARIANTS).index(variant)
    norms = trained.norms[at]
    step, block = seen.words["loss.step"], seen.words["starts.block"]
    positive = norms[norms > 0]
    ratio = positive.max() / positive.min() if positive.size else math.nan
    return {
        "figure": heat_figure(norms, step, block, words["value"]),
        "title": words["title"].format(name=name_of(seen.words, variant)),
        "note": words["note"].format(ratio=number(ratio)),
        "source": _source(seen, trained.trial),
        "columns": [block, step, words["value"]],
        "python": _python("Trial, train_wirings", trained.trial, f"found.norms[{at}]  # [step, block] of {variant!r}"),
    }


def table(seen: Seen) -> Payload:
    """Return every variant's numbers, and which of them have begun to use the context."""
    words, trained, rows, better = seen.here, seen.result, [], []
    guess = float(trained.frequencies[-SMOOTH:].mean())
    ends = dict(zip(VARIANTS, last_mean(trained.losses), strict=True))
    for at, key in enumerate(VARIANTS):
        losses, norms = trained.losses[at].tolist(), trained.norms[at]
        name, gain = name_of(seen.words, key), guess - ends[key]
        done = [step for step, each in enumerate(losses) if math.isfinite(each)]
        end = nats(ends[key]) if len(done) == len(losses) else words["astray"].format(n=len(done) + 1)
        ratios = [number(float(norms[step, 0] / norms[step, -1])) for step in (done[:1] + done[-1:])] or [NONE, NONE]
        rows.append([name, nats(losses[0]), end, nats(gain), *ratios, milliseconds(float(trained.seconds[at]))])
        better += [name] if gain > MARGIN else []
    columns = [words[key] for key in ("variant", "first", "end", "gain", "start_ratio", "end_ratio", "ms")]
    columns[2] = columns[2].format(n=SMOOTH)
    values = {"margin": number(MARGIN), "names": ", ".join(better)}
    return {
        "title": words["title"],
        "columns": columns,
        "rows": rows,
        "check": words["learned" if better else "none"].format(**values),
        "same": False,
        "source": _source(seen, trained.trial),
    }


def facts(seen: Seen) -> Payload:
    """Placement, warm-up and residuals, each as a pair of variants that differ in nothing else."""
    words, trained = seen.here, seen.result
    ends = dict(zip(VARIANTS, last_mean(trained.losses), strict=True))
    items = [[words[key], _pair(seen, pair, ends)] for key, pair in _PAIRS.items()]
    items.append([words["vanished"], _vanished(seen)])
    items.append([words["caveat"], words["caveat_text"].format(n=SMOOTH)])
    return {"title": words["title"], "items": items}


def _vanished(seen: Seen) -> str:
    """In which variants the first block's gradient is next to nothing beside the last block's, at the end."""
    words, norms = seen.here, seen.result.norms
    ratios = dict(zip(VARIANTS, (norms[:, -1, 0] / norms[:, -1, -1]).tolist(), strict=True))
    gone = [f"{name_of(seen.words, key)} ({number(ratio)})" for key, ratio in ratios.items() if ratio < VANISHED]
    return words["vanished_text" if gone else "vanished_none"].format(names=", ".join(gone), share=number(VANISHED))


def _pair(seen: Seen, pair: tuple[str, str], ends: Mapping[str, float]) -> str:
    """Which of two variants ends lower, if any."""
    words, (first, second) = seen.here, (float(ends[key]) for key in pair)
    gap = second - first
    values = {
        "a": name_of(seen.words, pair[0]),
        "b": name_of(seen.words, pair[1]),
        "first": nats(first),
        "second": nats(second),
        "margin": number(MARGIN),
    }
    if not math.isfinite(gap):
        return words["astray"].format(**values)
    if abs(gap) < MARGIN:
        return words["same"].format(**values)
    return words["text"].format(**values, gap=nats(abs(gap)), side=words["lower" if gap > 0 else "higher"])
