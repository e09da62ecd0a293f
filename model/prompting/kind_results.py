"""The measured number of prompts of each known kind that a built-in model continues correctly.

    python -m model.prompting.kind_results tinygpt smollm2-135m

measures the prompts of `prompts()` by greedy decoding and writes kind_results.json. A test measures TinyGPT again.
"""

import functools
import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from model.api import LanguageModel, load_model
from model.prompting.kinds import KINDS, data

FILE = Path(__file__).with_name("kind_results.json")
CONVERSATION = "conversation"  # questions in the chat template
LONG, SHORT = 24, 8  # new tokens for the answer to a question, and for any other prompt


@dataclass(frozen=True)
class KindResult:
    """The number of prompts of one kind that a model continued correctly."""

    right: int
    of: int

    @property
    def able(self) -> bool:
        """True if the model is said to be able: at least two thirds are right."""
        return 3 * self.right >= 2 * self.of


@dataclass(frozen=True)
class KindCase:
    """A prompt to measure, and the beginnings of a correct continuation."""

    kind: str
    text: str
    answers: tuple[str, ...]


def prompts() -> tuple[KindCase, ...]:
    """Return all prompts to measure, sorted by kind."""
    listed = [
        KindCase(kind, text, tuple(answers.split("|")))
        for kind, pairs in data()["prompts"].items()
        for text, answers in pairs
    ]
    return tuple(sorted([*listed, *_givers(), *_repeats(), *_sums()], key=lambda case: KINDS.index(case.kind)))


def _givers() -> list[KindCase]:
    pairs = [
        ("Mary", "John"),
        ("Tom", "Lily"),
        ("Anna", "Peter"),
        ("Sarah", "James"),
        ("Alice", "Bob"),
        ("Emma", "Paul"),
    ]
    frames = (
        "When {a} and {b} went to the store, {b} gave a drink to",
        "After {a} and {b} went to the park, {b} gave a ball to",
        "Then, {a} and {b} had a long talk. Afterwards {b} said goodbye to",
        "{b} and {a} were working at the office. {b} decided to give a snack to",
    )
    return [KindCase("indirect_object", frame.format(a=a, b=b), (a,)) for frame in frames for a, b in pairs]


def _repeats() -> list[KindCase]:
    names = ("Mrs Pemberton", "old Mr Quill", "the blue robot", "my uncle Fergus", "the captain")
    deeds = (
        ("keeps seven grey geese", "behind", "the mill"),
        ("paints a wooden boat", "under", "the bridge"),
        ("carries nine heavy lamps", "around", "the harbor"),
        ("sings very quiet songs", "beside", "the oven"),
    )
    return [
        KindCase("repeated", f"Today {name} {deed} {where} {place}, and tomorrow {name} {deed}", (where,))
        for name in names
        for deed, where, place in deeds
    ]


def _sums() -> list[KindCase]:
    added = ((2, 3), (4, 4), (7, 6), (9, 8), (12, 15), (17, 25), (34, 48), (61, 29), (125, 250), (348, 217))
    sums = [KindCase("arithmetic", f"{a} + {b} =", (str(a + b),)) for a, b in added]
    sums += [KindCase("arithmetic", f"{b + 9} - {a} =", (str(b + 9 - a),)) for a, b in added[:6]]
    return sums + [KindCase("arithmetic", f"{a} * {b} =", (str(a * b),)) for a, b in added[:6]]


def is_right(case: KindCase, continuation: str) -> bool:
    """Return whether a continuation begins with an answer or, after a question, contains one."""
    text = continuation.strip()
    if case.kind == "question":
        return any(_word_in(answer, text) for answer in case.answers)
    return any(text.startswith(answer) and not _goes_on(answer, text) for answer in case.answers)


def _goes_on(answer: str, text: str) -> bool:
    """Return whether the word or number at the answer's end is longer in the text; Chinese has no spaces."""
    after = text[len(answer) : len(answer) + 1]
    return answer[-1].isalnum() and answer.isascii() and after.isascii() and (after.isalnum() or after == "_")


def _word_in(answer: str, text: str) -> bool:
    """Return whether a text contains an answer as a whole word, in any case."""
    words = "".join(letter if letter.isalnum() else " " for letter in text.lower()).split()
    return answer.lower() in words or (" " in answer and answer.lower() in text.lower())


def greedy_text(lm: LanguageModel, prompt: str | Sequence[int], length: int) -> str:
    """Continue a prompt, text or token ids, greedily by up to `length` tokens, and return the new text."""
    changes = [tick.changes[0] for tick in lm.generate(prompt, "greedy", length)]
    return lm.decode([token.id for change in changes if change for token in change.made])


def measure(lm: LanguageModel, cases: Sequence[KindCase]) -> dict[str, KindResult]:
    """Continue all prompts greedily, and count the correct ones of each kind.

    A model with a chat template gets each question a second time, as a conversation: CONVERSATION.
    """
    counts = {kind: [0, 0] for kind in (*KINDS, CONVERSATION)}
    for case in cases:
        asked = {case.kind: greedy_text(lm, case.text, LONG if case.kind == "question" else SHORT)}
        if case.kind == "question" and lm.tokenizer.chat_template:
            turns = lm.chat([{"role": "user", "content": case.text}])
            asked[CONVERSATION] = greedy_text(lm, turns.ids.tolist(), LONG)
        for kind, text in asked.items():
            counts[kind][0] += is_right(case, text)
            counts[kind][1] += 1
    return {kind: KindResult(*each) for kind, each in counts.items() if each[1]}


@functools.cache
def results() -> dict[str, dict[str, KindResult]]:
    """Read the stored results: {model id: {kind: result}}."""
    stored = json.loads(FILE.read_text(encoding="utf-8"))
    return {model: {kind: KindResult(*pair) for kind, pair in kinds.items()} for model, kinds in stored.items()}


def able_models(kind: str) -> tuple[str, ...]:
    """Return the ids of the built-in models that are able to do this kind, the best first."""
    able = [(model, found[kind]) for model, found in results().items() if kind in found and found[kind].able]
    return tuple(model for model, found in sorted(able, key=lambda pair: -pair[1].right / pair[1].of))


def main(models: Sequence[str]) -> None:
    """Measure models and write the file."""
    measured = {model: measure(load_model(model), prompts()) for model in models}
    rows = {model: {kind: [each.right, each.of] for kind, each in found.items()} for model, found in measured.items()}
    lines = [f"  {json.dumps(model)}: {json.dumps(row)}" for model, row in rows.items()]
    FILE.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
