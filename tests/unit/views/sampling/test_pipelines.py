"""Pipelines between the page and the model: what the editor offers, what a page may send, and steps as Python."""

import re

import pytest

from model.errors import InputError
from model.sampling.pipeline import MOST_STEPS, Step, checked
from model.sampling.warps import WARPS, values_of
from tests.support.scripts import script
from viz.views.sampling.pipelines import (
    DEFAULT,
    GROUPS,
    PRESETS,
    USES,
    spec,
    step_imports,
    step_name,
    steps_code,
    steps_of,
    value_of,
)
from viz.words import LANGUAGES, words

SCRIPT = script("views/sampling/pipeline")


# --- what the editor offers ---


@pytest.mark.parametrize("language", LANGUAGES)
def test_every_warp_is_offered_with_its_words_in_one_group(language):
    offered = spec(words(language))
    assert [warp["key"] for warp in offered["warps"]] == list(WARPS)
    assert all(warp["label"] and warp["help"] and warp["source"] for warp in offered["warps"])
    labels, keys = zip(*offered["groups"], strict=True)
    assert all(labels) and len(labels) == len(GROUPS)
    assert sorted(key for group in keys for key in group) == sorted(WARPS)  # each in one group
    for warp in offered["warps"]:
        for parameter in warp["parameters"]:
            assert parameter["label"] and parameter["low"] <= parameter["default"] <= parameter["high"]
    assert offered["most"] == MOST_STEPS


def test_every_preset_that_is_offered_is_a_pipeline_with_a_name(lm):
    offered = {preset["key"]: preset for preset in spec(words("en"))["presets"]}
    assert {"standard", "plain", "greedy", "heat_first", "cut_first"} <= set(offered) <= set(PRESETS)
    for key, preset in offered.items():
        steps = steps_of(lm, preset["steps"])
        assert [step.warp for step in steps] == [step.warp for step in PRESETS[key]] and preset["label"]
        assert [values_of(step) for step in steps] == [values_of(step) for step in PRESETS[key]]
    assert offered["plain"]["steps"] == []
    assert offered["greedy"]["steps"] == [{"warp": "temperature", "values": {"temperature": 0.0}}]


@pytest.mark.parametrize("language", LANGUAGES)
def test_settings_by_use_are_pipelines_that_are_told(lm, language):
    offered = spec(words(language))["uses"]
    assert [steps_of(lm, each["steps"]) for each in offered] == list(USES.values())
    assert [each["settings"] for each in offered][:2] == ["T 0", "T 0.4, k 10"]
    assert all(each["label"] and each["why"] for each in offered)


def test_every_preset_is_there():
    """A preset whose warp has another name would silently not be offered."""
    assert {step.warp for steps in PRESETS.values() for step in steps} <= set(WARPS)


def test_the_script_has_the_words_it_asks_for():
    known = {key.removeprefix("pipeline.") for key in words("en") if key.startswith("pipeline.")}
    found = set(re.findall(r"\bwords\.(\w+)", SCRIPT)) | {"up", "down", "remove"}
    assert len(found) > 10 and found <= known
    rest = {each for each in known - found if not each.startswith(("preset_", "group_", "use_", "why_"))}
    fields = {f"{name}{end}" for name in ("tokens", "banned", "breakers") for end in ("", "_example")}
    assert rest == {"tokens_n", "after"} | fields  # the server's own


# --- what a page sends ---


def test_nothing_sent_is_the_default_and_what_is_off_is_left_out(lm):
    assert steps_of(lm, None) == DEFAULT and steps_of(lm, []) == ()
    sent = [{"warp": "top_k", "values": {"k": 3}, "off": True}, {"warp": "top_p", "values": {"p": 0.5}}]
    assert steps_of(lm, sent) == (Step("top_p", (("p", 0.5),)),)


def test_the_order_that_was_sent_is_kept_and_a_warp_may_come_twice(lm):
    sent = [{"warp": "top_p", "values": {"p": 0.5}}, {"warp": "temperature"}, {"warp": "top_p", "values": {"p": 0.25}}]
    assert [step.warp for step in steps_of(lm, sent)] == ["top_p", "temperature", "top_p"]
    assert values_of(steps_of(lm, sent)[1]) == {"temperature": 0.8}
    assert steps_of(lm, value_of(DEFAULT)) == DEFAULT


@pytest.mark.parametrize(
    "sent",
    [
        "steps",
        {"warp": "top_k"},
        [3],
        [None],
        [{}],
        [{"warp": 7}],
        [{"warp": "nope"}],
        [{"warp": ["top_k"]}],
        [{"warp": "top_k", "values": [1]}],
        [{"warp": "top_k", "values": {"k": "4"}}],
        [{"warp": "top_k", "values": {"k": True}}],
        [{"warp": "top_k", "values": {"k": float("nan")}}],
        [{"warp": "top_k", "values": {"k": float("inf")}}],
        [{"warp": "top_k", "values": {"k": -1}}],
        [{"warp": "top_k", "values": {"k": 2.5}}],
        [{"warp": "top_k", "values": {"other": 2}}],
        [{"warp": "temperature", "values": {"temperature": -0.1}}],
        [{"warp": "top_k"}] * (MOST_STEPS + 1),
    ],
)
def test_anything_else_is_refused(lm, sent):
    with pytest.raises(InputError):
        steps_of(lm, sent)


TOKEN_WARPS = [key for key, warp in WARPS.items() if warp.takes_tokens]


@pytest.mark.parametrize("warp", TOKEN_WARPS)
def test_lines_of_tokens_are_read_with_the_signs_of_the_page(lm, warp):
    (step,) = steps_of(lm, [{"warp": warp, "text": "a: 2\n\n·: -3.5\n::1\n↵:0"}])
    assert step.tokens == ((ord("a"), 2.0), (ord(" "), -3.5), (ord(":"), 1.0), (ord("\n"), 0.0))
    assert steps_of(lm, [{"warp": warp}])[0].tokens == steps_of(lm, [{"warp": warp, "text": ""}])[0].tokens == ()


@pytest.mark.parametrize("warp", TOKEN_WARPS)
def test_a_word_of_several_tokens_biases_each(lm, warp):
    (step,) = steps_of(lm, [{"warp": warp, "text": "ab: 3\na: -1"}])
    assert step.tokens == ((ord("a"), 3.0), (ord("b"), 3.0), (ord("a"), -1.0))


def test_banned_words_are_read_in_both_spellings(lm):
    (step,) = steps_of(lm, [{"warp": "banned_words", "text": "ab\n\n·c↵"}])
    assert step.phrases == (tuple(b"ab"), tuple(b" ab"), tuple(b" c\n"))
    assert steps_of(lm, [{"warp": "banned_words"}])[0].phrases == ()
    with pytest.raises(InputError, match="too many"):
        steps_of(lm, [{"warp": "banned_words", "text": "a\n" * 33}])


def test_dry_has_the_usual_breakers_unless_others_are_given(lm):
    usual, none, own = (steps_of(lm, [{"warp": "dry"} | text])[0] for text in ({}, {"text": ""}, {"text": "ab\n;"}))
    assert usual.phrases == tuple((ord(sign),) for sign in '\n:"*') and none.phrases == ()
    assert own.phrases == ((ord("a"), ord("b")), (ord(";"),))


@pytest.mark.parametrize("warp", TOKEN_WARPS)
@pytest.mark.parametrize("text", ["a", "a:", ": 3", "a: x", "a: nan", "a: 101", "a: inf", "a: 1\n" * 33])
def test_other_lines_are_refused_and_quoted_in_part(lm, warp, text):
    with pytest.raises(InputError) as told:
        steps_of(lm, [{"warp": warp, "text": text}])
    assert len(told.value.got) <= 60


# --- as Python, and by name ---


def test_steps_as_python_are_the_same_steps(lm):
    steps = [(), DEFAULT, (Step("temperature", (("temperature", 0.1 + 0.2),)),)]
    steps += [(Step(warp, (), ((65, 2.5), (3, -100.0))),) for warp in TOKEN_WARPS]
    steps += [tuple(Step(key, tuple(values_of(Step(key)).items())) for key in WARPS)]
    for each in steps:
        code = steps_code(each)
        assert eval(code, {"Step": Step}) == each and checked(each, WARPS, 256) == each
    assert steps_code(DEFAULT[1:2]) == '(Step("top_k", (("k", 40),)),)'


def test_words_as_python_are_the_same_phrases(lm):
    for sent in ({"warp": "banned_words", "text": "it's\n·a"}, {"warp": "dry"}):
        steps = steps_of(lm, [sent])
        names = {"Step": Step, "lm": lm}
        exec("\n".join(step_imports(steps)), names)
        assert eval(steps_code(steps), names) == steps and steps[0].phrases
    assert step_imports(DEFAULT) == ()
    assert eval(steps_code((Step("banned_words", phrases=((1, 2),)),))) == (Step("banned_words", phrases=((1, 2),)),)


def test_a_step_is_named_with_its_numbers():
    windows = [Step("presence_penalty", (("presence", 1), ("window", n))) for n in (0, 64)]
    assert [step_name(words("en"), step) for step in windows] == ["Presence penalty 1", "Presence penalty 1, 64"]
    assert step_name(words("en"), DEFAULT[0]) == "Temperature 0.8"
    assert step_name(words("zh"), DEFAULT[1]) == "Top-k 40"
    for key in TOKEN_WARPS:
        assert "2" in step_name(words("en"), Step(key, (), ((1, 1.0), (2, 1.0))))
