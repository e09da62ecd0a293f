"""A rule for the text that is generated: a regular expression, a JSON schema, a list of choices, or a grammar."""

import importlib.util
import json
from dataclasses import dataclass, field, replace

from model.arguments import shown
from model.errors import InputError, say
from model.sampling.rules.bytes_of_tokens import ByteVocabulary, vocabulary_of
from model.text.tokenizer import Tokenizer

KINDS = ("choice", "regex", "json", "gbnf", "lark")  # their labels are the words "rule.<key>"
MOST_TEXT = 20_000  # maximum number of characters of a rule
MOST_DEPTH = 100  # maximum depth of nested brackets
MOST_CHOICES = 1000
PACKAGE = "llguidance"
SPACE = "·"  # at the start of a choice, this sign stands for a space


@dataclass(frozen=True)
class Rule:
    """A rule with the vocabulary whose tokens it allows or forbids. Constructed by `rule_of`."""

    kind: str  # one of KINDS
    text: str
    vocabulary: ByteVocabulary = field(repr=False)

    def over(self, vocabulary: ByteVocabulary) -> "Rule":
        """Return the same rule for another vocabulary."""
        return replace(self, vocabulary=vocabulary)


def is_installed() -> bool:
    """Return whether the package that reads rules is installed."""
    return importlib.util.find_spec(PACKAGE) is not None


def rule_of(tokenizer: Tokenizer, kind: str, text: str) -> Rule:
    """Return a rule for the texts of a tokenizer, checked but not compiled.

    kind: "choice" (one text per line), "regex" (the regular expression that the whole text matches), "json" (a JSON
    schema), "gbnf" (a grammar of llama.cpp) or "lark" (a grammar in llguidance's dialect of Lark). The rule begins
    after the prompt. Raises InputError for an unknown kind, a text that is too long or nested too deeply, and if the
    package that reads rules is missing.
    """
    if not isinstance(kind, str) or kind not in KINDS:
        raise InputError("This kind of rule is unknown.", shown(kind), say("Choose one of: {}.", ", ".join(KINDS)))
    if not isinstance(text, str) or not text.strip("\n"):
        raise InputError("The rule is empty.", shown(text), "Write a rule, or remove the step.")
    if len(text) > MOST_TEXT:
        raise InputError("The rule is too long.", f"{len(text)} characters", say("At most {} characters.", MOST_TEXT))
    if (depth := depth_of(text)) > MOST_DEPTH:
        raise InputError("The rule is nested too deeply.", str(depth), say("At most {} levels.", MOST_DEPTH))
    if not is_installed():
        raise InputError("Rules need the package llguidance.", PACKAGE, "Install it: pip install llguidance")
    if any(0xD800 <= ord(char) < 0xE000 for char in text):
        raise InputError("The rule has half of a character.", "U+D800", "Remove that character.")
    return Rule(kind, text, vocabulary_of(tokenizer))


def depth_of(text: str) -> int:
    """Return the greatest depth of brackets of any kind; those in strings and classes count, too."""
    depth = most = 0
    for char in text:
        if char in "([{":
            depth += 1
            most = max(most, depth)
        elif char in ")]}":
            depth = max(depth - 1, 0)
    return most


def choices_of(text: str) -> list[str]:
    """Return the choices of a list with one per line; "·" at the start of a line stands for a space. Raises InputError
    for too many.
    """
    lines = [line for line in text.replace("\r", "").split("\n") if line]
    if len(lines) > MOST_CHOICES:
        raise InputError("There are too many choices.", str(len(lines)), say("At most {}.", MOST_CHOICES))
    return [f" {line[1:]}" if line.startswith(SPACE) else line for line in lines]


def schema_of(text: str) -> dict:
    """Parse a JSON schema. Raises InputError with the place of a mistake."""
    try:
        schema = json.loads(text)
    except (json.JSONDecodeError, RecursionError) as error:
        place = f"line {error.lineno}, column {error.colno}" if isinstance(error, json.JSONDecodeError) else ""
        raise InputError("This is not JSON.", place, "Check its quotes, commas and brackets there.") from None
    if not isinstance(schema, dict):
        raise InputError("This is not a JSON schema.", shown(text), 'Write an object such as {"type": "integer"}.')
    return schema
