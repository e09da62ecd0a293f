"""What a cache holds is what its tensors say, and with and without it a model says the same."""

import pytest
import torch

from model.generation import cache_costs
from model.generation.cache_costs import (
    LENGTHS,
    Times,
    TokenTimes,
    cache_bytes,
    last_logits,
    lengths_of,
    measure,
    tensor_bytes,
)
from model.gpt.cache import KVCache
from model.gpt.transformer import Transformer
from tests.support.models.helpers import (
    N_CTX,
    VARIANTS,
    E,
    G,
    H,
    L,
    assert_close,
    random_ids,
    tiny_config,
    tiny_model,
)
from tests.support.models.rounding import logits_within

IDS = random_ids(1, 9)[0].tolist()


# --- bytes ---


@pytest.mark.parametrize("name", VARIANTS)
@pytest.mark.parametrize(("batch", "length"), [(1, 1), (5, 17), (32, N_CTX)])
def test_bytes_are_those_of_the_tensors(name, batch, length):
    config = tiny_config(VARIANTS[name])
    made = KVCache.empty(config, batch, length)
    assert cache_bytes(config, batch, length) == made.k.nbytes + made.v.nbytes
    shape, nbytes = tensor_bytes(config, batch, length)
    assert shape == tuple(made.k.shape) and nbytes == cache_bytes(config, batch, length)


def test_bytes_by_hand():
    config = tiny_config()
    assert cache_bytes(config, 8, 10) == 2 * L * 8 * G * 10 * E * 4
    assert cache_bytes(config, 8, 10, H) == 2 * L * 8 * H * 10 * E * 4
    assert cache_bytes(config, 3, 0) == 0


def test_no_room_is_told(monkeypatch):
    def full(*_):
        raise RuntimeError("not enough memory: you tried to allocate 1 bytes")

    monkeypatch.setattr(KVCache, "empty", staticmethod(full))
    assert tensor_bytes(tiny_config(), 1, 1) is None


# --- time ---


@pytest.mark.parametrize("limit", [1, 7, 16, 40, 100, 10**6])
def test_contexts_end_at_the_limit(limit):
    found = lengths_of(limit)
    assert found and max(found) <= limit
    assert found == tuple(length for length in LENGTHS if length <= limit) or found == (limit,)


@pytest.mark.parametrize("name", VARIANTS)
def test_both_ways_say_the_same(name):
    model = tiny_model(VARIANTS[name])
    found = measure(model, IDS, N_CTX)
    assert [row.length for row in found.rows] == [16, 32]
    for row in found.rows:
        text = torch.tensor([(IDS * row.length)[: row.length]])
        assert row.agree and row.gap <= logits_within(model, text)[0, -1]
        assert min(row.cached.seconds) > 0 and len(row.cached.seconds) == len(row.whole.seconds) >= 3
        assert row.ratio == row.whole.median / row.cached.median
    assert found.prompt == 9 and found.threads == torch.get_num_threads()


@pytest.mark.parametrize("T", [1, 9, 25, N_CTX, N_CTX + 4])
def test_every_length_of_prompt_is_measured(T):
    ids = [n % 50 for n in range(T)]
    found = measure(tiny_model(), ids, N_CTX)  # positions are learned up to N_CTX
    assert found.prompt == min(T, N_CTX)
    assert all(row.agree for row in found.rows)


def test_the_shortest_limit():
    found = measure(tiny_model(), IDS, 1)
    assert [row.length for row in found.rows] == [1] and found.prompt == 1


def test_a_step_with_the_cache_is_the_last_position_of_the_whole(monkeypatch):
    """What is timed is one token with the cache, all of them without, and they are those of the text."""
    model, ran, trunk = tiny_model(VARIANTS["llama"]), [], Transformer.trunk

    def spy(self, ids, *, cache=None, **named):
        ran.append((ids[0].tolist(), None if cache is None else cache.length))
        return trunk(self, ids, cache=cache, **named)

    monkeypatch.setattr(Transformer, "trunk", spy)
    measure(model, IDS, 16)
    text = (IDS * 2)[:16]
    steps = [each for each in ran if each[1] == 15]
    whole = [each for each in ran if each[1] is None]
    assert len(steps) > len(whole) > 3
    assert all(ids == text[-1:] for ids, _ in steps)
    assert all(ids == text for ids, _ in whole)
    filled = [each for each in ran if each not in steps and each not in whole]
    assert (text[:15], 0) in filled and (IDS, 0) in filled  # the context but its last token, and the prompt


def test_the_output_head_runs_for_one_position():
    model, ids = tiny_model(), random_ids(1, 12)
    with torch.no_grad():
        expected = model(ids)[0, -1]
        cache = KVCache.empty(model.config, 1, 12)
        assert last_logits(model, ids).shape == expected.shape
        off = logits_within(model, ids)[0, -1]
        assert_close(last_logits(model, ids), expected, off)
        last_logits(model, ids[:, :11], cache)
        assert_close(last_logits(model, ids[:, 11:], cache), expected, off)


def test_a_wrong_cache_would_be_told(monkeypatch):
    put = KVCache.put

    def broken(self, layer, k, v):
        return put(self, layer, k, v.flip(-1))

    monkeypatch.setattr(KVCache, "put", broken)
    assert max(row.gap for row in measure(tiny_model(), IDS, N_CTX).rows) > 0.1


def test_progress_is_told_and_can_cancel():
    told = []
    measure(tiny_model(), IDS, N_CTX, lambda *step: told.append(step[:2]))
    assert told[0] == (0, 3) and told[-1] == (2, 3)
    assert [done for done, _ in told] == sorted(done for done, _ in told)

    class Stop(Exception):
        pass

    def stop(done, total, what):
        told.append(done)
        if done == 1:
            raise Stop

    with pytest.raises(Stop):
        measure(tiny_model(), IDS, N_CTX, stop)
    assert told[-1] == 1  # nothing more was done


def test_without_time_the_long_contexts_are_run_with_the_cache_only():
    found = measure(tiny_model(), IDS, N_CTX, budget=0.0)
    first, second = found.rows
    assert first.whole and len(first.whole.seconds) == 1  # the least that is measured
    assert second.whole is second.gap is second.agree is second.ratio is None
    assert len(second.cached.seconds) == len(found.prefill.seconds) == 1


def test_what_follows_a_context_that_was_too_slow_is_not_tried(monkeypatch):
    monkeypatch.setattr(cache_costs, "LENGTHS", (4, 8, 16))
    found = measure(tiny_model(), IDS, N_CTX, budget=0.0)
    assert [row.whole is None for row in found.rows] == [False, True, True]


def test_median_and_spread():
    times = Times((0.3, 0.1, 0.2, 0.9, 0.4))
    assert times.median == 0.3 and times.spread == (0.2, 0.4)
    assert Times((0.5,)).spread == (0.5, 0.5)
    assert TokenTimes(16, Times((0.2,)), Times((0.6,))).ratio == pytest.approx(3)


def test_the_waiting_policy_is_named(monkeypatch):
    monkeypatch.setenv("OMP_WAIT_POLICY", "ACTIVE")
    assert measure(tiny_model(), IDS, 1).waiting == "ACTIVE"
    monkeypatch.delenv("OMP_WAIT_POLICY")
    assert measure(tiny_model(), IDS, 1).waiting == ""
