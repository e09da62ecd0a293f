"""The KV cache and the online softmax by hand give what the whole computation gives."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from model.by_hand.sheets import SHEETS, worked
from tests.support.sheets import array, of, small, tables, typed


def test_the_cache_gives_the_rows_of_the_whole():
    n = of("cache", "cat_sat_on")
    assert np.array_equal(np.concatenate([n[f"o_{t}"] for t in (1, 2, 3)]), n["O"])
    n = of("cache", "online")
    assert np.allclose(n["y"], n["Y"], atol=1e-15)


@settings(max_examples=25, deadline=None)
@given(
    st.integers(1, 4).flatmap(lambda t: st.tuples(tables(t, 4), tables(t, 4), tables(t, 4))), st.sampled_from([1, 2, 4])
)
def test_rows_sum_to_one_and_cached_is_uncached(qkv, heads):
    sheet = typed(dict(zip("QKV", qkv, strict=True)))
    _, steps = worked(SHEETS["attention"], sheet, {"heads": heads})
    for step in steps:
        if step.about == "weights":
            assert np.allclose(array(step).sum(1), 1, atol=1e-14) and not np.triu(array(step), 1).any()
    _, kept = worked(SHEETS["cache"], sheet)
    by_name = {step.name: array(step) for step in kept}
    assert np.allclose(np.concatenate([by_name[f"o_{t + 1}"] for t in range(len(qkv[0]))]), by_name["O"], atol=1e-14)


@settings(max_examples=40, deadline=None)
@given(st.lists(st.tuples(small, small), min_size=1, max_size=8), st.integers(1, 8))
def test_online_softmax_is_softmax(pairs, block):
    s, v = zip(*pairs, strict=True)
    _, steps = worked(SHEETS["cache"], typed({"s": [s], "v": [v], "block": [[block]]}))
    by_name = {step.name: array(step) for step in steps}
    assert np.allclose(by_name["y"], by_name["Y"], atol=1e-13)
