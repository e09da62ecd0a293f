"""llama.cpp's command line and server requests, worked by hand from its own help."""

import pytest

from model.errors import InputError
from model.sampling.pipeline import Step
from model.sampling.settings.reading import BREAKERS
from model.sampling.settings.tools import read_settings, write_settings
from model.sampling.warps import values_of


def steps(text: str) -> list[tuple[str, dict[str, float]]]:
    return [(step.warp, values_of(step)) for step in read_settings(text, "llama_cpp").steps]


def test_what_is_on_although_not_written():
    found = read_settings("llama-cli -m model.gguf -p 'Once upon'", "llama_cpp")
    assert [(step.warp, values_of(step)) for step in found.steps] == [
        ("top_k", {"k": 40}),
        ("top_p", {"p": 0.95}),
        ("min_p", {"min_p": 0.05}),
        ("temperature", {"temperature": 0.8}),
    ]
    assert found.notes == ("Not written, so llama.cpp uses its own: temp 0.8, top_k 40, top_p 0.95, min_p 0.05.",)
    assert found.unused == ("-m", "-p")


def test_the_temperature_comes_last_and_penalties_first():
    text = """./llama-server --temp 1.5 \\
      --top-k 0 --top-p 1.0 --min-p=0.1 --repeat-penalty 1.1 --repeat-last-n -1 --presence-penalty 0.5"""
    assert steps(text) == [
        ("repetition_penalty", {"penalty": 1.1, "window": 0}),  # -1 is the whole text, here 0
        ("presence_penalty", {"presence": 0.5, "window": 4096}),  # 0 would be the text after the prompt
        ("min_p", {"min_p": 0.1}),
        ("temperature", {"temperature": 1.5}),
    ]


def test_a_window_of_zero_turns_the_penalties_off_and_64_is_the_default():
    on = "--samplers penalties --repeat-penalty 1.2"
    assert steps(on) == [("repetition_penalty", {"penalty": 1.2, "window": 64})]
    assert steps(f"{on} --repeat-last-n 0") == []


@pytest.mark.parametrize(
    ("option", "order"),
    [
        ("--samplers 'temperature;top_p;top_k'", ["temperature", "top_p", "top_k"]),
        ("--sampler-seq tpk", ["temperature", "top_p", "top_k"]),
        ("--samplers min_p", ["min_p"]),
    ],
)
def test_the_order_is_that_of_the_samplers(option, order):
    assert [name for name, _ in steps(option)] == order


def test_a_sampler_that_is_not_here_is_named():
    found = read_settings("--samplers 'top_k;adaptive_p;frobnicate'", "llama_cpp")
    assert [step.warp for step in found.steps] == ["top_k"]
    for name in ("adaptive_p", "frobnicate"):
        assert f"There is no step for {name}; it is left out." in found.notes


def test_dry_xtc_and_dynamic_temperature():
    text = (
        "--samplers 'dry;xtc;temperature' --dry-multiplier 0.8 --dry-allowed-length 3 --xtc-probability 0.5 "
        "--temp 1 --dynatemp-range 0.4 --dynatemp-exp 2"
    )
    assert steps(text) == [
        ("dry", {"multiplier": 0.8, "base": 1.75, "allowed": 3, "window": 64}),
        ("xtc", {"threshold": 0.1, "xtc_probability": 0.5}),
        ("dynamic_temperature", {"dynamic": 1, "spread": 0.4, "exponent": 2}),
    ]
    assert read_settings(text, "llama_cpp").steps[0].text == BREAKERS
    own = f'{text} --dry-sequence-breaker "\\n" --dry-sequence-breaker "###"'
    assert read_settings(own, "llama_cpp").steps[0].text == "\\n\n###"
    assert read_settings(f"{text} --dry-sequence-breaker none", "llama_cpp").steps[0].text == ""


def test_mirostat_leaves_only_the_temperature():
    found = read_settings("--mirostat 1 --mirostat-ent 3 --top-k 20 --temp 0.9", "llama_cpp")
    assert [(step.warp, values_of(step)) for step in found.steps] == [
        ("temperature", {"temperature": 0.9}),
        ("mirostat", {"tau": 3, "rate": 0.1}),
    ]
    assert any("Mirostat 1" in note for note in found.notes)


def test_logit_bias_by_id():
    found = read_settings("-l 15043+1 --logit-bias 29871-inf --samplers top_k", "llama_cpp")
    bias, ban, _ = found.steps
    assert bias == Step("logit_bias", tokens=((15043, 1.0),))
    assert (ban.warp, ban.text) == ("banned_words", "[29871]")
    written = write_settings(found.steps, "llama_cpp").text
    assert "--logit-bias 15043+1 --logit-bias 29871-inf" in written
    with pytest.raises(InputError, match="not a token and a number"):
        read_settings("--logit-bias hello", "llama_cpp")


def test_a_request_to_the_server():
    text = (
        '{"prompt": "x", "n_predict": 5, "samplers": ["temperature"], "temperature": 0.5, "logit_bias": [[3, false]]}'
    )
    found = read_settings(text)
    assert found.tool == "llama_cpp" and found.unused == ("prompt",)
    assert [(step.warp, values_of(step), step.tokens) for step in found.steps] == [
        ("banned_words", {}, ()),
        ("temperature", {"temperature": 0.5}, ()),
    ]
    assert "Set in Side by side, not as steps: n_predict." in found.notes


def test_a_word_biases_each_of_its_tokens(lm):
    text = '{"n_predict": 5, "samplers": [], "logit_bias": [["ab", -0.5], [99, 2], ["c", false]]}'
    found = read_settings(text, "llama_cpp", lm.tokenizer)  # bytes are its tokens
    assert [step.tokens for step in found.steps] == [((99, 2.0), (97, -0.5), (98, -0.5), (99, -100.0))]
    assert "The bias of a word is added to each of its tokens." in found.notes


def test_what_is_not_here_says_what_to_use():
    found = read_settings("--samplers 'adaptive_p;top_k' --tfs 0.9", "llama_cpp")
    assert any("top-p or min-p" in note for note in found.notes)
    assert any("XTC" in note for note in found.notes)


def test_the_way_back_gives_order_numbers_and_nothing_else():
    given = (Step("temperature", (("temperature", 0.5),)), Step("top_k", (("k", 3.0),)))
    written = write_settings(given, "llama_cpp")
    assert written.text == "--samplers 'temperature;top_k' --temp 0.5 --top-k 3" and written.notes == ()


def test_what_a_command_cannot_say_is_told():
    given = (Step("top_a"), Step("frequency_penalty"), Step("top_k"), Step("repetition_penalty"))
    written = write_settings(given, "llama_cpp")
    assert written.notes == (
        "llama.cpp has no step top_a; it is left out.",
        "llama.cpp counts the tokens of the prompt, too.",
        "llama.cpp runs them in its own order: repetition_penalty, frequency_penalty, top_k.",
    )
