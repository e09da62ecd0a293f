"""From steps to a tool's names and numbers: what every tool's module shares."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

from model.errors import Message, say
from model.sampling.phrases import ids_in, lines_of
from model.sampling.pipeline import Step
from model.sampling.settings.reading import OFF, OFF_NUMBERS, Key, Window
from model.sampling.settings.records import Exported
from model.sampling.warps import WARPS, WINDOW, values_of


@dataclass
class Writer:
    """Steps in a tool's names, with notes about what the tool cannot say."""

    tool: str
    label: str
    notes: list[str] = field(default_factory=list)

    def note(self, sentence: Message) -> None:
        """Add a sentence about what cannot be said, once."""
        if sentence not in self.notes:
            self.notes.append(sentence)

    def kept(self, steps: Sequence[Step], known: Sequence[str]) -> list[Step]:
        """Return the steps that the tool has, each once, without those that change nothing; note the others."""
        kept: dict[str, Step] = {}
        for step in steps:
            if (step.warp in OFF and OFF[step.warp](values_of(step))) or (step.warp == "fits" and step.rule is None):
                continue
            if step.warp not in known:
                self.note(say("{} has no step {}; it is left out.", self.label, step.warp))
            elif step.warp in kept:
                self.note(say("{} has {} only once; the first is written.", self.label, step.warp))
            else:
                kept[step.warp] = step
        return list(kept.values())

    def in_order(self, steps: Sequence[Step], order: Sequence[str]) -> None:
        """Note the tool's own order if the steps have another one."""
        warps = [step.warp for step in steps]
        own = sorted(warps, key=order.index)
        if warps != own:
            self.note(say("{} runs them in its own order: {}.", self.label, ", ".join(own)))

    def numbers(self, steps: Sequence[Step], keys: Sequence[Key]) -> dict[str, float | int]:
        """Write the numbers of the steps, and turn off what the tool would do if nothing were written."""
        values = {step.warp: values_of(step) for step in steps}
        written: dict[str, float | int] = {}
        for key in keys:
            if key.warp in values:
                written[key.names[0]] = neat(values[key.warp][key.parameter] / key.unit)
            elif key.parameter in OFF_NUMBERS and key.names[0] not in written:
                off = OFF_NUMBERS[key.parameter]
                filled = {each.name: each.default for each in WARPS[key.warp].parameters} | {key.parameter: key.default}
                if not OFF[key.warp](filled):
                    written[key.names[0]] = off
        return written

    def windows(self, steps: Sequence[Step], windows: Sequence[Window]) -> dict[str, int]:
        """Write the windows; note penalties that share one in the tool but not here."""
        written = {}
        for window in windows:
            own = {step.warp: int(values_of(step)["window"]) for step in steps if step.warp in window.warps}
            if not own:
                continue
            said = {warp: window.whole if n in (0, WINDOW.high) else n for warp, n in own.items()}
            if len(set(said.values())) > 1:
                self.note(say("{} has one {} for all of: {}.", self.label, window.names[0], ", ".join(own)))
            if any(own.get(warp) == 0 for warp in ("presence_penalty", "frequency_penalty")):
                self.note(say("{} counts the tokens of the prompt, too.", self.label))
            written[window.names[0]] = next(iter(said.values()))
        return written

    def rule(self, steps: Sequence[Step], kinds: Collection[str]) -> tuple[str, str]:
        """Return the kind and the text of the rule, ("", "") without one that the tool has; note another kind."""
        for step in steps:
            if step.rule is not None and step.rule.kind in kinds:
                return step.rule.kind, step.rule.text
            if step.rule is not None:
                self.note(say("{} has no rule of the kind {}; it is left out.", self.label, step.rule.kind))
        return "", ""

    def words(self, step: Step) -> list[str]:
        """Return the words of a step that takes phrases, without token ids; note phrases that have no text."""
        if step.phrases and not step.text:
            self.note(say("The words of {} are known as tokens only; they are left out.", step.warp))
        return [line for line in lines_of(step.text) if not ids_in(line)]

    def banned(self, step: Step) -> list[tuple[int, ...]]:
        """Return the token sequences of banned words; note words that have not been tokenized."""
        if step.phrases:
            self.note(say("Banned tokens are named by this model's ids."))
            return list(step.phrases)
        lines = lines_of(step.text)
        if not all(map(ids_in, lines)):
            self.note(say("Words need a model's tokenizer to be banned in {}; they are left out.", self.label))
        return [ids for ids in map(ids_in, lines) if ids]

    def banned_ids(self, steps: Sequence[Step], words: bool = True) -> list[int]:
        """Return the tokens that are banned alone; note those in a row. `words`: also those of words, not only ids."""
        found = [step for step in steps if step.warp == "banned_words"]
        if words:
            rows = [ids for step in found for ids in self.banned(step)]
        else:
            rows = [ids for step in found for ids in map(ids_in, lines_of(step.text)) if ids]
        if any(len(ids) > 1 for ids in rows):
            self.note(say("{} can ban single tokens only; several in a row are left out.", self.label))
        return [ids[0] for ids in rows if len(ids) == 1]

    def result(self, text: str) -> Exported:
        """Return the text with the notes."""
        return Exported(self.tool, text, tuple(self.notes))


def neat(value: float) -> float | int:
    """Return a number without the noise of its last digits, whole ones as integers."""
    value = float(f"{value:.12g}")
    return int(value) if value == int(value) else value


def biases(steps: Sequence[Step]) -> tuple[tuple[int, float | int], ...]:
    """Return the (token id, number) pairs of the logit bias."""
    return tuple((token, neat(bias)) for step in steps if step.warp == "logit_bias" for token, bias in step.tokens)
