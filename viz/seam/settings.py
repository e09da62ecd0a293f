"""The settings of a view: form, parser, default and bounds all follow from a single declaration.

Values from a page are untrusted: an invalid one is replaced by the default, without an error.
"""

import dataclasses
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeGuard

from model.text.surrogates import whole
from viz.words import Words

MOST_TEXT = 4000  # maximum length of a text from the page in characters


@dataclass(frozen=True)
class Choice:
    """A setting with one of several values. Words: `<name>`, `<name>_<option>`; optionally `<name>_help`,
    `<name>_<option>_help`.

    If it has no options in a scene, the setting is hidden and its value is "".
    """

    name: str
    options: tuple[str, ...] | Callable[[Any], tuple[str, ...]]  # a function of the scene if the options depend on it
    default: str | Callable[[Any], str] | None = None  # None selects the first option
    when: Mapping[str, tuple] = field(default_factory=dict)  # other settings -> the values with which this one is shown
    label: Callable[[Words, str], str] | None = None  # (words, option) -> the option's label
    # (words, option, scene) -> the option's label, if it depends on the scene
    scene_label: Callable[[Words, str, Any], str] | None = None
    # (words, scene) -> the setting's label, if it depends on the scene
    title: Callable[[Words, Any], str] | None = None
    help: Callable[[Words, str], str] | None = None  # (words, option) -> the option's help text
    # (words, option) -> the heading above the option and its neighbors in a long list; "" for none
    group: Callable[[Words, str], str] | None = None

    def options_in(self, scene: object) -> tuple[str, ...]:
        """Return the options available in a scene."""
        return self.options(scene) if callable(self.options) else self.options

    def read(self, value: object, scene: object) -> str:
        """Return the value if it is an option, else the default."""
        options = self.options_in(scene)
        default = self.default(scene) if callable(self.default) else self.default
        default = default if default in options else options[0] if options else ""
        return value if isinstance(value, str) and value in options else default

    def control(self, words: Words, scene: object) -> dict:
        """Build the payload for static/parts/form.js."""
        listed = []
        for option in self.options_in(scene):
            about = self.help(words, option) if self.help else words.get(f"{self.name}_{option}_help")
            listed.append([option, self._text(words, option, scene), *([about] if about else [])])
        named: dict[str, object] = {"label": self.title(words, scene)} if self.title else {}
        if self.group:
            named["groups"] = {option: self.group(words, option) for option in self.options_in(scene)}
        return _control(self, "choice", words) | named | {"value": self.read(None, scene), "options": listed}

    def _text(self, words: Words, option: str, scene: object) -> str:
        if self.scene_label:
            return self.scene_label(words, option, scene)
        return self.label(words, option) if self.label else words[f"{self.name}_{option}"]


@dataclass(frozen=True)
class Range:
    """A number on a slider, rounded to its steps. Words: `<name>`, optionally `<name>_help`.

    A `blank` field is initially empty, and its placeholder explains that this means the default, which may then depend
    on the scene although the form does not.
    """

    name: str
    low: float | Callable[[Any], float]
    high: float | Callable[[Any], float]
    step: float = 1  # step size; 0 allows any number between the bounds
    default: float | Callable[[Any], float] = 0
    when: Mapping[str, tuple] = field(default_factory=dict)
    kind: str = "range"  # "range", or "number" for an input field
    blank: bool = False
    label: Callable[[Words, Any], str] | None = None  # (words, scene) -> the label, if it depends on the scene

    def bounds(self, scene: object) -> tuple[float, float, float]:
        """Return the minimum, maximum and default value in a scene."""
        low, high, default = (each(scene) if callable(each) else each for each in (self.low, self.high, self.default))
        return low, high, default

    def read(self, value: object, scene: object) -> float:
        """Clamp the value to its bounds and round it to its steps; malformed values become the default."""
        low, high, default = self.bounds(scene)
        if not _is_number(value):
            return default
        within = min(max(value, low), high)
        if not self.step:
            return float(within)
        stepped = low + round((within - low) / self.step) * self.step
        return int(stepped) if isinstance(self.step, int) and isinstance(low, int) else round(min(stepped, high), 9)

    def control(self, words: Words, scene: object) -> dict:
        """Build the payload for static/parts/form.js."""
        empty: Any = ""  # initial value of the field
        setting = dataclasses.replace(self, default=empty) if self.blank else self
        low, high, default = setting.bounds(scene)
        label = {"label": self.label(words, scene)} if self.label else {}
        shown = {"value": default, "min": low, "max": high, "step": self.step or "any"}
        placeholder = {"placeholder": words["blank"]} if self.blank else {}
        return _control(self, self.kind, words) | label | shown | placeholder


def Number(
    name: str,
    low: float | Callable[[Any], float],
    high: float | Callable[[Any], float],
    default: float | Callable[[Any], float],
    step: float = 1,
    when: Mapping[str, tuple] | None = None,
) -> Range:
    """Build a Range with an input field."""
    return Range(name, low, high, step, default, when or {}, "number")


@dataclass(frozen=True)
class Checkbox:
    """A checkbox. Words: `<name>`, optionally `<name>_help`."""

    name: str
    default: bool = False
    when: Mapping[str, tuple] = field(default_factory=dict)
    label: Callable[[Words, Any], str] | None = None  # (words, scene) -> the label, if it depends on the scene

    def read(self, value: object, scene: object) -> bool:
        """Return the value if it is a boolean, else the default."""
        return value if isinstance(value, bool) else self.default

    def control(self, words: Words, scene: object) -> dict:
        """Build the payload for static/parts/form.js."""
        named = {"label": self.label(words, scene)} if self.label else {}
        return _control(self, "check", words) | named | {"value": self.default}


@dataclass(frozen=True)
class Text:
    """A text field. Words: `<name>`, optionally `<name>_empty` (its placeholder) and `<name>_help`."""

    name: str
    default: str = ""
    max_length: int = 200  # maximum length in characters
    lines: int = 1
    when: Mapping[str, tuple] = field(default_factory=dict)
    file: str = ""  # types of files that can be opened into the field, as in the `accept` attribute; "" for none

    def read(self, value: object, scene: object) -> str:
        """Return the text, cut to its maximum length, with unpaired surrogates replaced by question marks."""
        text = value if isinstance(value, str) else self.default
        return whole(text[: self.max_length])

    def control(self, words: Words, scene: object) -> dict:
        """Build the payload for static/parts/form.js."""
        empty = words.get(f"{self.name}_empty") or ""
        file = {"file": self.file} if self.file else {}
        shown = {"value": self.default, "placeholder": empty, "lines": self.lines}
        return _control(self, "text", words) | shown | file


Setting = Choice | Range | Checkbox | Text


def _control(setting: Setting, kind: str, words: Words) -> dict:
    shown: dict[str, object] = {"name": setting.name, "kind": kind, "label": words[setting.name]}
    if help_text := words.get(f"{setting.name}_help"):
        shown["help"] = help_text
    if setting.when:
        shown["when"] = {name: list(values) for name, values in setting.when.items()}
    return shown


def _is_number(value: object) -> TypeGuard[float]:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


@dataclass(frozen=True)
class Settings(Mapping):
    """The values of a view's settings, as `settings.power` or `settings["power"]`; hashable, comparable, picklable."""

    items_: tuple[tuple[str, Any], ...] = ()

    def __getattr__(self, name: str) -> Any:
        if not name.startswith("_") and name != "items_":
            for key, value in self.items_:
                if key == name:
                    return value
        raise AttributeError(name)

    def __getitem__(self, name: str) -> Any:
        for key, value in self.items_:
            if key == name:
                return value
        raise KeyError(name)

    def __iter__(self) -> Iterator[str]:
        return (key for key, _ in self.items_)

    def __len__(self) -> int:
        return len(self.items_)

    def only(self, names: tuple[str, ...]) -> "Settings":
        """Return only the settings with the given names."""
        return Settings(tuple(item for item in self.items_ if item[0] in names))

    def but(self, **changes: object) -> "Settings":
        """Return the settings with some values changed. Raises KeyError for an unknown name."""
        for name in changes:
            self[name]
        return Settings(tuple((name, changes.get(name, value)) for name, value in self.items_))


def read_all(declared: tuple[Setting, ...], sent: object, scene: object) -> Settings:
    """Parse the settings that a page sent for a form; invalid values become the default."""
    values = sent if isinstance(sent, Mapping) else {}
    return Settings(tuple((each.name, each.read(values.get(each.name), scene)) for each in declared))


def form(declared: tuple[Setting, ...], words: Words, scene: object) -> dict:
    """Build the payload of the form. A hidden setting does not hide any other."""
    shown = [each for each in declared if not isinstance(each, Choice) or each.options_in(scene)]
    names = {each.name for each in shown}
    controls = []
    for each in shown:
        control = each.control(words, scene)
        when = {name: values for name, values in control.pop("when", {}).items() if name in names}
        controls.append(control | ({"when": when} if when else {}))
    return {"controls": controls, "help": words.catalogue["form.help"]}


# --- the values of input parts ----------------------------------------------------------------------------


def choice(value: object, name: str, allowed: tuple[str, ...]) -> str:
    """Return the option in a part's value, or the first allowed one if it is invalid."""
    sent = value.get(name) if isinstance(value, dict) else None
    return sent if isinstance(sent, str) and sent in allowed else allowed[0]


def number(value: object, name: str, low: float, high: float, default: float) -> float:
    """Return the number in a part's value, clamped to its bounds; the default if it is not finite."""
    sent = value.get(name) if isinstance(value, dict) else None
    if isinstance(sent, int | float) and not isinstance(sent, bool) and sent == sent:
        return min(max(sent, low), high)
    return default
