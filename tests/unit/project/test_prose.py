"""The prose stays plain: docstrings begin with a verb, one spelling, one name a thing, no riddles."""

import pytest

from tests import prose, subjects

LEAST = 0.9  # of the docstrings of functions


def test_docstrings_of_functions_begin_with_a_verb():
    verbs, number = (sum(each) for each in zip(*prose.verb_counts().values(), strict=True))
    assert verbs >= LEAST * number


@pytest.mark.parametrize(("name", "texts", "table"), prose.checks(), ids=lambda each: each if isinstance(each, str) else "")
def test_nothing_refused_is_said(name, texts, table):
    assert len(texts) > 100
    if found := prose.hits(texts, table):
        pytest.fail("\n".join([f"{name}:", *found]), pytrace=False)


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
