"""The mixer comparison: tiny models that differ only in their mixer, all trained on the same task."""

from collections.abc import Mapping
from typing import Annotated

import numpy as np

from model.design.mixer_trial import (
    DECODED,
    HEADS,
    LAYERS,
    MIXERS,
    ROWS,
    TASKS,
    WIDTH,
    WINDOW,
    Comparison,
    MixerTrial,
    parts_of,
    together,
    verdict,
)
from model.progress import Progress
from viz.charts.lines import running_mean
from viz.numbers import decimals, milliseconds, number, percent, size, size_unit, whole
from viz.seam.programs.arguments import OneOf, Within
from viz.seam.programs.endpoint import Endpoint
from viz.seam.programs.reading import measured, unprompted
from viz.seam.scene import Scene
from viz.seam.settings import Checkbox, Choice, Settings
from viz.seam.view import Custom, Figure, Job, Measure, Payload, Seen, Table, View
from viz.views.training.which_mixer.figures import costs_figure, losses_figure, scores_figure
from viz.words import Words, joined
from viz.work.playground import Playground
from viz.work.processes.trial_process import side_by_side

STEPS = ("500", "1000", "2000")
USUAL = MixerTrial().mixers
SECONDS = 0.02  # approximate seconds per step of one training run


def task_label(words: Words, option: str) -> str:
    """Return the name of a task as in the training view."""
    return words.catalogue[f"task.{option}"]


def steps_label(words: Words, option: str) -> str:
    """Return a numeric option, which is its own label."""
    return option


SETTINGS = (
    Choice("task", TASKS, default="induction", label=task_label),
    Choice("steps", STEPS, label=steps_label),
    *(Checkbox(mixer, default=mixer in USUAL) for mixer in MIXERS),
)


# --- the measurement ---


def question(scene: Scene, settings: Settings) -> Settings:
    """Return the task, the number of steps, and the names of the selected mixers."""
    mixers = tuple(name for name in MIXERS if settings[name])
    return Settings((("task", settings.task), ("steps", int(settings.steps)), ("mixers", mixers)))


def measure_race(scene: Scene, settings: Settings, progress: Progress) -> Comparison:
    """Train every mixer with every seed, distributed over processes. The loaded model is not involved."""
    trial = MixerTrial(settings.mixers, settings.task, settings.steps)
    return together(trial, side_by_side(scene.playground.workshop, parts_of(trial), trial.steps, progress))


# --- parts ---


def start_job(seen: Seen) -> Payload:
    """Describe the number and the approximate duration of the training runs, or the reason why they cannot start."""
    words, n = seen.here, sum(bool(seen.settings[name]) for name in MIXERS)
    if n < 2:
        return {"text": words["few"], "unready": True}
    trial = MixerTrial(USUAL, seen.settings.task, int(seen.settings.steps))
    seconds = n * trial.seeds * trial.steps * SECONDS / 2
    values = {"n": n, "seeds": trial.seeds, "steps": whole(trial.steps), "minutes": decimals(seconds / 60, 1)}
    return {"text": words["hint"].format(**values)}


def _names(seen: Seen) -> dict[str, str]:
    return {name: seen.words[f"settings.{name}"] for name in seen.result.trial.mixers}


def _by_mixer(result: Comparison, values: np.ndarray) -> dict[str, np.ndarray]:
    return dict(zip(result.trial.mixers, values, strict=True))


def _source(seen: Seen) -> str:
    trial = seen.result.trial
    values = {
        "layers": LAYERS,
        "width": WIDTH,
        "heads": HEADS,
        "rows": ROWS,
        "length": trial.length,
        "seeds": trial.seeds,
    }
    values |= {"rate": number(trial.rate), "steps": whole(trial.steps), "task": task_label(seen.words, trial.task)}
    return seen.words["scores.source_text"].format(**values)


def _python(trial: MixerTrial, line: str) -> str:
    imports = "from model.design.mixer_trial import MixerTrial, compare, verdict"
    return "\n".join([imports, "", f"found = compare({trial!r})", line])


def score(seen: Seen) -> Payload:
    """Draw the accuracy by size, or the error in the case of a regression task."""
    words, result = seen.here, seen.result
    error, task = result.is_error, result.trial.task
    reference = result.reference if error else np.full(len(result.sizes), result.chance)
    named = {
        "size": words[f"size_{task}"],
        "score": words["error" if error else "share"],
        "reference": words["ridge" if error else "chance"],
        "seed": words["seed"],
    }
    figure = scores_figure(
        _by_mixer(result, result.scores), result.sizes, _names(seen), named, list(reference), share=not error
    )
    return {
        "figure": figure,
        "title": words["title"].format(task=task_label(seen.words, task)),
        "note": words["note_error" if error else "note"].format(seeds=result.trial.seeds),
        "source": _source(seen),
        "columns": [words["series"], named["size"], named["score"]],
        "python": _python(result.trial, "found.scores  # [mixer, seed, size], sizes as in found.sizes"),
    }


def loss(seen: Seen) -> Payload:
    """Draw the smoothed training loss by step."""
    words, result = seen.here, seen.result
    smooth = np.stack([[running_mean(row) for row in rows] for rows in result.losses])
    named = {"step": words["step"], "loss": words["loss"]}
    return {
        "figure": losses_figure(_by_mixer(result, smooth), _names(seen), named),
        "title": words["title"],
        "note": words["note"],
        "source": _source(seen),
        "columns": [seen.words["scores.series"], words["range"], words["step"], words["loss"]],
        "python": _python(result.trial, "found.losses  # [mixer, seed, step], nats per scored token"),
    }


def memory(seen: Seen) -> Payload:
    """Draw the memory that each mixer needs in decoding."""
    words, result = seen.here, seen.result
    divisor, unit = size_unit(float(result.nbytes.min()))
    named = {"tokens": words["tokens"], "cost": words["bytes"].format(unit=unit)}
    return {
        "figure": costs_figure(_by_mixer(result, result.nbytes / divisor), DECODED, _names(seen), named, True),
        "title": words["title"],
        "note": words["note"].format(window=WINDOW),
        "source": _source(seen),
        "columns": [seen.words["scores.series"], named["tokens"], named["cost"]],
        "python": _python(result.trial, "found.nbytes  # [mixer, tokens before], bytes"),
    }


def seconds(seen: Seen) -> Payload:
    """Draw the time per token in decoding."""
    words, result = seen.here, seen.result
    named = {"tokens": seen.words.within("memory")["tokens"], "cost": words["ms"]}
    return {
        "figure": costs_figure(_by_mixer(result, 1000 * result.seconds), DECODED, _names(seen), named, False),
        "title": words["title"],
        "note": words["note"],
        "source": _source(seen),
        "columns": [seen.words["scores.series"], named["tokens"], named["cost"]],
        "python": _python(result.trial, "found.seconds  # [mixer, tokens before], seconds of the next token"),
    }


def _score(result: Comparison, value: float) -> str:
    return number(value) if result.is_error else percent(value)


def table(seen: Seen) -> Payload:
    """Build the table of each mixer's parameters, scores and costs."""
    words, result, rows = seen.here, seen.result, []
    by_seed = result.scores.mean(-1)  # [M, R]
    for at, name in enumerate(_names(seen).values()):
        low, high = (_score(result, float(each)) for each in (by_seed[at].min(), by_seed[at].max()))
        last = _score(result, float(result.scores[at, :, -1].mean()))
        first, end = (size(float(result.nbytes[at, where])) for where in (0, -1))
        cells = [_score(result, float(by_seed[at].mean())), f"{low} – {high}", last, first, end]
        rows.append([name, whole(result.n_params[at]), *cells, milliseconds(float(result.seconds[at, -1]))])
    columns = [words[key] for key in ("mixer", "params", "mean", "range", "last", "first_bytes", "last_bytes", "ms")]
    values = {"first": whole(DECODED[0]), "end": whole(DECODED[-1]), "size": result.sizes[-1]}
    return {
        "title": words["title"],
        "columns": [column.format(**values) for column in columns],
        "rows": rows,
        "source": _source(seen),
        "same": False,
    }


def facts(seen: Seen) -> Payload:
    """Describe the results: the best mixer, its lead compared with the range over seeds, its cost, and the models'
    parameter counts.
    """
    words, result = seen.here, seen.result
    outcome, names = verdict(result), _names(seen)
    values = {
        "best": names[outcome.best],
        "second": names[outcome.second],
        "first_score": _score(result, outcome.first_score),
        "second_score": _score(result, outcome.second_score),
        "gap": _score(result, outcome.difference),
        "spread": _score(result, outcome.spread),
        "measure": words["error" if result.is_error else "share"],
        "seeds": result.trial.seeds,
    }
    items = [[words["won"], words["clear" if outcome.clear else "unclear"].format(**values)]]
    items.append([words["cost"], _growth(words, result, names)])
    low, high = (whole(each) for each in (min(result.n_params), max(result.n_params)))
    items.append([words["sizes"], words["sizes_text"].format(low=low, high=high)])
    items.append([words["caveat"], words["caveat_text"].format(steps=whole(result.trial.steps))])
    return {"title": words["title"], "items": items}


def _growth(words: Words, result: Comparison, names: Mapping[str, str]) -> str:
    """Describe which mixers need constant memory in decoding, and which need more with every token."""
    grows = {name: bool(result.nbytes[at, -1] > result.nbytes[at, 0]) for at, name in enumerate(names.values())}
    parts = []
    for growing, key in ((True, "grows"), (False, "constant")):
        if chosen := [name for name, each in grows.items() if each is growing]:
            parts.append(words[key].format(names=", ".join(chosen), end=whole(DECODED[-1]), first=whole(DECODED[0])))
    return joined(parts)


# --- for programs ---


def mixer_comparison(
    playground: Playground,
    task: Annotated[str, OneOf(TASKS)] = "induction",
    mixers: list[str] = (),
    steps: Annotated[int, Within(1, 2000)] = int(STEPS[0]),
) -> dict:
    """Compare tiny models that differ only in their mixer, trained on one task with three seeds each; takes minutes.

    Args:
        task: The task to learn.
        mixers: Two or more of softmax, sliding_window, linear, retention, delta, mamba and mamba2; a default of four
            if empty.
        steps: Number of steps of each training run.

    Returns:
        sizes: the sizes at which the models are scored (number of pairs, of letters, or of preceding points); tokens:
        the numbers of preceding tokens at which decoding is measured; mixers: for each one mixer (its name), params,
        score (accuracy, or squared error in regression, [seed][size]), bytes and seconds (memory and time of decoding,
        one value per entry of tokens); reference: the baseline's scores; best and second: the mixers with the best mean
        scores; difference: that of these means; spread: the larger range over seeds of the two; clear: whether the
        difference exceeds it.
    """
    trial = MixerTrial(tuple(mixers) or USUAL, task)  # raises InputError for an unknown name
    chosen = {name: name in trial.mixers for name in MIXERS}
    result: Comparison = measured(VIEW, "race", unprompted(playground), task=task, steps=str(steps), **chosen)
    outcome = verdict(result)
    rows = [
        {
            "mixer": name,
            "params": result.n_params[at],
            "score": result.scores[at],
            "bytes": result.nbytes[at],
            "seconds": result.seconds[at],
        }
        for at, name in enumerate(result.trial.mixers)
    ]
    return {
        "sizes": list(result.sizes),
        "tokens": list(DECODED),
        "mixers": rows,
        "reference": result.reference,
        "best": outcome.best,
        "second": outcome.second,
        "difference": outcome.difference,
        "spread": outcome.spread,
        "clear": outcome.clear,
    }


VIEW = View(
    "which_mixer",
    needs=(),
    settings=SETTINGS,
    measures=(
        Measure(
            "race",
            measure_race,
            depends=(),
            settings=("task", "steps", *MIXERS),
            slow=True,
            locks=False,
            question=question,
        ),
    ),
    layout=("form", "start", (("scores", "memory"), ("loss", "seconds")), "facts", "table"),
    parts={
        "start": Job("race", start_job),
        "scores": Figure(score, of="race", settings=()),
        "loss": Figure(loss, of="race", settings=()),
        "memory": Figure(memory, of="race", settings=()),
        "seconds": Figure(seconds, of="race", settings=()),
        "facts": Custom("normfacts", facts, of="race", settings=()),
        "table": Table(table, of="race", settings=()),
    },
    api=(Endpoint(mixer_comparison, reads="server", long=True),),
)
