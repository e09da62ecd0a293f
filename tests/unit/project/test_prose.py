"""The prose stays plain: docstrings begin with a verb, one spelling, one name a thing, no riddles."""

import pytest

from tests import prose, subjects

LEAST = 0.98  # of the docstrings of functions
MOST_WORDS = 90  # of an explanation, before its fold


def test_docstrings_of_functions_begin_with_a_verb():
    verbs, number = (sum(each) for each in zip(*prose.verb_counts().values(), strict=True))
    assert verbs >= LEAST * number


@pytest.mark.parametrize(("name", "texts", "table"), [pytest.param(*each, id=each[0]) for each in prose.checks()])
def test_nothing_refused_is_said(name, texts, table):
    assert len(texts) > 100
    if hits := prose.hits(texts, table):
        pytest.fail("\n".join([f"{name}:", *hits]), pytrace=False)


def test_an_explanation_is_short_before_its_fold():
    parts: dict[str, str] = {}
    for each in prose.page("en"):
        if each.where.endswith((".howto.body", ".howto.try")):
            key = each.where.rpartition(".")[0]
            parts[key] = f"{parts.get(key, '')} {each.text}"
    assert len(parts) > 60
    assert {key: len(text.split()) for key, text in parts.items() if len(text.split()) > MOST_WORDS} == {}


@pytest.mark.parametrize(
    ("subject", "faults"),
    [
        ("Clear the stale marker even if an answer changes nothing", 0),
        ("What is pale is no longer so by the answer alone", 1),
        ("clear the stale marker", 1),
        ("Clear the stale marker.", 1),
        (f"Clear {'x' * 67}", 1),
        (f"Clear {'x' * 66}", 0),
    ],
)
def test_a_subject_is_imperative_and_short(subject, faults):
    assert len(subjects.faults(subject)) == faults
