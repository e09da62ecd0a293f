"""Presets of text-generation-webui and SillyTavern, worked by hand from their sources."""

import json

import pytest

from model.sampling.pipeline import Step
from model.sampling.settings.reading import BREAKERS
from model.sampling.settings.tools import read_settings, write_settings
from model.sampling.warps import values_of


def steps(text: str, tool: str = "webui") -> list[tuple[str, dict[str, float]]]:
    return [(step.warp, values_of(step)) for step in read_settings(text, tool).steps]


def test_a_preset_in_yaml_in_the_usual_order():
    text = (
        "temperature: 1.31\ntop_p: 0.14\nepsilon_cutoff: 1.49\neta_cutoff: 10.42\nrepetition_penalty: 1.17\ntop_k: 49"
    )
    assert steps(text) == [
        ("repetition_penalty", {"penalty": 1.17, "window": 1024}),
        ("temperature", {"temperature": 1.31}),
        ("top_k", {"k": 49}),
        ("top_p", {"p": 0.14}),
        ("epsilon", {"epsilon": 0.000149}),  # in units of 0.0001
        ("eta", {"eta": 0.001042}),
    ]


def test_temperature_last_moves_all_three():
    text = "temperature: 1.5\nsmoothing_factor: 0.2\nmin_p: 0.1\ntemperature_last: true\nno_repeat_ngram_size: 3"
    assert [name for name, _ in steps(text)] == ["min_p", "no_repeat_ngram", "temperature", "smoothing"]


def test_the_order_is_the_priority_and_unnamed_samplers_come_first():
    given = {"top_k": 5, "min_p": 0.1, "temperature": 0.5, "sampler_priority": ["min_p", "temperature", "nonsense"]}
    found = read_settings(json.dumps(given))
    assert found.tool == "webui" and [step.warp for step in found.steps] == ["top_k", "min_p", "temperature"]
    assert "There is no step for nonsense; it is left out." in found.notes


def test_the_order_in_yaml_is_a_block():
    text = "top_k: 5\nmin_p: 0.1\nsampler_priority: |-\n  min_p\n  top_k\ntemperature: 0.5"
    assert [name for name, _ in steps(text)] == ["temperature", "min_p", "top_k"]
    text = "sampler_priority:\n- temperature\n- min_p\n- top_k\ntop_k: 5\nmin_p: 0.1\ntemperature: 0.5"
    assert [name for name, _ in steps(text)] == ["temperature", "min_p", "top_k"]


def test_a_dynamic_temperature_is_told_by_its_ends():
    text = "dynamic_temperature: true\ndynatemp_low: 0.5\ndynatemp_high: 2\ndynatemp_exponent: 1.5\ntemperature: 0.9"
    middle = {"dynamic": 1.25, "spread": 0.75, "exponent": 1.5}
    assert steps(text) == [("temperature", {"temperature": 0.9}), ("dynamic_temperature", middle)]


def test_penalties_look_at_the_whole_text_with_a_range_of_zero():
    text = "presence_penalty: 0.5\nrepetition_penalty: 1.1\nrepetition_penalty_range: 0"
    assert steps(text) == [
        ("repetition_penalty", {"penalty": 1.1, "window": 0}),
        ("presence_penalty", {"presence": 0.5, "window": 4096}),
    ]


def test_without_do_sample_penalties_and_the_likeliest_token_stay():
    found = read_settings("do_sample: false\ntemperature: 0.7\ntop_k: 5\nrepetition_penalty: 1.1", "webui")
    assert [step.warp for step in found.steps] == ["repetition_penalty", "temperature"]
    assert values_of(found.steps[-1]) == {"temperature": 0} and "Without do_sample" in found.notes[-1]


@pytest.mark.parametrize(
    ("written", "text"),
    [(r'"\\n", ":"', "\\n\n:"), (r'["\\n", "<|im_end|>"]', "\\n\n<|im_end|>"), ("[", BREAKERS), ("[]", "")],
)
def test_breakers_with_and_without_brackets(written, text):
    given = {"dry_multiplier": 0.8, "dry_sequence_breakers": written.replace(r"\\n", r"\n")}
    (step,) = read_settings(json.dumps(given), "webui").steps
    assert step.text == text


def test_sillytavern_has_its_own_names():
    given = {"temp": 1.2, "rep_pen": 1.1, "rep_pen_range": 320, "freq_pen": 0.1, "nsigma": 1.5, "min_p": 0.05}
    found = read_settings(json.dumps(given | {"tfs": 0.9, "guidance_scale": 1, "custom_model": ""}))
    assert found.tool == "sillytavern"
    assert [(step.warp, values_of(step)) for step in found.steps] == [
        ("repetition_penalty", {"penalty": 1.1, "window": 320}),
        ("frequency_penalty", {"frequency": 0.1, "window": 320}),
        ("top_n_sigma", {"n": 1.5}),
        ("temperature", {"temperature": 1.2}),
        ("min_p", {"min_p": 0.05}),
    ]
    assert found.notes[0] == "There is no step for tfs; it is left out." and "min-p" in found.notes[1]
    assert found.unused == ("custom_model",)


def test_koboldcpp_orders_by_number():
    given = {"rep_pen": 1.1, "temperature": 0.7, "top_p": 0.9, "top_k": 100, "sampler_order": [6, 0, 1, 3, 4, 2, 5]}
    found = read_settings(json.dumps(given))
    assert found.tool == "sillytavern" and "KoboldCpp" in found.notes[0]
    assert [step.warp for step in found.steps] == ["repetition_penalty", "top_k", "top_p", "temperature"]


def test_banned_words_are_lines_and_ids_are_tokens(lm):
    given = {"temp": 1, "rep_pen": 1, "banned_tokens": '"a testament to"\n[15043, 97]', "global_banned_tokens": "orbs"}
    found = read_settings(json.dumps(given))
    lines = "a testament to\n[15043]\n[97]\norbs"  # each id for itself
    assert [(step.warp, step.text) for step in found.steps] == [("banned_words", lines)]
    assert any("without quotation marks" in note for note in found.notes)
    (step,) = read_settings(json.dumps(given), "", lm.tokenizer).steps
    assert (97,) in step.phrases and step.text == "a testament to\n[97]\norbs"  # the other is beyond its vocabulary


def test_token_bans_and_a_bias_of_text_generation_webui():
    found = read_settings("custom_token_bans: '5, 7'\ntop_k: 3\nban_eos_token: true", "webui")
    assert [(step.warp, step.text) for step in found.steps] == [("banned_words", "[5]\n[7]"), ("top_k", "")]
    assert any("end token" in note for note in found.notes)
    written = json.loads(write_settings(found.steps, "webui").text)
    assert written["custom_token_bans"] == "5,7"
    (step,) = read_settings('{"logit_bias": {"7": -3.5}}', "webui").steps
    assert step.tokens == ((7, -3.5),)


def test_a_bias_of_sillytavern_is_a_word_after_a_space_verbatim_or_ids(lm):
    entries = [("ab", 1), ("{cd}", -2), ("[5, 7]", 3), ("", 4)]
    given = {"temp": 1, "rep_pen": 1, "logit_bias": [{"id": "x", "text": text, "value": n} for text, n in entries]}
    (step,) = read_settings(json.dumps(given), "", lm.tokenizer).steps
    wanted = [(5, 3.0), (7, 3.0), *((token, 1.0) for token in b" ab"), *((token, -2.0) for token in b"cd")]
    assert (step.warp, step.tokens, step.text) == ("logit_bias", tuple(wanted), "")


def test_dynamic_temperature_of_sillytavern_replaces_the_temperature():
    given = {"temp": 0.7, "rep_pen": 1, "dynatemp": True, "min_temp": 0.5, "max_temp": 1.5}
    assert steps(json.dumps(given), "sillytavern") == [
        ("dynamic_temperature", {"dynamic": 1, "spread": 0.5, "exponent": 1})
    ]
    found = json.loads(write_settings((Step("dynamic_temperature"),), "sillytavern").text)
    assert (found["dynatemp"], found["min_temp"], found["max_temp"]) == (True, 0.5, 1.5)
