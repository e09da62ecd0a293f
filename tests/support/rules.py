"""Rules and vocabularies for tests, and checks that do not use the library that is tested."""

import json
import re
from collections.abc import Sequence

from model.sampling.rules.bytes_of_tokens import ByteVocabulary
from model.sampling.rules.rule import Rule

PARTS = (" ", " y", "es", "no", "12", "34", '{"', '": ', "ab", "yes", " no", ", ", "é", "\xff")


def vocabulary(end: bool = True, letters: str = "") -> ByteVocabulary:
    """A token for every printable ASCII character (or for `letters`), some longer ones, and perhaps an end token."""
    single = letters or "".join(map(chr, range(32, 127)))
    raw = [each.encode("latin-1") if each == "\xff" else each.encode() for each in (*single, *PARTS)]
    if letters:
        raw = [each.encode() for each in letters]
    ending = frozenset({len(raw)}) if end else frozenset()
    return ByteVocabulary((*raw, *([b"<|end|>"] if end else [])), ending, ending)


def rule(kind: str, text: str, tokens: ByteVocabulary | None = None) -> Rule:
    return Rule(kind, text, tokens or vocabulary())


SCHEMA = json.dumps(
    {
        "type": "object",
        "properties": {
            "name": {"type": "string", "pattern": "^[A-Z][a-z]{2,5}$"},
            "age": {"type": "integer", "minimum": 1, "maximum": 99},
        },
        "required": ["name", "age"],
        "additionalProperties": False,
    }
)


def is_person(text: str) -> bool:
    try:
        found = json.loads(text)
    except json.JSONDecodeError:
        return False
    fits = isinstance(found, dict) and list(found) == ["name", "age"] and isinstance(found["age"], int)
    return fits and bool(re.fullmatch("[A-Z][a-z]{2,5}", found["name"])) and 1 <= found["age"] <= 99


PARTS_OF_LETTERS = r"[a-c]{1,3}(, [a-c]{1,3}){0,2}"
SENTENCE = 'root ::= word (" " word)? "."\nword ::= [a-z]{1,4}'
# (kind, rule, whether a complete text follows it), each judged without llguidance
RULES = (
    ("choice", "·yes\n·no\nmaybe", lambda text: text in (" yes", " no", "maybe")),
    ("regex", r"\d{4}-\d{2}-\d{2}", lambda text: bool(re.fullmatch(r"[0-9]{4}-[0-9]{2}-[0-9]{2}", text))),
    ("regex", PARTS_OF_LETTERS, lambda text: bool(re.fullmatch(PARTS_OF_LETTERS, text))),
    ("json", SCHEMA, is_person),
    ("gbnf", SENTENCE, lambda text: bool(re.fullmatch(r"[a-z]{1,4}( [a-z]{1,4})?\.", text))),
    ("lark", 'start: "(" start? ")"', lambda text: text == "(" * (len(text) // 2) + ")" * (len(text) // 2) != ""),
)


def text_of(tokens: ByteVocabulary, ids: Sequence[int]) -> str:
    """The text of tokens, without those that end it."""
    return b"".join(tokens.raw[each] for each in ids if each not in tokens.ending).decode()
