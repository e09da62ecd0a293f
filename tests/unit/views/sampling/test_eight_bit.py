"""8-bit weights on the page: they write where they are asked for, say what they change, and come with their lines."""

import pytest

from model.api import LanguageModel
from model.generation.strategies import STRATEGIES
from model.generation.text_statistics import written
from model.quantization.int8 import effect, int8
from tests.support.helpers import byte_tokenizer, tiny_model
from viz.page.parts import unpacked
from viz.views.sampling.side_by_side import view as side_by_side
from viz.views.sampling.side_by_side.run import Races
from viz.words import LANGUAGES

PROMPT, TOKENS = "abcab", 10


@pytest.fixture(scope="module")
def lm(tmp_path_factory):
    tokenizer = byte_tokenizer(tmp_path_factory.mktemp("bytes"))
    return LanguageModel("tiny", "Tiny", tiny_model({"vocab_size": 256, "n_ctx": 60}), tokenizer)


def pieces(playground, eight, language="en"):
    cards = {
        "strategies": [{"name": "greedy", "steps": [{"warp": "temperature", "values": {"temperature": 0}}]}],
        "settings": {"tokens": TOKENS, "eight": eight},
    }
    asked = (PROMPT, cards, {"kind": "start", "tag": "a"})
    made = side_by_side.watch(playground, Races(), "me", playground.opened("tiny"), asked, language)
    return [unpacked(each) for each in made]


def ids(found):
    return [
        record[0] for piece in found for tick in piece["ticks"] for change in tick if change for record in change[0]
    ]


def test_they_write_what_they_write_alone(playground, lm):
    found = pieces(playground, True)
    (alone,) = written(int8(lm).generate(PROMPT, STRATEGIES["greedy"], TOKENS), 1)
    assert ids(found) == list(alone.ids)
    assert found[0]["opening"]["source"].startswith("Tiny, int8 weights")
    assert playground.eight_bit(lm) is playground.eight_bit(lm)


@pytest.mark.parametrize("language", LANGUAGES)
def test_the_last_piece_says_what_they_change(playground, lm, language):
    found = pieces(playground, True, language)
    told = effect(lm.model, int8(lm).model, lm.encode(PROMPT).ids.tolist())
    assert not any("eight" in piece for piece in found[:-1])
    assert f"{told.kl:.4f}" in found[-1]["eight"] and f"{told.agree:.0%}" in found[-1]["eight"]
    assert f"{told.largest:.2f}" in found[-1]["eight"]


def test_float32_says_nothing_of_it(playground):
    found = pieces(playground, False)
    assert "eight" not in found[-1] and "float32" in found[0]["opening"]["source"]


@pytest.mark.parametrize("eight", [True, False])
def test_the_python_lines_take_the_same_weights(playground, lm, monkeypatch, eight):
    monkeypatch.setattr("model.api.load_model", lambda name: lm)
    found = pieces(playground, eight)
    space: dict = {}
    exec(found[0]["opening"]["python"], space)
    assert space["texts"] == [ids(found)]
    assert ("int8" in space) == eight
