"""Fine-tune: a model learns to answer from examples of instructions and answers, while one watches."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from model.alignment.example_sets import SETS
from model.alignment.instructions import (
    TEMPLATE,
    Example,
    check_template,
    end_of,
    has_end,
    parse_examples,
    prompt_text,
    to_ids,
)
from model.alignment.lora import MATRICES, Lora
from model.alignment.tuning import RATE, TuneJob, default_recipe, token_losses
from model.errors import InputError, say
from model.training.jobs.job import MOST_SEED, RATES, Limits
from viz.seam.jobs.live_runs import about, again, failure, follow, own_run, wish
from viz.seam.programs.endpoint import Endpoint
from viz.seam.scene import Scene
from viz.seam.settings import Choice, Number, Range, Settings, Text, read_all
from viz.seam.view import Custom, Event, Measure, Models, Open, Payload, Seen, Steady, Stream, Table, View, Visit
from viz.theme import RAMPS
from viz.views.assistant.fine_tune.figures import losses_payload, snapshot_payload, tokens_payload
from viz.words import Words, section, translate, words
from viz.work.processes.training_process import LiveRun

OWN = "own"
MOST_TEXT = 60_000  # characters of one's own examples
SHOWN = 6  # examples in the table
RANKS = ("1", "2", "4", "8", "16", "32")
METHODS = ("lora", "full")
_SMALL = Limits()


def as_it_is(words: object, option: str) -> str:
    """Return an option that is a number is its own label."""
    return option


SET = Choice("set", (*SETS, OWN))
EXAMPLES = Text("examples", max_length=MOST_TEXT + 1, lines=6, when={"set": (OWN,)}, file=".jsonl,.json,.txt")
TEMPLATE_TEXT = Text("template", TEMPLATE, max_length=1001, lines=3)
SETTINGS = (
    SET,
    EXAMPLES,
    TEMPLATE_TEXT,
    Choice("method", METHODS),
    Choice("rank", RANKS, default="8", when={"method": ("lora",)}, label=as_it_is),
    Range("alpha", 1, 256, 1, 16, {"method": ("lora",)}, "number"),
    Choice("matrices", tuple(MATRICES), when={"method": ("lora",)}),
    Number("steps", 1, _SMALL.steps, default_recipe(True).steps),
    Number("batch", 1, _SMALL.batch, default_recipe(True).batch),
    Range("rate", 0.0, RATES[1], 0, 0.0, kind="number", blank=True),  # 0: what suits the method
    Number("seed", 0, MOST_SEED, 0),
    Number("shown", 1, 2000, 1),
)

LEARNED = ("set", "examples", "template")  # what decides the examples


# --- the examples ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Examples:
    """The examples that are learned from."""

    rows: tuple[Example, ...]
    prompts: tuple[str, ...]  # the first ones, filled in


def examples_of(settings: Settings) -> tuple[Example, ...]:
    """Return the examples that the settings name; raises InputError for lines that are none."""
    if settings.set != OWN:
        return tuple(SETS[settings.set]())
    if len(settings.examples) > MOST_TEXT:
        hint = say("At most {} bytes.", f"{MOST_TEXT:,}")
        raise InputError("The text is too large for this server.", f"{len(settings.examples):,}", hint)
    if not settings.examples.strip():
        raise InputError("There are no examples yet.", "", "Paste JSON lines, or open a file of them.")
    return tuple(parse_examples(settings.examples))


def measure_examples(scene: Scene, settings: Settings) -> Examples:
    """Return the examples of the chosen set, and the first of them in the template."""
    check_template(settings.template)
    rows = examples_of(settings)
    return Examples(rows, tuple(prompt_text(each, settings.template) for each in rows[:SHOWN]))


def table(seen: Seen) -> Payload:
    """Return the first examples as prompt and answer."""
    words, found = seen.here, seen.result
    rows = [[prompt, each.output] for prompt, each in zip(found.prompts, found.rows, strict=False)]
    return {
        "title": words["title"].format(n=len(found.rows)),
        "about": words["about"],
        "columns": [words["prompt"], words["answer"]],
        "rows": rows,
        "lines": [[each.instruction, each.input, each.output] for each in found.rows],
        "file": "examples",
    }


# --- what is scored --------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Masked:
    """The losses of one example, token by token."""

    pieces: tuple[str, ...]  # [T]
    prompt: int  # so many of them are the prompt, whose losses do not count
    losses: np.ndarray  # nats of each token after the first. float32 [T - 1]


def measure_masked(scene: Scene, settings: Settings) -> Masked:
    """Return the losses of one example under the loaded model. Raises InputError for a bad template."""
    check_template(settings.template)
    rows = examples_of(settings)
    one = rows[min(int(settings.shown), len(rows)) - 1]
    return masked(scene, one, settings.template)


def masked(scene: Scene, example: Example, template: str) -> Masked:
    """Return the losses of an example in a template under the loaded model; what does not fit its context
    is left out.
    """
    tokenizer = scene.model.tokenizer
    ids, prompt = to_ids(example, tokenizer, end_of(tokenizer) if has_end(tokenizer) else None, template)
    ids = ids[: min(scene.model.config.n_ctx, scene.limit)]
    return Masked(tuple(tokenizer.piece(n) for n in ids), prompt, token_losses(scene.model.model, ids))


def masked_part(seen: Seen) -> Payload:
    """Return the example's tokens: gray where nothing is scored, colored by their loss in the answer."""
    words, found = seen.here, seen.result
    return losses_payload(found.pieces, found.prompt, found.losses, words.plain()) | {
        "title": words["title"],
        "note": words["note"],
        "file": "masked-loss",
    }


# --- the run ---------------------------------------------------------------------------------------


def measure_limits(scene: Scene, settings: Settings) -> Limits:
    """Return the limits of this server's trainings."""
    return scene.playground.workshop.limits


def lab(seen: Seen) -> Payload:
    """Return the words of the run; or that this server trains nothing."""
    if seen.result.minutes > 0:
        return first_lab(seen.words)
    language = seen.facts.language
    closed = ("Training is switched off on this server.", "Run the app on your own machine.")
    text, hint = (translate(sentence, language) for sentence in closed)
    return {"empty": {"text": text, "hint": hint}}


def first_lab(here: Words) -> Payload:
    """Return the run's words."""
    catalogue = here.catalogue
    shared = {name: text for name, text in section(catalogue, "training.lab").items() if isinstance(text, str)}
    return {"ramps": {name: list(stops) for name, stops in RAMPS.items()}} | {
        "words": shared | here.within("masked").plain() | here.within("lab").plain()
    }


def job_of(visit: Visit) -> TuneJob:
    """Return the job that the form asks for. Raises InputError for examples, a template or a model that
    cannot be used.
    """
    settings = read_all(SETTINGS, visit.values.get("fine_tune_form"), None)
    adapted = settings.method == "lora"
    recipe = default_recipe(adapted)
    rate = settings.rate or RATE[adapted]
    return TuneJob(
        source=visit.playground.weights_of(visit.model_id),
        name=settings.set,
        examples=examples_of(settings),
        template=settings.template,
        lora=Lora(int(settings.rank), float(settings.alpha), settings.matrices) if adapted else None,
        recipe=replace(
            recipe,
            steps=int(settings.steps),
            batch=int(settings.batch),
            learning_rate=max(rate, RATES[0]),
            warmup=min(recipe.warmup, int(settings.steps)),
            seed=int(settings.seed),
        ),
        minutes=visit.playground.workshop.limits.minutes,
    )


def piece_payload(run: LiveRun, language: str, have: tuple[int, int]) -> Payload:
    """Return the new parts of a run for a page that has so many reports and snapshots."""
    view = Words(words(language), "fine_tune")
    here, learned = view.within("lab"), view[f"settings.set_{run.job.name}"]
    reports, snapshots = run.reports[have[0] :], run.snapshots[have[1] :]
    method = here["full"] if run.job.lora is None else here["lora"].format(rank=run.job.lora.rank)
    piece = about(run, have) | {
        "label": f"{run.job.source.label} · {learned} · {method} · {run.job.recipe.steps}",
        "reports": [[r.step, r.loss, r.learning_rate, r.gradient_norm, r.tokens, r.seconds] for r in reports],
        "snapshots": [snapshot_payload(snapshot) for snapshot in snapshots],
    }
    if run.state == "failed":
        piece["error"] = failure(run, language)
    if run.state == "diverged":
        step = run.snapshots[-1].step if run.snapshots else 0
        kept = min(reversed(run.snapshots[:-1]), key=lambda each: each.loss).step  # as model/alignment/tuning.py does
        piece["error"] = {"text": here["diverged"].format(step=step), "hint": here["diverged_hint"].format(step=kept)}
    if run.started and run.tokenizer:
        started = run.started
        piece |= {
            "example": tokens_payload([run.tokenizer.piece(n) for n in started.ids], started.prompt),
            "before": {
                "model": run.job.source.model_id,
                "prompt": prompt_text(started.questions[0], run.job.template),
            },
            "questions": [[prompt_text(each, run.job.template), each.output] for each in started.questions],
            "facts": here["facts"].format(
                learned=f"{started.n_learned:,}",
                params=f"{started.n_params:,}",
                share=f"{100 * started.n_learned / started.n_params:.2g}",
                train=started.learned_from,
                held=started.held_out,
                left=started.left_out,
                length=started.length,
            ),
        }
    return piece


def start(visit: Visit, sent: object) -> Iterator[Payload | Models]:
    """Start a run and yield pieces as it goes on. Closing the iterator stops the run."""
    yield from follow(visit, job_of(visit), piece_payload)


def open_model(visit: Visit, sent: object) -> Iterator[Open]:
    """Show the first held-out prompt on the tuned model."""
    run = own_run(visit, sent, TuneJob)
    if run is not None and run.started is not None:
        yield Open(run.model_id, prompt_text(run.started.questions[0], run.job.template), "attention")


TUNING = Stream(
    "tuning",
    "feed",
    {
        "start": Event(start),
        "pause": wish("pause", TuneJob),
        "resume": wish("resume", TuneJob),
        "stop": wish("stop", TuneJob),
        "again": again(TuneJob, piece_payload),
        "open": Event(open_model),
    },
)


# --- for programs ----------------------------------------------------------------------------------


def masked_losses(scene: Scene, instruction: str, output: str, input: str = "", template: str = TEMPLATE) -> dict:
    """How an example of fine-tuning is scored: the loss of each token, and which of them count.

    Args:
        instruction: What is asked.
        output: The answer.
        input: What the instruction is about; may be empty.
        template: How the prompt is written: {instruction}, {input}, and [[ ]] around what is left out without an input.

    Returns:
        tokens: for each token its text, whether it is scored, and its loss (nats), null for the first. loss: the mean
        over those that are scored. prompt: how many tokens the prompt has. What does not fit the model's context is
        left out.
    """
    check_template(template)
    if not instruction or not output:
        raise InputError("An example has an instruction and an answer.", "", "Give both.")
    found = masked(scene, Example(instruction, input, output), template)
    losses, scored = [None, *found.losses.tolist()], found.losses[found.prompt - 1 :]
    rows = [
        {"text": piece, "scored": at >= found.prompt, "loss": loss}
        for at, (piece, loss) in enumerate(zip(found.pieces, losses, strict=True))
    ]
    return {"tokens": rows, "loss": float(scored.mean()) if len(scored) else None, "prompt": found.prompt}


VIEW = View(
    "fine_tune",
    layout=("form", "lab", "masked", "table"),
    settings=SETTINGS,
    measures=(
        Measure("examples", measure_examples, depends=(), settings=LEARNED, locks=False),
        Measure("scored", measure_masked, depends=("model", "limit"), settings=(*LEARNED, "shown")),
        Measure("limits", measure_limits, depends=(), locks=False),
    ),
    parts={
        "lab": Steady("tuning", lab, "limits", first_lab),
        "masked": Custom("maskedloss", masked_part, "scored", settings=()),
        "table": Table(table, "examples", settings=()),
    },
    streams=(TUNING,),
    api=(Endpoint(masked_losses),),
)
