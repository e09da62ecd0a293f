"""Texts under several factors: the same random numbers, the edit of each factor, words and cost."""

import math

import numpy as np
import pytest

from model.errors import InputError
from model.steering.texts import steered_texts
from model.steering.vectors import scaled_vectors, steering_edit, stream_at
from tests.support.models.helpers import D, L, byte_model

PROMPT = "a day is a day"


@pytest.fixture(scope="module")
def lm(tmp_path_factory):
    return byte_model(tmp_path_factory.mktemp("texts"))


def test_each_text_is_that_of_its_edit_with_the_same_seed(lm):
    ids = lm.encode(PROMPT).ids.tolist()
    vector = 9 * np.random.default_rng(0).normal(size=D)
    found = steered_texts(lm, ids, vector, 1, [0, 2, -2], words=["A"], site="resid_mid", tokens=8, seed=3)
    assert [each.factor for each in found] == [0, 2, -2] and found[1].ids != found[2].ids
    for text in found:
        edits = [steering_edit(vector, 1, text.factor, site="resid_mid")] if text.factor else []
        ticks = lm.generate(ids, "temperature", 8, seed=3, edits=edits)
        assert text.ids == tuple(made.id for tick in ticks for made in tick.changes[0].made)
        assert text.text == lm.decode(text.ids)
        logits = lm.trace([*ids, *text.ids]).logits.astype(np.float64)
        p = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
        chance = [p[len(ids) - 1 + at, each] for at, each in enumerate(text.ids)]
        assert text.surprise == pytest.approx(-np.mean(np.log(chance)), rel=1e-3)


def test_words_are_counted_in_any_case(lm, monkeypatch):
    monkeypatch.setattr(type(lm), "decode", lambda self, ids: "Happy, unhappy happy! don't")
    ids = lm.encode(PROMPT).ids.tolist()
    (found,) = steered_texts(lm, ids, np.ones(D), 0, [0], words=["happy"], tokens=1)
    assert found.share == pytest.approx(2 / 4)
    monkeypatch.setattr(type(lm), "decode", lambda self, ids: "…")
    (found,) = steered_texts(lm, ids, np.ones(D), 0, [0], words=["happy"], tokens=1)
    assert math.isnan(found.share)
    with pytest.raises(InputError, match="is empty"):
        steered_texts(lm, ids, np.ones(D), 0, [])


def test_vectors_are_scaled_to_the_streams_median_length(lm):
    run = lm.trace(PROMPT)
    vectors = np.ones((L, D), np.float32)
    vectors[-1] = 0
    scaled = scaled_vectors(run, vectors, 0.5, "resid_mid")
    lengths = [np.median(np.linalg.norm(stream_at(run, layer, "resid_mid"), axis=1)) for layer in range(L - 1)]
    assert np.linalg.norm(scaled, axis=1)[:-1] == pytest.approx(np.multiply(lengths, 0.5), rel=1e-4)
    assert not scaled[-1].any()
