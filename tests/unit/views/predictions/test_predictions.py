"""The three views of what a run predicts, without a browser: their numbers, what they hide, and what a page sends."""

import base64
import json
import math
import re

import numpy as np
import pytest

from model.api import LanguageModel
from model.gpt.edits import Edit
from model.predictions.predictions import follow, predict, summarise
from model.text.tokenizer import from_tiktoken
from tests.support.helpers import serving, tiny_model
from tests.support.scripts import script, words_read
from viz.api.reading import measured
from viz.charts.ramp import ramp_ticks
from viz.numbers import bits, logit, number, percent
from viz.page import panels
from viz.page.pipeline import Asked, payloads, scene_of
from viz.page.playground import Options
from viz.page.scene import run_id
from viz.views.predictions import expected
from viz.views.predictions.follow import view as following
from viz.views.predictions.follow.figures import SHOWN
from viz.views.predictions.guess import view as guess
from viz.views.predictions.guess.view import Chances, Guess, Turn, turn_of
from viz.views.predictions.surprise import view as surprise
from viz.views.predictions.surprise.figures import COLOURS, places, scored
from viz.words import LANGUAGES, words

PROMPT = "the cat sat"
EDITS = [{"kind": "scale", "layer": 0, "head": 1, "factor": 5}, {"kind": "zero", "layer": 2, "head": 0}]
HOSTILE = "\u202e<b>{token}</b>\n%{x} `${y}`"
V, UNUSED = 270, 263  # rows of the model; ids from 263 on have no token


@pytest.fixture(scope="module")
def lm(tmp_path_factory):
    """A shaken model over single bytes and a few longer tokens, with rows that no token uses."""
    ranks = tmp_path_factory.mktemp("bytes") / "bytes.tiktoken"
    pieces = [bytes([i]) for i in range(256)] + [b"th", b" c", b"at", b" s", "·".encode(), b"sa", b" sa"]
    ranks.write_text("".join(f"{base64.b64encode(piece).decode()} {i}\n" for i, piece in enumerate(pieces)))
    return LanguageModel("tiny", "Tiny", tiny_model({"vocab_size": V, "n_ctx": 300}), from_tiktoken(ranks))


@pytest.fixture
def playground(lm):
    return serving(lm, Options(model="tiny", max_tokens=60))


def asked(view, value=None, prompt=PROMPT, language="en", shown=None, **selection):
    part = {"surprise": "surprise_form", "guess": "guess_board", "follow": "follow_form"}[view]
    values = {"predictions_view": {"view": view}, part: value}
    return Asked("tiny", prompt, selection or None, values, shown or {}, language, "predictions")


def drawn(playground, view, value=None, prompt=PROMPT, **changes):
    return payloads(playground, asked(view, value, prompt, **changes))[0]


def scene(playground, prompt=PROMPT, **selection):
    return scene_of(playground, asked("surprise", None, prompt, **selection))


def sure(playground, monkeypatch, view="surprise", **changes):
    """From now on, what the run expects is this instead."""
    whole_run = predict(scene(playground).trace)
    made = type(whole_run)(**vars(whole_run) | changes)
    monkeypatch.setattr(expected, "predict", lambda trace: made)


def drawn_anew(lm, view, **selection):
    """A part of a playground that has measured nothing yet."""
    return drawn(serving(lm, Options(model="tiny", max_tokens=60)), view, **selection)


def text_of(figure):
    return figure.to_json()


def token(lm, text):
    (number,) = lm.encode(text).ids.tolist()
    return number


def ran(lines, lm, monkeypatch):
    """What the last of a picture's Python lines is."""
    *first, last = lines.splitlines()
    monkeypatch.setattr("model.api.load_model", lambda name: lm)
    space = {}
    exec("\n".join(first), space)
    return eval(last, space)


# --- numbers as a person reads them ---


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
    for by in COLOURS:
        for size in (53, 256, 8192, 49_152, 151_936):
            at = [place for place, _ in ramp_ticks(by, size)]
            assert at == sorted(set(at)) and at[0] == 0 and at[-1] == 1 and len(at) < 8


def test_the_scripts_have_the_words_they_ask_for():
    said = words("en")
    rows = {"column_rank", "column_token", "column_share", "column_bits", "column_logit", "is_next"}
    known = {"told", "told_first", "hover", "token_name", "text_label"} | rows
    assert words_read("views/predictions/surprise", "parts/next_tokens") <= known
    assert rows == {key.removeprefix("expected.rows.") for key in said if key.startswith("expected.rows.")}
    board = script("views/predictions/guess")
    used = set(re.findall(r"\bwords\.(\w+)", board))
    used |= set(re.findall(r'\[\w+, "(\w+)"\]', board)) | set(re.findall(r'words\[\w+(?:\.\w+)? \? "(\w+)"', board))
    assert len(used) > 15 and used <= {key[12:] for key in said if key.startswith("guess.board.")}


# --- in the text ---


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
    told = summarise(found, run.tokens)
    parts = drawn(playground, "surprise", edits=edits)
    text = parts["surprise_text"]
    T = len(run.tokens)
    assert len(text["tokens"]) == len(text["places"]) == T and len(text["bits"]) == T - 1
    assert text["tokens"][0] == "th" and text["tokens"][2] == "·c"
    assert text["bits"] == pytest.approx(found.surprisal.tolist(), abs=6e-4)
    assert text["rank"] == found.rank.tolist()
    assert text["places"][1:] == pytest.approx((found.surprisal / math.log2(V)).clip(0, 1).tolist(), abs=6e-5)
    numbers = [value for _, value, _ in text["facts"]]
    assert numbers[:2] == [number(told.perplexity), bits(told.bits_per_byte)]
    assert numbers[2:] == [f"{bits(told.bits)} bits a token", f"{T - 1} of {T} tokens"]
    assert text["bits_text"] == [bits(each) for each in found.surprisal.tolist()]
    assert ("edited" in parts["surprise_plot"]["source"]) == bool(edits)


@pytest.mark.parametrize("by", COLOURS)
def test_another_colour_changes_the_text_alone(playground, by, monkeypatch):
    _, shown = payloads(playground, asked("surprise"))
    monkeypatch.setattr(expected, "predict", lambda *_: pytest.fail("predicted again"))
    parts = drawn(playground, "surprise", {"by": by}, shown=shown)
    assert ("surprise_text" in parts) == (by != COLOURS[0])
    assert not {"surprise_detail", "surprise_plot"} & set(parts)
    if by != COLOURS[0]:
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
        assert payload["following"] == ids[at + 1] and f"number {found.rank[at]} of" in payload["next"]
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
        assert ("first choice after position 3" if rank == 1 else f"number {rank} of") in own
        listed = own.split("Next in line: " if rank == 1 else "Likelier were ")[1]
        assert listed.rstrip(".").count("\u00a0%") == len(named)
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
    assert (axis["cmin"], axis["cmax"]) == (0, math.log2(V)) and meta["places"] is True  # as the text is coloured
    assert figure["layout"]["yaxis"]["title"]["text"] == "bits" and len(payload["columns"]) == 4


def test_picking_a_token_sends_its_detail_alone(playground):
    _, shown = payloads(playground, asked("surprise"))
    parts = drawn(playground, "surprise", shown=shown, tokens=[2])
    assert "surprise_detail" in parts and not {"surprise_text", "surprise_plot", "surprise_form"} & set(parts)


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


def test_a_single_token_has_no_made_up_number(playground):
    parts = drawn(playground, "surprise", prompt="a")
    assert [value for _, value, _ in parts["surprise_text"]["facts"]] == ["0 of 1 tokens"]
    assert parts["surprise_text"]["places"] == [None] and set(parts["surprise_plot"]) == {"empty"}
    assert len(parts["surprise_detail"]["rows"]) == 10 and "first token" in parts["surprise_detail"]["own"]
    assert set(drawn(playground, "guess", prompt="a")["guess_board"]) == {"empty"}


# --- guess first ---


def board(playground, at=None, typed=None, prompt=PROMPT, **changes):
    run = scene(playground, prompt, **changes).run
    value = None if at is None else {"run": run, "at": at, **({} if typed is None else {"typed": typed})}
    return drawn(playground, "guess", value, prompt, **changes)["guess_board"]


def test_nothing_of_what_follows_is_sent_before_the_guess(playground):
    prompt = "QXZJK"  # letters that no other word of the payload has
    for at in range(1, 5):
        payload = board(playground, at, prompt=prompt)
        assert payload["at"] == at and payload["before"] == list(prompt[:at]) and "answer" not in payload
        sent = json.dumps({name: value for name, value in payload.items() if name != "before"})
        assert not set(sent) & set(prompt)
        answered = board(playground, at, "~", prompt)
        told = json.dumps({name: value for name, value in answered.items() if name not in ("before", "answer")})
        assert not set(told) & set(prompt) and answered["answer"]["text"] == prompt[at]
    assert board(playground)["at"] == 1 and board(playground)["before"] == ["th"]


def test_the_answer_is_what_was_predicted(playground, lm):
    run = lm.trace(PROMPT)
    found, ids = predict(run), run.tokens.ids
    for at in range(1, len(ids)):
        right = board(playground, at, lm.tokenizer.piece(int(ids[at])))["answer"]
        assert right["right"] is True and right["guess"] == right["real"] == ids[at]
        assert right["model"] == (found.rank[at - 1] == 1) and right["bits"] == found.surprisal[at - 1]
        wrong = board(playground, at, "~")["answer"]
        one = follow(run, ord("~"))
        assert wrong["right"] is False and wrong["guess"] == ord("~")
        rows = {row["id"]: row for row in wrong["rows"]}
        assert list(rows)[:5] == found.ids[at - 1][:5].tolist() and {int(ids[at]), ord("~")} <= set(rows)
        assert len(rows) == len(wrong["rows"]) and [row["rank"] for row in wrong["rows"]] == sorted(
            row["rank"] for row in wrong["rows"]
        )
        assert rows[ord("~")]["rank"] == one.rank[at - 1] and rows[int(ids[at])]["rank"] == found.rank[at - 1]
        assert rows[ord("~")]["share"] == pytest.approx(one.probability[at - 1], abs=1e-6)
        none = board(playground, at, "")["answer"]
        assert none["right"] is None and none["guess"] is None and "Not counted" in none["said"][0]
    assert board(playground, len(ids) - 1)["last"] and not board(playground, 1)["last"]


@pytest.mark.parametrize(
    "prompt,at,typed,meant,n",
    [
        ("the c", 2, "c", " c", 1),  # right with a space in front
        ("thec", 2, "c", "c", 1),  # right without
        ("thez", 2, "at", "at", 1),  # one token rather than two
        ("thez", 2, "sat", "", 2),  # both are two: the likelier one
        ("the c", 2, "cat", " c", 2),  # of several the first counts, and it is right
        ("the c", 2, " c", " c", 1),
        ("the c", 2, "·c", " c", 1),
        ("the\nz", 2, "↵", "\n", 1),
        ("the z", 2, " ", " ", 1),
    ],
)
def test_how_a_guess_is_read(playground, lm, prompt, at, typed, meant, n):
    there = scene(playground, prompt)
    read = guess.guess_of(there, Turn(at, typed), predict(there.trace))
    if not meant:  # "sat" is "s" and "at", " sat" is " s" and "at"
        ranks = {text: follow(there.trace, token(lm, text)).rank[at - 1] for text in ("s", " s")}
        meant = min(ranks, key=ranks.get)
    assert (read.token, read.n) == (token(lm, meant), n)
    said = board(playground, at, typed, prompt)["answer"]["said"]
    assert any("tokens here" in each for each in said) == (n > 1)


def test_one_token_is_meant_rather_than_a_likelier_space(playground, lm, monkeypatch):
    there = scene(playground, "thez")

    def chances(scene, before, number, found):
        return Chances(1 if number == ord(" ") else 9, 0.5, 0.0)

    monkeypatch.setattr(guess, "chances_of", chances)

    def read(typed):
        return guess.guess_of(there, Turn(1, typed), predict(there.trace))

    assert read("at") == Guess(token(lm, "at"), 1, Chances(9, 0.5, 0.0))  # " at" is " " and "at"
    assert read("atat") == Guess(token(lm, "at"), 2, Chances(9, 0.5, 0.0))
    assert read(" at") == Guess(ord(" "), 2, Chances(1, 0.5, 0.0))


def test_what_cannot_be_read_can_be_typed_anew(playground):
    for language in LANGUAGES:
        payload = board(playground, 2, "\ud800", language=language)
        assert "answer" not in payload and payload["before"] and payload["refused"]
        assert any("一" <= c <= "鿿" for c in payload["refused"]) == (language == "zh")


@pytest.mark.parametrize("value", [None, 3, [], {}, {"at": 2}, {"run": "other", "at": 2}, {"run": 1, "at": {}}, "x"])
def test_a_turn_of_another_run_is_the_first(playground, value):
    assert turn_of(value, scene(playground)) == Turn(1)


def test_a_turn_is_checked(playground):
    there = scene(playground)
    for at in (0, -1, 99, True, 1.0, "2", None):
        assert turn_of({"run": there.run, "at": at, "typed": "x"}, there) == Turn(1)
    assert turn_of({"run": there.run, "at": 2, "typed": 7}, there) == Turn(2)
    assert len(turn_of({"run": there.run, "at": 2, "typed": "x" * 9999}, there).typed) == 200
    assert there.run == run_id(there.trace.key, "en")


def test_guesses_are_of_the_edited_run(playground, lm):
    run = lm.trace(PROMPT).edit(Edit("scale", 0, 1, 5.0), Edit("zero", 2, 0))
    payload = board(playground, 3, "~", edits=EDITS)
    assert payload["answer"]["bits"] == pytest.approx(predict(run).surprisal[2]) and "edited" in payload["source"]


# --- follow a token ---


@pytest.mark.parametrize("measure", SHOWN)
def test_a_line_is_a_token_after_every_position(playground, lm, measure, monkeypatch):
    form = {"measure": measure, "first": "at", "second": " c", "third": "at"}
    payload = drawn(playground, "follow", form, edits=EDITS)["follow_plot"]
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
    assert "likeliest next token at" not in payload["note"]


def tokens_of(playground, form, **selection):
    there = scene(playground, **selection)
    settings = panels.settings_of(following.VIEW, there, {"follow_form": form})
    return list(panels.measured(following.VIEW, "main", there, settings).value.tokens)


def test_an_empty_field_is_the_likeliest_next_token(playground, lm):
    found = predict(lm.trace(PROMPT))
    for at in (1, 4):
        for form in (None, 3, {"first": ""}, {"first": 5, "measure": {}}):
            assert tokens_of(playground, form, tokens=[at]) == [found.ids[at, 0]]
        payload = drawn(playground, "follow", None, tokens=[at])["follow_plot"]
        assert f"likeliest next token at position {at}" in payload["note"]
    assert tokens_of(playground, {"second": "at"}) == [found.ids[-1, 0], token(lm, "at")]


def test_another_position_draws_again_only_where_it_decides_the_token(playground):
    for form, again in ((None, True), ({"first": "at"}, False)):
        _, shown = payloads(playground, asked("follow", form))
        assert ("follow_plot" in drawn(playground, "follow", form, shown=shown, tokens=[1])) == again


def test_what_was_typed_wrongly_is_said(playground):
    for name in following.FIELDS:
        for language, said in (("en", "is 2 tokens here: “a” “th”"), ("zh", "是 2 个词元：“a” “th”")):
            payload = drawn(playground, "follow", {name: "ath"}, language=language)["follow_plot"]
            assert set(payload) == {"problem"} and said in payload["problem"]["text"]
    assert "“?”" in drawn(playground, "follow", {"first": "\ud800"})["follow_plot"]["title"]  # half a character


def test_results_are_kept_by_run(playground, lm, monkeypatch):
    for edits in ([], EDITS):
        drawn(playground, "surprise", edits=edits)
        drawn(playground, "follow", {"first": "at"}, edits=edits)
    monkeypatch.setattr(expected, "predict", lambda *_: pytest.fail("predicted again"))
    monkeypatch.setattr(following, "follow_all", lambda *_: pytest.fail("followed again"))
    for edits in ([], EDITS):
        drawn(playground, "surprise", edits=edits)
        drawn(playground, "follow", {"first": "at", "measure": "rank"}, edits=edits)
        drawn(playground, "guess", edits=edits)  # which is about the same numbers
    kept = [measured(surprise.VIEW, "main", scene(playground, edits=edits)) for edits in ([], EDITS)]
    assert not np.array_equal(kept[0].entropy, kept[1].entropy)
    ours = [measured(following.VIEW, "main", scene(playground, edits=edits), first="at") for edits in ([], EDITS)]
    assert ours[0].tokens == ours[1].tokens == (token(lm, "at"),)
    assert not np.array_equal(ours[0].followed[0].logit, ours[1].followed[0].logit)
