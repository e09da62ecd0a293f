"""Side by side, beyond its start: branches, going on, what a page sends back, and the Python lines."""

import dataclasses
import json

import pytest

from model.api import LanguageModel
from model.errors import InputError
from model.generation.strategies import STRATEGIES, Strategy
from model.records import RunKey
from model.text.chat import ending
from tests.support.models.helpers import serving
from tests.support.models.talking import after_turn, talking_model, talking_server
from tests.support.views.side_by_side import (
    CARDS,
    PROMPT,
    SETTINGS,
    TOKENS,
    WARM,
    going_on,
    model_of,
    pieces,
    rows_of,
)
from viz.seam.scene import run_id
from viz.views.sampling.pipelines import steps_of
from viz.views.sampling.side_by_side import run as race_run
from viz.views.sampling.side_by_side.python_lines import lines
from viz.views.sampling.side_by_side.run import packed, plan_of, request_of, strategy_of
from viz.work.prompt import Prompt, prompt_of, read

pytestmark = pytest.mark.usefixtures("every_piece")


@pytest.fixture(scope="module")
def lm(tmp_path_factory):
    return model_of(tmp_path_factory.mktemp("bytes"))


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
        lambda request, row: dataclasses.replace(plan(request, row), ending=frozenset((65,))),
    )
    branch = pieces(playground, going_on(found, 1, 4, token=65))
    assert [[change[2] for change in tick] for piece in branch for tick in piece["ticks"]] == [["end"]]


def test_a_token_that_completes_a_rule_leaves_nothing_to_write(playground):
    step = {"warp": "fits", "values": {}, "rule": {"kind": "choice", "text": "~~\n~a"}}
    found = pieces(playground, cards=CARDS | {"strategies": [{"name": "", "steps": [step]}, WARM]})
    assert rows_of(found)[0][0][0] == ord("~")
    branch = pieces(playground, going_on(found, 0, 1, token=ord("a")))
    assert [[change[2] for change in tick] for piece in branch for tick in piece["ticks"]] == [["rule"]]


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
        request_of(playground, playground.opened("tiny"), Prompt(PROMPT), None, sent)
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
        request_of(playground, playground.opened("tiny"), Prompt(PROMPT), None, sent)


@pytest.mark.parametrize("name", STRATEGIES)
def test_a_strategy_comes_back_as_it_was_sent(lm, name):
    sent = json.loads(json.dumps(packed(STRATEGIES[name])))
    assert strategy_of(lm, sent) == STRATEGIES[name]


def test_the_words_of_steps_come_back_as_they_were_typed(lm):
    texts = {"logit_bias": "·ab: 3", "banned_words": "a testament↵", "dry": ""}
    steps = steps_of(lm, [{"warp": warp, "text": text} for warp, text in texts.items()])
    back = strategy_of(lm, json.loads(json.dumps(packed(Strategy(steps))))).steps
    assert back == steps and [step.text for step in back] == [step.text for step in steps]
    assert back[0].tokens and back[1].phrases and not back[2].phrases


def test_a_rule_comes_back_beside_the_words_of_other_steps(lm):
    sent = [{"warp": "fits", "rule": {"kind": "regex", "text": "[a-z ]+"}}, {"warp": "banned_words", "text": "a\nb"}]
    steps = steps_of(lm, sent)
    back = strategy_of(lm, json.loads(json.dumps(packed(Strategy(steps))))).steps
    assert back == steps and back[0].rule == lm.rule("regex", "[a-z ]+") and len(back[1].phrases) == 4


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
        {"steps": [{"warp": "top_k", "values": {"k": -1}}]},
        {"steps": [{"warp": "logit_bias", "values": {}, "text": "a: 101"}]},
        {"steps": [{"warp": "logit_bias", "values": {}, "text": "a: x"}]},
        {"steps": [{"warp": "banned_words", "values": {}, "text": "a\n" * 33}]},
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


def test_a_conversation_is_continued_as_a_whole(tmp_path, monkeypatch):
    lm = talking_model(tmp_path)
    turns = [["user", "ab"], ["assistant", "c"], ["user", "d"], ["assistant", ""]]
    messages = [{"role": role, "content": text} for role, text in turns[:3]]
    expected = lm.chat(messages).ids.tolist()
    for chat in (False, True):  # whatever the cards say of a template
        cards = CARDS | {"settings": SETTINGS | {"chat": chat}}
        asked = prompt_of("else", {"on": True, "turns": turns})
        found = pieces(talking_server(lm), cards=cards, prompt=asked)
        assert found[0]["opening"]["prompt"] == expected
        texts = run_lines(found[0]["opening"]["python"], lm, monkeypatch)
        assert texts == [[record[0] for record in row] for row in rows_of(found)]
    assert found[0]["opening"]["key"] == run_id(RunKey("tiny", tuple(expected)), "")


@pytest.mark.parametrize("talks", [False, True], ids=["chat box", "conversation"])
def test_a_text_becomes_the_last_turn_of_the_conversation_that_it_answers(tmp_path, talks):
    lm = talking_model(tmp_path)
    turns = [["system", "x"], ["user", "ab"], ["assistant", ""]]
    asked = prompt_of("ab", {"on": talks, "turns": turns})
    found = pieces(talking_server(lm), cards=CARDS | {"settings": SETTINGS | {"chat": not talks}}, prompt=asked)
    opening, last = found[0]["opening"], found[-1]
    assert opening["turns"] == (turns[:2] if talks else [["user", "ab"]])
    assert last["whole"] == [None] * len(last["whole"])  # a template's tokens cannot be typed
    messages = [{"role": role, "content": text} for role, text in opening["turns"]]
    for row, own in zip(rows_of(found), last["own"], strict=True):
        ids = [record[0] for record in row]
        assert own == lm.decode(ids[: len(ids) - (ids[-1] in ending(lm.tokenizer))])
        if own:
            inside = prompt_of("", {"on": True, "turns": [*opening["turns"], ["assistant", own]]})
            assert read(lm, inside).tokens.ids.tolist() == after_turn(lm, messages, own)
    assert any(last["own"])


@pytest.mark.parametrize("turns", [[["user", "ab"]], [["user", "ab"], ["assistant", "c"]]])
def test_what_no_turn_is_open_for_is_none(tmp_path, turns):
    lm = talking_model(tmp_path)
    found = pieces(talking_server(lm), cards=CARDS, prompt=prompt_of("else", {"on": True, "turns": turns}))
    assert found[0]["opening"]["turns"] is None


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
    request = request_of(playground, LanguageModel("trained:x", "T", lm.model, lm.tokenizer), Prompt(PROMPT), CARDS, {})
    assert "load_model('the folder of the downloaded model')" in lines(request, ["a", "b"])
