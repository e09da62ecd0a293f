"""Rules: kinds, limits, and what a person reads about a mistake."""

import pickle

import pytest

from model.errors import InputError
from model.sampling.rules import rule as rules
from model.sampling.rules.rule import choices_of, depth_of, rule_of, schema_of
from tests.support.models.helpers import byte_model


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory):
    return byte_model(tmp_path_factory.mktemp("byte")).tokenizer


def test_a_rule_carries_the_vocabulary_and_is_equal_after_a_copy(tokenizer):
    rule = rule_of(tokenizer, "choice", "yes\nno")
    copy = pickle.loads(pickle.dumps(rule))
    assert copy == rule and hash(copy) == hash(rule) and copy.vocabulary is not rule.vocabulary
    assert rule != rule_of(tokenizer, "choice", "yes") and "vocabulary" not in repr(rule)


@pytest.mark.parametrize(
    ("kind", "text", "what"),
    [
        ("prose", "a", "This kind of rule is unknown."),
        ("regex", "", "The rule is empty."),
        ("regex", 5, "The rule is empty."),
        ("choice", "\n\n", "The rule is empty."),
        ("regex", "a" * 20_001, "The rule is too long."),
        ("regex", "(" * 101 + ")" * 101, "The rule is nested too deeply."),
        ("choice", "\ud800", "The rule has half of a character."),
    ],
)
def test_what_cannot_be_a_rule(tokenizer, kind, text, what):
    with pytest.raises(InputError) as error:
        rule_of(tokenizer, kind, text)
    assert error.value.what == what and error.value.hint


def test_a_missing_package_is_named_with_its_command(tokenizer, monkeypatch):
    monkeypatch.setattr(rules, "PACKAGE", "no_such_package_here")
    with pytest.raises(InputError, match="pip install llguidance"):
        rule_of(tokenizer, "choice", "yes")


def test_choices_keep_their_spaces_and_a_dot_stands_for_a_space():
    assert choices_of("yes\n no\r\n·maybe\n\na·b") == ["yes", " no", " maybe", "a·b"]
    with pytest.raises(InputError, match="too many choices"):
        choices_of("\n".join(map(str, range(1001))))


def test_depth_counts_all_brackets():
    assert [depth_of(text) for text in ("", "a", "([{", "()()", "))(")] == [0, 0, 3, 1, 1]


def test_the_place_of_a_mistake_in_json():
    with pytest.raises(InputError) as error:
        schema_of('{\n  "type": integer}')
    assert error.value.got == "line 2, column 11"
    with pytest.raises(InputError, match="not a JSON schema"):
        schema_of("[1]")
    with pytest.raises(InputError, match="not JSON"):
        schema_of("[" * 100_000)
