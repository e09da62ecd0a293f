"""ByteLRU: bounded, least recently used first out, one making for many threads, errors raised and forgotten."""

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
import pytest
import torch

from model.store import ByteLRU
from model.tracing.trace import run
from tests.support.models.helpers import random_ids, tiny_model, tokens_of


@dataclass
class Sized:
    nbytes: int
    name: str = ""


def fill(store: ByteLRU, **sizes: int) -> None:
    for name, size in sizes.items():
        store.get(name, lambda size=size, name=name: Sized(size, name))


def keys(store: ByteLRU) -> list:
    """What is held, oldest first."""
    return list(store._values)


def never():
    raise AssertionError("made again")


def test_what_is_stored_is_not_made_again():
    store = ByteLRU(100)
    first = store.get("a", lambda: Sized(10))
    assert store.get("a", never) is first
    assert (len(store), store.nbytes) == (1, 10)


def test_the_least_recently_used_goes_first():
    store = ByteLRU(100)
    fill(store, a=40, b=40)
    store.get("a", never)
    fill(store, c=40)
    assert keys(store) == ["a", "c"]
    fill(store, d=100)
    assert keys(store) == ["d"]
    assert store.nbytes == 100, "exactly full is not too full"


def test_a_value_larger_than_the_bound_is_returned_and_not_kept():
    store = ByteLRU(100)
    assert store.get("big", lambda: Sized(101)).nbytes == 101
    assert (len(store), store.nbytes) == (0, 0)
    assert store.get("big", lambda: Sized(7)).nbytes == 7


def test_a_value_that_grew_is_counted_as_it_is_now():
    store = ByteLRU(100)
    fill(store, a=10, b=10)
    store.get("b", never).nbytes = 95
    assert store.nbytes == 105
    store.get("b", never)
    assert keys(store) == ["b"]


def test_what_is_put_takes_the_place_of_what_was_there():
    store = ByteLRU(100)
    fill(store, a=10, b=10)
    store.put("a", Sized(90, "new"))
    assert store.get("a", never).name == "new" and keys(store) == ["b", "a"]
    store.put("c", Sized(20))
    assert keys(store) == ["c"], "bounded as before"


def test_drop_forgets_what_is_not_to_be_kept():
    store = ByteLRU(100)
    fill(store, a=1, b=2, c=3)
    store.drop(lambda key: key != "b")
    assert keys(store) == ["a", "c"]
    assert store.nbytes == 4


def test_threads_that_ask_at_once_share_one_making():
    store, made, gate = ByteLRU(100), [], threading.Event()

    def make() -> Sized:
        made.append(1)
        gate.wait(5)
        return Sized(10)

    with ThreadPoolExecutor(8) as pool:
        futures = [pool.submit(store.get, "a", make) for _ in range(8)]
        time.sleep(0.05)
        gate.set()
        values = [future.result(5) for future in futures]
    assert len(made) == 1
    assert all(value is values[0] for value in values)
    assert keys(store) == ["a"]


def test_different_keys_are_made_side_by_side():
    store, both = ByteLRU(100), threading.Barrier(2)

    def make() -> Sized:
        both.wait(5)  # passes only when two are being made at once
        return Sized(10)

    with ThreadPoolExecutor(2) as pool:
        assert [f.result(6).nbytes for f in [pool.submit(store.get, key, make) for key in "ab"]] == [10, 10]


def test_an_error_reaches_everyone_who_waits_and_is_retried_later():
    store, gate, made = ByteLRU(100), threading.Event(), []

    def fail() -> Sized:
        made.append(1)
        gate.wait(5)
        raise OSError("no room")

    with ThreadPoolExecutor(4) as pool:
        futures = [pool.submit(store.get, "a", fail) for _ in range(4)]
        time.sleep(0.05)
        gate.set()
        for future in futures:
            with pytest.raises(OSError, match="no room"):
                future.result(5)
    assert len(made) == 1
    assert (len(store), store._making) == (0, {})
    assert store.get("a", lambda: Sized(3)).nbytes == 3


def test_evicting_does_not_depend_on_who_waits():
    """Many threads, few bytes: the bound holds at every moment it is looked at, and values are never mixed up."""
    store = ByteLRU(30)

    def ask(n: int) -> bool:
        value = store.get(n % 7, lambda: Sized(10, str(n % 7)))
        return value.name == str(n % 7) and store.nbytes <= 30

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(ask, range(400)))


def test_a_trace_that_was_evicted_comes_back_with_the_same_numbers():
    model = tiny_model()
    prompts = [tokens_of(random_ids(1, 12, seed)[0]) for seed in range(3)]
    size = run(model, prompts[0]).nbytes
    store = ByteLRU(2 * size)
    patterns = []
    for tokens in (*prompts, prompts[0]):
        trace = store.get(tuple(tokens.ids), lambda tokens=tokens: run(model, tokens))
        patterns.append((trace, trace.pattern(1, 2), trace.head_metrics()))
    first, again = patterns[0], patterns[3]
    assert first[0] is not again[0]
    assert len(store) == 2
    assert np.array_equal(first[1], again[1])
    assert first[2].equals(again[2])


def test_a_trace_counts_its_logits_once_they_are_there():
    trace = run(tiny_model(), tokens_of(random_ids(1, 12)[0]))
    before = trace.nbytes
    assert trace.logits.nbytes == 12 * 53 * 4
    assert trace.nbytes == before + 12 * 53 * 4
    assert torch.is_tensor(trace.residuals)
