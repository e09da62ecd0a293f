"""What a link asks for is checked: it opens nothing that is not here, and whatever is wrong with it is left out."""

import json
from pathlib import Path

import pytest

from model.api import LanguageModel
from model.errors import InputError
from model.gpt.edits import Edit
from model.loading.sources import Resolved
from tests.support.models.helpers import H, L, tiny_config
from viz.page.address import (
    Link,
    answer,
    id_of,
    link_of,
    linked_payload,
    name_of,
    payload,
    tokens_id,
)
from viz.page.pipeline import FIRST, HELD, PARTS, PageRequest, payloads, scene_of
from viz.page.wire.models import restored
from viz.seam.scene import prompt_id
from viz.seam.selection import Selection, picked
from viz.views.tabs import TABS
from viz.words import words
from viz.work.playground import MAX_CHARACTERS, Options, Playground

KEYS = tuple(tab.key for tab in TABS)
START = (FIRST, KEYS[0])


def nested(depth: int) -> list:
    """A list in a list in a list, so often that spelling it out would overflow."""
    found: list = []
    for _ in range(depth):
        found = [found]
    return found


def asked(playground: Playground, **said):
    return answer(playground, link_of(said, KEYS), "tiny", START)


def test_a_whole_link_is_taken(playground: Playground, lm: LanguageModel):
    edit = {"kind": "zero", "layer": 1, "head": 2}
    found = asked(
        playground,
        model="tiny",
        prompt="Hi there",
        tab="heads",
        heads=[[2, 1], [0, 3]],
        tokens=[5, 0],
        pair=[4, 2],
        edits=[edit],
    )
    assert (found.model_id, found.prompt, found.tab, found.waits) == ("tiny", "Hi there", "heads", "")
    assert found.selection == Selection(((2, 1), (0, 3)), (5, 0), (4, 2), (Edit("zero", 1, 2),))
    scene = scene_of(playground, PageRequest("tiny", "Hi there", {}, {}, {}, "en"))
    assert found.run == prompt_id(scene)  # so that the page knows of which chips its tokens are


def test_an_empty_link_is_an_untouched_page(playground: Playground):
    found = asked(playground)
    assert (found.model_id, found.tab, found.waits) == ("tiny", KEYS[0], "")
    assert found.prompt == FIRST and found.selection is None  # 43 bytes are more than this server's 40 tokens
    assert asked(playground, prompt="Hi").selection == Selection()


@pytest.mark.parametrize("value", [None, "x", 7, [], ["model"], True, nested(5000), {"model": {}, "prompt": 3}])
def test_what_is_no_link_asks_for_nothing(value: object):
    assert link_of(value, KEYS) == Link(
        None, None, None, dict.fromkeys(("heads", "tokens", "pair", "edits", "target", "distractor"))
    )


@pytest.mark.parametrize("model", [None, 5, [], {}, "", "  ", "x" * 201, "a\x00b", "a\nb", "a\u202eb", True])
def test_a_model_that_cannot_be_one_is_the_usual_one(playground: Playground, model: object):
    assert link_of({"model": model}, KEYS).model is None
    assert asked(playground, model=model).model_id == "tiny"


@pytest.mark.parametrize("prompt", [None, 5, [], {}, nested(5000), "x" * (MAX_CHARACTERS + 1)])
def test_a_prompt_that_cannot_be_one_is_the_first(playground: Playground, prompt: object):
    assert asked(playground, prompt=prompt).prompt == FIRST


def test_every_text_can_be_a_prompt(playground: Playground):
    text = "\x00\x1b[31m\u202e<script>"
    assert asked(playground, prompt=text).prompt == text  # the page shows it as text
    assert asked(playground, prompt="a\ud800b").prompt == "a?b"  # half a character
    assert asked(playground, prompt="").prompt == ""  # the page then says what it lacks
    assert link_of({"prompt": "x" * MAX_CHARACTERS}, KEYS).prompt == "x" * MAX_CHARACTERS


@pytest.mark.parametrize("tab", [None, 5, [], {}, "", "nope", "HEADS", "__class__", ["heads"]])
def test_a_tab_that_there_is_not_is_the_first(playground: Playground, tab: object):
    assert asked(playground, tab=tab).tab == KEYS[0]


def test_what_does_not_fit_the_model_or_the_prompt_is_left_out(playground: Playground):
    edits = [{"kind": "zero", "layer": 0, "head": 0}, {"kind": "zero", "layer": 99, "head": 0}, {"kind": "x"}, 5]
    found = asked(
        playground, prompt="abc", heads=[[99, 0], [1, 1], "x", [0]], tokens=[9, 1, "2", -1], pair=[0, 2], edits=edits
    )
    assert found.selection == Selection(((1, 1),), (1,), None, (Edit("zero", 0, 0),))


@pytest.mark.parametrize("field", ["kind", "layer", "head", "factor", "nope"])
def test_lists_in_lists_in_an_edit_are_refused_unread(field: str):
    edit = {"kind": "zero", "layer": 0, "head": 0}
    for deep in (nested(5000), {"a": {}}):
        assert picked({"edits": [edit | {field: deep}, edit]}, tiny_config(), 6).edits == (Edit("zero", 0, 0),)
    assert (
        picked({"heads": nested(5000), "pair": nested(5000), "tokens": nested(5000)}, tiny_config(), 6) == Selection()
    )


@pytest.mark.parametrize("model", ["smollm2-135m", "hub:someone/something", "/etc/passwd", "../../x", "nope"])
def test_a_link_never_loads_what_is_not_here(playground: Playground, monkeypatch: pytest.MonkeyPatch, model: str):
    monkeypatch.setattr("viz.work.playground.load_resolved", lambda *_: pytest.fail("loaded"))
    monkeypatch.setattr("viz.work.playground.resolve", lambda *_, **__: pytest.fail("looked for"))
    found = asked(playground, model=model, prompt="Hi", tab="heads", heads=[[0, 0]])
    assert (found.model_id, found.waits, found.prompt, found.tab) == ("tiny", model, "Hi", "heads")
    assert found.selection is None  # heads and edits are of that model: they come with it
    told = linked_payload(found.waits, "en")
    assert told["model"] == model and model in told["text"] and model in told["load"]


def test_a_model_in_memory_is_opened(playground: Playground, lm: LanguageModel):
    playground.models.get("other", lambda: lm)
    found = asked(playground, model="other", prompt="Hi", heads=[[1, 1]])
    assert (found.model_id, found.waits) == ("other", "") and found.selection.heads == ((1, 1),)
    assert linked_payload(found.waits, "en") == {}


def test_a_model_that_failed_is_shown_so_that_the_page_says_why():
    broken = Playground(Options(model="tiny", offline=True))
    broken.failures["tiny"] = InputError("No model has this name.", "tiny", "Choose another one.")
    found = answer(broken, link_of({"model": "tiny"}, KEYS), "tiny", START)
    assert (found.model_id, found.waits, found.selection) == ("tiny", "", None)


def test_a_long_name_is_cut_and_a_reader_is_told_in_their_language():
    told = linked_payload("m" * 200, "zh")
    assert "m" * 79 + "…" in told["text"] and "m" * 80 not in told["text"] and told["model"] == "m" * 200
    assert "链接" in told["text"]


def test_the_page_gets_the_selection_that_was_meant(playground: Playground):
    chosen = Selection(((1, 1), (2, 0)), (3,), (3, 1), (Edit("zero", 0, 0),), 7)
    value = {
        "heads": [[1, 1], [2, 0]],
        "tokens": [3],
        "pair": [3, 1],
        "edits": [{"kind": "zero", "layer": 0, "head": 0}],
        "target": 7,
        "distractor": None,
        "of": "tiny",
    }
    shown = restored(playground, {"model": "tiny", "prompt": "abcde", **value}, "tiny", "en")["selection"]
    assert {name: shown[name] for name in value} == value
    assert shown["run"] == tokens_id(playground.opened("tiny"), list(b"abcde"))
    assert picked(shown, playground.opened("tiny").config, 5) == chosen  # what a refresh reads is what was meant


def test_the_page_is_told_once_of_an_untouched_page(playground: Playground):
    parts, shown = payloads(playground, PageRequest("tiny", "Hi", {}, {}, {}, "en"))
    assert parts["address"]["held"] == list(HELD)
    assert parts["address"]["usual"] == {"model": "tiny", "prompt": FIRST, "tab": KEYS[0]}
    assert parts["tokens"]["model"] == "tiny" and parts["tokens"]["prompt"] == "Hi"
    for prompt in ("Hi", ""):
        assert "address" not in payloads(playground, PageRequest("tiny", prompt, {}, {}, shown, "en"))[0]


def test_a_payload_has_its_words():
    found = payload(words("zh"), {"model": "m"}, ("a", "b"))
    assert found["words"]["copy"] == "复制链接" and found["held"] == ["a", "b"]


def test_tokens_of_one_prompt_have_one_name(lm: LanguageModel):
    assert tokens_id(lm, [1, 2]) == tokens_id(lm, [1, 2]) != tokens_id(lm, [2, 1])


def test_a_view_has_a_place_for_every_part(playground: Playground):
    assert len(set(PARTS)) == len(PARTS)
    assert set(payloads(playground, PageRequest("tiny", "Hi", {}, {}, {}, "en"))[0]) <= set(PARTS)


@pytest.mark.parametrize("heads", [[[L, 0]], [[0, H]]])
def test_heads_just_beyond_the_model_are_left_out(heads: list):
    assert picked({"heads": heads}, tiny_config(), 6).heads == ()


def test_a_link_does_not_tell_where_a_model_lies(lm: LanguageModel):
    local = Resolved("folder", Path("/home/someone/secret/gpt"), "/home/someone/secret/gpt", "gpt")
    playground = Playground(Options(model=local.model_id, local=local, max_tokens=40))
    playground.models.get(local.model_id, lambda: lm)
    assert name_of(playground, local.model_id) == "local:gpt" and name_of(playground, "tinygpt") == "tinygpt"
    assert id_of(playground, "local:gpt") == local.model_id and id_of(playground, "hub:a/b") == "hub:a/b"
    found = answer(playground, link_of({"model": "local:gpt", "prompt": "Hi"}, KEYS), local.model_id, START)
    assert (found.model_id, found.waits) == (local.model_id, "")
    parts, _ = payloads(playground, PageRequest(local.model_id, "Hi", {}, {}, {}, "en"))
    assert "secret" not in json.dumps([parts["tokens"], parts["address"]])
