"""The way in which a step is fastest is found by trial, taken, and remembered where it will last."""

import json

import pytest
import torch

from model.gpt import decode_ways
from model.gpt.decode_step import PLAIN, WAYS
from model.gpt.decode_ways import trial, way
from model.kernels import ready
from model.quantization.int8 import quantized
from tests.support.models.steps import prepared


@pytest.mark.parametrize("fastest", WAYS)
def test_the_fastest_way_is_taken_and_tried_once_for_a_number_of_rows(fastest, monkeypatch, taken):
    tried = []

    def clock(model, rows):
        tried.append(rows)
        return {how: 1.0 if how == fastest else 2.0 for how in WAYS}, True

    monkeypatch.setattr(decode_ways, "trial", clock)
    model = prepared(how=None)
    with torch.inference_mode():
        found = [way(model, rows) for rows in (1, 1, 2, 3, 2, 7, 16, 17)]
    assert tried == [1, 2, 4, 16]
    assert [each and each[1] for each in found[:-1]] == [None if fastest == "torch" else fastest] * 7
    assert found[-1] is None, "more rows are not tried"


@pytest.mark.parametrize("rows", [1, 8])
def test_a_trial_times_whole_steps_and_leaves_nothing_behind(rows, taken):
    model = prepared()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    times, _ = trial(model, rows)
    assert set(times) == set(PLAIN) and all(0 < seconds < 60 for seconds in times.values())
    assert {how for _, how in taken} == set(PLAIN[1:]) and {n for n, _ in taken} == {rows}
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())


FASTER = [9 * 0.8**n for n in range(9)]


@pytest.mark.parametrize(
    ("seconds", "rounds", "best", "reliable"),
    [
        ({"torch": [9], "alone": [5], "threads": [4]}, {"torch": 3, "alone": 3, "threads": 3}, "threads", True),
        ({"torch": [9], "alone": [5], "threads": [8, 8, 4]}, {"torch": 3, "alone": 4, "threads": 4}, "threads", True),
        ({"torch": [9], "alone": [5], "threads": FASTER}, {"torch": 3, "alone": 6, "threads": 9}, "threads", False),
        ({"torch": [1], "alone": [5], "threads": [4]}, {"torch": 3, "alone": 1, "threads": 1}, "torch", True),
    ],
    ids=["quiet", "a slow moment", "never alike", "torch"],
)
def test_a_trial_goes_on_until_its_times_can_be_relied_on(seconds, rounds, best, reliable, monkeypatch):
    """The times of each way, round by round, the last one again and again."""
    now, count = [0.0], dict.fromkeys(PLAIN, 0)

    def take(model, ids, cache, how):
        now[0] += seconds[how][min(count[how], len(seconds[how]) - 1)]
        count[how] += 1

    monkeypatch.setattr(decode_ways, "taken", take)
    monkeypatch.setattr(decode_ways.time, "perf_counter", lambda: now[0])
    times, found = trial(prepared(), 1)
    assert min(times, key=times.__getitem__) == best and count == rounds and found == reliable


@pytest.fixture
def tried(monkeypatch):
    """The rows that were tried, and what a trial finds: the fastest way, and whether that can be relied on."""
    rows, finds = [], {"best": "threads", "reliable": True}

    def clock(model, n):
        rows.append(n)
        return {how: 1.0 if how == finds["best"] else 2.0 for how in WAYS}, finds["reliable"]

    monkeypatch.setattr(decode_ways, "trial", clock)
    return rows, finds


@torch.inference_mode()
def started(folder, more=None, rows=1, small=False):
    """The way of a step of so many texts, of a model as a start loads it."""
    model = prepared(how=None, more=more)
    model = quantized(model) if small else model
    decode_ways.remember(model, lambda: folder)
    return way(model, rows)[1]


def test_what_a_trial_found_is_remembered_at_the_next_start(tried, tmp_path):
    rows, _ = tried
    assert [started(tmp_path) for _ in range(3)] == ["threads"] * 3 and rows == [1]
    assert started(tmp_path, {"n_layer": 5}) == "threads" and rows == [1, 1], "a step of another size is tried"
    assert started(tmp_path / "another") == "threads" and rows == [1, 1, 1]
    assert started(tmp_path, rows=3) == "threads" and rows == [1, 1, 1, 2], "so is another number of rows"
    assert started(tmp_path, small=True) == "threads" and rows == [1, 1, 1, 2, 1], "and one of other numbers"
    assert started(tmp_path) == "threads" and rows == [1, 1, 1, 2, 1]


@torch.inference_mode()
def test_where_nothing_can_be_compiled_nothing_is_asked_for(monkeypatch):
    model = prepared(how=None)
    decode_ways.remember(model, lambda: pytest.fail("no numba here"))
    monkeypatch.setattr(ready, "soon", lambda: None)
    assert way(model, 1) is None


def test_what_cannot_be_relied_on_is_tried_again_at_the_next_start(tried, tmp_path):
    rows, finds = tried
    finds["reliable"] = False
    assert [started(tmp_path), started(tmp_path)] == ["threads"] * 2 and rows == [1, 1] and not [*tmp_path.iterdir()]


@torch.inference_mode()
def test_that_one_thread_was_fastest_holds_for_a_while(tried, tmp_path, monkeypatch):
    """Something else may have taken the other cores meanwhile."""
    monkeypatch.setattr(torch, "get_num_threads", lambda: 2)
    now = [0.0]
    monkeypatch.setattr(decode_ways.time, "monotonic", lambda: now[0])
    rows, finds = tried
    finds["best"] = "alone"
    model = prepared(how=None)
    decode_ways.remember(model, lambda: tmp_path)
    assert [way(model, 1)[1] for _ in range(3)] == ["alone"] * 3 and rows == [1]
    assert not [*tmp_path.iterdir()], "the next start tries it again"
    finds["best"], now[0] = "threads", decode_ways.AGAIN
    assert [way(model, 1)[1] for _ in range(3)] == ["threads"] * 3 and rows == [1, 1]
    now[0] = 1e9
    assert way(model, 1)[1] == started(tmp_path) == "threads" and rows == [1, 1]


@torch.inference_mode()
def test_of_one_thread_alone_it_lasts(tried, tmp_path, monkeypatch):
    monkeypatch.setattr(torch, "get_num_threads", lambda: 1)
    rows, finds = tried
    finds["best"] = "alone"
    assert [started(tmp_path), started(tmp_path)] == ["alone"] * 2 and rows == [1]
    assert all(decode_ways.lasts(how) for how in WAYS)
    monkeypatch.setattr(torch, "get_num_threads", lambda: 2)
    assert [how for how in WAYS if decode_ways.lasts(how)] == ["torch", "threads", "codes threads"]


@pytest.mark.parametrize("text", ["", "[]", '{"NAME": "other"}', '{"NAME": ["alone"]}', '{"NAME": "alone"}', "\0"])
def test_a_file_that_is_not_in_order_is_written_anew(text, tried, tmp_path, monkeypatch):
    monkeypatch.setattr(torch, "get_num_threads", lambda: 2)
    rows, _ = tried
    started(tmp_path)
    (file,) = tmp_path.iterdir()
    whole = file.read_text(encoding="utf-8")
    (name,) = json.loads(whole)
    file.write_text(text.replace("NAME", name), encoding="utf-8")
    assert started(tmp_path) == "threads" and rows == [1, 1]
    assert file.read_text(encoding="utf-8") == whole
