"""The view of the shuffled prompt, its function for programs and its Python lines, without a browser."""

import numpy as np
import pytest

from model.design.shuffled import new_order
from tests.support.models.helpers import VARIANTS, assert_close, byte_tokenizer
from tests.support.views.views import PROMPT, array, drawn, no_holes, playground_of, run_lines, traces
from viz.api.registry import call
from viz.labels import visible
from viz.views.effects.shuffled.view import VIEW
from viz.words import words

WORDS = words("en")


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory):
    return byte_tokenizer(tmp_path_factory.mktemp("bytes"))


@pytest.mark.parametrize("variant", VARIANTS)
def test_bars_coincide_in_the_first_block_without_positions_and_the_table_says_how_far(tokenizer, variant):
    playground = playground_of(tokenizer, variant)
    parts = drawn(playground, "effects", "shuffled", heads=[[0, 1]])
    no_holes(parts)
    positions = playground.opened("tiny").config.positions != "none"
    assert len(parts["table"]["rows"]) == 2 + positions
    order = new_order(len(PROMPT), 0)
    assert parts["orders"]["items"][1][1] == "".join(visible(PROMPT[at]) for at in order)
    written, moved = (array(each["y"]) for each in traces(parts["weights"]))
    assert_close(written, moved, 2e-6)
    deeper = [array(each["y"]) for each in traces(drawn(playground, "effects", "shuffled", heads=[[1, 1]])["weights"])]
    assert np.abs(deeper[0] - deeper[1]).max() > 1e-3
    as_it_is = traces(drawn(playground, "effects", "shuffled", {"way": "model"}, heads=[[0, 1]])["weights"])
    assert_close(array(as_it_is[0]["y"]), playground.opened("tiny").trace(PROMPT).pattern(0, 1)[-1], 1e-5)
    lines = run_lines(parts["distance"]["python"], playground.opened("tiny"))[1][-1]
    for line, trace in zip(lines, traces(parts["distance"]), strict=True):
        assert_close(np.maximum(line, 1e-8), array(trace["y"]), 1e-5)


def test_another_seed_is_another_order_and_for_programs_the_same_numbers(tokenizer):
    playground = playground_of(tokenizer)
    one, two = (drawn(playground, "effects", "shuffled", {"seed": n})["orders"]["items"][1][1] for n in (0, 1))
    assert one != two and sorted(one) == sorted(two) and one[-1] == two[-1] == PROMPT[-1]
    found = call(playground, VIEW.api[0], {"prompt": PROMPT, "seed": 1})
    assert "".join(visible(PROMPT[at]) for at in found["order"]) == two
    off = next(each for each in found["ways"] if each["way"] == "no_positions")
    assert off["distance"][0] < 1e-6 < 1e-3 < off["distance"][-1]
    assert call(playground, VIEW.api[0], {"prompt": "ab"})["ways"] == []


def test_a_prompt_of_two_tokens_has_nothing_to_shuffle(tokenizer):
    parts = drawn(playground_of(tokenizer), "effects", "shuffled", prompt="ab")
    assert parts["weights"]["empty"]["text"] == parts["table"]["empty"]["text"] == WORDS["shuffled.short"]


def test_one_block_says_that_nothing_moves(tokenizer):
    note = drawn(playground_of(tokenizer, "llama", {"n_layer": 1}), "effects", "shuffled")["distance"]["note"]
    assert "one layer" in note
