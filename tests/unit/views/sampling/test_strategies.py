"""The strategies that a page sends: read, refused, named and written as Python."""

import dataclasses
import json
import re

import pytest

from model.errors import InputError
from model.forgetting.policies import Policy
from model.generation.strategies import METHODS, STRATEGIES, Strategy
from model.sampling.pipeline import Step
from tests.support.scripts import script
from viz.page.pipeline import PageRequest, scene_of
from viz.views.sampling import strategies
from viz.views.sampling.side_by_side.run import packed, strategy_of
from viz.views.sampling.strategies import (
    DEFAULT,
    Common,
    Offer,
    chosen,
    code,
    common_of,
    labels,
    payload,
    read_cards,
    summary,
    value_of,
)
from viz.words import LANGUAGES, words
from viz.work.prompt import Prompt

SCRIPT = script("views/sampling/strategies")
HUGE = 10**400
PLAIN, CHATTY = (Offer(chat, False, 512, 8, 256) for chat in (False, True))


def card(**changes):
    return {"name": "mine", "method": "sample", "options": {}, "steps": []} | changes


def sent(*cards):
    return {"strategies": list(cards)}


# --- what is read ---


@pytest.mark.parametrize("value", [None, {}, "x", [], 3, {"settings": {"seed": 1}}])
def test_nothing_sent_is_the_default(lm, value):
    assert chosen(lm, value) == [STRATEGIES[key] for key in DEFAULT]


def test_every_preset_comes_back_as_it_was_sent(lm):
    shown = payload(words("en"), PLAIN)["presets"]
    for at in range(0, len(shown), 8):
        keys = list(shown)[at : at + 8]
        back = chosen(lm, json.loads(json.dumps(sent(*(shown[key] for key in keys)))))
        for key, read in zip(keys, back, strict=True):
            assert value_of((read,)) == value_of((STRATEGIES[key],)), key


def test_a_card_is_a_strategy(lm):
    steps = [{"warp": "temperature", "values": {"temperature": 1.25}}, {"warp": "top_k", "values": {}, "off": True}]
    (read,) = chosen(lm, sent(card(name="  warm ", steps=steps)))
    assert read == Strategy((Step("temperature", (("temperature", 1.25),)),), "sample", (), "warm")
    (read,) = chosen(lm, sent({"method": "beam", "options": {"beams": 3}}))
    assert read == Strategy((), "beam", (("beams", 3.0),), "")
    assert chosen(lm, sent(card(name="x" * 500)))[0].name == "x" * 40


BAD_CARDS = [
    [],
    [card()] * 9,
    "abc",
    {"0": card()},
    [card(), None],
    [card(), "x"],
    [[card()]],
    [card(method="none")],
    [card(method=None)],
    [card(method=["sample"])],
    [card(method={"a": 1})],
    [card(name=3)],
    [card(name=["x"])],
    [card(options=[1])],
    *([card(memory=value)] for value in ("h2o", [1], {"kind": "bigbird", "budget": 4}, {"kind": ["h2o"], "budget": 4})),
    *([card(memory={"kind": "h2o", "budget": value})] for value in (0, 1.5, None, "4", True, HUGE)),
    [card(options="beams")],
    [card(options={"beams": 3})],  # no number of this method
    *(
        [card(method="beam", options={"beams": value})]
        for value in (0, -1, 1e9, 2.5, True, "3", None, float("nan"), [3], float("inf"), -float("inf"), HUGE, -HUGE)
    ),
    *([card(steps=value)] for value in ("x", {"warp": "top_k"}, [3], [None], [{"warp": []}], [{"warp": "top_k"}] * 25)),
    *([card(steps=[{"warp": "top_k", "values": {"k": value}}])] for value in (-1, 1.5, HUGE, float("nan"), "4", True)),
    [card(steps=[{"warp": "top_k", "values": {"p": 0.5}}])],
]


@pytest.mark.parametrize("cards", BAD_CARDS, ids=range(len(BAD_CARDS)))
def test_what_is_no_strategy_is_refused_in_a_sentence(lm, cards):
    with pytest.raises(InputError) as error:
        chosen(lm, {"strategies": cards})
    assert error.value.what.endswith(".") and len(error.value.got) < 80


def test_settings():
    assert common_of(None) == common_of({}) == common_of("x") == Common(60, 0, True, (), False)
    asked = {"tokens": 12, "seed": 7, "shared": False, "stop": ["a", "", "\\n\\n"], "chat": True}
    assert common_of({"settings": asked}) == Common(12, 7, False, ("a", "\n\n"), True)
    assert common_of({"settings": {"stop": "x\ny"}}).stop == ("x", "y")
    assert common_of({"settings": {"tokens": 8.0}}).tokens == 8
    assert common_of({"settings": {}}, Common(tokens=40)).tokens == 40


@pytest.mark.parametrize(
    "asked",
    [
        [],
        "x",
        3,
        {"other": 1},
        {1: 2},
        *({"tokens": value} for value in (0, 513, 2.5, "3", None, True, float("nan"))),
        {"tokens": HUGE},
        *({"seed": value} for value in (-1, 1.5, HUGE, 10**6, float("inf"), "0", False)),
        {"shared": 1},
        {"shared": "yes"},
        {"chat": None},
        {"stop": 3},
        {"stop": [3]},
        {"stop": {"a": 1}},
        {"stop": None},
        {"stop": ["a"] * 5},
        {"stop": ["x" * 41]},
        {"stop": "\n".join("abcde")},
    ],
)
def test_what_is_no_setting_is_refused_in_a_sentence(asked):
    with pytest.raises(InputError) as error:
        common_of({"settings": asked})
    assert error.value.what.endswith(".") and len(error.value.got) < 80


def test_cards_that_cannot_be_written_say_why_where_they_are_used(playground):
    scene = scene_of(playground, PageRequest("tiny", "abc", None, {}, {}, "en"))
    read = read_cards({"strategies": [card(name="<b>")], "settings": {"seed": 7}}, scene)
    assert read.strategies[0].name == "<b>" and read.common.seed == 7 and read.check() is None
    assert hash(read) == hash(read_cards({"strategies": [card(name="<b>")], "settings": {"seed": 7}}, scene))
    for wrong in ({"strategies": []}, {"settings": {"tokens": 0}}, {"strategies": BAD_CARDS[1]}):
        with pytest.raises(InputError):
            read_cards(wrong, scene).check()
    small = dataclasses.replace(playground.options.allowed, new_tokens=20)
    object.__setattr__(playground, "options", dataclasses.replace(playground.options, allowed=small))
    assert "server" in read_cards({"settings": {"tokens": 21}}, scene).refusal[0]


# --- what is shown ---


@pytest.mark.parametrize("language", LANGUAGES)
def test_every_preset_method_and_number_has_its_words(language):
    said = words(language)
    shown = payload(said, CHATTY)
    assert set(shown["names"]) == set(STRATEGIES) == set(shown["presets"])
    for method in shown["methods"]:
        assert method["label"] and method["help"] and method["source"]
        for parameter in method["parameters"]:
            assert parameter["label"] == said[f"strategies.options.{parameter['name']}"]
    assert {method["key"] for method in shown["methods"]} == set(METHODS)
    assert shown["chat"] is True and shown["settings"] == {**vars(Common()), "stop": []}
    json.dumps(shown, allow_nan=False)


def test_labels_are_all_different():
    said = words("en")
    made = [STRATEGIES["greedy"], STRATEGIES["greedy"], Strategy(name="Greedy 2"), Strategy(), Strategy(method="beam")]
    assert labels(said, made) == ["Greedy", "Greedy 2", "Greedy 2 2", "Sampling", "Beam search"]
    assert labels(words("zh"), made[:1]) == [words("zh")["strategies.names.greedy"]]


def test_several_of_one_preset_are_named_by_their_numbers():
    def warm(temperature, name="temperature"):
        return Strategy((Step("temperature", (("temperature", temperature),)),), name=name)

    said = words("en")
    assert labels(said, [warm(0.7), warm(1.5)]) == ["T 0.7", "T 1.5"]
    assert labels(said, [warm(0.7), warm(1.5, "hot"), warm(2, "hot")]) == ["Temperature", "hot", "hot 2"]
    assert labels(said, [warm(0.7), warm(0.7), warm(1.5)]) == ["Temperature", "Temperature 2", "T 1.5"]


def test_a_summary_is_one_line():
    said = words("en")
    steps = (Step("temperature", (("temperature", 0.8),)), Step("top_k"), Step("top_p", (("p", 0.9),)))
    assert summary(said, Strategy(steps)) == "T 0.8 · top-k 40 · top-p 0.9"
    assert summary(said, Strategy()) == said["strategies.plain"]
    assert summary(said, STRATEGIES["contrastive"]) == "Contrastive search · Candidates k 4 · Alpha α 0.6"


def test_the_python_lines_make_the_same_strategies():
    made = [STRATEGIES[key] for key in ("greedy", "top_p", "penalties", "beam")]
    made.append(Strategy((Step("temperature", (("temperature", 0.123456789),)),), name='it\'s "mine"'))
    space = {"Strategy": Strategy, "Step": Step}
    exec("\n".join(code(made, [each.name for each in made])), space)
    assert space["strategies"] == made


def test_a_memory_goes_to_the_page_and_back_and_into_the_lines(lm):
    kept = card(memory={"kind": "h2o", "budget": 16})
    (read,) = chosen(lm, sent(kept))
    assert read.memory == Policy("h2o", 16) and value_of((read,))[0]["memory"] == kept["memory"]
    assert strategy_of(lm, json.loads(json.dumps(packed(read)))) == read
    assert chosen(lm, sent(card()))[0].memory is None and "memory" not in value_of((chosen(lm, sent(card()))[0],))[0]
    for language in LANGUAGES:
        assert "16" in summary(words(language), read)
    made = {"Strategy": Strategy, "Step": Step, "Policy": Policy}
    exec("\n".join(code([read], ["mine"])), made)
    assert made["strategies"] == [read]


def test_the_script_uses_words_that_are_there():
    there = {key.removeprefix("strategies.") for key in words("en") if key.startswith("strategies.")}
    assert set(re.findall(r"\bwords\.(\w+)", SCRIPT)) <= there


def test_the_chat_box_is_there_where_the_model_has_a_template(lm):
    assert not strategies.has_chat(lm)
    template = "{% for message in messages %}<{{ message.role }}>{{ message.content }}</>{% endfor %}"
    taught = dataclasses.replace(lm, tokenizer=dataclasses.replace(lm.tokenizer, chat_template=template))
    assert strategies.has_chat(taught)
    ids = strategies.prompt_ids(taught, Prompt("it's"), chat=True)
    assert taught.decode(ids) == "<user>it's</>"
    assert list(eval(strategies.prompt_code(Prompt("it's"), chat=True), {"lm": taught})) == ids
    assert strategies.prompt_ids(taught, Prompt("it's"), chat=False) == lm.encode("it's").ids.tolist()
    assert strategies.prompt_ids(lm, Prompt("it's"), chat=True) == lm.encode("it's").ids.tolist()
    assert eval(strategies.prompt_code(Prompt("it's"), chat=False)) == "it's"
