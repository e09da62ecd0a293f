"""The ReAct loop: the model generates a thought and an action, the tool runs, and its output is appended to the text.

Yao et al. 2022, "ReAct: Synergizing Reasoning and Acting in Language Models".
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from model.prompting.tools import CALL, Tool, observe, parse_call

MOST_STEPS = 4  # maximum number of tool calls per question
OBSERVATION = "\nObservation:"  # where generation stops and the tool's output is inserted
STOPS = (OBSERVATION, "\nQuestion:", "\n\n")

Write = Callable[[Sequence[str], Sequence[int]], list[str]]  # (prompts, indices of their questions) -> continuations


@dataclass(frozen=True)
class TranscriptStep:
    """A section of a transcript and its author."""

    by: Literal["model", "tool"]
    text: str


@dataclass(frozen=True)
class Episode:
    """The transcript of one question and its answer."""

    answer: str  # "" if the episode did not finish
    steps: tuple[TranscriptStep, ...]
    ended: Literal["finished", "no action", "too many steps"]

    @property
    def calls(self) -> int:
        """The number of tool calls."""
        return sum(step.by == "tool" for step in self.steps)


def run(prompts: Sequence[str], write: Write, tools: Mapping[str, Tool], most: int = MOST_STEPS) -> list[Episode]:
    """Answer all questions in parallel; each prompt ends where the first thought begins.

    In each round, `write` continues all unfinished texts in one call. Only the first tool call of a continuation
    counts: everything the model generated after it, such as an invented observation, is discarded. The tool's actual
    observation is appended before the next round. An episode ends after `most` calls.
    """
    texts = list(prompts)
    steps: list[list[TranscriptStep]] = [[] for _ in prompts]
    ended: dict[int, Episode] = {}
    while alive := [at for at in range(len(texts)) if at not in ended]:
        for at, new in zip(alive, write([texts[at] for at in alive], alive), strict=True):
            own, call = first_call(new)
            steps[at].append(TranscriptStep("model", own))
            calls = sum(step.by == "tool" for step in steps[at])
            if call is None:
                ended[at] = Episode("", tuple(steps[at]), "no action")
            elif call[0] == "finish":
                ended[at] = Episode(call[1], tuple(steps[at]), "finished")
            elif calls == most:
                ended[at] = Episode("", tuple(steps[at]), "too many steps")
            else:
                observation = f"{OBSERVATION} {observe(tools, call)}\n"
                steps[at].append(TranscriptStep("tool", observation))
                texts[at] += own + observation
    return [ended[at] for at in range(len(texts))]


def first_call(text: str) -> tuple[str, tuple[str, str] | None]:
    """Return a text up to the closing bracket of its first tool call, and that call. If there is no call, return the
    complete text and None.
    """
    text = text.partition(OBSERVATION)[0]
    match = CALL.search(text)
    return (text[: match.end()], parse_call(match[0])) if match else (text, None)
