"""Decoding with a cache equals one full forward, and a cache can be rewound, copied and overfilled only with a word."""

import pytest
import torch

from model.gpt.cache import KVCache
from model.gpt.tap import identity, record
from tests.support.models.helpers import N_CTX, VARIANTS, E, G, L, assert_close, random_ids, tiny_config, tiny_model
from tests.support.models.rounding import logits_within, sums

T = 17


@torch.no_grad()
def decode(model, ids: torch.Tensor, cache: KVCache, sizes: list[int], tap=None) -> torch.Tensor:
    """Logits of ids fed in chunks of the given sizes. [B, T, V]"""
    return torch.cat([model(chunk, cache=cache, tap=tap) for chunk in ids.split(sizes, 1)], 1)


def test_room_is_made_as_asked_for():
    cache = KVCache.empty(tiny_config(), batch=5, max_len=7)
    assert cache.k.shape == cache.v.shape == (L, 5, G, 7, E)
    assert (cache.capacity, cache.length) == (7, 0)


@pytest.mark.parametrize("name", VARIANTS)
@pytest.mark.parametrize("sizes", [[T], [1] * T, [16, 1], [1, 16], [5, 1, 7, 4]], ids=str)
def test_any_chunking_equals_the_full_forward(name: str, sizes: list[int]):
    model, ids = tiny_model(VARIANTS[name]), random_ids(2, T)
    cache = KVCache.empty(model.config, 2, T)
    with torch.no_grad():
        full = model(ids)
    assert_close(decode(model, ids, cache, sizes), full, logits_within(model, ids))
    assert cache.length == T


@pytest.mark.parametrize("name", ["llama", "post"])
def test_chunks_with_a_tap_equal_the_full_forward(name: str):
    model, ids = tiny_model(VARIANTS[name]), random_ids(2, T)
    with torch.no_grad():
        full = model(ids)
    parts = decode(model, ids, KVCache.empty(model.config, 2, T), [6, 1, 10], identity)
    assert_close(parts, full, logits_within(model, ids))


def test_a_chunk_attends_to_what_the_cache_holds():
    model, ids, store = tiny_model(), random_ids(2, T), {}
    cache = KVCache.empty(model.config, 2, T)
    decode(model, ids, cache, [9, 8], record(["pattern"], store))
    assert store["pattern", 0].shape == (2, 4, 8, T)
    assert_close(store["pattern", 0].sum(-1), torch.ones(2, 4, 8), sums(T, 1))


def test_a_rewound_cache_continues_as_if_new():
    model, ids, other = tiny_model(), random_ids(2, T), random_ids(2, 6, seed=5)
    cache = KVCache.empty(model.config, 2, T)
    decode(model, ids, cache, [T])
    cache.truncate(8)
    with torch.no_grad():
        whole = torch.cat((ids[:, :8], other), 1)
        expected = model(whole)[:, 8:]
    assert_close(decode(model, other, cache, [2, 4]), expected, logits_within(model, whole)[:, 8:])
    assert cache.length == 14


@pytest.mark.parametrize("length", [-1, 10])
def test_a_cache_rewinds_only_to_what_it_holds(length: int):
    cache = KVCache.empty(tiny_config(), 1, 12)
    cache.advance(9)
    with pytest.raises(ValueError, match=f"cannot rewind 9 positions to {length}"):
        cache.truncate(length)
    assert cache.length == 9


def test_rows_are_copied_and_reordered():
    model, ids = tiny_model(VARIANTS["llama"]), random_ids(2, 9)
    cache = KVCache.empty(model.config, 2, T)
    decode(model, ids, cache, [9])
    index, more = torch.tensor([1, 1, 0]), random_ids(3, 4, seed=7)
    chosen = cache.rows(index)
    with torch.no_grad():
        whole = torch.cat((ids[index], more), 1)
        expected = model(whole)[:, 9:]
    assert_close(decode(model, more, chosen, [4]), expected, logits_within(model, whole)[:, 9:])
    assert (cache.length, chosen.length) == (9, 13)
    assert chosen.k.data_ptr() != cache.k.data_ptr()


def test_an_overfull_cache_is_refused_before_anything_is_written():
    model, ids = tiny_model(), random_ids(2, 6)
    cache = KVCache.empty(model.config, 2, 9)
    decode(model, ids, cache, [6])
    kept = cache.k.clone()
    with pytest.raises(ValueError, match=r"room for 9 positions, 6 \+ 4 do not fit"):
        model(ids[:, :4], cache=cache)
    assert cache.length == 6
    assert torch.equal(cache.k[:, :, :, :6], kept[:, :, :, :6])


def test_a_wrong_batch_is_refused():
    model = tiny_model()
    with pytest.raises(ValueError, match="the cache holds 2 sequences, the ids 3"):
        model(random_ids(3, 4), cache=KVCache.empty(model.config, 2, 9))


def test_learned_positions_end_where_the_table_ends():
    model = tiny_model()
    cache = KVCache.empty(model.config, 1, N_CTX + 5)
    decode(model, random_ids(1, N_CTX), cache, [N_CTX])
    with pytest.raises(ValueError, match=f"learned up to {N_CTX}, got {N_CTX} \\+ 1 tokens"):
        model(random_ids(1, 1), cache=cache)
    assert cache.length == N_CTX
