"""The three views of what a run predicts, without a browser: what they share, hide and keep."""

import math
import re

import numpy as np
import pytest

from tests.support.scripts import script, words_read
from tests.support.views.predictions import EDITS, HOSTILE, drawn, scene, text_of, token
from viz.charts.ramp import ramp_ticks
from viz.numbers import bits
from viz.seam.programs.reading import measured
from viz.views.predictions import expected
from viz.views.predictions.follow import view as following
from viz.views.predictions.surprise import view as surprise
from viz.views.predictions.surprise.figures import COLORS, places, scored
from viz.words import LANGUAGES, words


def test_numbers_by_hand():
    told = scored(np.log([0.5, 0.125]), np.array([1, 4]), np.log([2.0, 8.0, 3.0]))
    assert told.bits.tolist() == pytest.approx([1, 3]) and told.entropy.tolist() == pytest.approx([1, 3])
    assert told.share.tolist() == pytest.approx([0.5, 0.125])
    assert places(told, "surprisal", 16) == [None, 0.25, 0.75]
    assert places(told, "entropy", 16) == [None, 0.25, 0.75]
    assert places(told, "rank", 16) == [None, 0, 0.5]
    assert places(told, "surprisal", 4) == [None, 0.5, 1]  # beyond a blind guess is the end of the ramp
    assert ramp_ticks("surprisal", 4096) == [[0, "0"], [1 / 3, "4"], [2 / 3, "8"], [1, "≥ 12.0"]]
    assert ramp_ticks("rank", 10_000)[::2] == [[0, "1"], [0.5, "100"], [1, "10k"]]
    assert [label for _, label in ramp_ticks("entropy", 53)] == ["0", "2", "4", "5.7"]
    impossible = expected.row(7, "a", 3, (0.0, -1234.5))
    assert (impossible["bits"], impossible["surprisal"]) == ("∞", None)
    assert (impossible["logit"], impossible["score"]) == ("−1,234.50", -1234.5)  # a file gets a number, not a text
    assert expected.row(7, "a", 1, (1.0, 2.0))["bits"] == bits(0.0) == "0.000"
    assert math.copysign(1, scored(np.zeros(1), np.ones(1), np.zeros(2)).bits[0]) == 1  # certain, not -0


def test_ticks_lie_on_the_ramp_in_order():
    for by in COLORS:
        for size in (53, 256, 8192, 49_152, 151_936):
            at = [place for place, _ in ramp_ticks(by, size)]
            assert at == sorted(set(at)) and at[0] == 0 and at[-1] == 1 and len(at) < 8


def test_the_scripts_have_the_words_they_ask_for():
    said = words("en")
    rows = {"column_rank", "column_token", "column_share", "column_bits", "column_logit", "is_next"}
    known = {"told", "told_first", "hover", "token_name", "text_label"} | rows
    assert words_read("views/predictions/surprise", "parts/next_tokens") <= known
    told = {key.removeprefix("expected.rows.") for key in said if key.startswith("expected.rows.")}
    assert rows == {key for key in told if not key.startswith("masked.")}
    board = script("views/predictions/guess")
    used = set(re.findall(r"\bwords\.(\w+)", board))
    used |= set(re.findall(r'\[\w+, "(\w+)"\]', board)) | set(re.findall(r'words\[\w+(?:\.\w+)? \? "(\w+)"', board))
    assert len(used) > 15 and used <= {key[12:] for key in said if key.startswith("guess.board.")}


@pytest.mark.parametrize("view", ["surprise", "guess", "follow"])
@pytest.mark.parametrize("prompt", ["a", "\n", HOSTILE])
@pytest.mark.parametrize("language", LANGUAGES)
def test_short_and_hostile_prompts_are_drawn(playground, view, prompt, language):
    parts = drawn(playground, view, prompt=prompt, language=language)
    assert not any("problem" in payload for payload in parts.values())
    for name, payload in parts.items():
        if name.startswith(view) and "figure" in payload:
            figure = text_of(payload["figure"])
            assert "u202e" not in figure and "\u202e" not in figure and "<b>" not in figure
        if name.startswith(view):
            assert "\u202e" not in str(payload.get("title")) + str(payload.get("own")) + str(payload.get("tokens"))


def test_results_are_kept_by_run(playground, lm, monkeypatch):
    at = {"target": token(lm, "at")}
    for edits in ([], EDITS):
        drawn(playground, "surprise", edits=edits)
        drawn(playground, "follow", edits=edits, **at)
    monkeypatch.setattr(expected, "predict", lambda *_: pytest.fail("predicted again"))
    monkeypatch.setattr(following, "follow_all", lambda *_: pytest.fail("followed again"))
    for edits in ([], EDITS):
        drawn(playground, "surprise", edits=edits)
        drawn(playground, "follow", {"measure": "rank"}, edits=edits, **at)
        drawn(playground, "guess", edits=edits)  # which is about the same numbers
    kept = [measured(surprise.VIEW, "main", scene(playground, edits=edits)) for edits in ([], EDITS)]
    assert not np.array_equal(kept[0].entropy, kept[1].entropy)
    ours = [measured(following.VIEW, "main", scene(playground, edits=edits, **at)) for edits in ([], EDITS)]
    assert ours[0].tokens == ours[1].tokens == (token(lm, "at"),)
    assert not np.array_equal(ours[0].followed[0].logit, ours[1].followed[0].logit)
