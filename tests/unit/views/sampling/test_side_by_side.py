"""Side by side without a browser: pieces of a run, what a page sends, branches, stopping, and the Python lines."""

import dataclasses
import json
import math
import types

import pytest

from model.api import LanguageModel
from model.errors import InputError
from model.generation.strategies import STRATEGIES, Strategy
from model.generation.text_statistics import measure_text, written
from model.gpt.transformer import Transformer
from model.sampling.pipeline import Step
from tests.support.helpers import byte_tokenizer, serving, tiny_model
from tests.support.scripts import words_read
from viz.page.streams import answers
from viz.page.view import Visit
from viz.views.sampling import strategies
from viz.views.sampling.side_by_side import figures as numbers
from viz.views.sampling.side_by_side import run as race_run
from viz.views.sampling.side_by_side import view as side_by_side
from viz.views.sampling.side_by_side.python_lines import lines
from viz.views.sampling.side_by_side.run import Races, packed, plan_of, request_of, strategy_of
from viz.views.sampling.side_by_side.view import FEED
from viz.words import LANGUAGES, section, words

PROMPT = "abcab"
TOKENS = 12
SETTINGS = {"tokens": TOKENS, "seed": 3, "shared": True, "stop": [], "chat": False}
WARM = {"name": "", "method": "sample", "options": {}, "steps": [{"warp": "temperature", "values": {"temperature": 3}}]}
CARDS = {
    "strategies": [{"name": "greedy", "steps": [{"warp": "temperature", "values": {"temperature": 0}}]}, WARM],
    "settings": SETTINGS,
}
SHY = Strategy((Step("temperature", (("temperature", 1.5),)),), "sample", (), "Shy")


@pytest.fixture(scope="module")
def lm(tmp_path_factory):
    tokenizer = byte_tokenizer(tmp_path_factory.mktemp("bytes"))
    return LanguageModel("tiny", "Tiny", tiny_model({"vocab_size": 256, "n_ctx": 60}), tokenizer)


@pytest.fixture(autouse=True)
def every_piece(monkeypatch):
    monkeypatch.setattr(side_by_side, "_EVERY", 0.0)
    monkeypatch.setattr(race_run.background, "WAIT", 0.0)


def event(name, playground, races, owner, sent, cards=CARDS, language="en"):
    """What an event of the channel yields."""
    visit = Visit(playground, owner, language, "tiny", PROMPT, {"strategies": cards}, races)
    return answers(FEED.events[name], visit, sent)


def pieces(playground, sent=None, cards=CARDS, races=None, owner="me", language="en"):
    """What a page is sent of a run, from its first piece to its last."""
    sent = {"kind": "start", "tag": "a", **(sent or {})}
    return list(event("start", playground, races or Races(), owner, sent, cards, language))


def rows_of(found, count=2):
    """The records of every row once all pieces are put together as the page does."""
    rows = [[] for _ in range(count)]
    for piece in found:
        for tick in piece.get("ticks", ()):
            for row, change in zip(rows, tick, strict=True):
                if change:
                    del row[len(row) - change[1] :]
                    row += change[0]
    return rows


def going_on(found, row, at, **more):
    """What a page sends to go on from the first `at` tokens of a row."""
    opening = found[0]["opening"]
    each = opening["rows"][row]
    before = [record[:7] for record in rows_of(found)[row][:at]]
    sent = {"strategy": each["strategy"], "number": each["number"], "written": before}
    settings = opening["settings"]
    return {
        "kind": "branch",
        "model": "tiny",
        "prompt": opening["prompt"],
        "rows": [sent],
        "settings": settings,
        "limit": TOKENS,
        **more,
    }


# --- pieces ---


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


# --- branches and going on ---


@pytest.mark.parametrize("shared", [True, False])
def test_a_branch_with_the_same_token_writes_the_same_text(playground, shared):
    """The same strategy, the same random numbers: nothing but a chosen token can make a difference."""
    found = pieces(playground, cards=CARDS | {"settings": SETTINGS | {"shared": shared}})
    row = rows_of(found)[1]
    for at in (0, 3):
        branch = pieces(playground, going_on(found, 1, at, token=row[at][0]))
        made = rows_of(branch, 1)[0]
        assert [record[0] for record in made] == [record[0] for record in row[at:]]
        assert [record[6] for record in made[1:]] == [record[6] for record in row[at + 1 :]]
        assert made[0][6] is None and made[0][:4] == pytest.approx(row[at][:4], rel=1e-4)  # chosen by hand
        assert made[0][4] == pytest.approx(row[at][4], rel=1e-4)
        assert branch[-1]["measured"][0]["length"] == TOKENS
        assert branch[-1]["measured"][0]["entropy"] == pytest.approx(found[-1]["measured"][1]["entropy"], rel=1e-4)


def test_another_token_changes_what_follows_but_not_the_random_numbers(playground):
    found = pieces(playground)
    row = rows_of(found)[1]
    other = next(number for number in row[3][7][::3] if number != row[3][0])
    made = rows_of(pieces(playground, going_on(found, 1, 3, token=other)), 1)[0]
    assert made[0][0] == other and made[0][2] == 1 + row[3][7][::3].index(other)
    assert [record[6] for record in made[1:]] == [record[6] for record in row[4:]]
    typed = rows_of(pieces(playground, going_on(found, 1, 3, typed=chr(other))), 1)[0]
    assert typed == made


def test_going_on_is_what_a_longer_run_would_have_written(playground):
    found = pieces(playground)
    longer = rows_of(pieces(playground, cards=CARDS | {"settings": SETTINGS | {"tokens": 20}}))
    sent = going_on(found, 0, TOKENS, kind="go")
    sent["rows"] += going_on(found, 1, TOKENS)["rows"]
    more = pieces(playground, sent, cards=CARDS | {"settings": SETTINGS | {"tokens": 8}})
    for before, after, whole in zip(rows_of(found), rows_of(more), longer, strict=True):
        assert [record[0] for record in before + after] == [record[0] for record in whole]
    assert [each["length"] for each in more[-1]["measured"]] == [20, 20]


def test_a_token_that_ends_a_text_leaves_nothing_to_write(playground, lm, monkeypatch):
    found = pieces(playground)
    plan = plan_of
    monkeypatch.setattr(
        race_run,
        "plan_of",
        lambda request, row: types.SimpleNamespace(**vars(plan(request, row)) | {"ending": frozenset((65,))}),
    )
    branch = pieces(playground, going_on(found, 1, 4, token=65))
    assert [[change[2] for change in tick] for piece in branch for tick in piece["ticks"]] == [["end"]]


# --- what a page sends ---


@pytest.mark.parametrize(
    "change",
    [
        {"model": "other"},
        {"prompt": []},
        {"prompt": [256]},
        {"prompt": [-1]},
        {"prompt": [1.0]},
        {"prompt": [True]},
        {"prompt": "abc"},
        {"prompt": [1] * 60},
        {"rows": []},
        {"rows": None},
        {"rows": [{}] * 9},
        {"rows": ["x"]},
        {"token": 256},
        {"token": None},
        {"token": "a"},
        {"token": [1]},
        {"typed": "ab"},
        {"settings": {"tokens": 0}},
        {"settings": {"seed": -1}},
        {"settings": [1]},
        {"prompt": [1] * 58},
    ],
)
def test_what_cannot_be_gone_on_from_is_refused(playground, change):
    found = pieces(playground)
    sent = going_on(found, 1, 4, token=65) | change
    with pytest.raises(InputError):
        request_of(playground, playground.opened("tiny"), PROMPT, None, sent)
    (only,) = pieces(playground, sent, language="zh")
    assert only["error"]["text"] and only["tag"] == "a" and "run" not in only


@pytest.mark.parametrize(
    "record",
    [
        [],
        "x",
        [1, 2],
        [256, -1.0, 1, 1.0, 0.5, 3, 0.5],
        [1, "x", 1, 1.0, 0.5, 3, 0.5],
        [1, -1.0, 1.5, 1.0, 0.5, 3, 0.5],
        [1, -1.0, 1, 1e300, 0.5, 3, 0.5],
        [1, -1.0, 1, 1.0, 0.5, -3, 0.5],
        [1, -1.0, 1, [], 0.5, 3, 0.5],
        [1, -1.0, 1, 10**400, 0.5, 3, 0.5],
        [1, -1.0, 257, 1.0, 0.5, 3, 0.5],
    ],
)
def test_a_token_that_is_no_record_is_refused(playground, record):
    found = pieces(playground)
    sent = going_on(found, 1, 4, token=65)
    sent["rows"][0]["written"][2] = record
    with pytest.raises(InputError):
        request_of(playground, playground.opened("tiny"), PROMPT, None, sent)


@pytest.mark.parametrize("name", STRATEGIES)
def test_a_strategy_comes_back_as_it_was_sent(lm, name):
    sent = json.loads(json.dumps(packed(STRATEGIES[name])))
    assert strategy_of(lm, sent) == STRATEGIES[name]


@pytest.mark.parametrize(
    "sent",
    [
        None,
        [],
        {},
        {"steps": "x"},
        {"steps": [3]},
        {"steps": [{"warp": "no"}]},
        {"steps": [], "method": "no"},
        {"steps": [{"warp": "top_k", "values": {"k": 0}}]},
        {"steps": [{"warp": "temperature", "values": {}, "tokens": [[999, 1.0]]}]},
        {"steps": [{"warp": "temperature", "values": {}, "tokens": [[1, "x"]]}]},
    ],
)
def test_what_is_no_strategy_is_refused(lm, sent):
    with pytest.raises(InputError):
        strategy_of(lm, sent)


def test_a_chat_template_is_put_around_the_prompt(playground, lm, monkeypatch):
    template = "{% for m in messages %}<{{ m.role }}>{{ m.content }}{% endfor %}<assistant>"
    chatty = dataclasses.replace(lm, tokenizer=dataclasses.replace(lm.tokenizer, chat_template=template))
    cards = CARDS | {"settings": SETTINGS | {"chat": True}}
    found = pieces(serving(chatty), cards=cards)
    opening = found[0]["opening"]
    assert lm.decode(opening["prompt"]) == f"<user>{PROMPT}<assistant>"
    plain = pieces(playground)[0]["opening"]
    assert opening["key"] == plain["key"]  # the same prompt as far as the page's chips go
    texts = run_lines(opening["python"], chatty, monkeypatch)
    assert texts == [[record[0] for record in row] for row in rows_of(found)]
    (only,) = pieces(playground, cards=cards)
    assert only["error"]["text"].startswith("This model has no chat template.")


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
    assert (rows_of(found["me"]), rows_of(found["you"])) == alone
    assert {piece["tag"] for piece in found["me"]} == {"me"} and {piece["tag"] for piece in found["you"]} == {"you"}
    assert len({piece["run"] for each in found.values() for piece in each}) == 2


def test_a_new_run_takes_the_place_of_the_last_one(playground, lm):
    races = Races()
    first = event("start", playground, races, "me", {"kind": "start"})
    next(first)
    old = races.of("me")
    pieces(playground, races=races)
    assert old.stop.is_set() and races.of("me") is not old
    assert [each["state"] for each in first] == ["stopped"]


def test_only_so_many_runs_are_kept(playground):
    races = Races(most=3)
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
        visit = Visit(playground, owner, "en", "tiny", PROMPT, {}, races)
        FEED.events["stop"].handle(visit, None)
        assert next(steps)["state"] == state
    (missing,) = event("again", playground, races, "me", {"run": first["run"], "have": 0})
    assert missing["run"] == first["run"]
    FEED.leave(races, "me")
    assert not list(event("again", playground, races, "me", {"run": first["run"], "have": 0}))
    visit = Visit(playground, "me", "en", "no such model", PROMPT, {}, races)
    (gone,) = answers(FEED.events["start"], visit, {})
    assert gone["error"]["text"]
    assert FEED.events["start"].concurrency is None and FEED.events["start"].trigger == "multiple"
    assert FEED.state() is not FEED.state()  # one for each page that is built


# --- Python ---


def run_lines(text, lm, monkeypatch):
    """What the lines leave in `texts`."""
    from model import api

    monkeypatch.setattr(api, "load_model", lambda model_id: lm)
    space = {}
    exec(text, space)
    return space["texts"]


def test_the_python_lines_write_the_same_texts(playground, lm, monkeypatch):
    cards = CARDS | {"strategies": [*CARDS["strategies"], {"name": 'it\'s "<b>"', "steps": []}]}
    found = pieces(playground, cards=cards)
    texts = run_lines(found[0]["opening"]["python"], lm, monkeypatch)
    assert texts == [[record[0] for record in row] for row in rows_of(found, 3)]


def test_the_python_lines_of_a_branch_and_of_going_on(playground, lm, monkeypatch):
    cards = CARDS | {"settings": SETTINGS | {"shared": False, "stop": ["zz\\n"]}}
    found = pieces(playground, cards=cards)
    row = rows_of(found)[1]
    branch = pieces(playground, going_on(found, 1, 4, token=65))
    made = rows_of(branch, 1)[0]
    (text,) = run_lines(branch[0]["opening"]["python"], lm, monkeypatch)
    assert text == [record[0] for record in row[:4] + made]
    sent = going_on(found, 0, 5, kind="go") | {"rows": [going_on(found, n, 5)["rows"][0] for n in range(2)]}
    more = pieces(playground, sent)
    texts = run_lines(more[0]["opening"]["python"], lm, monkeypatch)
    assert texts == [[record[0] for record in old[:5] + new] for old, new in zip(rows_of(found), rows_of(more), strict=True)]  # fmt: skip # noqa: E501


def test_a_trained_model_is_named_by_its_folder(playground, lm):
    request = request_of(playground, LanguageModel("trained:x", "T", lm.model, lm.tokenizer), PROMPT, CARDS, {})
    assert "load_model('the folder of the downloaded model')" in lines(request, ["a", "b"])


# --- words ---


@pytest.mark.parametrize("language", LANGUAGES)
def test_every_word_the_script_asks_for_is_there(language):
    said = {*section(words(language), "side_by_side.texts"), "plot", "view"}
    used = words_read("views/sampling/side_by_side*")
    assert len(used) > 40 and used <= said
    for by in numbers.COLOURS:
        assert {f"by_{by}", f"unit_{by}"} <= said
    assert {f"ended_{why}" for why in ("end", "stop", "length", "context")} <= said


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
