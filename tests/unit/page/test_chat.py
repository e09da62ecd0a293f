"""A conversation on the page: every view runs on its tokens, the chips say who wrote what, a link brings it back."""

import dataclasses

import pytest

from tests.support.models.talking import OWN, talking_model, talking_server
from tests.support.picking import asked
from viz.page.address import answer, link_of
from viz.page.chat import found_in
from viz.page.notebook import page_of
from viz.page.pipeline import FIRST, payloads, scene_of
from viz.seam.scene import prompt_id
from viz.views.tabs import TABS
from viz.words import LANGUAGES, words
from viz.work.prompt import Prompt, turn_names

TURNS = [["system", "Be brief."], ["user", "abcab"], ["assistant", ""]]
CHAT = {"on": True, "turns": TURNS}
MESSAGES = [{"role": role, "content": text} for role, text in TURNS[:2]]
TAB_KEYS = tuple(tab.key for tab in TABS)


@pytest.fixture(scope="module")
def talker(tmp_path_factory):
    return talking_model(tmp_path_factory.mktemp("talking"))


@pytest.fixture
def server(talker):
    return talking_server(talker)


def test_the_page_runs_on_the_tokens_of_the_conversation(server, talker):
    scene = scene_of(server, asked("else", chat=CHAT))
    assert scene.tokens.ids.tolist() == talker.chat(MESSAGES).ids.tolist()
    assert scene.trace.key.ids == tuple(scene.tokens.ids.tolist()) and scene.prompt == Prompt(
        "", tuple(map(tuple, TURNS))
    )
    assert scene.key.open(server).trace is scene.trace
    assert scene_of(server, asked("else", chat=CHAT | {"on": False})).tokens.ids.tolist() == list(b"else")
    assert scene_of(server, asked("<|im_end|>", chat={"special": True})).tokens.ids.tolist() == [257]


def test_chips_say_whose_they_are(server, talker):
    tokens = payloads(server, asked("else", chat=CHAT))[0]["tokens"]
    assert [chip["turn"] for chip in tokens["tokens"]] == talker.turns(MESSAGES).tolist()
    assert "".join(chip["text"] for chip in tokens["tokens"] if chip["turn"] == 1) == "abcab"
    assert tokens["words"]["turns"] == ["system", "user", "assistant"] and tokens["words"]["written"]
    assert tokens["prompt"] == "else"  # what stands in the box
    plain = payloads(server, asked("abc"))[0]["tokens"]
    assert all("turn" not in chip for chip in plain["tokens"]) and "turns" not in plain["words"]


def test_turns_of_one_role_are_counted():
    names = turn_names(["system", "user", "assistant", "user"], words("en"))
    assert names == ["system", "user 1", "assistant", "user 2"]


def test_the_part_offers_what_the_model_has(server, playground):
    chat = payloads(server, asked("a <|im_end|> b <|im_start|>"))[0]["chat"]
    assert chat["offered"] and chat["system"] == "Be kind" and chat["special"]
    assert chat["found"] == ["<|im_end|>", "<|im_start|>"]
    assert [role for role, _ in chat["roles"]] == ["system", "user", "assistant"]
    other = payloads(playground, asked("abc"))[0]["chat"]
    assert (other["offered"], other["system"], other["special"], other["found"]) == (False, None, False, [])
    parts, shown = payloads(server, asked("abc"))
    assert "chat" in parts and "chat" not in payloads(server, asked("abcd", shown=shown))[0]
    assert payloads(server, asked("abcd<|im_end|>", shown=shown))[0]["chat"]["found"] == ["<|im_end|>"]


def test_special_tokens_are_found_in_their_order(talker):
    assert found_in(talker, "x") == () and found_in(talker, "<|im_end|") == ()
    assert found_in(talker, "<|im_end|><|im_start|><|im_end|>") == ("<|im_end|>", "<|im_start|>")


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_model_without_a_template_says_that_it_reads_one_turn(playground, language):
    parts, _ = payloads(playground, asked("else", chat=CHAT, language=language))
    assert [chip["text"] for chip in parts["tokens"]["tokens"]] == list("abcab")
    assert "Tiny" in parts["notice"]["text"] and parts["notice"]["kind"] == "info" and parts["notice"]["hint"]
    assert payloads(playground, asked("abcab", language=language))[0]["notice"] == {}


def test_a_conversation_that_the_template_refuses_can_be_changed(talker):
    strict = "{% if messages[0].role != 'user' %}{{ raise_exception('user first') }}{% endif %}" + OWN
    tokenizer = dataclasses.replace(talker.tokenizer, chat_template=strict)
    server = talking_server(dataclasses.replace(talker, tokenizer=tokenizer))
    _, shown = payloads(server, asked("abc"))
    parts, after = payloads(server, asked("abc", chat=CHAT, shown=shown))
    assert "does not accept these messages" in parts["notice"]["text"] and parts["chat"]["offered"]
    assert "chat" in payloads(server, asked("abc", shown=after))[0]


@pytest.mark.parametrize("tab", TABS, ids=lambda tab: tab.key)
def test_every_view_draws_a_conversation(server, tab):
    for view in tab.views:
        values = {tab.chooser: {"view": view.key}}
        parts, _ = payloads(server, asked("else", chat=CHAT, tab=tab.key, values=values))
        assert parts["notice"] == {}, view.key
        problems = {name: part["problem"] for name, part in parts.items() if "problem" in part}
        plain, _ = payloads(server, asked("else", tab=tab.key, values=values))
        assert set(problems) <= {name for name, part in plain.items() if "problem" in part}, problems


def test_python_lines_run_the_conversation(server, talker):
    python = payloads(server, asked("else", chat=CHAT))[0]["map_plot"]["python"]
    lines = python[python.index("run = ") :]
    found = {"lm": talker}
    exec(lines[: lines.index(".ids)") + len(".ids)")], found)
    assert found["run"].tokens.ids.tolist() == talker.chat(MESSAGES).ids.tolist()


def test_a_link_brings_its_conversation_back(server):
    link = link_of({"model": "tiny", "prompt": "else", "chat": CHAT, "tokens": [20]}, TAB_KEYS)
    found = answer(server, link, "tiny", (FIRST, TAB_KEYS[0]))
    assert found.selection.tokens == (20,)  # of the conversation: the prompt has four
    assert found.run == prompt_id(scene_of(server, asked("else", chat=CHAT))) and found.prompt == "else"
    for hostile in ("x", 7, {"on": True, "turns": "x"}, {"on": True, "turns": [["root", "x"]]}):
        plain = answer(server, link_of({"prompt": "else", "chat": hostile}, TAB_KEYS), "tiny", (FIRST, "x"))
        assert plain.run == prompt_id(scene_of(server, asked("else")))


def test_a_notebook_takes_messages(talker):
    page = page_of(talker, MESSAGES)
    T = len(talker.chat(MESSAGES))
    assert page.figure("map_plot").data[0].z.shape == (T, T)
    page.run("turns_job")
    for name in ("turns_reads", "turns_writes", "turns_rests"):
        assert list(page.figure(name).data[0].x) == ["system", "user", "template"]
