"""Accuracy of prompt variants: several strategies answer the same question set."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from model.api import LanguageModel
from model.errors import InputError
from model.progress import Progress, silent
from model.prompting import prompts as prompt_builders
from model.prompting import react
from model.prompting.answers import Vote, is_right, read_answer, vote
from model.prompting.choices import Asked, choice_log_probs
from model.prompting.prompts import STRATEGIES, Shots
from model.prompting.question_sets import Question, QuestionGroup, QuestionSet
from model.prompting.tools import toolbox
from model.prompting.writing import WritingSettings, write
from model.public import MOST_SEED, between, nonempty, one_of, public, whole
from model.shares import wilson

SCORES = ("sum", "mean", "text")
BY_CHOICE = ("zero", "few")  # strategies whose answers can be chosen by log-probability; all others need generated text
TOKENS = {
    "zero": 12,
    "few": 12,
    "chain": 96,
    "votes": 96,
    "react": 64,
    "chat": 24,
    "system": 24,
}  # maximum number of generated tokens per answer


@public(
    strategy=one_of(STRATEGIES),
    score=one_of(SCORES),
    samples=whole(1, 64),
    temperature=between(0.01, 10),
    seed=whole(0, MOST_SEED),
)
@dataclass(frozen=True)
class Variant:
    """A prompting strategy with its settings. Raises InputError if the strategy is unknown or a number is out of
    range.
    """

    strategy: str
    shots: Shots = field(default_factory=Shots)
    score: Literal["sum", "mean", "text"] = "sum"  # how zero-shot and few-shot prompts score their choices
    samples: int = 5  # number of samples for self-consistency
    temperature: float = 0.7  # sampling temperature for self-consistency
    system: str = ""  # the system message; "" for the set's default
    seed: int = 0

    @property
    def examples(self) -> int:
        """The number of examples in the variant's prompts."""
        return 0 if self.strategy in ("zero", "chat", "system") else self.shots.count


@dataclass(frozen=True)
class Answered:
    """The model's answer to one question, and the data it was derived from."""

    question: Question
    prompt: str
    said: str  # the extracted or selected answer; "" if there is no answer
    right: bool
    written: str = ""  # the generated text
    scores: tuple[float, ...] = ()  # log-probability of each choice, in nats or nats per token
    samples: tuple[str, ...] = ()  # sampled texts of self-consistency
    votes: Vote | None = None
    episode: react.Episode | None = None


@dataclass(frozen=True)
class VariantRow:
    """The answers of one variant to all questions."""

    variant: Variant
    answers: tuple[Answered, ...]

    @property
    def right(self) -> tuple[bool, ...]:
        """One entry per question: True if its answer is correct."""
        return tuple(each.right for each in self.answers)

    @property
    def share(self) -> float:
        """The accuracy: the fraction of correct answers."""
        return sum(self.right) / len(self.right)

    @property
    def interval(self) -> tuple[float, float]:
        """The 95% confidence interval of the accuracy: Wilson 1927."""
        return wilson(self.share, len(self.right))


@dataclass(frozen=True, eq=False)
class AccuracyCurve:
    """Accuracy of few-shot prompts as a function of the number of examples."""

    counts: tuple[int, ...]
    questions: int
    shares: np.ndarray  # [2 for right and shuffled answers, counts, orders] float64


def answered(
    lm: LanguageModel, asked: QuestionSet, variant: Variant, most: int = 1000, progress: Progress = silent
) -> VariantRow:
    """Answer the first `most` questions of a set under one variant. `progress` counts questions.

    Raises InputError if the set lacks what the strategy needs, the model has no chat template, or a prompt exceeds the
    context.
    """
    if not prompt_builders.fits(variant.strategy, asked):
        hint = "Choose another strategy or another set."
        raise InputError("This set does not have what this strategy needs.", f"{asked.key}, {variant.strategy}", hint)
    total = min(most, len(asked.questions))
    answers: list[Answered] = []
    for group in asked.groups:
        questions = group.questions[: total - len(answers)]

        def report(done: int, all_: int | None, what: str, before: int = len(answers), n: int = len(questions)) -> None:
            progress(before + n * done // (all_ or 1), total, what)

        if questions:
            answers += _of_group(lm, asked, group, questions, variant, report)
    return VariantRow(variant, tuple(answers))


@public(variants=nonempty, most=whole(1))
def trial(
    lm: LanguageModel,
    asked: QuestionSet,
    variants: Sequence[Variant],
    most: int = 1000,
    progress: Progress = silent,
) -> list[VariantRow]:
    """Run `answered` for several variants; `progress` counts the total number of questions."""
    rows: list[VariantRow] = []
    total = min(most, len(asked.questions))
    for variant in variants:

        def report(done: int, all_: int | None, what: str, before: int = len(rows) * total) -> None:
            progress(before + done, len(variants) * total, what)

        rows.append(answered(lm, asked, variant, most, report))
    return rows


@public(counts=nonempty, orders=whole(1), score=one_of(SCORES), most=whole(1))
def curve(
    lm: LanguageModel,
    asked: QuestionSet,
    counts: Sequence[int],
    orders: int = 3,
    score: Literal["sum", "mean", "text"] = "sum",
    most: int = 1000,
    progress: Progress = silent,
) -> AccuracyCurve:
    """Measure accuracy as a function of the number of examples, in several orders, with correct and with shuffled
    answers.

    The prompt without examples runs only once, because it has no answers to shuffle. `progress` counts questions.
    """
    n = min(most, len(asked.questions))
    shots = [
        (labels, at, order, Shots(count, order, bool(labels)))
        for labels in (0, 1)
        for at, count in enumerate(counts)
        for order in range(orders)
        if count > labels or (not count and not order and not labels)
    ]
    shares = np.full((2, len(counts), orders), np.nan)
    for done, (labels, at, order, chosen) in enumerate(shots):

        def report(part: int, all_: int | None, what: str, before: int = done * n) -> None:
            progress(before + part, len(shots) * n, what)

        shares[labels, at, order] = answered(lm, asked, Variant("few", chosen, score), most, report).share
    for at, count in enumerate(counts):
        if not count:
            shares[:, at] = shares[0, at, 0]
        elif count == 1:
            shares[1, at] = np.nan  # a single answer cannot be shuffled
    return AccuracyCurve(tuple(counts), n, shares)


# --- one group of questions under one variant -----------------------------------------------------------------------


def _of_group(
    lm: LanguageModel,
    question_set: QuestionSet,
    group: QuestionGroup,
    questions: Sequence[Question],
    variant: Variant,
    progress: Progress,
) -> list[Answered]:
    examples = prompt_builders.chosen_examples(group, variant.shots) if variant.examples else ()
    if variant.strategy == "react":
        return _react(lm, question_set, examples, questions, progress)
    if variant.strategy in ("chat", "system"):
        return _chat(lm, question_set, questions, variant, progress)
    build = prompt_builders.few_shot if variant.strategy in BY_CHOICE else prompt_builders.chain_of_thought
    texts = [build(question_set, examples, question) for question in questions]
    if variant.strategy in BY_CHOICE and variant.score != "text" and question_set.choosable:
        return _chosen(lm, questions, texts, variant, progress)
    ids = [_ids(lm, text) for text in texts]
    if variant.strategy == "votes":
        return _voted(lm, question_set, questions, texts, ids, variant, progress)
    written = write(lm, ids, WritingSettings(TOKENS[variant.strategy], _stops(question_set, variant)), progress)
    return _read(question_set, questions, texts, written, chain=variant.strategy == "chain")


def _ids(lm: LanguageModel, text: str) -> list[int]:
    return lm.encode(text).ids.tolist()


def _stops(question_set: QuestionSet, variant: Variant) -> tuple[str, ...]:
    """Return the strings that end an answer: a line break or, in a chain of thought, the next question."""
    return ("\n",) if variant.strategy in BY_CHOICE else ("\n\n", "\n" + question_set.frame.partition("{")[0])


def _chosen(
    lm: LanguageModel, questions: Sequence[Question], texts: Sequence[str], variant: Variant, progress: Progress
) -> list[Answered]:
    """Answer each question with the choice of highest log-probability, in total or per token; ties go to the first
    choice.
    """
    rows = [
        Asked(tuple(_ids(lm, text)), tuple(tuple(lm.tokenizer.encode_ids(f" {choice}")) for choice in question.choices))
        for question, text in zip(questions, texts, strict=True)
    ]
    log_probs = choice_log_probs(lm.model, rows, lm.tokenizer.vocab_size, progress)
    answers = []
    for question, text, by_choice in zip(questions, texts, log_probs, strict=True):
        scores = [sum(each) / (len(each) if variant.score == "mean" else 1) for each in by_choice]
        reply = question.choices[int(np.argmax(scores))]
        answers.append(Answered(question, text, reply, is_right(reply, question), scores=tuple(scores)))
    return answers


def _read(
    question_set: QuestionSet,
    questions: Sequence[Question],
    texts: Sequence[str],
    written: Sequence[str],
    *,
    chain: bool,
) -> list[Answered]:
    """Extract the answers from the generated texts."""
    answers = []
    for question, text, new in zip(questions, texts, written, strict=True):
        reply = _answer(question_set, question, new, chain=chain)
        answers.append(Answered(question, text, reply, is_right(reply, question), new))
    return answers


def _answer(question_set: QuestionSet, question: Question, text: str, *, chain: bool) -> str:
    return read_answer(text, question_set.kind, (*question.right, *question.choices), chain=chain)


def _voted(
    lm: LanguageModel,
    question_set: QuestionSet,
    questions: Sequence[Question],
    texts: Sequence[str],
    ids: Sequence[list[int]],
    variant: Variant,
    progress: Progress,
) -> list[Answered]:
    """Sample several chains of thought per question, and answer by majority vote."""
    n = variant.samples
    writing = WritingSettings(TOKENS["votes"], _stops(question_set, variant), variant.temperature, variant.seed)
    written = write(lm, [each for each in ids for _ in range(n)], writing, progress)
    answers = []
    for at, (question, text) in enumerate(zip(questions, texts, strict=True)):
        samples = tuple(written[at * n : (at + 1) * n])
        votes = vote([_answer(question_set, question, each, chain=True) for each in samples])
        right = is_right(votes.answer, question)
        answers.append(Answered(question, text, votes.answer, right, samples=samples, votes=votes))
    return answers


def _react(
    lm: LanguageModel, question_set: QuestionSet, examples: Sequence, questions: Sequence[Question], progress: Progress
) -> list[Answered]:
    """Answer all questions together in the ReAct loop."""
    tools = toolbox(dict(question_set.table))
    texts = [prompt_builders.react(question_set, examples, question, tools) for question in questions]
    rounds = react.MOST_STEPS + 1

    def continued(prompts: Sequence[str], which: Sequence[int]) -> list[str]:
        nonlocal round_

        def report(done: int, all_: int | None, what: str) -> None:
            progress(round_ * len(questions) + done * len(questions) // (all_ or 1), rounds * len(questions), what)

        new = write(lm, [_ids(lm, text) for text in prompts], WritingSettings(TOKENS["react"], react.STOPS), report)
        round_ += 1
        return new

    round_ = 0
    answers = []
    for question, text, episode in zip(questions, texts, react.run(texts, continued, tools), strict=True):
        reply = _answer(question_set, question, episode.answer, chain=False)
        written = "".join(step.text for step in episode.steps)
        answers.append(Answered(question, text, reply, is_right(reply, question), written, episode=episode))
    return answers


def _chat(
    lm: LanguageModel, question_set: QuestionSet, questions: Sequence[Question], variant: Variant, progress: Progress
) -> list[Answered]:
    """Answer the questions through the model's chat template, with or without a system message."""
    system = ""
    if variant.strategy == "system":
        system = variant.system.strip() or prompt_builders.system_prompt(question_set)
    ids = chat_prompts(lm, [prompt_builders.messages(question_set, question, system) for question in questions])
    texts = [lm.decode(each) for each in ids]
    written = write(lm, ids, WritingSettings(TOKENS[variant.strategy]), progress)
    return _read(question_set, questions, texts, written, chain=False)


def chat_prompts(lm: LanguageModel, conversations: Sequence[list[dict[str, str]]]) -> list[list[int]]:
    """Tokenize conversations that differ only in their last message.

    Rendering a template starts a separate process, which is slow. So it is rendered only once if the text around the
    last message can be separated from the message itself.
    """
    first = conversations[0]
    ids, turns = lm.chat(first).ids.tolist(), lm.turns(first).tolist()
    last = len(first) - 1
    own = [at for at, turn in enumerate(turns) if turn == last]
    if not own:
        return [lm.chat(each).ids.tolist() for each in conversations]
    head, tail = ids[: own[0]], ids[own[-1] + 1 :]

    def put_together(conversation: list[dict[str, str]]) -> list[int]:
        return [*head, *lm.tokenizer.encode_ids(conversation[last]["content"]), *tail]

    if put_together(first) != ids:
        return [lm.chat(each).ids.tolist() for each in conversations]
    return [put_together(each) for each in conversations]
