"""Which mixer can learn it: tiny models that differ in the mixer alone, trained side by side on one task."""

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
from viz.seam.settings import Check, Choice, Settings
from viz.seam.view import Custom, Figure, Job, Measure, Payload, Seen, Table, View
from viz.views.training.which_mixer.figures import costs_figure, losses_figure, scores_figure
from viz.words import Words, joined
from viz.work.playground import Playground
from viz.work.processes.trial_process import side_by_side

STEPS = ("500", "1000", "2000")
USUAL = MixerTrial().mixers
SECONDS = 0.02  # of a step of one training, about


def task_label(words: Words, option: str) -> str:
    """Return a task by its name in the training view."""
    return words.catalogue[f"task.{option}"]


def steps_label(words: Words, option: str) -> str:
    """A number is its own label."""
    return option


SETTINGS = (
    Choice("task", TASKS, default="induction", label=task_label),
    Choice("steps", STEPS, label=steps_label),
    *(Check(mixer, default=mixer in USUAL) for mixer in MIXERS),
)


# --- the measure ---


def question(scene: Scene, settings: Settings) -> Settings:
    """Return the task, the steps as a number, and the names of the mixers that are ticked."""
    mixers = tuple(name for name in MIXERS if settings[name])
    return Settings((("task", settings.task), ("steps", int(settings.steps)), ("mixers", mixers)))


def measure_race(scene: Scene, settings: Settings, progress: Progress) -> Comparison:
    """Return every mixer with every seed, spread over processes; the model on the page is not touched."""
    trial = MixerTrial(settings.mixers, settings.task, settings.steps)
    return together(trial, side_by_side(scene.playground.workshop, parts_of(trial), trial.steps, progress))


# --- what is drawn ---


def start_job(seen: Seen) -> Payload:
    """How much the training is, and about how long it takes; or why it cannot start."""
    words, n = seen.here, sum(bool(seen.settings[name]) for name in MIXERS)
    if n < 2:
        return {"text": words["few"], "unready": True}
    trial = MixerTrial(USUAL, seen.settings.task, int(seen.settings.steps))
    seconds = n * trial.seeds * trial.steps * SECONDS / 2
    values = {"n": n, "seeds": trial.seeds, "steps": whole(trial.steps), "minutes": decimals(seconds / 60, 1)}
    return {"text": words["hint"].format(**values)}


def _names(seen: Seen) -> dict[str, str]:
    return {name: seen.words[f"settings.{name}"] for name in seen.result.trial.mixers}


def _by_mixer(found: Comparison, values: np.ndarray) -> dict[str, np.ndarray]:
    return dict(zip(found.trial.mixers, values, strict=True))


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
    """Accuracy, or the error of regression, against the size."""
    words, found = seen.here, seen.result
    error, task = found.is_error, found.trial.task
    reference = found.reference if error else np.full(len(found.sizes), found.chance)
    named = {
        "size": words[f"size_{task}"],
        "score": words["error" if error else "share"],
        "reference": words["ridge" if error else "chance"],
        "seed": words["seed"],
    }
    figure = scores_figure(
        _by_mixer(found, found.scores), found.sizes, _names(seen), named, list(reference), share=not error
    )
    return {
        "figure": figure,
        "title": words["title"].format(task=task_label(seen.words, task)),
        "note": words["note_error" if error else "note"].format(seeds=found.trial.seeds),
        "source": _source(seen),
        "columns": [words["series"], named["size"], named["score"]],
        "python": _python(found.trial, "found.scores  # [mixer, seed, size], sizes as in found.sizes"),
    }


def loss(seen: Seen) -> Payload:
    """Return the loss while training."""
    words, found = seen.here, seen.result
    smooth = np.stack([[running_mean(row) for row in rows] for rows in found.losses])
    named = {"step": words["step"], "loss": words["loss"]}
    return {
        "figure": losses_figure(_by_mixer(found, smooth), _names(seen), named),
        "title": words["title"],
        "note": words["note"],
        "source": _source(seen),
        "columns": [seen.words["scores.series"], words["range"], words["step"], words["loss"]],
        "python": _python(found.trial, "found.losses  # [mixer, seed, step], nats per scored token"),
    }


def memory(seen: Seen) -> Payload:
    """What a model holds while it decodes."""
    words, found = seen.here, seen.result
    divisor, unit = size_unit(float(found.nbytes.min()))
    named = {"tokens": words["tokens"], "cost": words["bytes"].format(unit=unit)}
    return {
        "figure": costs_figure(_by_mixer(found, found.nbytes / divisor), DECODED, _names(seen), named, True),
        "title": words["title"],
        "note": words["note"].format(window=WINDOW),
        "source": _source(seen),
        "columns": [seen.words["scores.series"], named["tokens"], named["cost"]],
        "python": _python(found.trial, "found.nbytes  # [mixer, tokens before], bytes"),
    }


def seconds(seen: Seen) -> Payload:
    """Return the time of one token while decoding."""
    words, found = seen.here, seen.result
    named = {"tokens": seen.words.within("memory")["tokens"], "cost": words["ms"]}
    return {
        "figure": costs_figure(_by_mixer(found, 1000 * found.seconds), DECODED, _names(seen), named, False),
        "title": words["title"],
        "note": words["note"],
        "source": _source(seen),
        "columns": [seen.words["scores.series"], named["tokens"], named["cost"]],
        "python": _python(found.trial, "found.seconds  # [mixer, tokens before], seconds of the next token"),
    }


def _score(found: Comparison, value: float) -> str:
    return number(value) if found.is_error else percent(value)


def table(seen: Seen) -> Payload:
    """Return each mixer's parameters, scores and costs in numbers."""
    words, found, rows = seen.here, seen.result, []
    by_seed = found.scores.mean(-1)  # [M, R]
    for at, name in enumerate(_names(seen).values()):
        low, high = (_score(found, float(each)) for each in (by_seed[at].min(), by_seed[at].max()))
        last = _score(found, float(found.scores[at, :, -1].mean()))
        first, end = (size(float(found.nbytes[at, where])) for where in (0, -1))
        cells = [_score(found, float(by_seed[at].mean())), f"{low} – {high}", last, first, end]
        rows.append([name, whole(found.n_params[at]), *cells, milliseconds(float(found.seconds[at, -1]))])
    columns = [words[key] for key in ("mixer", "params", "mean", "range", "last", "first_bytes", "last_bytes", "ms")]
    values = {"first": whole(DECODED[0]), "end": whole(DECODED[-1]), "size": found.sizes[-1]}
    return {
        "title": words["title"],
        "columns": [column.format(**values) for column in columns],
        "rows": rows,
        "source": _source(seen),
        "same": False,
    }


def facts(seen: Seen) -> Payload:
    """Which won, and whether by more than seeds differ; what the winner costs; how alike the models are in size."""
    words, found = seen.here, seen.result
    told, names = verdict(found), _names(seen)
    values = {
        "best": names[told.best],
        "second": names[told.second],
        "first_score": _score(found, told.first_score),
        "second_score": _score(found, told.second_score),
        "gap": _score(found, told.difference),
        "spread": _score(found, told.spread),
        "measure": words["error" if found.is_error else "share"],
        "seeds": found.trial.seeds,
    }
    items = [[words["won"], words["clear" if told.clear else "unclear"].format(**values)]]
    items.append([words["cost"], _growth(words, found, names)])
    low, high = (whole(each) for each in (min(found.n_params), max(found.n_params)))
    items.append([words["sizes"], words["sizes_text"].format(low=low, high=high)])
    items.append([words["caveat"], words["caveat_text"].format(steps=whole(found.trial.steps))])
    return {"title": words["title"], "items": items}


def _growth(words: Words, found: Comparison, names: Mapping[str, str]) -> str:
    """Which mixers hold the same however long the text is, and which more with every token."""
    grows = {name: bool(found.nbytes[at, -1] > found.nbytes[at, 0]) for at, name in enumerate(names.values())}
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
    """Tiny models that differ in the mixer alone, trained side by side on one task with three seeds each: minutes.

    Args:
        task: What they learn.
        mixers: Two or more of softmax, sliding_window, linear, retention, delta and mamba; four of them
            for none.
        steps: Steps of each training.

    Returns:
        sizes: the sizes that the models are judged at (pairs, letters, or points before); scores: mixer; params; score
        (share right, or squared error of regression: a list of sizes for each seed); bytes and seconds: what decoding
        holds and takes after each number of tokens of `tokens`; best, second, difference, spread and clear: the two
        with the best means, by how much, the larger range over seeds, and whether the difference exceeds it.
    """
    trial = MixerTrial(tuple(mixers) or USUAL, task)  # raises for names that are not known
    chosen = {name: name in trial.mixers for name in MIXERS}
    found: Comparison = measured(VIEW, "race", unprompted(playground), task=task, steps=str(steps), **chosen)
    told = verdict(found)
    rows = [
        {
            "mixer": name,
            "params": found.n_params[at],
            "score": found.scores[at],
            "bytes": found.nbytes[at],
            "seconds": found.seconds[at],
        }
        for at, name in enumerate(found.trial.mixers)
    ]
    return {
        "sizes": list(found.sizes),
        "tokens": list(DECODED),
        "mixers": rows,
        "reference": found.reference,
        "best": told.best,
        "second": told.second,
        "difference": told.difference,
        "spread": told.spread,
        "clear": told.clear,
    }


VIEW = View(
    "which_mixer",
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
