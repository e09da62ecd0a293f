"""Numbers of heads against hand-built attention with known answers, and against the page's own metrics."""

import numpy as np
import pandas as pd
import pytest

from model.recorded.numbers import NUMBERS, numbers
from model.recorded.record import record_of
from model.recorded.units import in_units, units_of


def one_hot(targets: list[int], S: int) -> np.ndarray:
    return np.eye(S)[targets]


def table(heads: list[np.ndarray], tokens: list[str], keys: list[str] | None = None, **more) -> pd.DataFrame:
    return numbers(record_of(np.stack(heads)[None], tokens, keys, **more)).loc[0].astype(float)


def test_two_way_heads_have_the_numbers_of_their_definition():
    tokens = ["[CLS]", "b", "a", "b", "[SEP]"]
    heads = [
        one_hot([0, 1, 2, 3, 4], 5),  # itself
        one_hot([1, 2, 3, 4, 0], 5),  # the next one
        one_hot([4, 0, 1, 2, 3], 5),  # the previous one
        np.full((5, 5), 0.2),
        one_hot([0, 3, 0, 1, 4], 5),  # other copies, or special tokens
    ]
    found = table(heads, tokens)
    assert found["self"].round(6).tolist() == [1, 0, 0, 0.2, 0.4]
    assert found["next_token"].round(6).tolist() == [0, 1, 0, 0.2, 0]
    assert found["previous_token"].round(6).tolist() == [0, 0, 1, 0.2, 0]
    assert found["first_token"].round(6).tolist() == [0.2, 0.2, 0.2, 0.2, 0.4]
    assert found["largest"].round(6).tolist() == [1, 1, 1, 0.2, 1]
    assert found["entropy"].round(6).tolist() == [0, 0, 0, 1, 0]
    assert found["effective_span"].round(5).tolist() == [1, 1, 1, 5, 1]
    assert found["distance"].round(6).tolist() == [0, 1.6, 1.6, 1.6, 1.2]
    assert found["other_copies"].round(6).tolist() == [0, 0, 0, 0.2, 1]
    assert found["special_tokens"].round(6).tolist() == [0.4, 0.4, 0.4, 0.4, 0.6]


def test_cross_attention_has_only_what_is_defined_for_it():
    heads = [one_hot([0, 1], 3), one_hot([2, 2], 3), np.full((2, 3), 1 / 3)]
    found = table(heads, [" cat", " sat"], ["cat", "x", "</s>"])
    assert list(found) == [
        "entropy",
        "effective_span",
        "largest",
        "first_token",
        "last_token",
        "same_text",
        "special_tokens",
    ]
    assert found["same_text"].round(6).tolist() == [1, 0, 0.333333]
    assert found["first_token"].round(6).tolist() == [0.5, 0, 0.333333]
    assert found["last_token"].round(6).tolist() == found["special_tokens"].round(6).tolist() == [0, 1, 0.333333]
    assert found["entropy"].round(6).tolist() == [0, 0, 1] and found["effective_span"].round(5).tolist() == [1, 1, 3]


def test_causal_attention_has_the_metrics_of_the_page(lm):
    run = lm.trace("the cat saw the cat")
    L, H = lm.config.n_layer, lm.config.n_head
    attention = np.stack([[run.pattern(layer, head) for head in range(H)] for layer in range(L)])
    found = numbers(record_of(attention, run.tokens.pieces))
    own = run.head_metrics()
    assert set(own) < set(found) and set(found) - set(own) == {"largest"}
    for name in own:
        np.testing.assert_allclose(found[name], own[name], atol=2e-5, err_msg=name)
    assert np.allclose(found["largest"], attention.max(-1).mean(-1).ravel(), atol=1e-6)


def test_a_number_that_no_head_has_is_left_out():
    found = table([np.full((2, 2), 0.5)], ["a", "b"])
    assert "other_copies" not in found and "special_tokens" not in found
    assert "duplicate_token" not in table([np.array([[1, 0], [0.5, 0.5]])], ["a", "b"])


def test_a_head_with_an_undefined_row_has_no_numbers():
    broken = np.full((3, 3), 1 / 3)
    broken[1] = 0
    found = table([broken, np.full((3, 3), 1 / 3)], ["a", "b", "c"])
    assert found.loc[0].isna().all() and found.loc[1, "entropy"] == pytest.approx(1)


def test_layers_are_numbered_from_the_first():
    found = numbers(record_of(np.full((2, 3, 2, 2), 0.5), ["a", "b"], first_layer=4))
    assert found.index.tolist() == [(layer, head) for layer in (4, 5) for head in range(3)]


def test_words_sum_keys_and_average_queries():
    tokens = [" un", "happy", " cat"]
    attention = np.array([[0.2, 0.3, 0.5], [0.4, 0.4, 0.2], [0.1, 0.1, 0.8]])
    record = record_of(attention, tokens)
    assert units_of(record) == {
        "words": (((0, 2), (2, 3)), None),
        "sentences": (((0, 3),), None),
    }
    merged = in_units(record, "words")
    assert merged.queries == (" unhappy", " cat")
    np.testing.assert_allclose(merged.weights[0, 0], [[0.65, 0.35], [0.2, 0.8]], atol=1e-6)
    assert numbers(merged)["self"].iloc[0] == pytest.approx((0.65 + 0.8) / 2)
    assert in_units(record, "tokens") is record


def test_an_undefined_row_is_left_out_of_the_average():
    attention = np.array([[0.2, 0.3, 0.5], [0, 0, 0], [0.1, 0.1, 0.8]])
    merged = in_units(record_of(attention, [" un", "happy", " cat"]), "words")
    np.testing.assert_allclose(merged.weights[0, 0], [[0.5, 0.5], [0.2, 0.8]], atol=1e-6)


def test_every_kind_of_mask_has_numbers():
    assert set(NUMBERS) == {"causal", "two-way", "cross"} and all(NUMBERS.values())
