"""Rule-based rewards: rules that score a text, and their weighted sum.

A rule scores only the generated text, regardless of the prompt and the model. A model trained on a rule learns to
produce whatever the rule rewards, intended or not ("reward hacking", Amodei et al. 2016, section 4).
"""

import re
import tomllib
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from model.arguments import check_number, is_number, shown
from model.errors import InputError, say
from model.public import public
from model.text.sentences import has_stop, split_sentences

MOST_RULES = 12  # maximum number of rules
MOST_PHRASES = 64  # maximum number of phrases of a rule
LONGEST_VALUE = 2000  # maximum characters of a value
MOST_WEIGHT = 10.0  # maximum absolute weight

_LISTS = tomllib.loads((Path(__file__).parents[1] / "texts_data" / "sentiment.toml").read_text(encoding="utf-8"))
GLAD, SAD = (frozenset(_LISTS[name].split()) for name in ("glad", "sad"))

_WORD = re.compile(r"[㐀-鿿]|[^\W_㐀-鿿]+(?:['-][^\W_㐀-鿿]+)*")  # each Chinese character is a word
_RIME = re.compile(r"([aeiouyäöüáéíóúàèìòù]+[^aeiouyäöüáéíóúàèìòù]+e|[aeiouyäöüáéíóúàèìòù]+[^aeiouyäöüáéíóúàèìòù]*)$")


@dataclass(frozen=True)
class RuleKind:
    """A kind of rule, an entry of RULES. Its label and help are the words "rule.<key>" and "rule_help.<key>"."""

    number: Callable[[str, str | float], float]  # (text, the rule's value) -> score
    value: str  # kind of value: "words" (separated by commas), "number" or "none"
    low: float  # bounds on the score
    high: float
    default: str | float = ""
    least: float = 0.0  # bounds on a numeric value
    most: float = 0.0


@dataclass(frozen=True)
class Rule:
    """One rule with its value ("" if it takes none) and its weight. Raises InputError for an invalid value."""

    name: str  # a key of RULES
    value: str | float = ""
    weight: float = 1.0

    def __post_init__(self) -> None:
        kind = RULES.get(self.name) if isinstance(self.name, str) else None
        if kind is None:
            raise InputError("No rule has this name.", shown(self.name), say("Choose one of: {}.", ", ".join(RULES)))
        check_number("weight", self.weight, -MOST_WEIGHT, MOST_WEIGHT)
        object.__setattr__(self, "weight", float(self.weight))
        object.__setattr__(self, "value", _checked_value(kind, self.value))


def score(rules: Sequence[Rule], texts: Sequence[str]) -> np.ndarray:
    """Compute the reward of each text: the sum of the rules' scores times their weights. float64 [n]"""
    return parts(rules, texts) @ np.array([rule.weight for rule in rules], np.float64)


def parts(rules: Sequence[Rule], texts: Sequence[str]) -> np.ndarray:
    """Compute each rule's unweighted score of each text, between `low` and `high` of its kind. float64 [n, rules]"""
    numbers = [[RULES[rule.name].number(text, rule.value) for rule in rules] for text in texts]
    return np.array(numbers, np.float64).reshape(len(texts), len(rules))


def span(rules: Sequence[Rule]) -> tuple[float, float]:
    """Return the lowest and the highest possible reward of these rules, if their scores were independent."""
    ends = [sorted(rule.weight * end for end in (RULES[rule.name].low, RULES[rule.name].high)) for rule in rules]
    return sum(low for low, _ in ends), sum(high for _, high in ends)


# --- reading rules -----------------------------------------------------------------------------------


@public()
def parse_rules(value: object) -> tuple[Rule, ...]:
    """Parse rules from the input of a user, a page or a command line.

    A string has rules separated by semicolons or line breaks, as `name: value * weight`, where value and weight are
    optional: "contains: happy, glad * 2; full_stop". A list has such strings, objects with `name`, `value` and
    `weight`, or Rule objects. Raises InputError for an unknown rule, an invalid value, and for no rules or more than
    MOST_RULES.
    """
    if isinstance(value, str):
        value = [line for line in re.split(r"[;\n]", value) if line.strip()]
    if not isinstance(value, list | tuple) or not 1 <= len(value) <= MOST_RULES:
        got = str(len(value)) if isinstance(value, list | tuple) else shown(value)
        raise InputError("These are not rules.", got, say("Give between 1 and {} of them.", MOST_RULES))
    return tuple(_rule(each) for each in value)


def as_text(rules: Sequence[Rule]) -> str:
    """Format rules as the string that `parse_rules` parses to them."""
    return "; ".join(_line(rule) for rule in rules)


def _line(rule: Rule) -> str:
    value = f": {_plain(rule.value)}" if isinstance(rule.value, float) else f": {rule.value}" if rule.value else ""
    return f"{rule.name}{value}" + ("" if rule.weight == 1 else f" * {_plain(rule.weight)}")


def _plain(number: float) -> str:
    """Format a number without a trailing `.0`; parsing the string returns the same number."""
    return repr(number).removesuffix(".0")


def _rule(value: object) -> Rule:
    if isinstance(value, Rule):
        return value
    if isinstance(value, Mapping) and "name" in value and set(value) <= {"name", "value", "weight"}:
        return Rule(**value)
    if not isinstance(value, str):
        hint = 'A rule is a text such as "length: 30 * 2", or an object with "name", "value" and "weight".'
        raise InputError("This is not a rule.", shown(value), hint)
    before, star, weight = value.rpartition("*")
    name, _, argument = (before if star else value).partition(":")
    name, argument = name.strip(), argument.strip()
    known = RULES.get(name)
    number = _number(argument) if known and known.value == "number" and argument else argument
    return Rule(name, number, _number(weight) if star else 1.0)


def _number(text: str) -> object:
    """Parse a number; any other string is returned unchanged, for the error message."""
    try:
        return float(text)
    except ValueError:
        return text


def _checked_value(kind: RuleKind, value: object) -> str | float:
    """Validate a rule's value and return it, or the default if the value is missing."""
    if value is None or value == "":
        return kind.default
    if kind.value == "none":
        raise InputError("This rule takes no value.", shown(value), "Leave it out.")
    if kind.value == "number":
        if not is_number(value):
            raise InputError("A setting is not a number.", shown(value), "Choose a number.")
        check_number("value", value, kind.least, kind.most)
        return float(value)
    return _words_value(value)


def _words_value(value: object) -> str:
    hint = 'Write words or short phrases with commas between them: "happy, very glad".'
    if not isinstance(value, str) or len(value) > LONGEST_VALUE:
        raise InputError("These words do not work for a rule.", shown(value), hint)
    phrases = [" ".join(words(part)) for part in re.split("[,，、]", value)]
    kept = [phrase for phrase in dict.fromkeys(phrases) if phrase]
    if not 1 <= len(kept) <= MOST_PHRASES:
        raise InputError("These words do not work for a rule.", shown(value), hint)
    return ", ".join(kept)


# --- parts of a text ---------------------------------------------------------------------------------


def words(text: str) -> list[str]:
    """Split a text into lowercase words: sequences of letters and digits, with internal apostrophes and hyphens."""
    small = unicodedata.normalize("NFC", unicodedata.normalize("NFC", text).casefold())
    return _WORD.findall(small.replace("’", "'"))


def endings(text: str) -> list[str]:
    """Return the last word of each line or, for a single line, of each sentence."""
    lines = [line for line in text.splitlines() if words(line)]
    pieces = lines if len(lines) > 1 else [piece for piece in split_sentences(text) if words(piece)]
    return [words(piece)[-1] for piece in pieces]


def rime(word: str) -> str:
    """Return the letters from the last group of vowels to the end, ignoring a silent e ("lake": "ake")."""
    match = _RIME.search(word)
    return match[1] if match else ""


def rhymes(one: str, other: str) -> bool:
    """Return whether two different words have the same letters from the last group of vowels on ("day" and "play")."""
    return one != other and rime(one) != "" and rime(one) == rime(other)


# --- the rules -----------------------------------------------------------------------------------------


def _contains(text: str, value: str | float) -> float:
    joined = f" {' '.join(words(text))} "
    return float(any(f" {phrase} " in joined for phrase in str(value).split(", ")))


def _share(text: str, value: str | float) -> float:
    text_words, listed = words(text), set(str(value).split(", "))
    return sum(word in listed for word in text_words) / len(text_words) if text_words else 0.0


def _length(text: str, value: str | float) -> float:
    target = float(value)
    return max(0.0, 1 - abs(len(words(text)) - target) / target)


def _sentiment(text: str, _: str | float) -> float:
    text_words = words(text)
    glad, sad = sum(word in GLAD for word in text_words), sum(word in SAD for word in text_words)
    return (glad - sad) / (glad + sad) if glad + sad else 0.0


def _rhyme(text: str, _: str | float) -> float:
    last = endings(text)
    if len(last) < 2:
        return 0.0
    near = [[*last[max(0, at - 2) : at], *last[at + 1 : at + 3]] for at in range(len(last))]
    return sum(any(rhymes(word, other) for other in others) for word, others in zip(last, near, strict=True)) / len(
        last
    )


def _no_repeats(text: str, value: str | float) -> float:
    text_words, n = words(text), int(value)
    runs = [tuple(text_words[at : at + n]) for at in range(len(text_words) - n + 1)]
    return len(set(runs)) / len(runs) if runs else 1.0


def _full_stop(text: str, _: str | float) -> float:
    return float(has_stop(text.rstrip()))


def _question(text: str, _: str | float) -> float:
    return float("?" in text or "？" in text)


def _speech(text: str, _: str | float) -> float:
    return float(text.count('"') >= 2 or ("“" in text and "”" in text))


RULES: dict[str, RuleKind] = {
    "contains": RuleKind(_contains, "words", 0, 1, "happy"),  # 1 if one of the phrases occurs as whole words
    "share": RuleKind(_share, "words", 0, 1, "happy"),  # fraction of the words that are in the list
    "length": RuleKind(
        _length, "number", 0, 1, 30.0, 1, 1000
    ),  # 1 at the target, linearly decreasing to 0 at 0 and at twice the target
    "sentiment": RuleKind(
        _sentiment, "none", -1, 1
    ),  # (glad - sad) / (glad + sad), counts of words in the bundled lists; 0 for a text without such words
    "rhyme": RuleKind(_rhyme, "none", 0, 1),  # fraction of endings that rhyme with one at most two away
    "no_repeats": RuleKind(
        _no_repeats, "number", 0, 1, 3.0, 1, 8
    ),  # distinct word n-grams / word n-grams (Li et al. 2016)
    "full_stop": RuleKind(_full_stop, "none", 0, 1),  # 1 if the text ends with . ! ? or their Chinese forms
    "question": RuleKind(_question, "none", 0, 1),  # 1 if the text contains a question mark
    "speech": RuleKind(_speech, "none", 0, 1),  # 1 if the text contains direct speech, i.e. a pair of quotation marks
}
