"""Head metrics on attention built by hand, and the reduction in chunks against the plain definitions."""

import dataclasses
import math

import pytest
import torch

from model.gpt.layers import attention_pattern, attention_scores, mix
from model.gpt.tap import identity
from model.tracing import head_metrics as heads
from model.tracing import head_reducer
from model.tracing.head_metrics import HEAD_METRICS, MASKED, RowStats, find_repeats, head_metrics, rows_from_pattern
from model.tracing.head_reducer import HeadReducer
from tests.support.models.helpers import assert_close

NAMES = list(HEAD_METRICS)


def pattern_of(*targets: int) -> torch.Tensor:
    """A head whose row i puts all its weight on targets[i]. [1, T, T]"""
    pattern = torch.zeros(1, len(targets), len(targets))
    for row, key in enumerate(targets):
        pattern[0, row, key] = 1
    return pattern


def uniform(T: int) -> torch.Tensor:
    """Row i puts 1 / (i + 1) on each token it can see. [1, T, T]"""
    return (torch.ones(T, T).tril() / torch.arange(1, T + 1)[:, None])[None]


def metrics_of(pattern: torch.Tensor, ids: list[int]) -> dict[str, float]:
    repeats = find_repeats(torch.tensor(ids))
    values = head_metrics(rows_from_pattern(pattern, repeats), repeats)
    assert values.shape == (1, len(HEAD_METRICS))
    return dict(zip(NAMES, values[0].tolist(), strict=True))


# --- the metrics by hand ---


def test_a_perfect_previous_token_head():
    values = metrics_of(pattern_of(0, 0, 1, 2, 3), [5, 6, 7, 8, 9])
    assert values["previous_token"] == 1
    assert (values["self"], values["first_token"]) == (0, 0.25)
    assert (values["entropy"], values["effective_span"]) == (0, 1)
    assert values["distance"] == pytest.approx(4 / 5)


def test_a_perfect_sink():
    values = metrics_of(pattern_of(0, 0, 0, 0), [5, 6, 7, 8])
    assert (values["first_token"], values["self"]) == (1, 0)
    assert values["previous_token"] == pytest.approx(1 / 3)
    assert values["distance"] == pytest.approx((0 + 1 + 2 + 3) / 4)


def test_a_learned_sink_takes_weight_but_no_spread():
    """Rows of a head with a sink sum to 1/2 here: weights on tokens halve, entropy, span and distance are the same."""
    for pattern in (uniform(6), pattern_of(0, 0, 1, 2, 3, 4)):
        whole, half = metrics_of(pattern, [5, 6, 5, 6, 7, 8]), metrics_of(pattern / 2, [5, 6, 5, 6, 7, 8])
        for name in ("entropy", "effective_span", "distance"):
            assert half[name] == pytest.approx(whole[name], rel=1e-6), name
        for name in ("previous_token", "self", "first_token", "duplicate_token", "induction"):
            assert half[name] == pytest.approx(whole[name] / 2), name
    row = torch.tensor([[[0.25, 0.0, 0.0], [0.25, 0.25, 0.0], [0.1, 0.0, 0.3]]])
    stats = rows_from_pattern(row, find_repeats(torch.tensor([5, 6, 7])))
    assert stats.entropy[0].tolist() == pytest.approx(
        [0, math.log(2), -(0.25 * math.log(0.25) + 0.75 * math.log(0.75))]
    )
    assert stats.distance[0].tolist() == pytest.approx([0, 0.5, 0.5])
    assert stats.first[0].tolist() == pytest.approx([0.25, 0.25, 0.1])


def test_a_row_that_the_sink_takes_whole_is_0():
    stats = rows_from_pattern(torch.zeros(1, 2, 2), find_repeats(torch.tensor([5, 6])))
    assert stats.entropy.tolist() == stats.distance.tolist() == [[0, 0]]


def test_a_head_that_reads_its_own_token():
    values = metrics_of(pattern_of(0, 1, 2, 3), [5, 6, 7, 8])
    assert (values["self"], values["distance"], values["first_token"], values["previous_token"]) == (1, 0, 0, 0)


def test_uniform_attention_has_all_the_entropy_there_is():
    values = metrics_of(uniform(8), list(range(8)))
    assert values["entropy"] == pytest.approx(1, abs=1e-6)
    assert values["effective_span"] == pytest.approx(sum(range(2, 9)) / 7, rel=1e-6)  # mean of i + 1, rows 1 on
    assert values["distance"] == pytest.approx(sum(i / 2 for i in range(8)) / 8, rel=1e-6)
    stats = rows_from_pattern(uniform(8), find_repeats(torch.arange(8)))
    assert stats.entropy[0, 7].item() == pytest.approx(math.log(8), rel=1e-6)


def test_a_perfect_induction_head():
    """a b c a b c: rows 3 to 5 have an earlier copy at 0 to 2 and read what followed it, 1 to 3."""
    values = metrics_of(pattern_of(0, 0, 0, 1, 2, 3), [7, 8, 9, 7, 8, 9])
    assert values["induction"] == 1
    assert values["duplicate_token"] == 0


def test_a_perfect_duplicate_token_head():
    values = metrics_of(pattern_of(0, 0, 0, 0, 1, 2), [7, 8, 9, 7, 8, 9])
    assert values["duplicate_token"] == 1
    assert values["induction"] == 0


def test_a_previous_token_head_is_no_induction_head():
    values = metrics_of(pattern_of(0, 0, 1, 2, 3, 4), [7, 8, 9, 7, 8, 9])
    assert (values["previous_token"], values["induction"], values["duplicate_token"]) == (1, 0, 0)


def test_all_earlier_copies_count():
    """a b a b a: row 4 has copies at 0 and 2, followed by 1 and 3."""
    pattern = pattern_of(0, 0, 1, 2, 0)
    pattern[0, 4] = torch.tensor([0.1, 0.3, 0.2, 0.35, 0.05])
    stats = rows_from_pattern(pattern, find_repeats(torch.tensor([7, 8, 7, 8, 7])))
    assert stats.duplicate[0, 4].item() == pytest.approx(0.1 + 0.2)
    assert stats.induction[0, 4].item() == pytest.approx(0.3 + 0.35)
    assert stats.duplicate[0].tolist()[:4] == [0, 0, 0, 0]
    assert stats.induction[0].tolist()[:4] == [0, 0, 1, 1]


def test_without_repeats_there_is_nothing_to_say():
    values = metrics_of(uniform(5), [1, 2, 3, 4, 5])
    assert math.isnan(values["induction"]) and math.isnan(values["duplicate_token"])
    of_every_row = ("previous_token", "self", "first_token", "entropy", "effective_span", "distance")
    assert not any(math.isnan(values[name]) for name in of_every_row)


def test_reading_oneself_is_not_induction():
    """b a a: what follows the earlier copy at 1 is the query itself, so no row has an induction target."""
    values = metrics_of(pattern_of(0, 1, 2), [1, 2, 2])
    assert math.isnan(values["induction"])
    assert values["duplicate_token"] == 0
    # a a a: row 2 has a copy at 0, followed by 1; the copy at 1 is followed by the query itself.
    repeats = find_repeats(torch.tensor([2, 2, 2]))
    assert repeats.rows(1).tolist() == [False, False, True]
    pattern = pattern_of(0, 1, 2)
    pattern[0, 2] = torch.tensor([0.2, 0.3, 0.5])
    assert metrics_of(pattern, [2, 2, 2])["induction"] == pytest.approx(0.3)
    assert metrics_of(pattern, [2, 2, 2])["duplicate_token"] == pytest.approx((0 + 0.5) / 2)


def test_a_single_token_has_no_rows_to_average():
    values = metrics_of(torch.ones(1, 1, 1), [3])
    assert values["distance"] == 0
    assert all(math.isnan(values[name]) for name in ("previous_token", "self", "first_token", "entropy"))


def test_every_metric_names_its_source_and_is_within_its_range():
    pattern = torch.randn(16, 40, 40).masked_fill(torch.ones(40, 40).triu(1).bool(), -math.inf).mul(4).softmax(-1)
    repeats = find_repeats(torch.randint(0, 9, (40,)))
    values = head_metrics(rows_from_pattern(pattern, repeats), repeats)
    for n, (name, metric) in enumerate(HEAD_METRICS.items()):
        assert metric.unit and metric.source
        assert (values[:, n] >= metric.low).all() and (values[:, n] <= metric.high).all(), name


def test_a_head_does_not_depend_on_its_neighbors():
    pattern = torch.cat((uniform(6), pattern_of(0, 0, 1, 2, 3, 4)))
    repeats = find_repeats(torch.tensor([1, 2, 1, 2, 3, 3]))
    together = head_metrics(rows_from_pattern(pattern, repeats), repeats)
    for head in range(2):
        alone = head_metrics(rows_from_pattern(pattern[head : head + 1], repeats), repeats)
        assert_close(together[head], alone[0], 1e-7)


# --- thumbnails by hand ---


def test_thumbnail_codes_are_square_roots():
    pattern = torch.tensor([[[1, 0, 0], [0.25, 0.75, 0], [0.01, 0.0, 0.99]]])
    codes = heads.thumbnails_from_pattern(pattern)
    assert codes.dtype == torch.uint8
    # sqrt x 254: 1 -> 254, 1/4 -> 127, 3/4 -> 219.97, 0.01 -> 25.4, 0.99 -> 252.7
    assert codes[0].tolist() == [[254, MASKED, MASKED], [127, 220, MASKED], [25, 0, 253]]


@pytest.mark.parametrize(
    ("T", "k", "t"), [(1, 1, 1), (64, 1, 64), (65, 2, 33), (128, 2, 64), (130, 3, 44), (385, 7, 55)]
)
def test_thumbnails_fit_in_64_cells(T: int, k: int, t: int):
    assert heads.pool_size(T) == k
    codes = heads.thumbnails_from_pattern(uniform(T))
    assert codes.shape == (1, t, t)
    above = torch.ones(t, t).triu(1).bool()
    assert (codes[0][above] == MASKED).all() and (codes[0][~above] != MASKED).all()


def test_a_thumbnail_cell_is_its_largest_weight():
    """130 tokens make cells of 3 x 3; the last is a single token."""
    pattern = torch.zeros(1, 130, 130)
    pattern[0, 7, 2], pattern[0, 8, 1], pattern[0, 6, 0] = 0.25, 0.09, 0.04  # all in cell (2, 0)
    pattern[0, 128, 128], pattern[0, 128, 126] = 0.36, 0.49  # cell (42, 42)
    pattern[0, 129, 129], pattern[0, 129, 128] = 1.0, 0.01  # cells (43, 43) and (43, 42)
    codes = heads.thumbnails_from_pattern(pattern)[0]
    assert codes[2, 0] == 127
    assert codes[42, 42] == round(0.7 * 254)
    assert (codes[43, 43], codes[43, 42]) == (254, 25)
    assert (codes != MASKED).sum() == 44 * 45 / 2
    assert ((codes > 0) & (codes != MASKED)).sum() == 4


# --- the reduction in chunks ---


def heads_of(T: int, H: int, G: int, scale: float) -> tuple[torch.Tensor, ...]:
    """Random q, k, v of one layer, and ids with repeats."""
    generator = torch.Generator().manual_seed(T)
    q, k, v = (torch.randn(1, n, T, 12, generator=generator) * scale for n in (H, G, G))
    return q, k, v, torch.randint(0, 3 + T // 4, (T,), generator=generator)


@pytest.mark.parametrize("T", [1, 2, 3, 17, 64, 65, 130, 131, 200, 385])
@pytest.mark.parametrize(("H", "G", "scale"), [(4, 4, 1.0), (4, 2, 2.0), (3, 1, 1.0), (2, 2, 6.0)])
def test_the_chunked_reduction_equals_the_definitions(T: int, H: int, G: int, scale: float):
    q, k, v, ids = heads_of(T, H, G, scale)
    inputs = [x.clone() for x in (q, k, v, ids)]
    repeats = find_repeats(ids)
    scores = attention_scores(q.double(), k.double())
    pattern = attention_pattern(scores).float()  # [1, H, T, T]
    # A weight's relative error is the absolute error of its score: float32's rounding of the largest one.
    largest = scores[scores.isfinite()].abs().max().item()
    weight = 2**-23 * (10 + largest)
    wanted = rows_from_pattern(pattern[0], repeats)
    reducer = HeadReducer(ids, 1, H)
    stats, pooled, z = head_reducer._reduce(q[0], k[0], v[0], reducer.chunks, reducer.k)
    for field in dataclasses.fields(RowStats):
        size = {"distance": T, "entropy": 10}.get(field.name, 1)
        assert_close(getattr(stats, field.name), getattr(wanted, field.name), weight * size, field.name)
    assert_close(z, mix(pattern, v), weight * v.abs().max().item(), "z")
    codes, plain = heads.encode(pooled), heads.thumbnails_from_pattern(pattern[0])
    assert torch.equal(codes == MASKED, plain == MASKED)
    assert (codes.int() - plain.int()).abs().max() <= 1
    for together in (1, 2, 4):  # layer by layer; two in one go, the third at the end; all at the end
        reducer = HeadReducer(ids, 3, H)
        reducer.together = together
        for layer in range(3):
            # The middle layer has its heads in reverse order, so that layers cannot be mixed up unseen.
            kernel = reducer(layer, *((x.flip(1) if layer == 1 else x) for x in (q, k, v)))
            expected = z.flip(1) if layer == 1 else z
            assert_close(kernel, expected, 2 * weight * v.abs().max().item(), "as an attention kernel")
        reducer.finish()
        assert not reducer.waiting
        for layer in range(3):
            metrics, small = head_metrics(wanted, repeats), codes.int()
            metrics, small = (metrics.flip(0), small.flip(0)) if layer == 1 else (metrics, small)
            assert_close(reducer.metrics[layer], metrics, weight * max(T, 10), "metrics")
            assert (reducer.thumbnails[layer].int() - small).abs().max() <= 1
    for before, after in zip(inputs, (q, k, v, ids), strict=True):
        assert torch.equal(before, after), "an input was changed"


def test_with_a_tap_the_reduction_reads_what_the_tap_returns():
    q, k, v, ids = heads_of(17, 4, 2, 1.0)
    same, plain = HeadReducer(ids, 1, 4, identity), HeadReducer(ids, 1, 4)
    assert_close(same(0, q, k, v), plain(0, q, k, v), 1e-5)
    plain.finish()
    assert_close(same.metrics, plain.metrics, 1e-4)

    def previous(site, layer, x):
        if site != "pattern":
            return x
        return pattern_of(0, *range(16))[None].expand(1, 4, 17, 17).contiguous()

    forced = HeadReducer(ids, 1, 4, previous)
    z = forced(0, q, k, v)
    assert (forced.metrics[0, :, NAMES.index("previous_token")] == 1).all()
    assert_close(z[0, :, 5], v[0, [0, 0, 1, 1], 4], 1e-6, "z is the value of the token before")


def test_plain_functions_leave_the_pattern_alone():
    pattern = uniform(70)
    kept = pattern.clone()
    repeats = find_repeats(torch.arange(70) % 9)
    stats = rows_from_pattern(pattern, repeats)
    heads.thumbnails_from_pattern(pattern)
    for field in dataclasses.fields(RowStats):
        getattr(stats, field.name).zero_()
    assert torch.equal(pattern, kept)


@pytest.mark.parametrize("T", [40, 130])
@pytest.mark.parametrize("kinds", [1, 2, 40])
def test_few_and_many_repeats_are_summed_alike(T: int, kinds: int):
    q, k, v, _ = heads_of(T, 4, 2, 1.0)
    ids = torch.arange(T) % kinds
    wanted = rows_from_pattern(attention_pattern(attention_scores(q, k))[0], find_repeats(ids))
    reducer = HeadReducer(ids, 1, 4)
    stats, _, _ = head_reducer._reduce(q[0], k[0], v[0], reducer.chunks, reducer.k)
    assert_close(stats.duplicate, wanted.duplicate, 2e-6, "duplicate")
    assert_close(stats.induction, wanted.induction, 2e-6, "induction")
    assert wanted.duplicate.max() > 0.1 or kinds == T
