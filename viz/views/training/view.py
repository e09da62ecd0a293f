"""The training tab: settings, a run that can be watched, and the replay of its heads."""

import dataclasses
import io
import time
import zipfile
from collections.abc import Iterator, Mapping

import gradio as gr

from model.errors import PlaygroundError
from model.gpt.config import CHOICES
from model.training.job import TEXT, Job, Limits, job_of
from model.training.loop import SCHEDULES, Recipe
from model.training.tasks import TASKS
from viz.charts.heatmap import PatternWords
from viz.labels import run_label, visible
from viz.page.loading import choose_model, notice
from viz.page.parts import part, plot_words, update
from viz.page.playground import Playground
from viz.page.scene import Scene
from viz.page.tab import Picture, Shared, Tab
from viz.server.training_process import LiveRun
from viz.theme import RAMPS
from viz.views.training.figures import blank_figure, snapshot_payload
from viz.words import some, translate, words

_EVERY = 0.6  # seconds between two messages to the page
_PAUSED = 2.0  # and while nothing happens
EVENTS = ("start", "pause", "resume", "stop", "again", "open")
LOWEST = {"layers": 1, "heads": 1, "width": 8, "length": 4, "batch": 1, "steps": 1, "vocabulary": 257}


def build(first: Mapping[str, dict]) -> dict[str, gr.HTML]:
    """The question, how to read it, everything one sees, and the channel to the server."""
    names = {"training_question": "question", "training_howto": "howto", "training": "training"}
    made = {name: part(name, first.get(name), kind=kind) for name, kind in names.items()}
    return made | {"lesson": part("lesson", None, value={}, events=EVENTS)}


def fixed(said: Mapping[str, str]) -> dict[str, dict]:
    """The question, how to read it, and the form before the server's bounds are known."""
    return {
        "training_question": {"text": said["tab.training_question"]},
        "training_howto": {
            "title": said["howto.title"],
            "parts": some(said, "training_howto", "body", "formula", "caveat", "try"),
        },
        "training": form(said, Limits()),
    }


def form(said: Mapping[str, str], limits: Limits) -> dict:
    """Words, choices, defaults and bounds, which are checked again where a run starts."""
    recipe = Job().recipe
    names = {key.removeprefix("training."): text for key, text in said.items() if key.startswith("training.")}
    plot = plot_words(said) | some(said, "pattern", "query", "key", "weight")
    choices = {"placement": CHOICES["norm_placement"], "schedule": tuple(SCHEDULES)}
    choices |= {name: CHOICES[name] for name in ("norm", "positions", "mlp")}
    most = {
        "layers": limits.layers,
        "heads": limits.heads,
        "width": limits.width,
        "length": limits.length,
        "batch": limits.batch,
        "steps": limits.steps,
        "vocabulary": limits.vocabulary,
    }
    return {
        "words": names | plot | {"plot": plot},
        "tasks": [_task(said, name, recipe) for name in (*TASKS, TEXT)],
        "choices": {name: {key: said[f"choice.{key}"] for key in keys} for name, keys in choices.items()},
        "limits": {name: [low, most[name]] for name, low in LOWEST.items()} | {"bytes": [0, limits.text_bytes]},
        "defaults": {
            "task": "induction",
            "layers": 2,
            "heads": 4,
            "width": 128,
            "positions": "learned",
            "placement": "pre",
            "norm": "layernorm",
            "mlp": "gelu_tanh",
            "schedule": recipe.schedule,
            "steps": recipe.steps,
            "length": recipe.length,
            "batch": recipe.batch,
            "rate": recipe.learning_rate,
            "warmup": recipe.warmup,
            "seed": recipe.seed,
            "vocabulary": Job().vocab_size,
        },
        "ramps": {name: list(stops) for name, stops in RAMPS.items()},
    }


def _task(said: Mapping[str, str], name: str, recipe: Recipe) -> dict:
    """What the form says of a task, and the settings that suit it."""
    found = TASKS.get(name)
    length = found.length if found else 64
    settings = {"length": length, "batch": {4: 64}.get(length, recipe.batch), "steps": _STEPS.get(name, recipe.steps)}
    return {
        "key": name,
        "label": said[f"task.{name}"],
        "about": said[f"task_about.{name}"],
        "example": found.example if found else "",
        "settings": settings,
    }


_STEPS = {"modular_addition": 6000, "sort": 1500, "reverse": 1500, "copy": 1000, TEXT: 1500}


# --- what the page is told -------------------------------------------------------------------------


def piece_payload(run: LiveRun, language: str, have: tuple[int, int]) -> dict:
    """What is new of a run for a page that has so many reports and snapshots."""
    said = words(language)
    reports, snapshots = run.reports[have[0] :], run.snapshots[have[1] :]
    piece = {
        "run": run.id,
        "label": run_label(run.job.task, run.job.config, run.job.recipe.steps, said),
        "state": run.state,
        "over": run.over,
        "steps": run.job.recipe.steps,
        "pace": run.spent / max(1, len(run.reports)),
        "model_id": run.model_id,
        "download": f"playground/trained/{run.id}.zip",
        "layers": 0,
        "heads": 0,
        "probe": [],
        "from_report": have[0],
        "from_snapshot": have[1],
        "reports": [[r.step, r.loss, r.learning_rate, r.gradient_norm, r.tokens, r.seconds] for r in reports],
        "snapshots": [snapshot_payload(snapshot, run.tokenizer.piece, run.tokenizer.decode) for snapshot in snapshots],
    }
    if run.state == "failed":
        piece["error"] = error_payload(run, language)
        piece["model_id"] = ""
    if run.started and run.tokenizer:
        tokens = run.tokenizer.tokens(run.started.ids)
        figure = blank_figure(tokens, PatternWords(**some(said, "pattern", "query", "key", "weight", "largest")))
        piece |= {
            "layers": run.started.n_layer,
            "heads": run.started.n_head,
            "figure": figure.to_json(),
            "probe": [visible(text) for text in tokens.pieces],
            "source": said["training.source"].format(params=f"{run.started.n_params:,}"),
        }
    return piece


def error_payload(run: LiveRun, language: str) -> dict:
    """Why a run failed, in the reader's language."""
    failed, said = run.failure, words(language)
    if not failed.what:
        return {"text": said["training.failed"], "hint": said["notice.failed_hint"]}
    told = notice(PlaygroundError(failed.what, failed.got, failed.hint), language)
    return {"text": told["text"], "hint": told["hint"]}


# --- events ----------------------------------------------------------------------------------------


def watch(playground: Playground, owner: str, value: object, language: str) -> Iterator[tuple]:
    """Start a run and yield (lesson, picker) as it goes on. Closing the iterator, as Gradio does when the page
    goes, stops the run."""
    try:
        run = playground.workshop.start(owner, job_of(value, playground.workshop.limits))
    except PlaygroundError as error:
        told = notice(error, language)
        yield update({"error": {"text": told["text"], "hint": told["hint"]}}), gr.skip()
        return
    have = (0, 0)
    try:
        while True:
            over = run.over  # before what is new is read, so that nothing after it is missed
            piece = piece_payload(run, language, have)
            have = (have[0] + len(piece["reports"]), have[1] + len(piece["snapshots"]))
            yield update(piece), gr.skip()
            if over:
                break
            time.sleep(_EVERY)
            run.wait(_PAUSED)
    finally:
        run.tell("stop")
    yield gr.skip(), gr.Dropdown(choices=playground.choices(owner))


def again(playground: Playground, owner: str, value: object, language: str) -> gr.HTML:
    """What a page lacks of a run of its own."""
    run = own_run(playground, owner, value)
    if run is None:
        return gr.skip()
    have = tuple(n if isinstance(n := value.get(key), int) and n >= 0 else 0 for key in ("reports", "snapshots"))
    return update(piece_payload(run, language, have))


def own_run(playground: Playground, owner: str, value: object) -> LiveRun | None:
    """The run that a page means, if it is that visitor's."""
    number = value.get("run") if isinstance(value, dict) else None
    return next((run for run in playground.workshop.of(owner) if run.id == number), None)


def archive(run: LiveRun) -> bytes:
    """config.json, model.safetensors and tokenizer.json as a zip file."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_STORED) as file:
        for name in ("config.json", "model.safetensors", "tokenizer.json"):
            file.write(run.folder / name, name)
    return buffer.getvalue()


def wire(parts: Mapping[str, gr.HTML], shared: Shared) -> None:
    """The events of the channel."""
    playground, lesson = shared.playground, parts["lesson"]
    quiet = {"show_progress": "hidden", "api_visibility": "private"}

    def start(request: gr.Request, value):
        yield from watch(playground, request.session_hash, value, shared.language_of(request))

    def wish(name: str):
        def tell(request: gr.Request, value):
            run = own_run(playground, request.session_hash, value)
            if run is not None:
                run.tell(name)

        return tell

    def lacking(request: gr.Request, value):
        return again(playground, request.session_hash, value, shared.language_of(request))

    def show(request: gr.Request, value, old):
        run = own_run(playground, request.session_hash, value)
        if run is None or run.tokenizer is None:
            return
        text = run.tokenizer.decode(run.started.ids)
        for told, loaded, _, wanted in choose_model(playground, run.model_id, old, shared.language_of(request)):
            done = "opened" in loaded  # else it is a skip
            yield (
                told,
                loaded,
                gr.Dropdown(choices=playground.choices(request.session_hash), value=run.model_id)
                if done
                else gr.skip(),
                wanted,
                text if done else gr.skip(),
                gr.Tabs(selected="attention") if done else gr.skip(),
            )

    lesson.start(start, [lesson], [lesson, shared.picker], concurrency_limit=8, **quiet)
    for name in ("pause", "resume", "stop"):
        getattr(lesson, name)(wish(name), [lesson], None, concurrency_limit=None, **quiet)
    lesson.again(lacking, [lesson], [lesson], concurrency_limit=4, **quiet)
    lesson.open(
        show,
        [lesson, shared.loaded],
        [shared.told, shared.loaded, shared.picker, shared.wanted, shared.prompt, shared.tabs],
        **quiet,
    )


def draw(scene: Scene, values: Mapping[str, object]) -> dict[str, Picture]:
    """Nothing here depends on the prompt; the form is drawn again where this server's bounds are others."""
    limits, words = scene.playground.workshop.limits, scene.words
    if limits.minutes <= 0:
        closed = {
            "text": translate("Training is switched off on this server.", scene.language),
            "hint": translate("Run the app on your own machine.", scene.language),
        }
        return {"training": Picture("off", lambda: {"empty": closed})}
    if dataclasses.replace(limits, minutes=Limits.minutes) == Limits():
        return {}
    return {"training": Picture(limits, lambda: form(words, limits))}


TAB = Tab("training", build, fixed, draw, parts=("training_question", "training_howto", "training"), wire=wire)
