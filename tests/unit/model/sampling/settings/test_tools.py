"""Which tool a text belongs to, round trips through every tool, the words of steps, and pastes that mean no good."""

import json

import pytest
import torch

from model.errors import InputError, Message
from model.sampling.pipeline import Step, checked
from model.sampling.settings.parsing import MOST_TEXT
from model.sampling.settings.reading import BREAKERS, OFF, OFF_NUMBERS
from model.sampling.settings.tools import TOOLS, read_settings, recognize, write_settings
from model.sampling.warps import WARPS, final, values_of


def numbers(warp: str, **values: float) -> tuple[tuple[str, float], ...]:
    return tuple((each.name, float(values.get(each.name, each.default))) for each in WARPS[warp].parameters)


def step(warp: str, **values: float) -> Step:
    return Step(warp, numbers(warp, **values))


CHAINS = {
    "llama_cpp": (
        step("repetition_penalty", penalty=1.1, window=64),
        step("frequency_penalty", window=64),
        step("presence_penalty", window=64),
        step("temperature", temperature=1.2),
        step("top_n_sigma", n=1.5),
        step("top_p", p=0.8),
        step("xtc", xtc_probability=0.3),
    ),
    "ollama": (step("repetition_penalty", window=32), step("top_k"), step("top_p"), step("min_p"), step("temperature")),
    "webui": (
        step("smoothing", factor=0.2, curve=1.5),
        step("eta", eta=0.0006),
        step("mirostat", tau=4),
        step("repetition_penalty", window=512),
        step("dynamic_temperature"),
        step("top_a"),
        step("no_repeat_ngram"),
    ),
    "sillytavern": (step("min_p"), step("temperature"), step("frequency_penalty", window=100), step("typical")),
    "vllm": (
        step("repetition_penalty"),
        step("frequency_penalty"),
        step("presence_penalty"),
        step("temperature"),
        step("min_p"),
        step("top_k"),
        step("top_p"),
    ),
    "openai": (step("frequency_penalty"), step("temperature", temperature=0.3), step("top_p", p=0.5)),
    "transformers": (
        step("repetition_penalty"),
        step("no_repeat_ngram"),
        step("temperature"),
        step("top_k"),
        step("eta"),
    ),
}


# --- recognition ---


@pytest.mark.parametrize("tool", TOOLS)
def test_every_example_is_recognized_and_read(tool):
    text = TOOLS[tool].example
    assert recognize(text) == tool
    found = read_settings(text)
    assert found.tool == tool and "temperature" in [each.warp for each in found.steps]


@pytest.mark.parametrize(
    ("text", "tool"),
    [
        ("llama-cli -m a.gguf -n 3", "llama_cpp"),
        ("docker run x --top-k 3", "llama_cpp"),
        ("FROM x\nPARAMETER stop a", "ollama"),
        ('{"options": {"top_k": 3}}', "ollama"),
        ("model.generate(**inputs, do_sample=True, top_k=3)", "transformers"),
        ("client.chat.completions.create(model='m', temperature=0.2)", "openai"),
        ('{"messages": [], "top_k": 3}', "vllm"),
        ('{"frequency_penalty": 0.1}', "openai"),
        ("min_p: 0.05\ndynamic_temperature: true", "webui"),
    ],
)
def test_a_tool_is_recognized_by_its_names(text, tool):
    assert recognize(text) == tool


@pytest.mark.parametrize("text", ['{"temperature": 0.7}', "temperature=0.7, top_p=0.9", "hello world", "{}"])
def test_what_could_be_anything_is_not_guessed(text):
    with pytest.raises(InputError, match="not clear"):
        recognize(text)
    assert read_settings(text, "vllm").tool == "vllm"


# --- round trips ---


@pytest.mark.parametrize("tool", CHAINS)
def test_steps_in_a_tools_order_come_back_as_they_are(tool):
    written = write_settings(CHAINS[tool], tool)
    assert written.notes == ()
    found = read_settings(written.text)
    assert (found.tool, found.steps) == (tool, CHAINS[tool]) and found.unused == ()


@pytest.mark.parametrize("tool", TOOLS)
@pytest.mark.parametrize("chain", CHAINS)
def test_what_does_not_come_back_is_noted(tool, chain):
    written = write_settings(CHAINS[chain], tool)
    again = read_settings(written.text, tool)
    assert written.notes or again.steps == CHAINS[chain]
    assert all(isinstance(note, Message) for note in (*written.notes, *again.notes))


@pytest.mark.parametrize("tool", TOOLS)
def test_no_steps_come_back_as_none(tool):
    assert read_settings(write_settings((), tool).text, tool).steps == ()


@pytest.mark.parametrize("tool", ["llama_cpp", "webui", "sillytavern"])
@pytest.mark.parametrize("text", [BREAKERS, "\\n\n<|im_end|>", ""])
def test_breakers_come_back(tool, text):
    dry = Step("dry", numbers("dry", window=64), text=text)
    found = read_settings(write_settings((dry,), tool).text, tool)
    assert found.steps == (dry,) and found.steps[0].text == text


@pytest.mark.parametrize("tool", ["llama_cpp", "vllm", "openai", "transformers", "webui", "sillytavern"])
def test_a_logit_bias_comes_back(tool):
    bias = Step("logit_bias", tokens=((3, 1.5), (7, -100.0)))
    assert read_settings(write_settings((bias,), tool).text, tool).steps == (bias,)


@pytest.mark.parametrize("tool", ["vllm", "sillytavern"])
def test_banned_words_come_back(tool):
    banned = Step("banned_words", text="a testament to\norbs")
    found = read_settings(write_settings((banned,), tool).text, tool)
    assert [(each.warp, each.text) for each in found.steps] == [("banned_words", "a testament to\norbs")]


@pytest.mark.parametrize("tool", ["llama_cpp", "webui", "sillytavern", "transformers"])
def test_banned_ids_come_back(tool):
    ids = Step("banned_words", text="[5]\n[7]")
    found = read_settings(write_settings((ids,), tool).text, tool)
    assert [(each.warp, each.text) for each in found.steps] == [("banned_words", "[5]\n[7]")]


@pytest.mark.parametrize("warp", OFF)
def test_a_step_that_is_off_changes_nothing(warp):
    number = next(name for name in [each.name for each in WARPS[warp].parameters] if name in OFF_NUMBERS)
    values = dict(numbers(warp)) | {number: OFF_NUMBERS[number]}
    assert OFF[warp](values) and not OFF[warp](dict(numbers(warp, temperature=0.5)))
    low, high = next((each.low, each.high) for each in WARPS[warp].parameters if each.name == number)
    if low <= OFF_NUMBERS[number] <= high and warp != "dynamic_temperature":  # whose range 0 is a temperature
        logits = torch.randn(20)
        assert torch.equal(final(logits, (Step(warp, tuple(values.items())),)), logits)


def test_a_step_twice_is_noted():
    twice = (step("top_k", k=3), step("temperature"), step("top_k", k=2))
    assert write_settings(twice, "vllm").notes[0] == "vLLM has top_k only once; the first is written."


# --- the words of steps, and numbers out of range ---


def test_words_become_tokens_with_a_tokenizer(lm):
    found = read_settings('{"bad_words": ["ab"], "top_k": 3}', tokenizer=lm.tokenizer)
    assert found.steps[0].phrases and read_settings('{"bad_words": ["ab"], "top_k": 3}').steps[0].phrases == ()
    beyond = json.dumps({"logit_bias": {"1": 2, "9999999": 3}})
    found = read_settings(beyond, tokenizer=lm.tokenizer)
    assert found.steps[0].tokens == ((1, 2.0),) and "beyond this vocabulary" in found.notes[-1]


def test_a_number_out_of_range_is_moved_and_said():
    found = read_settings("SamplingParams(temperature=9.5, top_k=100000)")
    assert [values_of(each) for each in found.steps] == [{"temperature": 3}, {"k": 1000}]
    assert "temperature 9.5 is out of range here; 3 is used." in found.notes
    checked(found.steps, WARPS, 10)


# --- pastes that mean no good ---

HOSTILE = [
    "",
    "   \n",
    "x" * (MOST_TEXT + 1),
    '{"temperature": NaN, "max_completion_tokens": 1}',
    '{"temperature": 1e999, "max_completion_tokens": 1}',
    '{"temperature": "abc", "max_completion_tokens": 1}',
    '{"temperature": [1], "max_completion_tokens": 1}',
    '{"temperature": true, "max_completion_tokens": 1}',
    '{"top_p": {"a": 1}, "do_sample": true}',
    '{"do_sample": "perhaps"}',
    '{"logit_bias": "abc", "messages": []}',
    '{"logit_bias": {"-1": 2}, "messages": []}',
    '{"logit_bias": {"1": null}, "messages": []}',
    '{"a": ' * 500 + "1" + "}" * 500,
    '{"temperature": 1, "temperature": 2}',
    "{",
    "[" * 3000,
    "(" * 3000 + "a=1",
    "-" * 4000 + "1",
    "f(a=" * 400,
    "--temp nan",
    "--temp",
    '--temp "0.7',
    json.dumps({str(n): n for n in range(500)}),
    "\n".join(f"a{n}: 1" for n in range(500)),
    "<script>alert(1)</script>",
    "\x00\u202e",
]


@pytest.mark.parametrize("text", HOSTILE, ids=range(len(HOSTILE)))
@pytest.mark.parametrize("tool", ["", *TOOLS])
def test_a_hostile_paste_is_refused_or_read(text, tool):
    try:
        found = read_settings(text, tool)
    except InputError as error:
        assert len(str(error)) < 300
    else:
        assert tool and len(found.unused) <= 400
        checked(found.steps, WARPS, 100)


@pytest.mark.parametrize("value", ["NaN", "Infinity", '"nan"', '"inf"', "[]", "true"])
@pytest.mark.parametrize("tool", ["llama_cpp", "ollama", "webui", "vllm", "openai"])
def test_what_is_no_number_is_refused_by_every_tool(tool, value):
    with pytest.raises(InputError):
        read_settings(f'{{"temperature": {value}}}', tool)


def test_names_are_shown_without_invisible_characters():
    found = read_settings('{"do_sample": true, "<b>\\u202e": 1}')
    assert found.unused == ("<b>\\u202e",)


def test_an_unknown_tool_is_named():
    with pytest.raises(InputError, match="unknown"):
        write_settings((), "nonsense")


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("a: 1\n" * MOST_TEXT, "too long"),
        ('{"a": ' * 100 + "1" + "}" * 100, "JSON cannot be read"),
        ('{"top_k": 1, "top_k": 2}', "occurs twice"),
        ('{"a": NaN}', "NaN"),
        (json.dumps({str(n): n for n in range(500)}), "too many settings"),
        ('--temp "0.7', "cannot be split"),
    ],
)
def test_what_is_wrong_with_a_paste_is_said(text, what):
    with pytest.raises(InputError, match=what):
        read_settings(text, "llama_cpp")


@pytest.mark.parametrize("tool", ["vllm", "openai", "transformers"])
def test_an_order_that_a_tool_does_not_have_is_noted(tool):
    steps = (step("top_p"), step("temperature", temperature=0.5))
    assert f"{TOOLS[tool].label} runs them in its own order: temperature, top_p." in write_settings(steps, tool).notes


# --- rules for the text ---

RULES = [
    ("llama_cpp", "--grammar 'root ::= \"a\"+'", "gbnf", 'root ::= "a"+'),
    ("llama_cpp", "-j '{}' --temp 1", "json", "{}"),
    ("webui", 'grammar_string: root ::= "a"', "gbnf", 'root ::= "a"'),
    ("vllm", '{"guided_choice": ["yes", "no"]}', "choice", "yes\nno"),
    ("vllm", '{"structured_outputs": {"regex": "a+"}}', "regex", "a+"),
    ("vllm", '{"structured_outputs": {"json": {"type": "integer"}}}', "json", '{"type": "integer"}'),
    (
        "openai",
        '{"response_format": {"type": "json_schema", "json_schema": {"name": "x", "schema": {"type": "null"}}}}',
        "json",
        '{"type": "null"}',
    ),
    ("openai", '{"response_format": {"type": "json_object"}}', "json", '{"type": "object"}'),
    ("ollama", '{"format": {"type": "integer"}, "options": {}}', "json", '{"type": "integer"}'),
]


@pytest.mark.parametrize(("tool", "text", "kind", "rule"), RULES)
def test_a_rule_for_the_text_is_read(tool, text, kind, rule):
    found = read_settings(text, tool)
    assert found.rule == (kind, rule) and "fits" not in [each.warp for each in found.steps]


def test_a_rule_becomes_a_step_with_a_tokenizer(lm):
    found = read_settings('{"guided_regex": "a+"}', "vllm", lm.tokenizer)
    assert (found.steps[0].warp, found.steps[0].rule.kind, found.steps[0].rule.text) == ("fits", "regex", "a+")
    for tool in ("vllm", "openai", "llama_cpp", "webui", "ollama", "transformers"):
        written = write_settings(found.steps, tool)
        assert (tool == "vllm") == (written.notes == ())
    again = read_settings(write_settings(found.steps, "vllm").text, "vllm", lm.tokenizer)
    assert again.steps == found.steps
    wrong = read_settings('{"guided_regex": "("}', "vllm", lm.tokenizer)
    assert wrong.steps == () and "left out" in wrong.notes[-1]
