"""One head over a corpus: attention built by hand, sums of all weights, and any division into batches."""

import dataclasses

import numpy as np
import pytest
import torch

from model.attention.measures import visible_keys
from model.corpus.head import CODES, HeadSums, divergences, read_head
from model.corpus.jobs import jobs_of
from model.corpus.kinds import KINDS
from model.corpus.maps import Batch, uniform
from model.corpus.search import PairCounter, pair_weights, search
from model.corpus.texts import Corpus, corpus_of
from model.errors import InputError
from model.tracing.head_metrics import HEAD_METRICS
from tests.support.models.helpers import tiny_config

TEXT = "the cat sat on a mat. Sara saw the cat, and Sara sat on the mat, too. " * 6
NAME, WORD, MARK = (KINDS.index(kind) for kind in ("name", "word", "punctuation"))


def by_hand() -> tuple[Corpus, torch.Tensor]:
    """Two sequences of four tokens; every query reads the token two before it, or the first."""
    corpus = Corpus(np.array([[1, 2, 3, 2], [4, 3, 3, 2]]), np.array([[0, NAME, WORD, NAME], [0, WORD, WORD, NAME]]), 0)
    pattern = torch.zeros(2, 4, 4)
    for query in range(4):
        pattern[:, query, max(query - 2, 0)] = 1
    return corpus, pattern


def batch_of(pattern: torch.Tensor) -> Batch:
    return Batch(slice(0, 2), {0: pattern[:, None].expand(-1, 4, -1, -1).contiguous()}, {})


def test_attention_built_by_hand():
    corpus, pattern = by_hand()
    sums = HeadSums(tiny_config({"n_layer": 1}), corpus, 0, 1)
    sums.add(batch_of(pattern))
    # queries 1, 2 and 3 of both sequences, at distances 1, 2 and 2
    assert sums.distances[0].tolist() == [0, 2, 4, 0]
    even = uniform(np.tri(4, dtype=bool))
    assert sums.distances[1] == pytest.approx(
        [2 * (1 / 2 + 1 / 3 + 1 / 4), 2 * (1 / 2 + 1 / 3 + 1 / 4), 2 * (1 / 3 + 1 / 4), 0.5]
    )
    assert sums.distances[1].sum() == pytest.approx(2 * even[1:].sum()) == 6
    kinds = sums.kinds[0].reshape(len(KINDS), -1)
    assert kinds[NAME, NAME] == 1 and kinds[NAME, WORD] == 1 and kinds[WORD, 0] == 3 and kinds[NAME, 0] == 1
    use = sums.uses()
    assert use.ids.tolist() == [2, 3] and use.counts.tolist() == [3, 3]
    assert use.key.tolist() == [1, 1]  # query 3 reads token 2 in the first sequence, token 3 in the second
    assert use.query.tolist() == [2, 0]  # both by token 2; the others rest on the first token
    # uniform attention off the first token and the diagonal: 1/3 at query 2, 2 times 1/4 at query 3
    assert use.key_uniform == pytest.approx([1 / 3 + 1 / 4, 1 / 3 + 1 / 4 + 1 / 2])
    assert use.query_uniform == pytest.approx([1, 2 / 3])
    assert use.lift("query") == pytest.approx([1 / (1 / (5 / 3)), 0])
    assert sums.metrics[0][list(HEAD_METRICS).index("previous_token")] == pytest.approx(1 / 3)
    assert sums.codes[0].shape == (2, 10) and set(sums.codes[0].ravel()) == {0, CODES}


def test_a_search_by_hand():
    corpus, pattern = by_hand()
    counter = PairCounter(tiny_config({"n_layer": 1}), corpus)
    counter.add(batch_of(pattern))
    pairs = counter.finish()
    found = search(pairs, "name", "name", "yes")  # one name of three occurred before, and reads its copy
    assert found.queries == 1 and found.shares[0].tolist() == [1] * 4
    assert found.expected[0] == pytest.approx(1 / 4)
    every = search(pairs, "name", "name")
    assert every.queries == 3 and every.shares[0, 0] == pytest.approx(1 / 3)
    assert search(pairs, "word", apart="near").shares[0, 0] == pytest.approx(2 / 3)
    assert search(pairs, "word", "word", "yes", "previous").shares[0, 0] == 0
    assert search(pairs, apart="any").shares[0, 0] == search(pairs, apart="any").expected[0] == 1
    assert np.isnan(search(pairs, "digit").shares).all() and search(pairs, "digit").order == []
    for wrong in ({"query": "nmae"}, {"key": "nmae"}, {"same": "maybe"}, {"apart": "there"}):
        with pytest.raises(InputError, match="has this name"):
            search(pairs, **wrong)


def test_weights_sum_to_the_queries_in_any_batches(lm):
    corpus = corpus_of(lm, [TEXT], 24, 12)
    N, T = corpus.ids.shape
    one, all_at_once = (read_head(lm, corpus, 1, 2, batch=size) for size in (1, 5))
    for found in (one.distances, one.distances_uniform, one.kinds, one.kinds_uniform):
        assert found.sum() == pytest.approx(N * (T - 1), rel=1e-6)
    assert np.allclose(one.kinds, all_at_once.kinds, atol=1e-4)
    assert np.allclose(one.divergence, all_at_once.divergence, atol=1e-6)
    assert np.allclose(one.metrics, all_at_once.metrics, atol=1e-5, equal_nan=True)
    order = np.random.default_rng(0).permutation(N)
    shuffled = read_head(lm, dataclasses.replace(corpus, ids=corpus.ids[order], kinds=corpus.kinds[order]), 1, 2)
    assert np.allclose(one.distances, shuffled.distances, atol=1e-4)
    assert np.allclose(one.tokens.key, shuffled.tokens.key, atol=1e-4)
    assert np.allclose(one.metrics[order], shuffled.metrics, atol=1e-5, equal_nan=True)
    pairs = pair_weights(lm, corpus, batch=3)
    sums = pairs.weights.sum((2, 3, 4, 5, 6))
    assert sums == pytest.approx(np.full((3, 4), N * (T - 1)), rel=1e-6) and pairs.queries.sum() == N * (T - 1)
    assert pairs.weights[1, 2].sum((1, 3, 4)) == pytest.approx(one.kinds, abs=1e-4)
    assert pairs.uniform[1].sum((0, 1, 2, 3)).sum() == pytest.approx(N * (T - 1))


def test_a_reading_is_that_of_the_runs(lm):
    corpus = corpus_of(lm, [TEXT], 24, 4)
    found = read_head(lm, corpus, 2, 1)
    runs = [lm.trace(lm.tokenizer.decode(ids.tolist())) for ids in corpus.ids]
    for n, run in enumerate(runs):
        own = run.pattern(2, 1)
        assert np.allclose(found.pattern(n), own, atol=0.5 / CODES + 1e-5)
        assert np.allclose(found.row(n, 7), found.pattern(n)[7, :8])
        expected = run.head_metrics().loc[(2, 1)].to_numpy()
        assert np.allclose(found.metrics[n], expected, atol=1e-4, equal_nan=True)
    p, q = (np.stack([run.pattern(2, h) for run in runs]).astype(np.float64)[:, 1:] for h in (1, 3))

    def entropy(rows: np.ndarray) -> np.ndarray:
        return -(rows * np.log2(np.where(rows > 0, rows, 1))).sum(-1)

    divergence = entropy((p + q) / 2) - (entropy(p) + entropy(q)) / 2
    assert found.divergence[2, 3] == pytest.approx(divergence.mean(), abs=1e-5)
    assert found.divergence[2, 1] == pytest.approx(0, abs=1e-6) and found.ov[2, 1] == pytest.approx(1)


def test_divergence_is_0_for_equal_and_1_for_disjoint_rows():
    one, other = torch.tensor([[1.0, 0, 0]]), torch.tensor([[0, 0.5, 0.5]])
    assert divergences(one, one).tolist() == [0]
    assert divergences(one, other).tolist() == pytest.approx([1])
    assert divergences(one * 0.3, one * 0.7).tolist() == [0]  # rows with a sink


def test_what_a_head_reads_at_places(lm):
    corpus = corpus_of(lm, [TEXT], 24, 4)
    found = read_head(lm, corpus, 0, 0)
    keys, weights, rest, distance = found.read_at(corpus, np.array([[1, 5], [2, 9]]))
    rows = [found.row(1, 5) / found.row(1, 5).sum(), found.row(2, 9) / found.row(2, 9).sum()]
    assert rest == pytest.approx(np.mean([row[0] + row[-1] for row in rows]), abs=1e-6)
    assert weights.sum() + 2 * rest == pytest.approx(2, abs=1e-6)
    assert distance == pytest.approx(np.mean([row @ np.arange(len(row))[::-1] for row in rows]), abs=1e-5)
    assert set(keys) <= set(corpus.ids[1, 1:5]) | set(corpus.ids[2, 1:9])


def test_clusters_that_are_far_apart_are_found():
    drawn = np.random.default_rng(0).normal(size=(60, 5))
    drawn[:30, 0] += 40
    drawn[50:, 1] += 60
    found = jobs_of(drawn, np.zeros((60, 2), np.int64), 3)
    assert [len(set(found.cluster[part])) for part in (slice(30), slice(30, 50), slice(50, 60))] == [1, 1, 1]
    assert np.bincount(found.cluster).tolist() == [30, 20, 10] and found.explained > 0.97
    assert found.shares.sum() <= 1 and found.shares[0] > found.shares[1] > 0
    same = jobs_of(np.ones((6, 4)), np.zeros((6, 2), np.int64), 3)
    assert same.cluster.tolist() == [0] * 6 and not same.points.any()


def test_a_window_hides_keys_from_the_uniform_head():
    config = tiny_config({"mixer": ("sliding_window", "softmax", "softmax"), "window": 2, "positions": "rope"})
    assert visible_keys(config, 0, 4).sum(1).tolist() == [1, 2, 2, 2]
    assert visible_keys(config, 1, 4).sum(1).tolist() == [1, 2, 3, 4]


def test_a_head_that_does_not_exist_is_refused(lm):
    corpus = corpus_of(lm, [TEXT], 24, 4)
    with pytest.raises(InputError):
        read_head(lm, corpus, 9, 0)
    with pytest.raises(InputError):
        read_head(lm, corpus, 0, 9)
