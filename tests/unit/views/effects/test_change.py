"""The watched probability before and after the edits, as the line of edits shows it."""

import numpy as np
import pytest

from model.gpt.edits import Edit
from tests.support.views.effects import PROMPT, scene
from viz.numbers import percent
from viz.views.effects.edits.change import watched_change

ZERO = {"kind": "zero", "layer": 1, "head": 2}


def share(run, token, position=-1):
    """The softmax of one token."""
    logits = run.logits_at(position).astype(float)
    return np.exp(logits[token] - np.logaddexp.reduce(logits))


@pytest.mark.parametrize(("target", "tokens"), [(None, []), (ord("c"), []), (ord("b"), [2])])
def test_the_change_is_that_of_the_target_or_else_of_the_top_token(playground, lm, target, tokens):
    before = lm.trace(PROMPT)
    after, position = before.edit(Edit("zero", 1, 2)), max(tokens, default=len(PROMPT) - 1)
    token = int(np.argmax(before.logits_at(position))) if target is None else target
    found = watched_change(scene(playground, edits=[ZERO], target=target, tokens=tokens))
    expected = [share(run, token, position) for run in (before, after)]
    assert found["numbers"] == pytest.approx(expected, rel=1e-5) and abs(expected[0] - expected[1]) > 1e-5
    assert found["text"].endswith(f"{percent(found['numbers'][0])} → {percent(found['numbers'][1])}")
    assert f"after position {position}" in found["help"]


def test_a_run_without_edits_has_no_change(playground):
    assert watched_change(scene(playground)) is None
