"""The fine-tuning view: training on instruction-answer pairs, with live updates."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial

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
from viz.numbers import decimals
from viz.seam.jobs.live_runs import about, failure, follow, own_run, reconnect, returning, wish
from viz.seam.jobs.stored_runs import shown
from viz.seam.programs.endpoint import Endpoint
from viz.seam.scene import Scene
from viz.seam.settings import Choice, Number, Range, Settings, Text, read_all
from viz.seam.view import Custom, Event, Measure, ModelsChanged, Open, Payload, Seen, Steady, Stream, Table, View, Visit
from viz.theme import RAMPS
from viz.views.assistant.fine_tune.figures import losses_payload, snapshot_payload, tokens_payload
from viz.views.assistant.glance import Stage, fold, glance_of_training, title_after
from viz.words import Words, section, translate, words
from viz.work.processes.training_process import LiveRun

OWN = "own"
MOST_TEXT = 60_000  # maximum number of characters of the visitor's own examples
SHOWN = 6  # number of examples in the table
RANKS = ("1", "2", "4", "8", "16", "32")
METHODS = ("lora", "full")
_SMALL = Limits()


def as_it_is(words: object, option: str) -> str:
    """Return a numeric option as its own label."""
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
    Range("rate", 0.0, RATES[1], 0, 0.0, kind="number", blank=True),  # 0: the method's default
    Number("seed", 0, MOST_SEED, 0),
    Number("shown", 1, 2000, 1),
)

LEARNED = ("set", "examples", "template")  # the settings that determine the examples


# --- the examples ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Examples:
    """The training examples, and the prompts of the first few."""

    rows: tuple[Example, ...]
    prompts: tuple[str, ...]  # prompts of the first examples, built from the template


def examples_of(settings: Settings) -> tuple[Example, ...]:
    """Load the selected examples.

    Raises InputError if the visitor's own examples are empty, too large or malformed.
    """
    if settings.set != OWN:
        return tuple(SETS[settings.set]())
    if len(settings.examples) > MOST_TEXT:
        hint = say("At most {} bytes.", f"{MOST_TEXT:,}")
        raise InputError("The text is too large for this server.", f"{len(settings.examples):,}", hint)
    if not settings.examples.strip():
        raise InputError("Examples are missing.", "", "Paste JSON lines, or open a file of them.")
    return tuple(parse_examples(settings.examples))


def measure_examples(scene: Scene, settings: Settings) -> Examples:
    """Load the selected examples and build the prompts of the first SHOWN.

    Raises InputError for an invalid template.
    """
    check_template(settings.template)
    rows = examples_of(settings)
    return Examples(rows, tuple(prompt_text(each, settings.template) for each in rows[:SHOWN]))


def table(seen: Seen) -> Payload:
    """Build the table of the first examples, with columns for the prompt and the answer."""
    words, examples = seen.here, seen.result
    rows = [[prompt, each.output] for prompt, each in zip(examples.prompts, examples.rows, strict=False)]
    return {
        "title": words["title"].format(n=len(examples.rows)),
        "about": words["about"],
        "columns": [words["prompt"], words["answer"]],
        "rows": rows,
        "lines": [[each.instruction, each.input, each.output] for each in examples.rows],
        "file": "examples",
    }


# --- the scored tokens -----------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Masked:
    """The per-token losses of one example."""

    pieces: tuple[str, ...]  # [T]
    prompt: int  # number of prompt tokens, which are not scored
    losses: np.ndarray  # loss of each token after the first, in nats. float32 [T - 1]


def measure_masked(scene: Scene, settings: Settings) -> Masked:
    """Compute the per-token losses of the selected example under the loaded model.

    Raises InputError for an invalid template.
    """
    check_template(settings.template)
    rows = examples_of(settings)
    one = rows[min(int(settings.shown), len(rows)) - 1]
    return masked(scene, one, settings.template)


def masked(scene: Scene, example: Example, template: str) -> Masked:
    """Compute the per-token losses of an example under the loaded model, truncated to the model's context."""
    tokenizer = scene.model.tokenizer
    ids, prompt = to_ids(example, tokenizer, end_of(tokenizer) if has_end(tokenizer) else None, template)
    ids = ids[: min(scene.model.config.n_ctx, scene.limit)]
    return Masked(tuple(tokenizer.piece(n) for n in ids), prompt, token_losses(scene.model.model, ids))


def masked_part(seen: Seen) -> Payload:
    """Build the payload of the example's tokens: prompt tokens gray, answer tokens colored by their loss."""
    words, example = seen.here, seen.result
    return losses_payload(example.pieces, example.prompt, example.losses, words.plain()) | {
        "title": words["title"],
        "note": words["note"],
        "file": "masked-loss",
    }


# --- the run ---------------------------------------------------------------------------------------


def measure_limits(scene: Scene, settings: Settings) -> Limits:
    """Return this server's limits on training runs."""
    return scene.playground.workshop.limits


def lab(seen: Seen) -> Payload:
    """Build the run panel's payload, or a notice if training is disabled on this server."""
    language = seen.facts.language
    if seen.result.minutes > 0:
        return first_lab(seen.words) | shown(seen.view, language, piece_payload)
    closed = ("Training is disabled on this server.", "Run the app on your own machine.")
    text, hint = (translate(sentence, language) for sentence in closed)
    return {"empty": {"text": text, "hint": hint}}


def first_lab(texts: Words) -> Payload:
    """Build the run panel's payload before the server's limits are known: color ramps and words."""
    catalogue = texts.catalogue
    shared = {name: text for name, text in section(catalogue, "training.lab").items() if isinstance(text, str)}
    return {"ramps": {name: list(stops) for name, stops in RAMPS.items()}} | {
        "words": shared
        | texts.within("masked").plain()
        | texts.within("lab").plain()
        | {"more": texts.catalogue["glance.more"]}
    }


def job_of(visit: Visit) -> TuneJob:
    """Build the training job from the form.

    Raises InputError if the examples, the template or the model are unusable.
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
    """Build the update of a run for a page that already has `have`: (number of reports, number of snapshots)."""
    view = Words(words(language), "fine_tune")
    texts, learned = view.within("lab"), view[f"settings.set_{run.job.name}"]
    reports, snapshots = run.reports[have[0] :], run.snapshots[have[1] :]
    method = texts["full"] if run.job.lora is None else texts["lora"].format(rank=run.job.lora.rank)
    piece = about(run, have) | {
        "label": f"{run.job.source.label} · {learned} · {method} · {run.job.recipe.steps}",
        "reports": [[r.step, r.loss, r.learning_rate, r.gradient_norm, r.tokens, r.seconds] for r in reports],
        "snapshots": [snapshot_payload(snapshot) for snapshot in snapshots],
        "glance": glance_of(run, language),
    }
    if run.state == "failed":
        piece["error"] = failure(run, language)
    if run.state == "diverged":
        step = run.snapshots[-1].step if run.snapshots else 0
        # The same criterion as in model/alignment/tuning.py.
        kept = min(reversed(run.snapshots[:-1]), key=lambda each: each.loss).step
        piece["error"] = {"text": texts["diverged"].format(step=step), "hint": texts["diverged_hint"].format(step=kept)}
    if run.started and run.tokenizer:
        started = run.started
        piece |= {
            "example": tokens_payload([run.tokenizer.piece(n) for n in started.ids], started.prompt),
            "before": {
                "model": run.job.source.model_id,
                "prompt": prompt_text(started.questions[0], run.job.template),
            },
            "questions": [[prompt_text(each, run.job.template), each.output] for each in started.questions],
            "facts": texts["facts"].format(
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


def glance_of(run: LiveRun, language: str) -> Payload | None:
    """Build the numbers and texts of a run from its first and its latest answers to the four prompts; None without
    answers.
    """
    answered = [each for each in run.snapshots if each.four]
    if not answered:
        return None
    first, last = answered[0], answered[-1]
    here = Words(words(language), "glance")
    titles = here["before"], title_after(here, last.step)
    stage = Stage("loss", first.loss, last.loss, titles, prompt=2, form=partial(decimals, places=3))
    return glance_of_training(language, stage, first.four, last.four)


def start(visit: Visit, sent: object) -> Iterator[Payload | ModelsChanged]:
    """Start a run and yield its updates. The run stops if its page does not return."""
    yield from follow(visit, job_of(visit), piece_payload)


def open_model(visit: Visit, sent: object) -> Iterator[Open]:
    """Open the fine-tuned model on the first held-out prompt."""
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
        "again": reconnect(TuneJob, piece_payload),
        "return": returning(TuneJob, piece_payload),
        "open": Event(open_model),
    },
)


# --- for programs ----------------------------------------------------------------------------------


def masked_losses(scene: Scene, instruction: str, output: str, input: str = "", template: str = TEMPLATE) -> dict:
    """Compute the loss of each token of a fine-tuning example, and mark the tokens that are scored.

    Args:
        instruction: The instruction.
        output: The answer.
        input: The input of the instruction; may be empty.
        template: The template of the prompt, with {instruction}, {input}, and [[ ]] around the part that is omitted if
            the input is empty.

    Returns:
        tokens: each token's text, whether it is scored, and its loss (nats), null for the first. loss: the mean over
        the scored tokens. prompt: the number of prompt tokens. Tokens beyond the model's context are omitted.
    """
    check_template(template)
    if not instruction or not output:
        raise InputError("An example has an instruction and an answer.", "", "Give both.")
    example = masked(scene, Example(instruction, input, output), template)
    losses, scored = [None, *example.losses.tolist()], example.losses[example.prompt - 1 :]
    rows = [
        {"text": piece, "scored": at >= example.prompt, "loss": loss}
        for at, (piece, loss) in enumerate(zip(example.pieces, losses, strict=True))
    ]
    return {"tokens": rows, "loss": float(scored.mean()) if len(scored) else None, "prompt": example.prompt}


VIEW = View(
    "fine_tune",
    layout=("lab", "form", "fold", "masked", "table"),
    settings=SETTINGS,
    measures=(
        Measure("examples", measure_examples, depends=(), settings=LEARNED, locks=False),
        Measure("scored", measure_masked, depends=("model", "limit"), settings=(*LEARNED, "shown")),
        Measure("limits", measure_limits, depends=(), locks=False),
    ),
    parts={
        "lab": Steady("tuning", lab, "limits", first_lab),
        "fold": fold("examples", "fine_tune_masked", "fine_tune_table"),
        "masked": Custom("maskedloss", masked_part, "scored", settings=()),
        "table": Table(table, "examples", settings=()),
    },
    streams=(TUNING,),
    api=(Endpoint(masked_losses),),
)
