"""Requests to vLLM and OpenAI, and vLLM's SamplingParams, worked by hand from their references."""

import json

from model.sampling.pipeline import Step
from model.sampling.settings.tools import read_settings, write_settings
from model.sampling.warps import values_of


def test_sampling_params_in_python():
    text = "from vllm import LLM\nparams = SamplingParams(top_k=-1, temperature=0.8, top_p=0.95, min_p=0.05, n=f())"
    found = read_settings(text)
    assert found.tool == "vllm"
    assert [(step.warp, values_of(step)) for step in found.steps] == [
        ("temperature", {"temperature": 0.8}),
        ("min_p", {"min_p": 0.05}),
        ("top_p", {"p": 0.95}),
    ]


def test_penalties_come_before_and_look_where_vllm_looks():
    given = {"messages": [], "extra_body": {"repetition_penalty": 1.1, "top_k": 20}, "presence_penalty": 0.5}
    found = read_settings(json.dumps(given))
    assert found.tool == "vllm" and found.unused == ("messages",)
    assert [(step.warp, values_of(step)) for step in found.steps] == [
        ("repetition_penalty", {"penalty": 1.1, "window": 0}),
        ("presence_penalty", {"presence": 0.5, "window": 0}),
        ("top_k", {"k": 20}),
    ]
    assert any("generation_config.json" in note for note in found.notes)


def test_a_request_to_openai():
    given = {"model": "m", "messages": [], "temperature": 0.5, "logit_bias": {"50256": -100}, "max_tokens": 5}
    found = read_settings(json.dumps(given))
    assert found.tool == "openai" and found.unused == ("model", "messages")
    assert [(step.warp, step.tokens) for step in found.steps] == [
        ("logit_bias", ((50256, -100.0),)),
        ("temperature", ()),
    ]
    assert found.notes[0].startswith("OpenAI does not publish its order")


def test_banned_words():
    (step,) = read_settings('{"bad_words": ["a b", "c\\nd"], "top_k": 0}').steps
    assert (step.warp, step.text) == ("banned_words", "a b\nc\\nd")


def test_openai_cannot_say_top_k():
    written = write_settings((Step("top_k"), Step("top_p")), "openai")
    assert json.loads(written.text) == {"temperature": 1, "top_p": 0.9}
    assert written.notes == ("OpenAI has no step top_k; it is left out.",)


def test_a_ban_is_a_bias_of_minus_100_at_openai_and_of_ids_at_vllm():
    ban = Step("banned_words", text="ab\n[7]\n[8, 9]", phrases=((97,), (7,), (8, 9)))
    written = write_settings((ban,), "openai")
    assert json.loads(written.text)["logit_bias"] == {"97": -100, "7": -100}
    assert any("single tokens only" in note for note in written.notes)
    written = json.loads(write_settings((ban,), "vllm").text)
    assert (written["bad_words"], written["logit_bias"]) == (["ab"], {"7": -100})


def test_allowed_tokens_have_no_step():
    found = read_settings("SamplingParams(temperature=0.5, allowed_token_ids=[1, 2])")
    assert any("Only what fits" in note for note in found.notes)
