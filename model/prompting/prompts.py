"""From a question to a prompt: examples, their order and labels, chains of thought, calls of tools, chat templates.

A prompt is a program for the model that reads it. Everything here is text in, text out; no model runs.
"""

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from model.prompting.answers import ANSWER_IS
from model.prompting.question_sets import Example, Group, Question, QuestionSet
from model.prompting.tools import Tool, observe, parse_call
from model.public import MOST_SEED, public, whole

STEP_BY_STEP = " Let's think step by step."  # a chain of thought without examples: Kojima et al. 2022
MOST_EXAMPLES = 64
STRATEGIES = ("zero", "few", "chain", "votes", "react", "chat", "system")


@public(count=whole(0, MOST_EXAMPLES), order=whole(0, MOST_SEED))
@dataclass(frozen=True)
class Shots:
    """Which examples stand before a question."""

    count: int = 4
    order: int = 0  # 0: as in the set; any other number shuffles which ones are taken and how they stand
    shuffled: bool = False  # whether the answers are dealt out anew among the examples (Min et al. 2022)


def chosen_examples(group: Group, shots: Shots) -> tuple[Example, ...]:
    """Return the examples of a group in their order, their answers dealt out anew where they are shuffled.

    Shuffled answers go round by one place in a random order, so that, where all answers differ, none is right.
    """
    rng = random.Random(f"{shots.order} {shots.count}")
    examples = list(group.examples)
    if shots.order:
        rng.shuffle(examples)
    examples = examples[: shots.count]
    if shots.shuffled and len(examples) > 1:
        ring = rng.sample(range(len(examples)), len(examples))
        answers = {at: examples[ring[n - 1]].answer for n, at in enumerate(ring)}
        examples = [Example(each.text, answers[at]) for at, each in enumerate(examples)]
    return tuple(examples)


def few_shot(asked: QuestionSet, examples: Sequence[Example], question: Question) -> str:
    """Return instruction, examples with their answers, and the question; without examples, a zero-shot prompt."""
    solved = [f"{_framed(asked, each.text)} {each.answer}" for each in examples]
    return _whole(asked, [*solved, _framed(asked, question.text)])


def chain_of_thought(asked: QuestionSet, examples: Sequence[Example], question: Question) -> str:
    """Return the same with the way to each answer (Wei et al. 2022); without examples, a request to think
    step by step.
    """
    solved = [f"{_framed(asked, each.text)} {each.worked} {ANSWER_IS} {each.answer}." for each in examples]
    last = _framed(asked, question.text)
    return _whole(asked, [*solved, last] if solved else [f"{last}{STEP_BY_STEP}"])


def react(asked: QuestionSet, examples: Sequence[Example], question: Question, tools: Mapping[str, Tool]) -> str:
    """Return thought, action and observation in turn (Yao et al. 2022); the observations of examples are
    computed, too.
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


def messages(asked: QuestionSet, question: Question, system: str = "") -> list[dict[str, str]]:
    """Return the question for a chat template: what is asked of the model stands before it, or in a system message.

    With `system`, that text is the system message and the user's message the question alone.
    """
    if system:
        return [{"role": "system", "content": system}, {"role": "user", "content": question.text}]
    return [{"role": "user", "content": f"{asked.instruction} {question.text}".strip()}]


def system_prompt(asked: QuestionSet) -> str:
    """Return the system message of a set: its instruction, and that the answer shall be short."""
    what = "number" if asked.kind == "number" else "word"
    return f"{asked.instruction} Answer with one {what} and nothing else.".strip()


def fits(strategy: str, asked: QuestionSet) -> bool:
    """Return whether a set has what a strategy needs: worked examples, calls of tools, or an instruction."""
    needs = {"chain": asked.chains, "votes": asked.chains, "react": asked.tools}
    needs |= dict.fromkeys(("chat", "system"), bool(asked.instruction))
    return needs.get(strategy, True)


def _framed(asked: QuestionSet, text: str) -> str:
    return asked.frame.replace("{question}", text)


def _whole(asked: QuestionSet, parts: Sequence[str]) -> str:
    body = asked.join.join(parts)
    return f"{asked.instruction}\n\n{body}" if asked.instruction else body
