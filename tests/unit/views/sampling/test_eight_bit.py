"""8-bit weights on the page: they write where they are asked for, say what they change, and come with their lines."""

import pytest

from model.generation.strategies import STRATEGIES
from model.generation.text_statistics import written
from model.quantization.int8 import effect, int8
from tests.support.views.side_by_side import model_of
from viz.numbers import nats, percent, size
from viz.page.wire.streams import answers
from viz.seam.view import Visit
from viz.views.sampling.side_by_side.run import Races
from viz.views.sampling.side_by_side.view import FEED
from viz.words import LANGUAGES
from viz.work.prompt import Prompt

PROMPT, TOKENS = "abcab", 10


@pytest.fixture(scope="module")
def lm(tmp_path_factory):
    return model_of(tmp_path_factory.mktemp("bytes"))


def pieces(playground, eight, language="en"):
    cards = {
        "strategies": [{"name": "greedy", "steps": [{"warp": "temperature", "values": {"temperature": 0}}]}],
        "settings": {"tokens": TOKENS, "eight": eight},
    }
    visit = Visit(playground, "me", language, "tiny", Prompt(PROMPT), {"strategies": cards}, Races())
    return list(answers(FEED.events["start"], visit, {"kind": "start", "tag": "a"}))


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
    numbers = (nats(told.kl), percent(told.agree), nats(told.largest), size(told.nbytes), size(told.full))
    assert all(number in found[-1]["eight"] for number in numbers)


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
