"""How surprising each token was, without a browser: the text, one token in detail, the figure."""

import math

import numpy as np
import pytest

from model.gpt.edits import Edit
from model.predictions.predictions import predict, summarize
from tests.support.views.predictions import (
    EDITS,
    PROMPT,
    UNUSED,
    V,
    asked,
    drawn,
    drawn_anew,
    ran,
    scene,
    sure,
)
from viz.numbers import bits, logit, number, percent
from viz.page.pipeline import payloads
from viz.seam import panels
from viz.views.predictions import expected
from viz.views.predictions.surprise import view as surprise
from viz.views.predictions.surprise.figures import COLORS
from viz.words import LANGUAGES


@pytest.mark.parametrize("language", LANGUAGES)
def test_first_drawing_fills_every_part(playground, language):
    parts = drawn(playground, "surprise", language=language)
    assert {*panels.names_of(surprise.VIEW), "surprise_about", "predictions_view"} <= set(parts)
    assert not {"problem", "empty"} & set(parts["surprise_text"]) | {"problem"} & set(parts["surprise_plot"])
    assert "guess_board" not in parts and "follow_plot" not in parts


@pytest.mark.parametrize("edits", [[], EDITS])
def test_the_text_shows_what_was_predicted(playground, lm, edits):
    run = lm.trace(PROMPT)
    run = run.edit(Edit("scale", 0, 1, 5.0), Edit("zero", 2, 0)) if edits else run
    found = predict(run)
    told = summarize(found, run.tokens)
    parts = drawn(playground, "surprise", edits=edits)
    text = parts["surprise_text"]
    T = len(run.tokens)
    assert len(text["tokens"]) == len(text["places"]) == len(text["lines"]) == T and text["places"][0] is None
    at, tokens, found_bits, ranks, _ = zip(*text["lines"], strict=True)
    assert at == tuple(range(T)) and list(tokens) == text["tokens"] and found_bits[0] == ranks[0] == ""
    assert text["tokens"][0] == "th" and text["tokens"][2] == "·c"
    assert found_bits[1:] == pytest.approx(found.surprisal.tolist(), abs=6e-4)
    assert list(ranks[1:]) == found.rank.tolist()
    assert text["places"][1:] == pytest.approx((found.surprisal / math.log2(V)).clip(0, 1).tolist(), abs=6e-5)
    numbers = [value for _, value, _ in text["facts"]]
    assert numbers[:2] == [number(told.perplexity), bits(told.bits_per_byte)]
    assert numbers[2:] == [f"{bits(told.bits)} bits per token", f"{T - 1} of {T} tokens"]
    assert text["values"]["bits"][1:] == [bits(each) for each in found.surprisal.tolist()]
    assert ("edited" in parts["surprise_plot"]["source"]) == bool(edits)


@pytest.mark.parametrize("by", COLORS)
def test_another_color_changes_the_text_alone(playground, by, monkeypatch):
    _, shown = payloads(playground, asked("surprise"))
    monkeypatch.setattr(expected, "predict", lambda *_: pytest.fail("predicted again"))
    parts = drawn(playground, "surprise", {"by": by}, shown=shown)
    assert ("surprise_text" in parts) == (by != COLORS[0])
    assert not {"surprise_detail", "surprise_plot"} & set(parts)
    if by != COLORS[0]:
        found = predict(scene(playground).trace)
        value = np.log2(found.rank) if by == "rank" else found.entropy[:-1] / math.log(2)
        assert parts["surprise_text"]["places"][1:] == pytest.approx((value / math.log2(V)).tolist(), abs=6e-5)


@pytest.mark.parametrize("form", [None, 3, [], {"by": "nope"}, {"by": {}}, {"by": None}])
def test_a_form_that_is_none_is_the_default(playground, form):
    assert drawn(playground, "surprise", form)["surprise_text"]["by"] == "surprisal"


def test_one_token_in_detail(playground, lm):
    run = lm.trace(PROMPT)
    found, ids = predict(run), run.tokens.ids
    for at in range(len(ids)):
        payload = drawn(playground, "surprise", tokens=[at])["surprise_detail"]
        rows = payload["rows"]
        assert f"(position {at})" in payload["title"]
        assert [row["id"] for row in rows[:10]] == found.ids[at].tolist()
        assert [row["share"] for row in rows[:10]] == found.probabilities[at].tolist()
        assert [row["rank"] for row in rows[:10]] == list(range(1, 11))
        assert payload["facts"][1][1] == number(math.exp(found.entropy[at]))
        if at == len(ids) - 1:
            assert payload["following"] is None and "ends here" in payload["next"] and len(rows) == 10
            continue
        assert payload["following"] == ids[at + 1] and f"rank {found.rank[at]}." in payload["next"]
        (row,) = [row for row in rows if row["id"] == ids[at + 1]]
        assert row["rank"] == found.rank[at] and row["logit"] == logit(found.next_logit[at])
        assert row["bits"] == bits(found.surprisal[at]) and len(rows) == 10 + (found.rank[at] > 10)


def test_what_was_likelier_than_a_token(playground, lm, monkeypatch):
    found = predict(lm.trace(PROMPT))
    assert "first token" in drawn(playground, "surprise", tokens=[0])["surprise_detail"]["own"]
    for rank, named in ((1, (1, 2, 3)), (2, (0,)), (3, (0, 1)), (9, (0, 1, 2))):
        ranks = found.rank.copy()
        ranks[3] = rank
        sure(playground, monkeypatch, rank=ranks)
        own = drawn_anew(lm, "surprise", tokens=[4])["surprise_detail"]["own"]
        assert ("top token after position 3" if rank == 1 else f"rank {rank} after") in own
        listed = own.split("Runners-up: " if rank == 1 else "More likely: ")[1]
        assert listed.rstrip(".").count("%") == len(named)
        assert [percent(found.probabilities[3][n]) in listed for n in named] == [True] * len(named)


def test_rows_that_no_token_uses_have_a_name(playground, lm, monkeypatch):
    ids = predict(lm.trace(PROMPT)).ids.copy()
    ids[:, 0] = UNUSED + 2
    sure(playground, monkeypatch, ids=ids)
    rows = drawn_anew(lm, "surprise", tokens=[3])["surprise_detail"]["rows"]
    assert rows[0]["text"] == f"<unused {UNUSED + 2}>"


def test_the_figure_has_the_numbers_and_its_python_makes_them(playground, lm, monkeypatch):
    payload = drawn(playground, "surprise", edits=EDITS)["surprise_plot"]
    figure = payload["figure"].to_plotly_json()
    bars, line = figure["data"]
    surprisal, entropy = ran(payload["python"], lm, monkeypatch)
    T = len(lm.encode(PROMPT))
    assert bars["y"] == pytest.approx(surprisal.tolist(), rel=1e-5)
    assert line["y"] == pytest.approx(entropy.tolist(), rel=1e-5)
    assert list(bars["x"]) == list(line["x"]) == list(range(1, T))
    assert [each["tokens"] for each in bars["customdata"]] == [[t] for t in range(1, T)]
    axis, meta = figure["layout"]["coloraxis"], figure["layout"]["meta"]
    assert (axis["cmin"], axis["cmax"]) == (0, math.log2(V)) and meta["places"] is True  # as the text is colored
    assert figure["layout"]["yaxis"]["title"]["text"] == "bits" and len(payload["columns"]) == 4


def test_picking_a_token_sends_its_detail_alone(playground):
    _, shown = payloads(playground, asked("surprise"))
    parts = drawn(playground, "surprise", shown=shown, tokens=[2])
    assert "surprise_detail" in parts and not {"surprise_text", "surprise_plot", "surprise_form"} & set(parts)


def test_a_single_token_has_no_made_up_number(playground):
    parts = drawn(playground, "surprise", prompt="a")
    assert [value for _, value, _ in parts["surprise_text"]["facts"]] == ["0 of 1 tokens"]
    assert parts["surprise_text"]["places"] == [None] and set(parts["surprise_plot"]) == {"empty"}
    assert len(parts["surprise_detail"]["rows"]) == 10 and "first token" in parts["surprise_detail"]["own"]
    assert set(drawn(playground, "guess", prompt="a")["guess_board"]) == {"empty"}
