"""Settings of other tools on the page: what a paste becomes, what is written for a tool, words, and functions."""

import json

import pytest

from model.generation.text_statistics import written
from model.sampling.settings.tools import TOOLS
from tests.support.scripts import script, words_read
from tests.support.views.endpoints import ask
from viz.page.wire.streams import answers
from viz.seam.view import Visit
from viz.views.sampling.pipelines import DEFAULT, PRESETS, steps_of, value_of
from viz.views.sampling.tool_settings import FEED, imported, page_steps
from viz.words import LANGUAGES, section, words
from viz.work.prompt import Prompt


def answer(playground, event, sent, language="en"):
    visit = Visit(playground, "me", language, "tiny", Prompt("abc"), {})
    (found,) = answers(FEED.events[event], visit, sent)
    return found


def test_a_paste_becomes_steps_that_the_editor_takes(playground, lm):
    found = answer(playground, "read", {"tag": "read 1", "text": "--samplers 'temperature;top_k' --temp 0.5 --foo 3"})
    assert (found["tag"], found["label"], found["unused"]) == ("read 1", "llama.cpp", ["--foo"])
    assert found["steps"] == [
        {"warp": "temperature", "values": {"temperature": 0.5}},
        {"warp": "top_k", "values": {"k": 40}},
    ]
    assert [step.warp for step in steps_of(lm, found["steps"])] == ["temperature", "top_k"]


def test_notes_are_in_the_visitors_language(playground):
    sent = {"tag": "t", "text": "PARAMETER temperature 0.7"}
    english, chinese = (answer(playground, "read", sent, language)["notes"] for language in ("en", "zh"))
    assert english[0].startswith("Not written, so Ollama") and chinese[0].startswith("没有写出，因此 Ollama")


@pytest.mark.parametrize("sent", [None, 3, {}, {"tag": "t", "text": 3}, {"tag": "t", "text": "x", "tool": "nonsense"}])
def test_what_cannot_be_read_is_an_error_under_its_tag(playground, sent):
    found = answer(playground, "read", sent)
    assert found["error"]["text"] and found["error"]["hint"]
    assert found.get("tag") == (sent["tag"] if isinstance(sent, dict) and sent else None)


@pytest.mark.parametrize("tool", TOOLS)
def test_the_steps_are_written_for_every_tool(playground, tool):
    found = answer(playground, "write", {"tag": "w", "tool": tool, "steps": value_of(DEFAULT)})
    assert found["tag"] == "w" and "0.8" in found["text"]
    back = answer(playground, "read", {"tag": "r", "text": found["text"], "tool": tool})
    assert {each["warp"] for each in back["steps"]} >= {"temperature", "top_p"}


def test_steps_that_are_off_are_not_written(playground):
    off = [value | {"off": True} for value in value_of(DEFAULT)]
    found = answer(playground, "write", {"tag": "w", "tool": "vllm", "steps": off})
    assert json.loads(found["text"]) == {"temperature": 1, "top_p": 1, "top_k": 0}


def test_a_biased_token_becomes_a_line_that_is_the_same_token(lm):
    token = lm.tokenizer.encode_ids("a")[0]
    found = imported(lm, json.dumps({"messages": [], "logit_bias": {str(token): -5}}), "")
    assert found.steps[0].text == "a: -5"
    assert steps_of(lm, page_steps(found.steps))[0].tokens == ((token, -5.0),)


def test_a_step_without_breakers_stays_without(lm):
    found = imported(lm, "--samplers dry --dry-multiplier 1 --dry-sequence-breaker none", "")
    assert page_steps(found.steps)[0]["text"] == "" and steps_of(lm, page_steps(found.steps))[0].phrases == ()


@pytest.mark.parametrize("language", LANGUAGES)
def test_every_word_the_script_asks_for_is_there(language):
    asked = words_read("views/sampling/tool_settings")
    assert len(asked) > 10 and asked == set(section(words(language), "tool_settings"))


def test_pasted_text_is_never_markup():
    assert "innerHTML" not in script("views/sampling/tool_settings")


def test_what_a_setting_does_is_told_against_greedy(playground, lm):
    steps = [{"warp": "temperature", "values": {"temperature": 3}}]
    found = ask(playground, "against_greedy", prompt="abc", steps=steps, new_tokens=8, seed=1)
    (greedy,) = written(lm.generate("abc", "greedy", 8, 1), 1)
    assert found["greedy"]["text"] == lm.decode(list(greedy.ids)) and found["settings"] is None
    place = found["parting"]
    assert place["greedy"]["id"] == greedy.ids[place["at"]] != place["mine"]["id"]
    same = ask(playground, "against_greedy", prompt="abc", settings="--temp 0", tool="llama_cpp", new_tokens=8)
    assert same["parting"] is None and same["mine"] == same["greedy"] and same["settings"]["tool"] == "llama_cpp"


def test_the_functions_for_programs(playground):
    found = ask(playground, "steps_of_settings", text="--temp 0.5 --top-k 0 --top-p 1 --min-p 0")
    assert found["tool"] == "llama_cpp" and [each["warp"] for each in found["steps"]] == ["temperature"]
    back = ask(playground, "settings_of_steps", steps=found["steps"], tool="ollama")
    assert back["text"].splitlines()[0] == "PARAMETER temperature 0.5"


@pytest.mark.parametrize(("preset", "text", "tool"), [("llama", "-m x", "llama_cpp"), ("ollama", "FROM x", "ollama")])
def test_presets_of_a_tool_are_what_it_does_if_nothing_is_written(lm, preset, text, tool):
    assert imported(lm, text, tool).steps == PRESETS[preset]
