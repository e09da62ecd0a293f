"""Rules of the step "only what fits": their fields in the pipeline's editor, and the parsing of what a page sends."""

from collections.abc import Mapping

from model.api import LanguageModel
from model.errors import InputError
from model.sampling.rules.rule import KINDS, MOST_TEXT, Rule, is_installed, rule_of
from viz.words import section

_PERSON = """{
  "type": "object",
  "properties": {
    "name": {"type": "string", "pattern": "^[A-Z][a-z]{2,7}$"},
    "age": {"type": "integer", "minimum": 1, "maximum": 99}
  },
  "required": ["name", "age"],
  "additionalProperties": false
}"""
# Rules to begin with, (kind, text), labeled by the words "rule.example_<key>"; the first is that of a new step.
RULE_EXAMPLES: dict[str, tuple[str, str]] = {
    "yes_no": ("choice", "·yes\n·no"),
    "date": ("regex", r" (19|20)\d{2}-(0[1-9]|1[0-2])-(0[1-9]|[12]\d|3[01])"),
    "person": ("json", _PERSON),
    "numbers": ("regex", r" [1-9]\d?(, [1-9]\d?){2,4}\."),
    "sentence": ("gbnf", 'root ::= (" " word){3,9} "."\nword ::= [a-z]+'),
    "brackets": ("lark", 'start: " " pair\npair: "(" WORD pair? ")"\nWORD: /[a-z]+/'),
}


def rules_spec(words: Mapping[str, str]) -> dict:
    """Build the options of a rule: its kinds with their help, the examples, and whether rules can be read here."""
    return {
        "ready": is_installed(),
        "most": MOST_TEXT,
        "words": section(words, "rule"),
        "kinds": [[kind, words[f"rule.{kind}"], words[f"rule.{kind}_help"]] for kind in KINDS],
        "examples": [
            {"label": words[f"rule.example_{key}"], "kind": kind, "text": text}
            for key, (kind, text) in RULE_EXAMPLES.items()
        ],
    }


def rule_value(rule: Rule | None) -> dict:
    """Convert a rule to the page's form; {} without one."""
    return {} if rule is None else {"rule": {"kind": rule.kind, "text": rule.text}}


def read_rule(model: LanguageModel, sent: object) -> Rule | None:
    """Parse a rule {"kind", "text"}; None, or an empty text, allows every text. Raises InputError for a mistake in the
    rule.
    """
    if sent is None:
        return None
    if not isinstance(sent, Mapping) or not isinstance(sent.get("text"), str):
        raise InputError("This rule cannot be read.", "", "Choose one from the list.")
    return rule_of(model.tokenizer, sent.get("kind"), sent["text"]) if sent["text"].strip() else None
