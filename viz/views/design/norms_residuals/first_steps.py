"""The first steps of a tiny training run for each wiring: losses, gradient norms, and a summary in sentences."""

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

MARGIN = 0.02  # in nats per byte; losses that differ by less count as equal
VANISHED = 1e-3  # a gradient norm below this fraction of another counts as vanished
_PAIRS = {
    "placement": ("pre", "post"),
    "warmup_pre": ("pre", "pre_cold"),
    "warmup_post": ("post", "post_cold"),
    "residuals": ("pre", "pre_bare"),
}


# --- numbers ---


def last_mean(losses: np.ndarray, window: int = SMOOTH) -> list[float]:
    """Compute the mean of each row's last `window` losses, NaN if one of them is NaN.

    losses [V, N], variants by steps
    """
    return losses[:, -window:].mean(1).tolist()


# --- parts ---


def name_of(words: Words, key: str) -> str:
    """Return the displayed name of a wiring or variant."""
    return words[f"name_{key}"]


def _source(seen: Seen, trial: Trial) -> str:
    words = seen.words.within("loss")
    start = seen.words[f"settings.start_{trial.start}"]
    values = {"depth": trial.depth, "width": WIDTH, "start": start, "rows": ROWS, "length": LENGTH}
    return f"{words['source_text'].format(rate=number(trial.rate), warmup=WARMUP)} · {words['model'].format(**values)}"


def _python(names: str, trial: Trial, line: str) -> str:
    imports = [f"from model.design.block_trials import {names}"]
    return python_of(imports, [f"result = train_wirings(data, {trial!r})", line])


def loss(seen: Seen) -> Payload:
    """Draw the losses of all variants by step, and the loss of predicting byte frequencies alone."""
    words, trained = seen.here, seen.result
    names = {key: name_of(seen.words, key) for key in VARIANTS}
    losses = {key: running_mean(row) for key, row in zip(VARIANTS, trained.losses, strict=True)}
    line = "result.losses  # [variant, step], variants as in VARIANTS"
    return {
        "figure": losses_figure(losses, running_mean(trained.frequencies), names, words),
        "title": words["title"],
        "note": words["note"].format(n=SMOOTH),
        "source": _source(seen, trained.trial),
        "columns": [words["series"], words["step"], words["loss"]],
        "python": _python("VARIANTS, Trial, train_wirings", trained.trial, line),
    }


def heat(seen: Seen) -> Payload:
    """Draw the selected variant's gradient norm at each block and step."""
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
        "python": _python("Trial, train_wirings", trained.trial, f"result.norms[{at}]  # [step, block] of {variant!r}"),
    }


def table(seen: Seen) -> Payload:
    """Build the table of all variants, and list those whose loss shows that they have begun to use the context."""
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
    """Compare norm placement, warm-up and residuals, each by a pair of variants that differ only in that."""
    words, trained = seen.here, seen.result
    ends = dict(zip(VARIANTS, last_mean(trained.losses), strict=True))
    items = [[words[key], _pair(seen, pair, ends)] for key, pair in _PAIRS.items()]
    items.append([words["vanished"], _vanished(seen)])
    items.append([words["caveat"], words["caveat_text"].format(n=SMOOTH)])
    return {"title": words["title"], "items": items}


def _vanished(seen: Seen) -> str:
    """List the variants whose final gradient norm in the first block is below VANISHED times that in the last block."""
    words, norms = seen.here, seen.result.norms
    ratios = dict(zip(VARIANTS, (norms[:, -1, 0] / norms[:, -1, -1]).tolist(), strict=True))
    gone = [f"{name_of(seen.words, key)} ({number(ratio)})" for key, ratio in ratios.items() if ratio < VANISHED]
    return words["vanished_text" if gone else "vanished_none"].format(names=", ".join(gone), share=number(VANISHED))


def _pair(seen: Seen, pair: tuple[str, str], ends: Mapping[str, float]) -> str:
    """Format a sentence that compares the final losses of two variants."""
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
