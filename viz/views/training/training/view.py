"""The training view: a form, a live training run of a small model, and a replay of its attention heads."""

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from model.gpt.config import CHOICES
from model.gpt.mixers.names import ATTENTION
from model.training.jobs.form import MOST_BETA, MOST_DECAY, MOST_DROPOUT, job_of, presets_within
from model.training.jobs.job import RUN_MIXERS, TEXTS, WINDOW, Job, Limits
from model.training.loop import SCHEDULES, Recipe
from model.training.tasks import TASKS
from viz.charts.heatmap import PatternWords
from viz.labels import run_label, visible
from viz.numbers import decimals, whole
from viz.seam.jobs.live_runs import about, failure, follow, live_run, own_run, reconnect, returning, wish
from viz.seam.jobs.stored_runs import shown
from viz.seam.programs.endpoint import Endpoint
from viz.seam.scene import Scene
from viz.seam.settings import Settings
from viz.seam.view import Event, Measure, ModelsChanged, Open, Payload, Seen, Steady, Stream, View, Visit
from viz.theme import RAMPS
from viz.views.training.training.figures import blank_figure, snapshot_payload
from viz.words import Words, section, some, translate, words
from viz.work.playground import Playground
from viz.work.processes.training_process import LiveRun

LOWEST = {"layers": 1, "heads": 1, "width": 8, "length": 4, "batch": 1, "steps": 1, "vocabulary": 257}
_STEPS = {"modular_addition": 6000, "sort": 1500, "reverse": 1500, "copy": 1000, "noise": 300, "known_noise": 1500}
_STEPS |= dict.fromkeys(TEXTS, 1500)


def measure_limits(scene: Scene, settings: Settings) -> Limits:
    """Return the limits that this server sets for training runs."""
    return scene.playground.workshop.limits


# --- the form ---


def lab(seen: Seen) -> Payload:
    """Build the payload of the form, or a notice if training is switched off on this server."""
    language = seen.facts.language
    if seen.result.minutes > 0:
        return form(seen.words, seen.result) | shown(seen.view, language, piece_payload)
    closed = ("Training is disabled on this server.", "Run the app on your own machine.")
    text, hint = (translate(sentence, language) for sentence in closed)
    return {"empty": {"text": text, "hint": hint}}


def first_lab(texts: Words) -> Payload:
    """Build the payload of the form before the server's limits are known."""
    return form(texts, Limits())


def form(texts: Words, limits: Limits) -> Payload:
    """Build the payload of the form: words, choices, defaults and bounds.

    The settings are validated again when a run starts.
    """
    catalogue, recipe = texts.catalogue, Job().recipe
    plot = section(catalogue, "plot") | some(catalogue, "pattern", "query", "key", "weight")
    choices = {"placement": ("pre", "post"), "schedule": tuple(SCHEDULES), "norm": CHOICES["norm"]}
    # the classic ones, which all comparisons of runs know
    choices |= {"positions": ("learned", "sinusoidal", "rope", "none"), "mlp": ("relu", "gelu", "gelu_tanh", "swiglu")}
    named = {name: {key: catalogue[f"choice.{key}"] for key in keys} for name, keys in choices.items()}
    named["mixer"] = {key: catalogue[f"mixer.{key}"] for key in RUN_MIXERS}
    bounds = {name: [low, getattr(limits, name)] for name, low in LOWEST.items()} | {"window": [1, limits.length]}
    bounds |= {"mlp_width": [1, 4 * limits.width], "dropout": [0, MOST_DROPOUT]}
    bounds |= {"beta": [0, MOST_BETA], "weight_decay": [0, MOST_DECAY]}
    return {
        "words": texts.within("lab").plain() | plot | {"plot": plot},
        "tasks": [_task(catalogue, name, recipe) for name in (*TASKS, *TEXTS)],
        "choices": named,
        "limits": bounds | {"bytes": [0, limits.text_bytes]},
        "presets": [_preset(texts, name, values, limits) for name, values in presets_within(limits).items()],
        "defaults": {
            "task": "induction",
            "layers": 2,
            "heads": 4,
            "width": 128,
            "positions": "learned",
            "placement": "pre",
            "norm": "layernorm",
            "mlp": "gelu_tanh",
            "mixer": "softmax",
            "window": WINDOW,
            "schedule": recipe.schedule,
            "steps": recipe.steps,
            "length": recipe.length,
            "batch": recipe.batch,
            "rate": recipe.learning_rate,
            "warmup": recipe.warmup,
            "seed": recipe.seed,
            "vocabulary": Job().vocab_size,
            "characters": False,
            "untied": False,
            "scaled": False,
            "biases": True,
            "dropout": recipe.dropout,
            "zero_positions": False,
            "beta1": recipe.beta1,
            "beta2": recipe.beta2,
            "weight_decay": recipe.weight_decay,
        },
        "ramps": {name: list(stops) for name, stops in RAMPS.items()},
    }


def _preset(texts: Words, name: str, values: Mapping[str, object], limits: Limits) -> Payload:
    """Build the entry of a preset: its name, its description, and the fields that it sets."""
    presets = texts.within("presets")
    about = presets[f"{name}_about"].format(minutes=whole(round(limits.minutes)))
    return {"key": name, "label": presets[name], "about": about, "settings": dict(values)}


def _task(catalogue: Mapping[str, str], name: str, recipe: Recipe) -> Payload:
    """Build the entry of a task: its description, and the recommended settings."""
    task = TASKS.get(name)
    length = task.length if task else 64
    settings = {"length": length, "batch": {4: 64}.get(length, recipe.batch), "steps": _STEPS.get(name, recipe.steps)}
    return {
        "key": name,
        "label": catalogue[f"task.{name}"],
        "about": catalogue[f"task_about.{name}"],
        "example": task.example if task else "",
        "text": name in TEXTS,
        "settings": settings,
    }


# --- payloads of a run ---


def piece_payload(run: LiveRun, language: str, have: tuple[int, int]) -> Payload:
    """Build the update of a run for a page that already has `have` = (number of reports, number of snapshots)."""
    catalogue = words(language)
    reports, snapshots = run.reports[have[0] :], run.snapshots[have[1] :]
    piece = about(run, have) | {
        "label": run_label(run.job.task, run.job.config, run.job.recipe.steps, catalogue),
        "floor": floor(run.job, catalogue),
        "layers": 0,
        "heads": 0,
        "hidden": [],
        "probe": [],
        "reports": [[r.step, r.loss, r.learning_rate, r.gradient_norm, r.tokens, r.seconds] for r in reports],
        "snapshots": [snapshot_payload(snapshot, run.tokenizer.piece, run.tokenizer.decode) for snapshot in snapshots],
    }
    if run.state == "failed":
        piece["error"] = failure(run, language)
    if run.started and run.tokenizer:
        tokens = run.tokenizer.tokens(run.started.ids)
        names = PatternWords(**some(catalogue, "pattern", "query", "key", "weight", "largest"))
        piece |= {
            "layers": run.started.n_layer,
            "heads": run.started.n_head,
            "hidden": hidden_layers(run),
            "figure": blank_figure(tokens, names),
            "probe": [visible(text) for text in tokens.pieces],
            "source": catalogue["training.lab.source"].format(params=whole(run.started.n_params)),
        }
    return piece


def floor(job: Job, catalogue: Mapping[str, str]) -> Payload | None:
    """Return the lower bound on the loss on fresh examples of the task, with its label; None if none is known."""
    task = TASKS.get(job.task)
    if task is None or task.floor is None:
        return None
    values = {"symbols": whole(len(task.symbols)), "loss": decimals(task.floor)}
    return {"loss": task.floor, "text": catalogue["training.lab.floor"].format(**values)}


def hidden_layers(run: LiveRun) -> list[int]:
    """Return the layers without softmax attention, whose maps show hidden attention."""
    mixer = run.job.config.get("mixer", "softmax")
    names = [mixer] * run.started.n_layer if isinstance(mixer, str) else mixer
    return [layer for layer, name in enumerate(names) if name not in ATTENTION]


# --- events ---


def start(visit: Visit, sent: object) -> Iterator[Payload | ModelsChanged]:
    """Start a run and yield its updates. The run stops if its page does not return."""
    yield from follow(visit, job_of(sent, visit.playground.workshop.limits), piece_payload)


def open_model(visit: Visit, sent: object) -> Iterator[Open]:
    """Open the trained model with the replay's sequence as its prompt."""
    run = own_run(visit, sent, Job)
    if run is not None and run.tokenizer is not None:
        yield Open(run.model_id, run.tokenizer.decode(run.started.ids), "attention")


# --- for programs ---


def training_run(playground: Playground, run: str) -> dict:
    """Return the measurements of a run in the Training tab: its losses, and the scores of its heads by step.

    Args:
        run: The id of the run, as shown on the page that started it.

    Returns:
        state: state of the run; losses: one per step (nats per scored token); looks: one record per evaluation with
        step, loss and accuracy on held-out examples, and the scores induction and previous_token, [layer][head]. cliff:
        before, the last evaluated step with at least 3/4 of the first held-out loss, and after, the first with at most
        1/4 of it; null if the loss stays above that. best: layer and head with the highest induction score at the last
        evaluation; score: that score; reader: layer and head with the highest previous-token score.
    """
    live = live_run(playground, run, Job)
    looks = list(live.snapshots)
    rows = [
        {
            "step": each.step,
            "loss": each.loss,
            "accuracy": each.accuracy,
            "induction": each.induction,
            "previous_token": each.previous_token,
        }
        for each in looks
    ]
    summary = {"state": live.state, "losses": [each.loss for each in list(live.reports)], "looks": rows}
    best, reader = (
        (highest(getattr(looks[-1], name)) for name in ("induction", "previous_token")) if looks else (None,) * 2
    )
    score = looks[-1].induction[best["layer"], best["head"]] if best else None
    return summary | {
        "cliff": cliff([(each.step, each.loss) for each in looks]),
        "best": best,
        "reader": reader,
        "score": score,
    }


def highest(scores: np.ndarray) -> dict[str, int] | None:
    """Return the layer and head with the highest score, or None if every score is NaN. scores [L, H]"""
    if np.isnan(scores).all():
        return None
    layer, head = np.unravel_index(int(np.nanargmax(scores)), scores.shape)
    return {"layer": int(layer), "head": int(head)}


def cliff(losses: Sequence[tuple[int, float]]) -> dict[str, int] | None:
    """Locate a drop of the loss: the last step with at least 3/4 of the first loss, the first with at most 1/4 of it.

    Returns None if the loss never drops to 1/4. losses: (step, loss)
    """
    high = [step for step, loss in losses if loss >= 0.75 * losses[0][1]]
    low = [step for step, loss in losses if loss <= 0.25 * losses[0][1]]
    return {"before": high[-1], "after": low[0]} if low else None


RUN = Stream(
    "run",
    "feed",
    {
        "start": Event(start),
        "pause": wish("pause", Job),
        "resume": wish("resume", Job),
        "stop": wish("stop", Job),
        "again": reconnect(Job, piece_payload),
        "return": returning(Job, piece_payload),
        "open": Event(open_model),
    },
)
VIEW = View(
    "training",
    needs=(),
    layout=("lab",),
    parts={"lab": Steady("training", lab, "limits", first_lab)},
    measures=(Measure("limits", measure_limits, depends=(), locks=False),),
    streams=(RUN,),
    api=(Endpoint(training_run, views=("training.training",), reads="server"),),
)
