"""From a tool's names and numbers to steps: what every tool's module shares."""

import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from model.errors import InputError, Message, plain, say
from model.sampling.phrases import ids_in
from model.sampling.pipeline import MOST_BIAS, Step
from model.sampling.settings.records import Imported
from model.sampling.warps import WARPS, WINDOW

Numbers = dict[str, dict[str, float]]  # {warp: {parameter: number}}

BREAKERS = '\\n\n:\n"\n*'  # DRY's breakers in llama.cpp and text-generation-webui, as lines of a step's text
# For each warp, whether its numbers leave every distribution as it is.
OFF: Mapping[str, Callable[[Mapping[str, float]], bool]] = {
    "temperature": lambda n: n["temperature"] == 1,
    "dynamic_temperature": lambda n: n["spread"] <= 0,
    "smoothing": lambda n: n["factor"] <= 0,
    "top_k": lambda n: n["k"] <= 0,
    "top_p": lambda n: n["p"] >= 1,
    "min_p": lambda n: n["min_p"] <= 0,
    "top_a": lambda n: n["a"] <= 0,
    "typical": lambda n: n["mass"] >= 1,
    "epsilon": lambda n: not 0 < n["epsilon"] < 1,
    "eta": lambda n: not 0 < n["eta"] < 1,
    "top_n_sigma": lambda n: n["n"] <= 0,
    "xtc": lambda n: n["xtc_probability"] <= 0 or n["threshold"] > 0.5,
    "repetition_penalty": lambda n: n["penalty"] == 1,
    "presence_penalty": lambda n: n["presence"] == 0,
    "frequency_penalty": lambda n: n["frequency"] == 0,
    "no_repeat_ngram": lambda n: n["ngram"] <= 0,
    "dry": lambda n: n["multiplier"] <= 0 or n["base"] < 1,
}
# The number of a parameter that turns its warp off.
OFF_NUMBERS = {
    "temperature": 1,
    "k": 0,
    "p": 1,
    "min_p": 0,
    "a": 0,
    "mass": 1,
    "epsilon": 0,
    "eta": 0,
    "n": 0,
    "factor": 0,
    "spread": 0,
    "xtc_probability": 0,
    "penalty": 1,
    "presence": 0,
    "frequency": 0,
    "ngram": 0,
    "multiplier": 0,
}


# The tools' usual names of the parameters that have only a letter here.
_NAMES = {"k": "top_k", "p": "top_p", "a": "top_a", "mass": "typical_p", "n": "top_n_sigma", "ngram": "n-gram"}


# What comes nearest to a name without a step.
_TAIL = say("Tail-free sampling is not here: top-p or min-p cut the tail in its place.")
_ADAPTIVE = say("Adaptive-p is not here: XTC or a temperature above 1 also favor less likely tokens.")
_END = say("To keep a text from ending, ban its end token in “Banned words”.")
INSTEAD: Mapping[str, Message] = {
    "tfs": _TAIL,
    "tfs_z": _TAIL,
    "adaptive_p": _ADAPTIVE,
    "adaptive_target": _ADAPTIVE,
    "ban_eos_token": _END,
    "ignore_eos": _END,
    "ignore_eos_token": _END,
    "allowed_token_ids": say(
        "No step keeps only listed tokens: “Only what fits” keeps those that follow a rule for the text."
    ),
}


@dataclass(frozen=True)
class Key:
    """A number of a tool: its names, of these the first is written, and the parameter of a warp that it sets."""

    names: tuple[str, ...]
    warp: str
    parameter: str
    default: float  # the tool's own number where the name is not written
    unit: float = 1.0  # our number is the tool's times this


@dataclass(frozen=True)
class Window:
    """A tool's number of last tokens that some penalties look at."""

    names: tuple[str, ...]
    warps: tuple[str, ...]
    default: int
    whole: int  # the number that stands for the whole text
    off: int | None = None  # the number that turns the penalties off


@dataclass
class Reader:
    """The names and values of a text, from which a tool's module takes what it knows; the rest is `unused`."""

    tool: str
    label: str
    given: Mapping[str, object]
    notes: list[str] = field(default_factory=list)
    rule: tuple[str, str] | None = None
    _taken: set[str] = field(default_factory=set)
    _silent: list[tuple[str, str, float]] = field(default_factory=list)  # (warp, name, number) that are not written

    def note(self, sentence: Message) -> None:
        """Add a sentence about what differs, once."""
        if sentence not in self.notes:
            self.notes.append(sentence)

    def take(self, *names: str) -> object:
        """Return the value of the first of the names that is written, and mark all of them as known; else None."""
        found = None
        for written, value in self.given.items():
            if plain_name(written) in names:
                self._taken.add(written)
                found = value if found is None else found
        return found

    def number(self, names: Sequence[str], default: float) -> float:
        """Return a number, or the default where it is not written. Raises InputError for anything else."""
        value = self.take(*names)
        return default if value is None or value == "" else number(names[0], value)

    def flag(self, name: str, default: bool) -> bool:
        """Return a setting that is true or false. Raises InputError for anything else."""
        value = self.take(name)
        if isinstance(value, str):
            value = {"true": True, "1": True, "false": False, "0": False, "": None}.get(value.lower(), value)
        if value is None:
            return default
        if not isinstance(value, bool | int) or value not in (0, 1):
            raise InputError(
                "A setting is neither true nor false.", f"{name}: {str(value)[:20]}", "Write true or false."
            )
        return bool(value)

    def numbers(self, keys: Sequence[Key]) -> Numbers:
        """Read the numbers of the keys, by warp and parameter."""
        found: Numbers = {}
        for key in keys:
            value = self.take(*key.names)
            if value is None or value == "":
                self._silent.append((key.warp, key.names[0], key.default))
                value = key.default
            found.setdefault(key.warp, {})[key.parameter] = float(f"{number(key.names[0], value) * key.unit:.12g}")
        return found

    def windows(self, numbers: Numbers, windows: Sequence[Window]) -> None:
        """Read the windows into `numbers`, and remove the warps that one of them turns off."""
        for window in windows:
            n = self.number(window.names, window.default)
            for warp in window.warps:
                if n == window.off:
                    numbers.pop(warp, None)
                elif warp in numbers:
                    numbers[warp]["window"] = _window(warp, n, window)

    def rules(self, kinds: Mapping[str, str]) -> None:
        """Read a rule for the text: {name: kind of model.sampling.rules}. The first one written counts."""
        for name, kind in kinds.items():
            value = self.take(name)
            if not value or self.rule is not None:
                continue
            if kind == "choice" and isinstance(value, list):
                value = "\n".join(map(str, value))
            self.rule = (kind, value if isinstance(value, str) else json.dumps(value))

    def unsupported(self, neutral: Mapping[str, tuple[object, ...]]) -> None:
        """Note each of the names that has a value other than its neutral ones: there is no step for it."""
        for name, values in neutral.items():
            value = self.take(name)
            if value is not None and str(value).lower() not in map(str, values):
                self.lacks(name)

    def lacks(self, name: str) -> None:
        """Note a name without a step, and what comes nearest to it."""
        self.note(say("There is no step for {}; it is left out.", name[:30]))
        if name in INSTEAD:
            self.note(INSTEAD[name])

    def banned(self, lines: Iterable[str]) -> list[Step]:
        """Build the step that bans words and token ids, one per line; none without lines."""
        text = word_lines(list(lines))
        if any(map(ids_in, text.split("\n"))):
            self.note(say("Banned tokens are named by id: check that the ids are this model's."))
        return [Step("banned_words", text=text)] if text else []

    def elsewhere(self, *names: str) -> None:
        """Note which of the names are written: they are set beside the strategies, not as steps."""
        written = [name for name in names if self.take(name) is not None]
        if written:
            self.note(say("Set in Side by side, not as steps: {}.", ", ".join(written)))

    def step(self, warp: str, numbers: Mapping[str, float], text: str = "") -> Step | None:
        """Build a step, None if it would change nothing; a number out of range is moved into it, with a note."""
        parameters = WARPS[warp].parameters
        filled = {each.name: each.default for each in parameters} | dict(numbers)
        if OFF.get(warp, lambda n: False)(filled):
            return None
        values = []
        for each in parameters:
            value = min(max(filled[each.name], each.low), each.high)
            value = float(round(value)) if each.whole else value
            if value != filled[each.name]:
                name = _NAMES.get(each.name, each.name)
                self.note(say("{} {} is out of range here; {} is used.", name, f"{filled[each.name]:g}", f"{value:g}"))
            values.append((each.name, value))
        return Step(warp, tuple(values), text=text)

    def steps(self, order: Sequence[str], numbers: Numbers, texts: Mapping[str, str] = {}) -> list[Step]:
        """Build the steps of the warps that change something, in the tool's order, and note the tool's own numbers."""
        found = [self.step(warp, numbers[warp], texts.get(warp, "")) for warp in order if warp in numbers]
        steps = [each for each in found if each is not None]
        there = {each.warp for each in steps}
        silent = [f"{name} {value:g}" for warp, name, value in self._silent if warp in there]
        if silent:
            self.note(say("Not written, so {} uses its own: {}.", self.label, ", ".join(silent)))
        return steps

    def result(self, steps: Sequence[Step]) -> Imported:
        """Return what was read, with the names that were not taken."""
        unused = tuple(plain(str(name)[:60]) for name in self.given if name not in self._taken)
        return Imported(self.tool, tuple(steps), tuple(map(plain, self.notes)), unused, self.rule)


def plain_name(name: str) -> str:
    """Return a name without its dashes in front, in small letters, with "_" for "-"."""
    return name.lstrip("-").lower().replace("-", "_")


def number(name: str, value: object) -> float:
    """Return a value as a number if it is a finite one, also in a string. Raises InputError otherwise."""
    try:
        found = math.nan if isinstance(value, bool) or not isinstance(value, int | float | str) else float(value)
    except (ValueError, OverflowError):
        found = math.nan
    if not abs(found) < 1e15:  # NaN, too
        raise InputError("A setting is not a number.", f"{name}: {str(value)[:20]}", "Correct it or remove it.")
    return found


def bias_pairs(value: object) -> tuple[tuple[int, float], ...]:
    """Read {token id: number}, or pairs of them. Raises InputError for anything else; numbers are cut at MOST_BIAS."""
    pairs = value.items() if isinstance(value, Mapping) else value if isinstance(value, list | tuple) else None
    found = []
    for pair in pairs if pairs is not None else [value]:
        if not isinstance(pair, list | tuple) or len(pair) != 2:
            raise InputError("A logit bias is not a token and a number.", str(pair)[:40], "Write pairs of them.")
        token, bias = number("logit_bias", pair[0]), -MOST_BIAS if pair[1] is False else number("logit_bias", pair[1])
        if token < 0 or token % 1:
            raise InputError("A logit bias is not a token and a number.", str(pair)[:40], "Write pairs of them.")
        found.append((int(token), min(max(bias, -MOST_BIAS), MOST_BIAS)))
    return tuple(found)


def id_lines(value: object) -> list[str]:
    """Write token ids as lines of banned words: [[1, 2], 3] is "[1, 2]" and "[3]". Raises InputError for others."""
    found = []
    for each in value if isinstance(value, list | tuple) else [value]:
        ids = [number("ids", token) for token in (each if isinstance(each, list | tuple) else [each])]
        if not ids or any(token < 0 or token % 1 for token in ids):
            raise InputError("A banned token is not an id.", str(each)[:40], "Write the numbers of tokens.")
        found.append(f"[{', '.join(str(int(token)) for token in ids)}]")
    return found


def word_lines(words: object) -> str:
    """Write a list of words, or lines of them, as a step's text: one per line, \\n and \\t for their characters."""
    listed = words if isinstance(words, list | tuple) else str(words).splitlines()
    texts = [str(each).replace("\n", "\\n").replace("\t", "\\t") for each in listed]
    return "\n".join(dict.fromkeys(each for each in texts if each))


def _window(warp: str, n: float, window: Window) -> float:
    """Return our window. The whole text is 0, but the largest for penalties that would then skip the prompt."""
    if n == window.whole or n < 0:
        return WINDOW.high if warp in ("presence_penalty", "frequency_penalty") else 0
    return min(n, WINDOW.high)
