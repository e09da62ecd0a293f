"""Metrics of heads between words: against complete maps that are summed at once, and against those of tokens."""

import numpy as np
import pytest

from model.attention import span_heads as module
from model.attention.span_heads import span_heads
from model.attention.spans import spans_of, summed
from model.records import Tokens
from model.tracing.head_metrics import HEAD_METRICS
from model.tracing.trace import Trace, run
from tests.support.models.helpers import FEW_VARIANTS, VARIANTS, H, L, force, tiny_model

TEXT = "The| un|happ|y| cat|.| The| un|happ|y| dog|\n|It| sat"
RAW = tuple(TEXT.encode().split(b"|"))


def traced(name: str = "gpt2", edit=None, raw: tuple[bytes, ...] = RAW) -> Trace:
    ends = np.cumsum([len(each) for each in raw])
    spans = np.stack([ends - [len(each) for each in raw], ends], -1)
    ids = np.array([list(dict.fromkeys(raw)).index(each) for each in raw])
    tokens = Tokens(ids, tuple(each.decode() for each in raw), raw, spans)
    return run(tiny_model(VARIANTS[name]), tokens, tap=edit)


@pytest.mark.parametrize("unit", ["words", "sentences"])
@pytest.mark.parametrize("edit", [None, force])
@pytest.mark.parametrize("name", FEW_VARIANTS)
def test_metrics_are_those_of_the_summed_maps(name, edit, unit, monkeypatch):
    monkeypatch.setattr(module, "_CHUNK", 4)
    trace = traced(name, edit)
    spans = spans_of(RAW, unit)
    found = span_heads(trace, unit)
    for layer in range(L):
        for head in range(H):
            A = summed(trace.pattern(layer, head), spans, spans).astype(float)
            row = found.metrics.loc[layer, head]
            rows = range(1, len(A))
            assert row["previous_token"] == pytest.approx(np.mean([A[i, i - 1] for i in rows]), abs=1e-6)
            assert row["self"] == pytest.approx(np.mean([A[i, i] for i in rows]), abs=1e-6)
            assert row["first_token"] == pytest.approx(np.mean([A[i, 0] for i in rows]), abs=1e-6)
            distance = [sum(A[i, j] * (i - j) for j in range(i + 1)) for i in range(len(A))]
            assert row["distance"] == pytest.approx(np.mean(distance), abs=1e-5)
            if unit == "words":  # The unhappy cat . The unhappy dog: 4 copies 0, 5 copies 1
                assert [RAW[a] for a, _ in spans[:6]] == [b"The", b" un", b" cat", b".", b" The", b" un"]
                assert row["duplicate_token"] == pytest.approx((A[4, 0] + A[5, 1]) / 2, abs=1e-6)
                assert row["induction"] == pytest.approx((A[4, 1] + A[5, 2]) / 2, abs=1e-6)
            else:
                assert np.isnan(row["induction"]) and np.isnan(row["duplicate_token"])
    assert found.thumbnails.shape == (L, H, len(spans), len(spans))
    assert (found.thumbnails[0, 0] == 255).sum() == len(spans) * (len(spans) - 1) // 2


def test_words_of_one_token_have_the_metrics_of_tokens():
    trace = traced(raw=(b" The", b" cat", b" sat", b" The", b" cat"))
    expected = trace.head_metrics()[list(HEAD_METRICS)]
    found = span_heads(trace, "words")
    np.testing.assert_allclose(found.metrics, expected, atol=1e-5)
    np.testing.assert_array_equal(found.thumbnails, trace.thumbnails)
    np.testing.assert_allclose(span_heads(trace, "tokens").metrics, expected, atol=1e-5)


def test_one_word_has_no_metrics_of_other_words():
    found = span_heads(traced(raw=(b"un", b"happ", b"y")), "words").metrics
    assert found["previous_token"].isna().all() and (found["distance"] == 0).all()
