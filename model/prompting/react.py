"""The loop of ReAct: the model writes a thought and an action, the tool is really called, the model reads what it said.

Yao et al. 2022, "ReAct: Synergizing Reasoning and Acting in Language Models".
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from model.prompting.tools import CALL, Tool, observe, parse_call

MOST_STEPS = 4  # calls of tools
OBSERVATION = "\nObservation:"  # where the model stops writing, and the tool speaks
STOPS = (OBSERVATION, "\nQuestion:", "\n\n")

Write = Callable[[Sequence[str], Sequence[int]], list[str]]  # (prompts, which questions these are) -> what follows each


@dataclass(frozen=True)
class Step:
    """A stretch of a transcript and who wrote it."""

    by: Literal["model", "tool"]
    text: str


@dataclass(frozen=True)
class Episode:
    """One question worked on."""

    answer: str  # "" where it did not finish
    steps: tuple[Step, ...]
    ended: Literal["finished", "no action", "too many steps"]

    @property
    def calls(self) -> int:
        """How often a tool was called."""
        return sum(step.by == "tool" for step in self.steps)


def run(prompts: Sequence[str], write: Write, tools: Mapping[str, Tool], most: int = MOST_STEPS) -> list[Episode]:
    """Work on all questions side by side; each prompt ends where the first thought begins.

    In each round `write` continues the texts that are not finished, all in one call. Only a text's first call counts:
    everything that the model wrote after it, such as an invented observation, is cut off. The tool's real observation
    is put into the text before the next round. After `most` calls an episode ends.
    """
    texts = list(prompts)
    steps: list[list[Step]] = [[] for _ in prompts]
    ended: dict[int, Episode] = {}
    while alive := [at for at in range(len(texts)) if at not in ended]:
        for at, new in zip(alive, write([texts[at] for at in alive], alive), strict=True):
            own, call = first_call(new)
            steps[at].append(Step("model", own))
            calls = sum(step.by == "tool" for step in steps[at])
            if call is None:
                ended[at] = Episode("", tuple(steps[at]), "no action")
            elif call[0] == "finish":
                ended[at] = Episode(call[1], tuple(steps[at]), "finished")
            elif calls == most:
                ended[at] = Episode("", tuple(steps[at]), "too many steps")
            else:
                said = f"{OBSERVATION} {observe(tools, call)}\n"
                steps[at].append(Step("tool", said))
                texts[at] += own + said
    return [ended[at] for at in range(len(texts))]


def first_call(text: str) -> tuple[str, tuple[str, str] | None]:
    """Return a text up to and with the bracket that closes its first call, and that call; all of it where there is
    none.
    """
    text = text.partition(OBSERVATION)[0]
    found = CALL.search(text)
    return (text[: found.end()], parse_call(found[0])) if found else (text, None)
