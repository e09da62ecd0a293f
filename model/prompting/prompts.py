"""Construction of prompts from a question: examples, their order and labels, chains of thought, tool calls, chat
messages.

A prompt is a program for the model that processes it. Everything here maps text to text; no model runs.
"""

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from model.prompting.answers import ANSWER_IS
from model.prompting.question_sets import Question, QuestionGroup, QuestionSet, WorkedQuestion
from model.prompting.tools import Tool, observe, parse_call
from model.public import MOST_SEED, public, whole

STEP_BY_STEP = " Let's think step by step."  # chain of thought without examples; Kojima et al. 2022
MOST_EXAMPLES = 64
STRATEGIES = ("zero", "few", "chain", "votes", "react", "chat", "system")


@public(count=whole(0, MOST_EXAMPLES), order=whole(0, MOST_SEED))
@dataclass(frozen=True)
class Shots:
    """The selection of examples that precede a question."""

    count: int = 4
    order: int = 0  # 0 keeps the set's order; any other number is the seed of a random selection and order
    shuffled: bool = False  # True to permute the answers among the examples (Min et al. 2022)


def chosen_examples(group: QuestionGroup, shots: Shots) -> tuple[WorkedQuestion, ...]:
    """Select the examples of a group in order, with their answers permuted if `shots.shuffled`.

    The permutation is a single random cycle: if all answers differ, every example gets a wrong one.
    """
    rng = random.Random(f"{shots.order} {shots.count}")
    examples = list(group.examples)
    if shots.order:
        rng.shuffle(examples)
    examples = examples[: shots.count]
    if shots.shuffled and len(examples) > 1:
        ring = rng.sample(range(len(examples)), len(examples))
        answers = {at: examples[ring[n - 1]].answer for n, at in enumerate(ring)}
        examples = [WorkedQuestion(each.text, answers[at]) for at, each in enumerate(examples)]
    return tuple(examples)


def few_shot(question_set: QuestionSet, examples: Sequence[WorkedQuestion], question: Question) -> str:
    """Build a few-shot prompt: instruction, examples with their answers, and the question; zero-shot if there are no
    examples.
    """
    solved = [f"{_framed(question_set, each.text)} {each.answer}" for each in examples]
    return _with_instruction(question_set, [*solved, _framed(question_set, question.text)])


def chain_of_thought(question_set: QuestionSet, examples: Sequence[WorkedQuestion], question: Question) -> str:
    """Build a few-shot prompt with worked solutions (Wei et al. 2022), or one that asks the model to think step by
    step if there are no examples.
    """
    solved = [f"{_framed(question_set, each.text)} {each.worked} {ANSWER_IS} {each.answer}." for each in examples]
    last = _framed(question_set, question.text)
    return _with_instruction(question_set, [*solved, last] if solved else [f"{last}{STEP_BY_STEP}"])


def react(
    question_set: QuestionSet, examples: Sequence[WorkedQuestion], question: Question, tools: Mapping[str, Tool]
) -> str:
    """Build a prompt that alternates thoughts, actions and observations (Yao et al. 2022). The tools compute the
    observations of the examples.
    """
    solved = []
    for each in examples:
        call = parse_call(each.call)
        if call is None:
            raise ValueError(f"an example calls no tool: {each.call!r}")
        lines = [f"Question: {each.text}", f"Thought: {each.thought}", f"Action: {each.call}"]
        lines += [f"Observation: {observe(tools, call)}", f"Action: finish[{each.answer}]"]
        solved.append("\n".join(lines))
    return "\n\n".join([*solved, f"Question: {question.text}\nThought:"])


def messages(question_set: QuestionSet, question: Question, system: str = "") -> list[dict[str, str]]:
    """Build the chat messages for a question; if `system` is empty, the set's instruction precedes the question.

    Otherwise `system` is the system message, and the user's message is only the question.
    """
    if system:
        return [{"role": "system", "content": system}, {"role": "user", "content": question.text}]
    return [{"role": "user", "content": f"{question_set.instruction} {question.text}".strip()}]


def system_prompt(question_set: QuestionSet) -> str:
    """Build the system message of a set: its instruction, and a request for a short answer."""
    what = "number" if question_set.kind == "number" else "word"
    return f"{question_set.instruction} Answer with one {what} and nothing else.".strip()


def fits(strategy: str, question_set: QuestionSet) -> bool:
    """Return whether a set has what a strategy needs: worked examples, tool calls, or an instruction."""
    needs = {"chain": question_set.chains, "votes": question_set.chains, "react": question_set.tools}
    needs |= dict.fromkeys(("chat", "system"), bool(question_set.instruction))
    return needs.get(strategy, True)


def _framed(question_set: QuestionSet, text: str) -> str:
    return question_set.frame.replace("{question}", text)


def _with_instruction(question_set: QuestionSet, parts: Sequence[str]) -> str:
    body = question_set.join.join(parts)
    return f"{question_set.instruction}\n\n{body}" if question_set.instruction else body
