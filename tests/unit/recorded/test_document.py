"""The document of the viewer: its weights read back, its units and numbers, in both languages."""

import json

import numpy as np
import pytest

from model.recorded.record import record_of
from viz.recorded.document import MOST, document, packed, unpacked
from viz.words import LANGUAGES

RNG = np.random.default_rng(0)


def sharp(*shape: int, causal: bool = False) -> np.ndarray:
    """Weights as peaked as those of a trained model: an entropy of about half the maximum."""
    scores = 2.5 * RNG.normal(size=shape)
    if causal:
        scores = np.where(np.tri(shape[-1], dtype=bool), scores, -np.inf)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    return (weights / weights.sum(-1, keepdims=True)).astype(np.float32)


@pytest.mark.parametrize("causal", [True, False])
def test_weights_come_back_within_half_a_step(causal):
    weights = sharp(2, 3, 9, 9, causal=causal)
    again = unpacked(packed(weights, causal=causal), weights.shape, causal=causal)
    assert np.abs(again - weights).max() <= 0.5 / MOST + 1e-7
    assert again[0, 0, 0, 0] == 1 if causal else True


@pytest.mark.parametrize("causal", [True, False])
def test_a_weight_takes_at_most_two_bytes(causal):
    weights = sharp(12, 12, 64, 64, causal=causal)
    assert len(packed(weights, causal=causal)) <= (1.2 if causal else 2) * weights.size


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_document_has_all_that_the_viewer_reads(language):
    tokens = ["[CLS]", "un", "##happy", "cat", ".", "cat", "[SEP]"]
    record = record_of(sharp(2, 3, 7, 7), tokens, first_layer=2, padding=[1] * 7)
    found = json.loads(json.dumps(document(record, language, "x.npz"), allow_nan=False))
    assert found["title"] == "x.npz" and found["language"] == language
    assert found["queries"] == ["[CLS]", " un", "happy", " cat", " .", " cat", "[SEP]"] and found["keys"] is None
    assert (found["mask"], found["layers"], found["heads"], found["first_layer"]) == ("two-way", 2, 3, 2)
    assert found["units"]["words"]["queries"] == [[0, 1], [1, 3], [3, 4], [4, 5], [5, 6], [6, 7]]
    assert found["image"] is None and found["notes"] == []
    keys = [each["key"] for each in found["numbers"]]
    assert keys[:3] == ["entropy", "effective_span", "largest"] and "special_tokens" in keys
    for each in found["numbers"]:
        assert each["label"] and each["help"] and each["unit"] in ("%", "tokens")
        assert set(each["values"]) == {"tokens", "words", "sentences"}
        assert all(len(values) == 6 for values in each["values"].values())


def test_a_distance_is_explained_for_its_mask():
    def explained(record):
        return next(each["help"] for each in document(record)["numbers"] if each["key"] == "distance")

    two_way, causal = (
        record_of(sharp(1, 1, 4, 4), list("abcd")),
        record_of(sharp(1, 1, 4, 4, causal=True), list("abcd")),
    )
    assert "before or after" in explained(two_way) and "back" in explained(causal)


def test_notes_are_translated_and_undefined_numbers_are_null():
    weights = sharp(1, 2, 3, 3)
    weights[0, 1, 2] = 0
    found = document(record_of(weights, list("abc")), "zh")
    assert "全为 0" in found["notes"][0]
    assert [value is None for value in found["numbers"][0]["values"]["tokens"]] == [False, True]


def test_an_image_is_data_of_the_document():
    image = RNG.integers(0, 256, (8, 12, 3), dtype=np.uint8)
    found = document(record_of(sharp(1, 1, 2, 6), ["a", "b"], list("012345"), image=image, grid=(2, 3)))
    assert found["image"]["src"].startswith("data:image/png;base64,")
    assert {name: found["image"][name] for name in ("rows", "columns", "first")} == {
        "rows": 2,
        "columns": 3,
        "first": 0,
    }
    assert found["units"] == {}
