"""What the model is asked: read from a page with care, the same tokens as the model's own chat, the same in Python."""

import pickle

import pytest

from model.errors import InputError
from tests.support.models.talking import END, talking_model, talking_server
from viz.work.limits import PRIVATE
from viz.work.prompt import MOST_TURNS, Prompt, conversation, fitted, prompt_of, python_of, read, with_text

TALK = (("system", "Be brief."), ("user", "Hi <|im_end|>"), ("assistant", "Yes?"), ("user", "你好"))


@pytest.fixture(scope="module")
def talker(tmp_path_factory):
    return talking_model(tmp_path_factory.mktemp("talking"))


def sent(turns, **more) -> dict:
    return {"on": True, "turns": [list(turn) for turn in turns], **more}


def test_a_page_asks_for_a_text_or_for_turns():
    assert prompt_of("abc", sent(TALK)) == Prompt("", TALK)
    assert prompt_of("abc", sent(TALK) | {"on": False}) == Prompt("abc")
    assert prompt_of("abc", {"special": True}) == Prompt("abc", special=True)
    assert prompt_of("", sent([["user", "a\ud800b"]])).turns == (("user", "a?b"),)


@pytest.mark.parametrize(
    "value",
    [
        None,
        7,
        "on",
        [],
        {"on": True},
        {"on": "yes", "turns": [["user", "x"]]},
        sent([]),
        sent([("tool", "x")]),
        sent([("user", 7)]),
        sent([("user", "x", "y")]),
        sent([("user", "x"), ("__class__", "x")]),
        {"on": True, "turns": {"user": "x"}},
        sent([("user", "x")] * (MOST_TURNS + 1)),
        sent([("user", "x" * (PRIVATE.characters + 1))]),
        {"special": "true"},
    ],
)
def test_what_is_no_conversation_counts_as_absent(value):
    assert prompt_of("abc", value) == Prompt("abc")


def test_an_empty_last_turn_of_the_assistant_is_the_models():
    open_end = Prompt("", (*TALK, ("assistant", "")))
    assert open_end.answer and not Prompt("", TALK).answer and not Prompt("abc").answer
    assert open_end.messages == Prompt("", TALK).messages and len(open_end.messages) == 4
    assert not Prompt("", (*TALK, ("assistant", "x"))).answer
    assert open_end.before == [list(turn) for turn in TALK] and Prompt("", TALK).before is Prompt("abc").before is None


@pytest.mark.parametrize("turns", [TALK, (*TALK, ("assistant", "")), TALK[1:3]])
def test_its_tokens_are_those_of_the_models_own_chat(talker, turns):
    prompt = Prompt("", turns)
    found = read(talker, prompt)
    messages = [{"role": role, "content": text} for role, text in turns if text]
    expected = talker.chat(messages, answer=turns[-1][1] == "")
    assert found.tokens.ids.tolist() == expected.ids.tolist() and len(found.turns) == len(expected)
    for turn, (_, text) in enumerate(turns):
        assert talker.decode(found.tokens.ids[found.turns == turn].tolist()) == text
    assert eval(python_of(prompt), {"lm": talker}).tolist() == expected.ids.tolist()
    assert eval(python_of(prompt, "other"), {"other": talker}).tolist() == expected.ids.tolist()


def test_special_tokens_are_read_where_one_wants_it(talker):
    text = "a<|im_end|>"
    plain, special = read(talker, Prompt(text)), read(talker, Prompt(text, special=True))
    assert plain.turns is None and plain.tokens.ids.tolist() == list(text.encode())
    assert special.tokens.ids.tolist() == [ord("a"), END]
    assert eval(python_of(Prompt(text)), {"lm": talker}) == text
    assert eval(python_of(Prompt(text, special=True)), {"lm": talker}).tolist() == [ord("a"), END]


def test_a_model_without_a_template_reads_the_last_text_of_a_user(talker, lm):
    assert fitted(talker, Prompt("", TALK)) == Prompt("", TALK)
    assert fitted(lm, Prompt("", TALK)) == Prompt("你好")
    assert fitted(lm, Prompt("", (("assistant", "x"),))) == Prompt("x")
    assert fitted(lm, Prompt("abc", special=True)) == Prompt("abc", special=True)


def test_another_text_in_its_place():
    prompt = Prompt("", (*TALK, ("assistant", "")))
    assert prompt.own == "你好" and with_text(prompt, "x").turns == (*TALK[:3], ("user", "x"), ("assistant", ""))
    assert Prompt("abc").own == "abc" and with_text(Prompt("abc", special=True), "x") == Prompt("x", special=True)
    assert prompt.plain == "Be brief.\nHi <|im_end|>\nYes?\n你好" and Prompt("abc").plain == "abc"
    assert prompt.characters == 9 + 13 + 4 + 2


def test_messages_of_a_program():
    messages = [{"role": role, "content": text} for role, text in TALK]
    assert conversation(messages) == Prompt("", (*TALK, ("assistant", "")))
    assert conversation(messages[:3]) == Prompt("", TALK[:3]) and conversation([]) == Prompt()
    for wrong in ("x", [5], [{"role": "user"}], [*messages, {"role": "tool", "content": ""}], {"role": "user"}):
        with pytest.raises(InputError, match="These are not messages"):
            conversation(wrong)


def test_a_conversation_is_read_once_and_travels(talker):
    server, prompt = talking_server(talker), Prompt("", TALK)
    assert server.read(talker, prompt) is server.read(talker, pickle.loads(pickle.dumps(prompt)))
    with pytest.raises(InputError, match="too long"):
        server.tokens(talker, Prompt("", (("user", "x" * 201),)))
    with pytest.raises(InputError, match=f"{PRIVATE.characters + 1} characters"):
        server.tokens(talker, Prompt("", (("user", "x" * (PRIVATE.characters + 1)),)))


def test_a_begun_answer_is_left_open(talker):
    turns = (*TALK, ("assistant", "Well"))
    begun = prompt_of("", sent(turns, open=True))
    assert (
        begun
        == Prompt("", turns, open=True)
        == conversation([*messages_of(TALK), {**messages_of(turns)[-1], "prefix": True}])
    )
    assert begun.begun == "Well" and not begun.answer and begun.before is None
    found, expected = read(talker, begun), talker.chat(messages_of(turns), continue_final=True)
    assert found.tokens.ids.tolist() == expected.ids.tolist() == [*talker.chat(messages_of(TALK)).ids, *b"Well"]
    assert (found.turns[-4:] == 4).all()
    assert eval(python_of(begun), {"lm": talker}).tolist() == expected.ids.tolist()
    for closed in (sent(TALK, open=True), sent((*TALK, ("assistant", "")), open=True), sent(turns, open="yes")):
        assert not prompt_of("", closed).open
    for wrong in (messages_of(TALK), messages_of((*TALK, ("assistant", "")))):
        with pytest.raises(InputError, match="cannot be continued"):
            conversation([*wrong[:-1], {**wrong[-1], "prefix": True}])


def messages_of(turns) -> list[dict]:
    return [{"role": role, "content": text} for role, text in turns]
