"""A vector added to the stream: at its site, its tokens and no others, with a cache as without one."""

import numpy as np
import pytest
import torch

from model.errors import InputError
from model.gpt.cache import KVCache
from model.gpt.edits import Edit, starting_at, tap_of
from model.gpt.placed_vectors import ranges, vector_of, vector_text
from tests.support.models.edited import IDS, VECTOR, T, traced
from tests.support.models.helpers import VARIANTS, D, L, assert_close, random_ids, tiny_model
from tests.support.models.rounding import logits_within

NUMBERS = np.random.default_rng(4).normal(size=D).astype(np.float32)
LISTED = {None: range(T), "0,3-5": (0, 3, 4, 5), "9-": range(9, T), "0,2-3,10-": (0, 2, 3, 10, 11, 12)}


def add(layer: int, site: str, positions: str | None = None, factor: float = 2.0) -> Edit:
    return Edit("add_vector", layer, factor=factor, site=site, vector=VECTOR, positions=positions)


@torch.no_grad()
def by_hook(name: str, layer: int, site: str, listed) -> torch.Tensor:
    """Logits of the plain forward with one hook; the attention's output stands for the stream after it."""
    model, delta = tiny_model(VARIANTS[name]), torch.zeros(1, T, D)
    delta[:, list(listed)] = 2 * torch.from_numpy(NUMBERS)
    block = model.blocks[layer]
    module = block.norm1 if block.post_norm else block.attn
    if site == "resid_mid" and block.post_norm:  # norm1 is called through `tapped`, so the stream is rebuilt
        x = model.embed_tokens(IDS, 0, model.prepare(0, T))
        for at, each in enumerate(model.blocks):
            moved = at == layer
            one = model.prepare(0, T)
            mid = each.middle(x, at, one) + (delta if moved else 0)
            x = each.norm2(mid + each.mlp(mid, at, one))
        return model.logits(x)[0]
    if site == "resid_mid":
        hook = module.register_forward_hook(lambda module, given, out: out + delta)
    elif site == "resid_pre":
        hook = block.register_forward_pre_hook(lambda module, given: (given[0] + delta, *given[1:]))
    else:
        hook = block.register_forward_hook(lambda module, given, out: out + delta)
    logits = model(IDS)[0]
    hook.remove()
    return logits


@pytest.mark.parametrize("positions", LISTED)
@pytest.mark.parametrize("site", ["resid_pre", "resid_mid", "resid_post"])
@pytest.mark.parametrize("name", ["gpt2", "llama", "post"])
def test_a_vector_is_added_where_a_hook_adds_it(name: str, site: str, positions: str | None):
    edited = traced(name, add(1, site, positions))
    bound = logits_within(edited.model, IDS, tap_of(edited.key.edits, {}))[0]
    assert_close(edited.logits, by_hook(name, 1, site, LISTED[positions]), bound)
    plain = traced(name)
    first = min(LISTED[positions])
    assert_close(edited.logits[:first], plain.logits[:first], bound[:first])
    assert np.abs(edited.logits[first] - plain.logits[first]).max() > 1e-2


@pytest.mark.parametrize("name", VARIANTS)
def test_a_factor_of_zero_changes_nothing_bitwise(name: str):
    plain, same = traced(name), traced(name, add(1, "resid_mid", factor=0.0), add(L - 1, "resid_post", "2-", 0.0))
    assert np.array_equal(same.logits, plain.logits) and torch.equal(same.residuals, plain.residuals)
    assert np.array_equal(same.metrics, plain.metrics, equal_nan=True)
    assert len(same.key.edits) == 2 and same.unedited().key == plain.key


def test_before_a_layer_is_after_the_one_before_it():
    one, other = traced("gqa", add(2, "resid_pre")), traced("gqa", add(1, "resid_post"))
    assert np.array_equal(one.logits, other.logits)
    assert_close(one.hidden(2) - traced("gqa").hidden(2), np.tile(2 * NUMBERS, (T, 1)), 1e-5)


@pytest.mark.parametrize("positions", LISTED)
def test_rows_of_a_cache_have_the_positions_of_the_text(positions: str | None):
    model, ids = tiny_model(VARIANTS["llama"]), random_ids(2, T)
    tap, cache = (
        tap_of([add(1, "resid_mid", positions), add(0, "resid_post", "5")], {}),
        KVCache.empty(model.config, 2, T),
    )
    parts = []
    with torch.no_grad():
        whole, bound = model(ids, tap=tap), logits_within(model, ids, tap)
        for part in ids.split([4, 1, 1, 7], dim=1):
            parts.append(model(part, cache=cache, tap=starting_at(tap, cache.length)))
    assert_close(torch.cat(parts, 1), whole, bound)


def test_the_text_of_a_vector_is_its_numbers():
    assert np.array_equal(vector_of(vector_text(NUMBERS)), NUMBERS)
    assert vector_text([1.0, -2.0]) == "AACAPwAAAMA="  # 3f800000, c0000000, the low byte first
    for bad in ([], [[1.0]], ["a"], [np.nan], [1.0, np.inf], [1e39], np.ones(20_000)):
        with pytest.raises(InputError, match=r"list of numbers|not finite"):
            vector_text(bad)


def test_ranges_are_half_open():
    assert ranges("0,3-5,8-") == ((0, 1), (3, 6), (8, None)) and ranges("7") == ((7, 8),)
    for bad in ("", ",", "3,", "-", "a", "3--4", "1-2-3", " 1", "²", "1,1"):
        with pytest.raises(InputError, match="positions of an edit cannot be read"):
            ranges(bad)
