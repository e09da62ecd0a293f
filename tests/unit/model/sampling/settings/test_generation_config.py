"""transformers' GenerationConfig, worked by hand from its source."""

import json

import pytest

from model.errors import InputError
from model.sampling.pipeline import Step
from model.sampling.settings.tools import read_settings, write_settings
from model.sampling.warps import values_of


def test_a_generation_config_with_its_order_and_top_k_50():
    text = '{"do_sample": true, "top_p": 0.9, "temperature": 0.6, "repetition_penalty": 1.05, "eos_token_id": [1, 2]}'
    found = read_settings(text)
    assert found.tool == "transformers" and found.unused == ("eos_token_id",)
    assert [(step.warp, values_of(step)) for step in found.steps] == [
        ("repetition_penalty", {"penalty": 1.05, "window": 0}),
        ("temperature", {"temperature": 0.6}),
        ("top_k", {"k": 50}),
        ("top_p", {"p": 0.9}),
    ]
    assert found.notes == ("Not written, so transformers uses its own: top_k 50.",)


@pytest.mark.parametrize("text", ["GenerationConfig(do_sample=False, top_k=5, no_repeat_ngram_size=3)", '{"top_k": 5}'])
def test_without_do_sample_it_is_greedy(text):
    found = read_settings(text, "transformers")
    assert values_of(found.steps[-1]) == {"temperature": 0} and "top_k" not in [step.warp for step in found.steps]
    assert found.unused == () and "Without do_sample" in found.notes[0]


def test_beams_are_no_step():
    found = read_settings('{"do_sample": false, "num_beams": 4, "max_new_tokens": 9}')
    assert "There is no step for num_beams; it is left out." in found.notes
    assert "Set in Side by side, not as steps: max_new_tokens." in found.notes


def test_greedy_is_written_without_sampling():
    written = write_settings((Step("temperature", (("temperature", 0.0),)), Step("top_k")), "transformers")
    assert json.loads(written.text) == {"do_sample": False}
    assert json.loads(write_settings((), "transformers").text) == {"do_sample": True, "top_k": 0}


def test_banned_ids_and_biases(lm):
    """A single token is biased; several in a row only count as a ban."""
    given = {
        "do_sample": True,
        "top_k": 0,
        "bad_words_ids": [[5], [7, 8]],
        "suppress_tokens": [9],
        "sequence_bias": [[[3], -1.5], [[4, 5], -100.0], [[6, 7], 2.0]],
    }
    found = read_settings(json.dumps(given), "transformers", lm.tokenizer)
    bias, ban = found.steps
    assert (bias.warp, bias.tokens) == ("logit_bias", ((3, -1.5),))
    assert (ban.warp, ban.phrases) == ("banned_words", ((4, 5), (5,), (7, 8), (9,)))
    assert any("several tokens in a row" in note for note in found.notes)
    written = json.loads(write_settings(found.steps, "transformers").text)
    assert written["bad_words_ids"] == [[4, 5], [5], [7, 8], [9]]
    assert written["sequence_bias"] == [[[3], -1.5]]
    call = "GenerationConfig(do_sample=True, top_k=0, sequence_bias={(3,): -1.5, (4, 5): -100.0})"
    assert [step.warp for step in read_settings(call).steps] == ["logit_bias", "banned_words"]


@pytest.mark.parametrize("value", ['"abc"', "[[]]", "[-1]", "[[1.5]]", "{}x"])
def test_what_is_no_id_is_refused(value):
    with pytest.raises(InputError):
        read_settings(f'{{"do_sample": true, "bad_words_ids": {value}}}', "transformers")
