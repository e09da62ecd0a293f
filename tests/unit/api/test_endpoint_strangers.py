"""A clear no to what cannot be asked, and bounds on answers, work and time."""

import math

import pytest
from starlette.requests import Request

from model.errors import InputError, PlaygroundError
from tests.support.models.helpers import apart
from tests.support.views.endpoints import NAMED, ask
from viz.api.programs import Programs, offered
from viz.api.registry import MOST_NUMBERS, call
from viz.seam.programs.arguments import MOST_ITEMS, MOST_TEXT
from viz.work.playground import Playground

OFF = {"kind": "zero", "layer": 0, "head": 0}
HOSTILE = [
    ("attention", {}, "prompt"),
    ("attention", {"prompt": "abc", "head": 0}, "layer"),
    ("attention", {"prompt": "abc", "layer": 0, "head": 0, "bogus": 1}, "bogus"),
    ("attention", {"prompt": "", "layer": 0, "head": 0}, ""),
    ("attention", {"prompt": None, "layer": 0, "head": 0}, "prompt"),
    ("attention", {"prompt": ["abc"], "layer": 0, "head": 0}, "prompt"),
    ("attention", {"prompt": "a" * 41, "layer": 0, "head": 0}, "41 tokens"),
    ("attention", {"prompt": "a" * 300_000, "layer": 0, "head": 0}, "300000"),
    ("attention", {"prompt": "\ud800", "layer": 0, "head": 0}, ""),
    ("attention", {"prompt": "abc", "layer": 3, "head": 0}, "3"),
    ("attention", {"prompt": "abc", "layer": -1, "head": 0}, "-1"),
    ("attention", {"prompt": "abc", "layer": 0, "head": 4}, "4"),
    ("attention", {"prompt": "abc", "layer": 10**400, "head": 0}, "layer"),
    ("attention", {"prompt": "abc", "layer": True, "head": 0}, "layer"),
    ("attention", {"prompt": "abc", "layer": 0.5, "head": 0}, "layer"),
    ("attention", {"prompt": "abc", "layer": math.nan, "head": 0}, "layer"),
    ("attention", {"prompt": "abc", "layer": {"a": 1}, "head": 0}, "layer"),
    ("attention", {"prompt": "abc", "layer": 0, "head": 0, "measure": "nope"}, "nope"),
    ("attention", {"prompt": "abc", "layer": 0, "head": 0, "queries": [3]}, "3"),
    ("attention", {"prompt": "abc", "layer": 0, "head": 0, "queries": "012"}, "queries"),
    ("attention", {"prompt": "abc", "layer": 0, "head": 0, "queries": [0] * (MOST_ITEMS + 1)}, "queries"),
    ("attention", {"prompt": "abc", "layer": 0, "head": 0, "model": "/etc/passwd"}, "/etc/passwd"),
    ("attention", {"prompt": "abc", "layer": 0, "head": 0, "model": "x" * (MOST_TEXT + 1)}, str(MOST_TEXT + 1)),
    ("attention", {"prompt": "abc", "layer": 0, "head": 0, "edits": ["zero"]}, "edits"),
    ("attention", {"prompt": "abc", "layer": 0, "head": 0, "edits": [{"kind": "zero"}]}, "layer"),
    ("attention", {"prompt": "abc", "layer": 0, "head": 0, "edits": [OFF] * 65}, "65"),
    ("attention", {"prompt": "abc", "layer": 0, "head": 0, "edits": [OFF | {"factor": 1e9}]}, ""),
    ("attention_links", {"prompt": "abc", "layer": 0, "head": 0, "most": 0}, "most"),
    ("attention_links", {"prompt": "abc", "layer": 0, "head": 0, "most": 1001}, "most"),
    ("attention_cell", {"prompt": "abc", "layer": 0, "head": 0, "query": 1, "key": 2}, "query 1"),
    ("find_heads", {"prompt": "abc", "queries": [], "keys": [0]}, "queries"),
    ("find_heads", {"prompt": "abc", "queries": [0], "keys": [1]}, ""),
    ("distribution", {"prompt": "abc", "steps": [{"warp": "nope"}]}, "nope"),
    ("distribution", {"prompt": "abc", "steps": [{"warp": "top_p", "values": {"p": 5}}]}, ""),
    ("distribution", {"prompt": "abc", "steps": [{"warp": "top_p", "values": {"p": "x"}}]}, "p"),
    ("distribution", {"prompt": "abc", "steps": {"warp": "top_p"}}, "steps"),
    ("distribution", {"prompt": "abc", "steps": [{}] * 100}, ""),
    ("draws", {"prompt": "abc", "count": 10_001}, "count"),
    ("draws", {"prompt": "abc", "seed": -1}, "seed"),
    ("generate", {"prompt": "abc", "presets": ["nope"]}, "nope"),
    ("generate", {"prompt": "abc", "presets": ["greedy"] * 9}, "9"),
    ("generate", {"prompt": "abc", "new_tokens": 513}, "new_tokens"),
    ("generate", {"prompt": "abc", "stop": ["x" * 41]}, ""),
    ("generate", {"prompt": "abc", "strategies": [{"method": "nope"}]}, "nope"),
    ("generate", {"prompt": "abc", "strategies": [{"options": {"beams": 5}}]}, "beams"),
    ("many_samples", {"prompt": "abc", "count": 33}, "count"),
    ("speculative", {"prompt": "abc", "draft": "model", "draft_model": "tinygpt"}, "tinygpt"),
    ("speculative", {"prompt": "abc", "size": 4}, "size"),
    ("beam_search", {"prompt": "abc", "beams": 9}, "beams"),
    ("beam_search", {"prompt": "abc", "beams": 4, "groups": "3"}, "groups: 3"),
    ("beam_search", {"prompt": "abc", "groups": "5"}, "groups"),
    ("cache_size", {"length": 0}, "length"),
    ("follow_tokens", {"prompt": "abc", "tokens": []}, "0"),
    ("follow_tokens", {"prompt": "abc", "tokens": ["ab"]}, "a"),
    ("follow_tokens", {"prompt": "abc", "tokens": ["id:256"]}, "256"),
    ("follow_tokens", {"prompt": "abc", "tokens": ["\ud800"]}, ""),
    ("follow_tokens", {"prompt": "abc", "tokens": ["a"] * 17}, "17"),
    ("lens", {"prompt": "abc", "lens": "tuned"}, ""),
    ("lens_at", {"prompt": "abc", "position": 3}, "3"),
    ("logit_parts", {"prompt": "abc", "token": "a", "distractor": "a"}, ""),
    ("part_tokens", {"prompt": "abc", "layer": 3}, "3"),
    ("part_tokens", {"prompt": "abc", "layer": 0, "head": 4}, "4"),
    ("norm", {"prompt": "abc", "layer": 3}, ""),
    ("norm", {"prompt": "abc", "site": "norm3"}, "norm3"),
    ("norm_swap", {"prompt": "abc", "where": "one", "layer": 9}, ""),
    ("neuron", {"prompt": "abc", "layer": 0, "neuron": 100}, "100"),
    ("neurons", {"prompt": "abc", "layer": 5}, "5"),
    ("composition", {"layer": 3, "head": 0}, "3"),
    ("sweep", {"prompt": "abc", "watch": "difference", "token": "a", "distractor": "a"}, ""),
    ("sweep", {"prompt": "a", "watch": "loss"}, ""),
    ("prompt_set_effects", {"set": "own", "own": "clean: x"}, "corrupt"),
    ("compare_runs", {"prompt": "abc"}, ""),
    ("compare_runs", {"prompt": "abc", "other_prompt": "abd", "other_model": "tinygpt"}, ""),
    ("compare_runs", {"prompt": "abc", "other_model": "nope"}, "nope"),
    ("patch", {"prompt": "abc", "other_prompt": "ab"}, ""),
    ("patch", {"prompt": "abc", "other_prompt": ""}, "other_prompt"),
    ("checks", {"prompt": "abc", "names": ["nope"]}, "nope"),
]


@pytest.mark.parametrize(("name", "given", "told"), HOSTILE)
def test_what_cannot_be_is_refused_in_a_sentence(playground, name, given, told):
    with pytest.raises(PlaygroundError) as caught:
        call(playground, NAMED[name], given)
    assert caught.value.what.endswith(".") and (told in caught.value.got or told in str(caught.value))
    assert len(str(caught.value)) < 700


def test_whole_numbers_may_be_written_as_floats(playground):
    assert ask(playground, "attention", prompt="abc", layer=1.0, head=0.0)["layer"] == 1


def test_an_answer_has_a_bound(playground, monkeypatch):
    monkeypatch.setattr("viz.api.registry.MOST_NUMBERS", 50)
    assert MOST_NUMBERS > 1024**2
    ask(playground, "attention", prompt="abc", layer=0, head=0)
    with pytest.raises(InputError, match="too large"):
        ask(playground, "attention", prompt="abcdefgh", layer=0, head=0)


def test_long_work_waits_for_its_turn_and_gives_it_back(playground):
    ask(playground, "sweep", prompt="abc")
    assert playground.queue.working == [] == playground.queue.line
    with pytest.raises(InputError):
        ask(playground, "sweep", prompt="")
    assert playground.queue.working == [] and not playground.computing.locked()
    tickets = [playground.queue.join("someone") for _ in range(playground.queue.bounds.each)]
    with pytest.raises(PlaygroundError, match="still busy"):
        call(playground, NAMED["sweep"], {"prompt": "abd"}, "someone")
    ask(playground, "attention", prompt="abd", layer=0, head=0)  # short work does not wait
    for ticket in tickets:
        ticket.leave()


def test_work_that_takes_too_long_ends(playground, monkeypatch):
    monkeypatch.setattr("viz.seam.programs.reading.MOST_SECONDS", 0.0)
    with pytest.raises(InputError, match="longer than this server allows"):
        ask(playground, "sweep", prompt="abcdef")
    assert not playground.computing.locked() and playground.queue.working == []
    texts = ask(playground, "generate", prompt="abc", presets=["greedy"], new_tokens=30)["texts"]
    assert texts[0]["ended"] == "time" and 1 <= texts[0]["measured"]["length"] < 30


def test_results_are_shared_with_the_page(playground):
    found = ask(playground, "sweep", prompt="abc", watch="kl")
    keys = list(playground.results._values)
    assert any(key[:3] == ("measure", "sweep", "sweep") for key in keys)
    again = ask(playground, "sweep", prompt="abc", watch="kl", most=3)
    assert again["effects"] == found["effects"]


def test_a_failure_nobody_foresaw_is_told_without_a_traceback(playground, monkeypatch, caplog):
    import gradio as gr

    def broken(playground):
        raise KeyError("secret")

    function = offered(Programs(playground), NAMED["models"])
    monkeypatch.setattr(Playground, "choices", broken)
    playground.presence.listen("one")
    request = gr.Request(Request({"type": "http", "playground.client": "ann"}), session_hash="one")
    with pytest.raises(gr.Error) as caught:
        apart(function(request))
    playground.presence.deafen("one")
    assert "secret" not in str(caught.value) and len(caught.value.message) > 10
    assert "secret" in caplog.text
