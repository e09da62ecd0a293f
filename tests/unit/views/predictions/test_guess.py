"""Guess first, without a browser: nothing is sent before the guess, and how it is read."""

import json

import pytest

from model.gpt.edits import Edit
from model.predictions.predictions import follow, predict
from tests.support.views.predictions import EDITS, PROMPT, drawn, scene, token
from viz.seam.scene import run_id
from viz.views.predictions.guess import view as guess
from viz.views.predictions.guess.view import Chances, Guess, Turn, turn_of
from viz.words import LANGUAGES


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
