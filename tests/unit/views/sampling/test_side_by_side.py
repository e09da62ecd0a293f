"""Side by side without a browser: pieces of a run, stopping, other visitors, and the words of the script."""

import dataclasses
import math
import threading
import types
from itertools import chain

import pytest

from model.generation import together
from model.generation.strategies import STRATEGIES
from model.generation.text_statistics import measure_text, written
from model.gpt.transformer import Transformer
from model.kernels import ready
from tests.support.scripts import words_read
from tests.support.views.side_by_side import CARDS, PROMPT, SETTINGS, TOKENS, event, model_of, pieces, rows_of
from tests.support.views.views import drawn
from viz.page.wire.streams import answers
from viz.seam.view import Visit
from viz.views.sampling import strategies
from viz.views.sampling.side_by_side import figures as numbers
from viz.views.sampling.side_by_side.run import Race, Races, packed, request_of, rounds
from viz.views.sampling.side_by_side.view import FEED
from viz.words import LANGUAGES, section, words
from viz.work.prompt import Prompt

pytestmark = pytest.mark.usefixtures("every_piece")


@pytest.fixture(scope="module")
def lm(tmp_path_factory):
    return model_of(tmp_path_factory.mktemp("bytes"))


def test_who_looks_at_it_has_the_loops_for_writing_fetched(playground, monkeypatch):
    asked = []
    monkeypatch.setattr(ready, "soon", lambda: asked.append(True))
    assert drawn(playground, "sampling", "draws") and asked == []
    assert drawn(playground, "sampling", "side_by_side") and asked == [True]


# --- pieces ---


def test_the_last_piece_has_each_text_whole_as_a_prompt_would_be_typed(playground, lm):
    found = pieces(playground)
    assert not any("whole" in piece for piece in found[:-1])
    ids = [[record[0] for record in row] for row in rows_of(found)]
    assert found[-1]["whole"] == [PROMPT, *(lm.decode([*lm.encode(PROMPT).ids.tolist(), *row]) for row in ids)]


def test_a_text_with_tokens_that_nobody_can_type_is_none(playground, lm):
    special = dataclasses.replace(lm.tokenizer, special={"<|end|>": 7}, eos_id=7)
    request = request_of(playground, lm, Prompt(PROMPT), CARDS, {})
    race = Race("me", dataclasses.replace(request, model=dataclasses.replace(lm, tokenizer=special)))
    race.written[0] = [types.SimpleNamespace(id=7)]
    assert race.full_texts == [PROMPT] * 3  # what ended a text is no part of it
    race.written[0].append(types.SimpleNamespace(id=97))
    assert race.full_texts == [PROMPT, None, PROMPT] and race.own_texts == [None, ""]


def test_the_pieces_of_a_run_are_what_the_strategies_write(playground, lm):
    found = pieces(playground)
    expected = written(lm.generate(PROMPT, strategies.chosen(lm, CARDS), TOKENS, 3), 2)
    rows = rows_of(found)
    assert [[record[0] for record in row] for row in rows] == [list(text.ids) for text in expected]
    for row, text in zip(rows, expected, strict=True):
        for record, made in zip(row, text.made, strict=True):
            assert record[1] == pytest.approx(made.log_probability, rel=1e-5)
            assert (record[2], record[5]) == (made.rank, made.kept)
            assert record[3] == pytest.approx(made.entropy, rel=1e-5)
            assert record[4] == pytest.approx(made.probability, rel=1e-5)
            assert record[6] == pytest.approx(made.uniform, rel=1e-5)
            assert record[7][::3] == [each[0] for each in made.top]
            assert record[7][2::3] == pytest.approx([each[2] for each in made.top], rel=1e-5)
    assert [piece["from"] for piece in found] == [*range(TOKENS), TOKENS]  # nothing twice, nothing left out
    assert [piece["state"] for piece in found] == ["running"] * TOKENS + ["done"]
    assert "opening" in found[0] and not any("opening" in piece for piece in found[1:])
    assert found[-1]["tokens"] == 2 * TOKENS and found[-1]["seconds"] > 0


def test_every_token_that_a_piece_names_has_its_text_by_then(playground, lm):
    known = dict((found := pieces(playground))[0]["opening"]["texts"])
    for piece in found:
        assert not set(piece["texts"]) & set(known) - set(found[0]["opening"]["texts"])  # each is sent once
        known |= piece["texts"]
        records = [record for tick in piece["ticks"] for change in tick if change for record in change[0]]
        assert {str(number) for number in numbers.ids_of(records)} <= set(known)
    assert known[str(lm.encode("a").ids[0])] == "a"
    assert numbers.shown("\n\n\n<b>") == ["↵↵↵<b>", 2] and numbers.shown(" a") == "·a"


def test_the_last_piece_has_the_numbers_of_each_text(playground, lm):
    last = pieces(playground)[-1]
    texts = written(lm.generate(PROMPT, strategies.chosen(lm, CARDS), TOKENS, 3), 2)
    for told, text in zip(last["measured"], texts, strict=True):
        for name, value in vars(measure_text(text.made)).items():
            assert told[name] == (None if math.isnan(value) else pytest.approx(value, rel=1e-5))


def test_what_a_run_is_of(playground, lm):
    opening = pieces(playground)[0]["opening"]
    assert opening["prompt"] == lm.encode(PROMPT).ids.tolist()
    assert [row["name"] for row in opening["rows"]] == ["Greedy", words("en")["strategies.methods.sample"]]
    assert opening["settings"] | SETTINGS == opening["settings"] and opening["limit"] == TOKENS
    chinese = pieces(playground, language="zh")[0]["opening"]
    assert chinese["rows"][0]["name"] == words("zh")["strategies.names.greedy"]


def test_a_page_that_missed_a_piece_gets_all_it_lacks(playground):
    races = Races()
    found = pieces(playground, races=races)
    (whole,) = event("again", playground, races, "me", {"run": found[0]["run"], "have": -1})
    assert rows_of([whole]) == rows_of(found) and whole["opening"] == found[0]["opening"]
    assert whole["measured"] == found[-1]["measured"]
    (later,) = event("again", playground, races, "me", {"run": found[0]["run"], "have": 5})
    assert later["from"] == 5 and later["ticks"] == whole["ticks"][5:] and "opening" not in later
    assert not list(event("again", playground, races, "other", {"run": found[0]["run"], "have": 0}))
    for wrong in (None, [], {}, {"run": 3}, {"run": found[0]["run"] + "0"}):
        assert not list(event("again", playground, races, "me", wrong))


# --- stopping, and other visitors ---


def test_closing_ends_the_run_and_frees_the_model(playground, lm, monkeypatch):
    races, ran, trunk = Races(), [], Transformer.trunk
    monkeypatch.setattr(Transformer, "trunk", lambda *given, **named: (ran.append(1), trunk(*given, **named))[1])
    steps = event("start", playground, races, "me", {"kind": "start"})
    next(steps), next(steps)
    assert not playground.computing.locked()  # a click elsewhere is answered between two pieces
    run = races.of("me")
    steps.close()
    assert run.state == "stopped" and run.stop.is_set() and not playground.computing.locked()
    assert len(ran) == 2


def test_stopping_keeps_what_was_written_and_measures_it(playground, lm):
    races = Races()
    steps = event("start", playground, races, "me", {"kind": "start"})
    found = [next(steps), next(steps)]
    races.of("me").stop.set()
    found += steps
    assert found[-1]["state"] == "stopped" and [len(row) for row in rows_of(found)] == [2, 2]
    assert [each["length"] for each in found[-1]["measured"]] == [2, 2]


def test_two_visitors_runs_do_not_cross(playground, lm):
    races = Races()
    alone = rows_of(pieces(playground)), rows_of(pieces(playground, cards=CARDS | {"settings": SETTINGS | {"seed": 4}}))
    other = CARDS | {"settings": SETTINGS | {"seed": 4}}
    both = {
        owner: event("start", playground, races, owner, {"tag": owner}, cards)
        for owner, cards in (("me", CARDS), ("you", other))
    }
    found = {"me": [], "you": []}
    while both:
        for owner, steps in list(both.items()):
            if (piece := next(steps, None)) is None:
                del both[owner]
            else:
                found[owner].append(piece)
    for owner, rows in zip(("me", "you"), alone, strict=True):  # they share forwards, which round otherwise
        for one, other in zip(chain(*rows_of(found[owner])), chain(*rows), strict=True):
            assert one[:7] == pytest.approx(other[:7], rel=1e-4, nan_ok=True)
    assert {piece["tag"] for piece in found["me"]} == {"me"} and {piece["tag"] for piece in found["you"]} == {"you"}
    assert len({piece["run"] for each in found.values() for piece in each}) == 2


def test_two_visitors_texts_share_their_forwards(playground, lm, monkeypatch):
    whole, forwards = together.forward_all, []
    monkeypatch.setattr(
        together, "forward_all", lambda model, needs: forwards.append(len(needs)) or whole(model, needs)
    )
    request, stop = request_of(playground, lm, Prompt(PROMPT), CARDS, {}), threading.Event()
    both = [rounds(playground, request, stop) for _ in range(2)]
    steps = list(zip(*both, strict=True))
    assert len(steps) == TOKENS and forwards == [2] * (TOKENS - 1)
    for one, other in steps:
        assert [change.made[0].id for change in one] == [change.made[0].id for change in other]


def test_a_new_run_takes_the_place_of_the_last_one(playground, lm):
    races = Races()
    first = event("start", playground, races, "me", {"kind": "start"})
    next(first)
    old = races.of("me")
    pieces(playground, races=races)
    assert old.stop.is_set() and races.of("me") is not old
    assert [each["state"] for each in first] == ["stopped"]


def test_only_so_many_runs_are_kept(playground):
    races = Races(capacity=3)
    for owner in "abcdef":
        pieces(playground, races=races, owner=owner)
    assert [owner for owner in "abcdef" if races.of(owner)] == ["d", "e", "f"]


def test_a_fault_of_ours_is_said_and_frees_the_model(playground, lm, monkeypatch):
    monkeypatch.setattr(Transformer, "trunk", lambda *given, **named: 1 / 0)
    (only,) = pieces(playground)
    assert only["error"]["text"] == words("en")["notice.failed"] and not playground.computing.locked()


def test_the_channel(playground):
    races = Races()
    steps = event("start", playground, races, "me", {"kind": "start", "tag": "t"})
    first = next(steps)
    for owner, state in (("you", "running"), ("me", "stopped")):
        visit = Visit(playground, owner, "en", "tiny", Prompt(PROMPT), {}, races)
        FEED.events["stop"].handle(visit, None)
        assert next(steps)["state"] == state
    (missing,) = event("again", playground, races, "me", {"run": first["run"], "have": 0})
    assert missing["run"] == first["run"]
    FEED.leave(races, "me")
    assert not list(event("again", playground, races, "me", {"run": first["run"], "have": 0}))
    visit = Visit(playground, "me", "en", "no such model", Prompt(PROMPT), {}, races)
    (gone,) = answers(FEED.events["start"], visit, {})
    assert gone["error"]["text"]
    assert FEED.events["start"].trigger == "multiple"
    assert FEED.state() is not FEED.state()  # one for each page that is built


# --- words ---


@pytest.mark.parametrize("language", LANGUAGES)
def test_every_word_the_script_asks_for_is_there(language):
    said = {*section(words(language), "side_by_side.texts"), "plot", "view"}
    used = words_read("views/sampling/side_by_side", "views/sampling/side_by_side/*")
    assert len(used) > 40 and used <= said
    for by in numbers.COLORS:
        assert {f"by_{by}", f"unit_{by}"} <= said
    assert {f"ended_{why}" for why in ("end", "stop", "length", "context", "rule", "stuck")} <= said


def test_a_search_that_changes_its_mind_is_followed(playground, lm):
    """What it drops goes from the text and from its numbers, too."""
    found = pieces(playground, cards={"strategies": [packed(STRATEGIES["beam"])], "settings": SETTINGS})
    (text,) = written(lm.generate(PROMPT, "beam", TOKENS, 3), 1)
    changes = [tick[0] for piece in found for tick in piece["ticks"]]
    assert any(change[1] for change in changes)  # else this shows nothing
    (row,) = rows_of(found, 1)
    assert tuple(record[0] for record in row) == text.ids
    assert found[-1]["measured"][0]["length"] == len(text.ids)
    assert len(changes[-1][3]) > 1 and changes[-1][3][0][0] == list(text.ids)
