"""Supervised fine-tuning as a job: examples, recipe, and periodic snapshots.

The loss covers only the answers, as in Ouyang et al. 2022, section 3.1, who fine-tune on demonstrations;
instructions.py masks the prompts. All randomness is determined by the recipe's seed and the step.
"""

import math
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from model.alignment import instructions, lora
from model.alignment.adapter_files import peft_files
from model.alignment.example_sets import SETS
from model.alignment.four_prompts import FourAnswers, Story, answer_four
from model.alignment.instructions import TEMPLATE, Example
from model.alignment.lora import Lora, learned, merged
from model.api import open_resolved
from model.errors import CheckpointError, InputError
from model.generation.generate import generate
from model.generation.strategies import STRATEGIES, DecodingPlan
from model.gpt.mixers.needs import need_next
from model.gpt.transformer import Transformer
from model.loading.checkpoint import build
from model.loading.sources import Resolved
from model.loading.vocabulary_export import vocabulary_files
from model.text.chat import ending
from model.text.tokenizer import Tokenizer
from model.training import loop
from model.training.jobs.job import MOST_SEED, RATES, Limits, check_bounds
from model.training.jobs.running_job import DIVERGED, Finished, RunningJob
from model.training.loop import Recipe, Report, TrainingRun

MOST_EXAMPLES = 2000  # maximum number of examples
SNAPSHOTS = 10  # approximate number of snapshots in a run
PROMPTS = 4  # number of held-out prompts answered at each snapshot
WRITTEN = 40  # maximum new tokens of an answer
QUICK = 20_000_000  # maximum block parameters for answers at each snapshot, not only the first and last
WORST = 1.3  # a run has diverged if its loss exceeds this multiple of max(ln V, initial loss)
RATE = {False: 5e-4, True: 5e-3}  # {with adapters: learning rate}, chosen for TinyGPT


def default_recipe(adapted: bool) -> Recipe:
    """Return a recipe that visibly changes TinyGPT within minutes. Its `length` is a maximum: rows are only as long as
    the longest example.
    """
    return Recipe(steps=60, batch=16, length=512, learning_rate=RATE[adapted], warmup=5, weight_decay=0.0)


@dataclass(frozen=True, kw_only=True)
class TuneJob:
    """A model and its training examples. Without `lora` all weights are trained."""

    source: Resolved
    name: str = "own"  # name of the examples: a key of SETS, or "own"
    examples: tuple[Example, ...] = ()
    template: str = TEMPLATE
    lora: Lora | None = None
    recipe: Recipe = field(default_factory=lambda: default_recipe(False))  # its `length` is the maximum length of a row
    minutes: float = 20.0


@dataclass(frozen=True, eq=False)
class TuneStarted:
    """Facts about a run, known once the examples are tokenized."""

    n_params: int
    n_learned: int  # parameters that are trained
    learned_from: int  # number of training examples
    held_out: int
    left_out: int  # number of examples too long for a row
    length: int  # length of a row, in tokens
    ids: tuple[int, ...]  # tokens of the held-out example whose losses are shown
    prompt: int  # length of its prompt, in tokens
    questions: tuple[Example, ...]  # held-out examples answered at each snapshot
    seconds: float  # duration of the preparation


@dataclass(frozen=True, eq=False)
class TuneSnapshot:
    """Evaluation of the model at one step of its fine-tuning."""

    step: int
    loss: float  # nats per token of held-out answers
    train_loss: float  # the same for a sample of the training examples
    accuracy: float  # top-1 accuracy on held-out answers
    bits_per_byte: float  # loss on an unrelated story, as a measure of forgetting
    losses: np.ndarray  # loss of each token of the example after the first, in nats; float32 [T - 1]
    answers: tuple[tuple[str, str], ...]  # (greedy answer, answer sampled at temperature 0.8) per question; or empty
    four: FourAnswers | None  # answers to the four prompts of every stage; None when `answers` is empty


def check(job: TuneJob, limits: Limits) -> None:
    """Raise InputError for settings beyond the limits; the model's size is checked after loading."""
    recipe = job.recipe
    for what, value, low, high in (
        ("examples", len(job.examples), 2, MOST_EXAMPLES),
        ("rows a step", recipe.batch, 1, limits.batch),
        ("steps", recipe.steps, 1, limits.steps),
        ("warm-up steps", recipe.warmup, 0, limits.steps),
        ("minutes", job.minutes, 0.01, limits.minutes),
        ("learning rate", recipe.learning_rate, *RATES),
        ("seed", recipe.seed, 0, MOST_SEED),
    ):
        check_bounds(what, value, low, high)
    instructions.check_template(job.template)


def name_of(job: TuneJob) -> str:
    """Return the name of the trained model: the base model's label plus the name of the examples."""
    return f"{job.source.label} + {job.name}" if job.name in SETS else f"{job.source.label} + own examples"


# --- the run ---------------------------------------------------------------------------------------


@dataclass(eq=False)
class Tuning:
    """A fine-tuning run in progress: the model, its tokenized examples, and the evaluation data."""

    run: TrainingRun
    recipe: Recipe
    tokenizer: Tokenizer
    train: list[tuple[list[int], int]]  # rows of instructions.to_ids
    held_out: list[tuple[list[int], int]]
    questions: tuple[Example, ...]
    template: str
    adapted: bool
    story: Story  # the text on which forgetting is measured
    reference: Transformer  # the model before training; it shares the frozen weights

    @property
    def end(self) -> int:
        """The token that ends an answer."""
        return instructions.end_of(self.tokenizer)


def open_job(job: TuneJob, limits: Limits) -> RunningJob:
    """Load the model and prepare the job. Raises InputError for a model too large for this server."""
    began = time.perf_counter()
    model, tokenizer = open_resolved(job.source)
    most = limits.full_parameters if job.lora is None else limits.adapted_parameters
    size = lora.count(model.parameters())
    if size > most:
        hint = "Use LoRA, or a smaller model." if job.lora is None else "Choose a smaller model."
        raise InputError("This model is too large to be fine-tuned on this server.", f"{size:,} parameters", hint)
    length = min(limits.length, model.config.n_ctx)
    tuning = begin(model, tokenizer, replace(job, recipe=replace(job.recipe, length=length)))
    check_bounds("tokens a step", tuning.recipe.batch * tuning.recipe.length, 1, limits.batch_tokens)
    ids, prompt = tuning.held_out[0]
    started = TuneStarted(
        size,
        lora.count(learned(tuning.run.model)),
        len(tuning.train),
        len(tuning.held_out),
        len(job.examples) - len(tuning.train) - len(tuning.held_out),
        tuning.recipe.length,
        tuple(ids),
        prompt,
        tuning.questions,
        time.perf_counter() - began,
    )
    return RunningJob(
        started,
        messages(tuning),
        lambda: snapshot(tuning),
        lambda: merged(tuning.run.model) if tuning.adapted else tuning.run.model,
        vocabulary_files(job.source),
        peft_files(tuning.run.model, job.lora, job.source.label),
    )


def begin(model: Transformer, tokenizer: Tokenizer, job: TuneJob) -> Tuning:
    """Prepare a new run; adapters are added to the model in place. Raises InputError for unusable examples."""
    need_next(model.config)
    end, longest = instructions.end_of(tokenizer), min(job.recipe.length, model.config.n_ctx)
    parts = instructions.split(job.examples, seed=job.recipe.seed)
    train, held_out = (instructions.fitting(part, tokenizer, end, longest, job.template) for part in parts)
    recipe = replace(job.recipe, length=max(len(ids) for ids, _ in (*train, *held_out)) - 1)
    weights = model.state_dict() if job.lora else {name: each.clone() for name, each in model.state_dict().items()}
    reference = build(model.config, weights)
    run = loop.from_model(model, recipe) if job.lora is None else lora.start(model, job.lora, recipe)
    questions, story = tuple(_different(parts[1])[:PROMPTS]), Story.of(tokenizer)
    adapted = job.lora is not None
    return Tuning(run, recipe, tokenizer, train, held_out, questions, job.template, adapted, story, reference)


def _different(examples: Sequence[Example]) -> list[Example]:
    """Sort the examples so that the first example of each instruction comes before the repeats."""
    seen: set[str] = set()
    first = [each for each in examples if not (each.instruction in seen or seen.add(each.instruction))]
    return [*first, *(each for each in examples if each not in first)]


def messages(tuning: Tuning) -> Iterator[Report | TuneSnapshot | Finished]:
    """Train to the end of the recipe, yielding a report per step and about SNAPSHOTS snapshots, the first before any
    step.

    If the loss diverges, the weights of the snapshot with the lowest held-out loss are restored and the run ends.
    """
    run, recipe = tuning.run, tuning.recipe
    every = max(1, round(recipe.steps / SNAPSHOTS))
    moments = {*range(every, recipe.steps + 1, every), recipe.steps}
    best = snapshot(tuning)
    yield best
    good, worst = _copy(run.model), most_loss(run.model.config.vocab_size, max(best.loss, best.train_loss))
    for report in loop.steps(run, recipe, instructions.demonstrations(tuning.train, tuning.end)):
        yield report
        gone = ran_away(report, worst)
        if not gone and report.step in moments:
            current = snapshot(tuning)
            gone = not current.loss <= worst  # also true for a NaN loss
            if not gone:
                yield current
                if current.loss <= best.loss:
                    best, good = current, _copy(run.model)
        if gone:
            _restore(run.model, good)
            yield snapshot(tuning)
            yield Finished(DIVERGED)
            return


def most_loss(vocab_size: int, first: float) -> float:
    """Compute the loss above which a run has diverged, for a model whose initial loss was `first`."""
    return WORST * max(math.log(vocab_size), first)


def ran_away(report: Report, worst: float) -> bool:
    """Return whether a step's loss or gradient is not finite, or the loss exceeds `worst`."""
    return not (math.isfinite(report.loss) and math.isfinite(report.gradient_norm)) or report.loss > worst


def _copy(model: Transformer) -> list[Tensor]:
    return [parameter.detach().clone() for parameter in learned(model)]


@torch.no_grad()
def _restore(model: Transformer, good: list[Tensor]) -> None:
    for parameter, value in zip(learned(model), good, strict=True):
        parameter.copy_(value)


# --- evaluations -----------------------------------------------------------------------------------


def snapshot(tuning: Tuning) -> TuneSnapshot:
    """Evaluate the current model: held-out and training losses, forgetting, and answers."""
    model, recipe = tuning.run.model, tuning.recipe
    model.eval()
    evaluations = {
        name: loop.evaluate(
            model,
            instructions.every_demonstration(rows, tuning.end),
            tuning.story.sizes,
            length=recipe.length,
            rows=recipe.batch,
            limit=2,
        )
        for name, rows in (("held_out", tuning.held_out), ("train", tuning.train))
    }
    ends = tuning.run.step in (0, recipe.steps) or model.config.n_layer * model.config.d_model**2 * 12 < QUICK
    return TuneSnapshot(
        tuning.run.step,
        evaluations["held_out"].loss,
        evaluations["train"].loss,
        evaluations["held_out"].accuracy,
        tuning.story.bits(model),
        token_losses(model, tuning.held_out[0][0]),
        answers(tuning) if ends else (),
        answer_four(model, tuning.reference, tuning.tokenizer, tuning.story) if ends else None,
    )


@torch.no_grad()
def token_losses(model: Transformer, ids: Sequence[int]) -> np.ndarray:
    """Compute −ln p of each token after the first, given the preceding tokens, in nats. ids [T] -> float32 [T - 1]"""
    logits = model(torch.tensor([ids[:-1]]))[0].float()
    return F.cross_entropy(logits, torch.tensor(ids[1:]), reduction="none").numpy()


def answers(tuning: Tuning) -> tuple[tuple[str, str], ...]:
    """Generate two answers to each question: the greedy one, and one sampled with the same random numbers at every
    call.
    """
    return tuple(answer(tuning.run.model, tuning.tokenizer, each, tuning.template) for each in tuning.questions)


def answer(
    model: Transformer, tokenizer: Tokenizer, question: Example, template: str, seed: int = 0
) -> tuple[str, str]:
    """Generate two continuations of a prompt: a greedy one, and one sampled at temperature 0.8."""
    prompt = instructions.prompt_ids(question, tokenizer, template)
    end = frozenset({instructions.end_of(tokenizer), *ending(tokenizer)})
    strategies = [STRATEGIES["greedy"], STRATEGIES["temperature"]]
    texts: tuple[list[int], list[int]] = [], []
    try:
        for tick in generate(model, prompt, strategies, DecodingPlan(WRITTEN, 0, ending=end), tokenizer.vocab_size):
            for text, change in zip(texts, tick.changes, strict=True):
                text += [token.id for token in change.made if token.id not in end] if change else []
    except CheckpointError:  # the run has diverged: such a model generates no text
        pass
    greedy, drawn = (tokenizer.decode(text).strip() for text in texts)
    return greedy, drawn
