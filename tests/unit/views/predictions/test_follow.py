"""A token after every position, without a browser: its line, and what was typed."""

import pytest

from model.gpt.edits import Edit
from model.predictions.predictions import follow, predict
from tests.support.views.predictions import EDITS, PROMPT, asked, drawn, ran, scene, token
from viz.page.pipeline import payloads
from viz.seam import panels
from viz.views.predictions.follow import view as following
from viz.views.predictions.follow.figures import SHOWN


@pytest.mark.parametrize("measure", SHOWN)
def test_a_line_is_a_token_after_every_position(playground, lm, measure, monkeypatch):
    watched = {"target": token(lm, "at"), "distractor": token(lm, " c")}
    payload = drawn(playground, "follow", {"measure": measure, "more": "at"}, edits=EDITS, **watched)["follow_plot"]
    figure = payload["figure"].to_plotly_json()
    run = lm.trace(PROMPT).edit(Edit("scale", 0, 1, 5.0), Edit("zero", 2, 0))
    ids = [token(lm, "at"), token(lm, " c")]
    lines, diamonds = figure["data"][::2], figure["data"][1::2]
    assert len(lines) == 2  # the same token twice is one line
    for line, marks, followed, made in zip(lines, diamonds, ids, ran(payload["python"], lm, monkeypatch), strict=True):
        assert line["y"] == pytest.approx(getattr(follow(run, followed), measure).tolist(), rel=1e-5, abs=1e-6)
        assert line["y"] == pytest.approx(made.tolist(), rel=1e-5, abs=1e-6)
        comes = [*(run.tokens.ids[1:] == followed).tolist(), False]
        assert list(marks["x"]) == [t for t, c in enumerate(comes) if c]
        assert list(marks["y"]) == [line["y"][t] for t in marks["x"]]
        assert marks["hoverinfo"] == "skip"  # so that the CSV has every number once
        assert [each["tokens"] for each in line["customdata"]] == [[t] for t in range(len(comes))]
        assert all(("really" in hover) == c for hover, c in zip(line["hovertext"], comes, strict=True))
    assert any(marks["x"] for marks in diamonds)
    assert "“at”, “·c”" in payload["title"] and (figure["layout"]["yaxis"].get("type") == "log") == (measure == "rank")
    assert "top token after" not in payload["note"]


def tokens_of(playground, form, **selection):
    there = scene(playground, **selection)
    settings = panels.settings_of(following.VIEW, there, {"follow_form": form})
    return list(panels.measured(following.VIEW, "main", there, settings).value.tokens)


def test_an_empty_field_is_the_likeliest_next_token(playground, lm):
    found = predict(lm.trace(PROMPT))
    for at in (1, 4):
        for form in (None, 3, {"more": ""}, {"more": 5, "measure": {}}):
            assert tokens_of(playground, form, tokens=[at]) == [found.ids[at, 0]]
        payload = drawn(playground, "follow", None, tokens=[at])["follow_plot"]
        assert f"top token after position {at}" in payload["note"]
    assert tokens_of(playground, {"more": "at"}) == [found.ids[-1, 0], token(lm, "at")]


def test_another_position_draws_again_only_where_it_decides_the_token(playground):
    for picked, again in (({}, True), ({"target": 97}, False)):
        _, shown = payloads(playground, asked("follow", None, **picked))
        assert ("follow_plot" in drawn(playground, "follow", None, shown=shown, tokens=[1], **picked)) == again


def test_what_was_typed_wrongly_is_said(playground):
    for language, said in (("en", "is 2 tokens here: “a” “th”"), ("zh", "是 2 个词元：“a” “th”")):
        payload = drawn(playground, "follow", {"more": "ath"}, language=language)["follow_plot"]
        assert set(payload) == {"problem"} and said in payload["problem"]["text"]
    assert "“?”" in drawn(playground, "follow", {"more": "\ud800"})["follow_plot"]["title"]  # half a character
