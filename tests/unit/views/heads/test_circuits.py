"""The view of a head's weights: its tables, figures, Python lines and function for programs, without a browser."""

import numpy as np
import pytest

from model.attention.circuits import matching
from model.errors import InputError
from model.token_tables.head_tables import ov_table, qk_table
from model.token_tables.singular import head_directions, random_singular_values
from model.token_tables.token_table import extremes, table_row
from tests.support.models.helpers import L, assert_close, byte_tokenizer
from tests.support.views.views import PROMPT, array, drawn, no_holes, perform, playground_of, run_lines, traces
from viz.api.registry import call
from viz.labels import quoted
from viz.views.heads.circuits.measure import DRAWS, SAMPLE
from viz.views.heads.circuits.view import VIEW

QK = {"circuit": "qk", "token": "b", "distance": "2", "relative": False, "score": "own"}


@pytest.fixture(scope="module")
def playground(tmp_path_factory):
    return playground_of(byte_tokenizer(tmp_path_factory.mktemp("bytes")), "llama")


def shown(playground, settings) -> dict:
    for job in ("pairs", "scores"):
        perform(playground, "heads", VIEW, job, settings, heads=[[1, 2]])
    return drawn(playground, "heads", "head_circuits", settings, heads=[[1, 2]])


def test_ov_of_the_selected_token_compared_with_the_average_one(playground):
    parts, lm = shown(playground, {}), playground.opened("tiny")
    no_holes(parts)
    token = int(lm.encode(PROMPT).ids[-1])
    table = ov_table(lm.model, 1, 2, lm.tokenizer.vocab_size).centered()
    values = table_row(table, token)
    tables = parts["row"]["tables"]
    assert [cell["token"] for cell, _ in tables[0]["rows"]] == np.argsort(-values, kind="stable")[:10].tolist()
    assert [cell["token"] for cell, _ in tables[1]["rows"]] == np.argsort(values, kind="stable")[:10].tolist()
    assert f"rank {int((values > values[token]).sum()) + 1} of" in parts["row"]["about"]
    found = extremes(table)
    best = int(found.high_values.argmax())
    first = parts["pairs"]["tables"][0]["rows"][0]
    assert first[0] == quoted(lm.tokenizer.piece(best)) and first[1]["token"] == found.high[best]
    values_of = array(traces(parts["values"])[0]["y"])
    assert_close(values_of, head_directions(lm.model, 1, 2, "ov").values, 1e-4)
    random = random_singular_values(lm.model, 1, 2, "ov")
    assert_close(array(traces(parts["values"])[-1]["y"]), random.mean(0), 1e-4)
    assert len(parts["directions"]["rows"]) == 6 and len(parts["directions"]["rows"][0]) == 6


def test_qk_at_a_distance_without_the_mean(playground):
    parts, lm = shown(playground, QK), playground.opened("tiny")
    no_holes(parts)
    values = table_row(qk_table(lm.model, 1, 2, 2, lm.tokenizer.vocab_size), ord("b"))
    rows = parts["row"]["tables"][0]["rows"]
    assert [cell["token"] for cell, _ in rows] == np.argsort(-values, kind="stable")[:10].tolist()
    assert "query" in parts["row"]["title"]
    eigenvalues = drawn(playground, "heads", "head_circuits", QK | {"score": "eigenvalues"}, heads=[[1, 2]])["scores"]
    assert_close(array(traces(eigenvalues)[0]["z"]), matching(lm.model), 1e-5)
    assert f"{DRAWS} random heads" in parts["scores"]["note"] and SAMPLE > DRAWS


def test_the_python_lines_give_the_shown_numbers(playground):
    lm = playground.opened("tiny")
    for settings in ({}, QK):
        parts = shown(playground, settings)
        ends, high = run_lines(parts["row"]["python"], lm)[1]
        assert ends.high.tolist() == [cell["token"] for cell, _ in parts["row"]["tables"][0]["rows"]]
        assert f"{high:+.2f}" in parts["row"]["about"]
        scores = run_lines(parts["scores"]["python"], lm)[1][-1]
        assert_close(scores, array(traces(parts["scores"])[0]["z"]), 1e-6)
        read = run_lines(parts["directions"]["python"], lm)[1][-1].reads
        assert len(read) == 6 and read.shape[1] == lm.tokenizer.vocab_size


def test_for_programs_the_same_numbers(playground):
    found = call(
        playground, VIEW.api[0], {"prompt": PROMPT, "layer": L - 1, "head": 1, "token": "b", "relative": False}
    )
    lm = playground.opened("tiny")
    values = table_row(ov_table(lm.model, L - 1, 1, lm.tokenizer.vocab_size), ord("b"))
    assert found["high"][0]["id"] == values.argmax() and found["token"] == {"id": ord("b"), "text": "b"}
    assert found["own"] == pytest.approx(values[ord("b")], abs=1e-5)
    assert found["random_low"] < 0 < found["random_high"] and len(found["directions"]) == 6
    with pytest.raises(InputError, match="Type one token"):
        call(playground, VIEW.api[0], {"prompt": PROMPT, "layer": 0, "head": 0, "token": "bb"})
