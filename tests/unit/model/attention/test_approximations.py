"""Softmax replaced: each method by hand or against another program, its identities, its costs, the model's loss."""

import math
from itertools import product

import numpy as np
import pytest
import torch

from model.attention.approximations import costs, kernels, low_rank, whole_model
from model.attention.approximations.measure import CURVES, ROWS, SIZES, approximate, curve_of, doubles, sweep
from model.attention.approximations.ways import Way, feature_map, matrix
from model.errors import InputError
from model.gpt.tap import record
from model.tracing.trace import HeadQKV
from tests.support.models.helpers import VARIANTS, assert_close, random_ids, tiny_model

T, E = 23, 6
WAYS = {
    "performer": Way("performer", 10, 3),
    "orthogonal": Way("performer", 10, 3, orthogonal=True),
    "linear": Way("linear"),
    "random": Way("linformer", 5, 3),
    "mean": Way("linformer", 5, projection="mean"),
    "nystrom": Way("nystrom", 5),
}


def drawn(*shape, seed=0, size=1.0):
    return size * torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def qkv(length=T, width=E, size=1.0):
    return [drawn(length, width, seed=n, size=size) for n in range(3)]


def head(length=T, width=E, size=1.0):
    return HeadQKV(*(part.float().numpy() for part in qkv(length, width, size)))


def everything(length=T):
    return torch.arange(length)


# --- what holds for all ------------------------------------------------------------------------------------


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
def test_nothing_of_the_future_enters(way):
    """Whatever comes after a query, its row stays as it is, and is 0 there; heads and chosen rows change nothing."""
    q, k, _ = qkv()
    whole = matrix(way, q, k, everything())
    assert (whole.triu(1) == 0).all()
    at = 11
    other_q, other_k = (torch.cat([x[: at + 1], 9 * drawn(T - at - 1, E, seed=7)]) for x in (q, k))
    assert_close(matrix(way, other_q, other_k, everything())[: at + 1], whole[: at + 1], 1e-12)
    rows = torch.tensor([0, 3, 11, 22])
    assert_close(matrix(way, q, k, rows), whole[rows], 1e-12)
    both = matrix(way, torch.stack([q, -q]), torch.stack([k, k]), everything())
    assert_close(both[0], whole, 1e-12)
    assert_close(both[1], matrix(way, -q, k, everything()), 1e-12)


@pytest.mark.parametrize("name", ["performer", "orthogonal", "linear", "mean"])
def test_rows_of_shares_sum_to_one(name):
    q, k, _ = qkv()
    weights = matrix(WAYS[name], q, k, everything())
    assert (weights >= 0).all()
    assert_close(weights.sum(-1), torch.ones(T), 1e-12)


def test_draws_follow_seed_and_layer():
    q, k, _ = qkv()
    for name in ("performer", "orthogonal", "random"):
        way = WAYS[name]
        same, layer = (matrix(way, q, k, everything(), at) for at in (0, 1))
        other = matrix(Way(way.method, way.size, 4, way.orthogonal), q, k, everything())
        assert way.drawn and (same - layer).abs().max() > 1e-3 and (same - other).abs().max() > 1e-3
    assert not any(WAYS[name].drawn for name in ("linear", "mean", "nystrom"))


def test_what_does_not_exist_is_refused():
    for wrong in (("flash", 3), ("performer", 0), ("linformer", 4, 0, False, "max")):
        with pytest.raises((InputError, ValueError), match=r"method|projection|size"):
            Way(*wrong)
    with pytest.raises(ValueError, match="no feature map"):
        feature_map(WAYS["nystrom"], E)


# --- feature maps --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("orthogonal", [False, True])
def test_the_estimate_of_the_kernel_is_unbiased(orthogonal):
    """The mean over many seeds is exp(q.k / sqrt(d_head)), within 5 standard errors of independent features.

    One feature's product has the second moment exp(2 |x + y|^2 - |x|^2 - |y|^2). The seeds are fixed.
    """
    width, m, seeds = 4, 6, 3000
    q, k = drawn(3, width, seed=1, size=0.8), drawn(3, width, seed=2, size=0.8)
    total = torch.zeros(3, 3, dtype=torch.float64)
    for seed in range(seeds):
        total += kernels.kernel(*feature_map(Way("performer", m, seed, orthogonal), width)(q, k))
    x, y = q / width**0.25, k / width**0.25
    true = (q @ k.T / math.sqrt(width)).exp()
    lengths = x.square().sum(-1)[:, None] + y.square().sum(-1)[None]
    second = (2 * (x[:, None] + y[None]).square().sum(-1) - lengths).exp()
    error = ((second - true**2) / (m * seeds)).sqrt()
    assert (error < 0.05 * true).all()  # or the test would say little
    assert ((total / seeds - true).abs() <= 5 * error).all()


def test_orthogonal_vectors_are_orthogonal_and_as_long_as_others():
    generator = torch.Generator().manual_seed(0)
    w = kernels.directions(4000, 8, orthogonal=True, generator=generator)
    gram = w[:8] @ w[:8].T
    assert_close(gram - gram.diagonal().diag(), torch.zeros(8, 8), 1e-12)
    assert abs(float(w.square().mean()) - 1) < 5 * math.sqrt(2 / w.numel())  # a variance of 1
    assert (w.mean(0).abs() < 5 / math.sqrt(len(w))).all()
    assert len(kernels.directions(3, 8, orthogonal=True, generator=generator)) == 3


def test_right_angles_make_the_estimate_better():
    q, k = drawn(12, E, seed=1, size=0.7), drawn(12, E, seed=2, size=0.7)
    true = (q @ k.T / math.sqrt(E)).exp()

    def missed(orthogonal):
        estimates = [kernels.kernel(*feature_map(Way("performer", E, s, orthogonal), E)(q, k)) for s in range(300)]
        return float(torch.stack([(each - true).square().mean() for each in estimates]).mean())

    assert missed(True) < 0.9 * missed(False)


@pytest.mark.parametrize("name", ["performer", "linear"])
def test_the_matrix_by_hand(name):
    q, k, _ = qkv(9)
    if name == "linear":
        f, g = torch.nn.functional.elu(q) + 1, torch.nn.functional.elu(k) + 1
    else:
        w = kernels.directions(10, E, orthogonal=False, generator=torch.Generator().manual_seed(3))
        f, g = (torch.exp(x / E**0.25 @ w.T - (x / E**0.25).square().sum(-1, keepdim=True) / 2) for x in (q, k))
    expected = torch.zeros(9, 9, dtype=torch.float64)
    for i in range(9):
        products = torch.stack([f[i] @ g[j] for j in range(i + 1)])
        expected[i, : i + 1] = products / products.sum()
    assert_close(matrix(WAYS[name], q, k, everything(9)), expected, 1e-12)


@pytest.mark.parametrize("size", [1.0, 12.0, 60.0])
@pytest.mark.parametrize("name", ["performer", "orthogonal", "linear"])
def test_recurrent_and_parallel_form_are_one(name, size):
    """For long queries and keys, too, where features differ by hundreds of powers of ten."""
    q, k, v = qkv(size=size)
    features = feature_map(WAYS[name], E)(q, k)
    assert_close(kernels.recurrent(*features, v), matrix(WAYS[name], q, k, everything()) @ v, 1e-12)


def test_a_row_that_later_keys_would_hide():
    """The first keys are so much smaller than the last one that their own row would vanish beside it."""
    log_q, log_k = torch.zeros(3, 2, dtype=torch.float64), torch.tensor([[-900.0, -901], [-902, -900], [0, 0]]).double()
    weights = kernels.parallel(log_q, log_k, everything(3))
    a, b = math.exp(0) + math.exp(-1), math.exp(-2) + math.exp(0)
    assert_close(weights, [[1, 0, 0], [a / (a + b), b / (a + b), 0], [0, 0, 1]], 1e-12)
    v = drawn(3, 4)
    assert_close(kernels.recurrent(log_q, log_k, v), weights @ v, 1e-12)


def test_more_features_are_closer():
    found = [approximate(head(64, 8, 0.8), Way("performer", size)).error for size in (8, 128, 4096)]
    assert found[0] > 2 * found[1] > 4 * found[2]


# --- fewer keys ----------------------------------------------------------------------------------------------


def test_linformer_by_hand():
    """Each query reads projections of the keys and values up to itself."""
    q, k, v = qkv()
    projection = low_rank.random_projection(5, T, torch.Generator().manual_seed(3))
    assert abs(float(low_rank.random_projection(40, 500, torch.Generator()).square().mean()) * 40 - 1) < 0.05
    z = matrix(WAYS["random"], q, k, everything()) @ v
    for i in range(T):
        e = projection[:, : i + 1]
        weights = (q[i] @ (e @ k[: i + 1]).T / math.sqrt(E)).softmax(-1)
        assert_close(z[i], weights @ (e @ v[: i + 1]), 1e-12)


def test_means_of_segments_by_hand():
    q, k, v = qkv()
    z, of = matrix(WAYS["mean"], q, k, everything()) @ v, [j * 5 // T for j in range(T)]
    assert sorted(of.count(s) for s in range(5)) == [4, 4, 5, 5, 5]
    for i in range(T):
        parts = [[j for j in range(i + 1) if of[j] == s] for s in range(of[i] + 1)]
        keys, values = (torch.stack([x[part].mean(0) for part in parts]) for x in (k, v))
        assert_close(z[i], (q[i] @ keys.T / math.sqrt(E)).softmax(-1) @ values, 1e-12)


@pytest.mark.parametrize("way", [Way("linformer", T, projection="mean"), Way("nystrom", T), Way("nystrom", 99)])
def test_as_many_as_tokens_is_softmax(way):
    q, k, _ = qkv()
    assert_close(matrix(way, q, k, everything()), low_rank.exact(q, k, everything()), 1e-12)


def test_the_last_row_is_that_of_transformers_nystromformer():
    """On a text whose length the landmarks divide, as published; the last token sees all."""
    from transformers import NystromformerConfig
    from transformers.models.nystromformer.modeling_nystromformer import NystromformerSelfAttention

    length, count = 24, 4
    config = NystromformerConfig(
        hidden_size=E, num_attention_heads=1, num_landmarks=count, segment_means_seq_len=length
    )
    theirs = NystromformerSelfAttention(config).double().eval()
    generator = torch.Generator().manual_seed(0)
    for parameter in theirs.parameters():
        parameter.data = torch.randn(parameter.shape, generator=generator, dtype=torch.float64)
    theirs.conv.weight.data.zero_()  # its convolution over the values is left out here
    x = drawn(length, E, seed=5)
    with torch.no_grad():
        expected = theirs(x[None])[0][0, -1]
        q, k, v = (layer(x) for layer in (theirs.query, theirs.key, theirs.value))
        ours = low_rank.nystrom(q, k, everything(length), count)[-1] @ v
    assert_close(ours, expected, 1e-9)


def test_the_pseudoinverse_is_one():
    a = drawn(3, 6, 6).softmax(-1)
    assert_close(low_rank.pseudoinverse(a, 40), torch.linalg.pinv(a), 1e-8)
    assert (low_rank.pseudoinverse(a) - torch.linalg.pinv(a)).abs().max() > 1e-3  # six steps are short of it


def test_rows_in_pieces_are_the_same(monkeypatch):
    q, k, _ = qkv()
    whole = matrix(WAYS["nystrom"], q, k, everything())
    monkeypatch.setattr(low_rank, "_CELLS", 5 * T * 3)
    assert_close(matrix(WAYS["nystrom"], q, k, everything()), whole, 1e-12)


# --- errors ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
def test_errors_by_hand(way):
    found = approximate(head(), way)
    q, k, v = (x.numpy() for x in doubles(head()))
    scores = q @ k.T / math.sqrt(E) + np.triu(np.full((T, T), -np.inf), 1)
    exact = np.exp(scores) / np.exp(scores).sum(1, keepdims=True)
    made = matrix(way, *(torch.from_numpy(x) for x in (q, k)), everything()).numpy()
    assert found.exact == pytest.approx(exact, abs=1e-6) and found.matrix == pytest.approx(made, abs=1e-6)
    assert found.distance == pytest.approx(np.abs(made - exact).sum(1))
    assert found.mean_distance == pytest.approx(np.abs(made - exact).sum() / T)
    z, other = exact @ v, made @ v
    assert found.off == pytest.approx(np.linalg.norm(other - z, axis=1) / np.linalg.norm(z, axis=1))
    assert found.error == pytest.approx(np.linalg.norm(other - z) / np.linalg.norm(z))
    means = np.cumsum(v, 0) / np.arange(1, T + 1)[:, None]
    assert found.uniform_error == pytest.approx(np.linalg.norm(means - z) / np.linalg.norm(z))
    assert found.sums == pytest.approx((made.sum(1).min(), made.sum(1).max())) and found.least == made.min()
    assert (found.gap is None) == (way.method in ("linformer", "nystrom")) and (found.gap or 0) < 1e-12


def test_a_sweep_is_made_of_single_errors():
    found = sweep(head(), 2, seeds=2)
    assert [each.key for each in found.curves] == list(CURVES) and found.queries == T
    for each in found.curves:
        method, orthogonal, projection = CURVES[each.key]
        draws = 2 if Way(method, 1, 0, orthogonal, projection).drawn else 1
        assert each.sizes == SIZES.get(method, (0,)) and each.errors.shape == (draws, len(each.sizes))
        for seed, (n, size) in product(range(draws), enumerate(each.sizes[:3])):
            way = Way(method, size, seed, orthogonal, projection)
            alone = approximate(head(), way, 2)
            assert curve_of(way) == each.key and each.errors[seed, n] == pytest.approx(alone.error)
            assert each.distances[seed, n] == pytest.approx(alone.mean_distance)
            assert found.uniform[1] == pytest.approx(alone.uniform_error)


def test_a_long_prompt_is_swept_on_evenly_spaced_queries():
    long = head(ROWS + 57)
    found = sweep(long, 0, curves=["linear"])
    rows = np.unique(np.linspace(0, ROWS + 56, ROWS).round().astype(int))
    assert found.queries == len(rows) == ROWS
    assert found.curves[0].distances[0, 0] == pytest.approx(approximate(long, Way("linear")).distance[rows].mean())


# --- costs -----------------------------------------------------------------------------------------------------


def counted(way, T, E):
    """Multiplications and additions of the causal form, counted as it goes."""
    n, m = 0, way.size or E
    for i in range(T):
        keys = i + 1
        if way.method in ("performer", "linear"):
            n += 2 * (2 * m * E) if way.method == "performer" else 0  # w.q and w.k
            n += 2 * m * E + m  # phi(k) v^T into the state, phi(k) into the sum
            n += 2 * m * E + 2 * m  # phi(q) with both
        elif way.method == "linformer":
            n += 2 * E if way.projection == "mean" else 2 * (2 * m * E)  # into the projected key and value
            n += 2 * m * E + 2 * m * E  # scores and mix
        else:
            n += 2 * m * E  # landmarks: differences of running sums of queries and keys
            n += 2 * m * E + 2 * m * m * E  # the query and the landmarks with the landmark keys
            n += 6 * 4 * (2 * m**3) + 2 * m * m  # the inverse, and the query's row through it
            n += keys * (2 * m * E + 2 * m + 2 * E)  # landmarks with all keys, the row over them, the mix
    return n


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
def test_operations_are_those_that_are_done(way):
    assert costs.operations(way, 40, E) == counted(way, 40, E)
    assert costs.softmax_operations(40, E) == sum(2 * E * keys + 2 * E * keys for keys in range(1, 41))


@pytest.mark.parametrize(("way", "width"), [(Way("performer", 64), 32), (Way("linear"), 64), (WAYS["random"], 12)])
def test_where_it_becomes_cheaper(way, width):
    begins = costs.cheaper_from(way, width)
    assert costs.operations(way, begins, width) < costs.softmax_operations(begins, width)
    assert costs.operations(way, begins - 1, width) >= costs.softmax_operations(begins - 1, width)
    assert costs.cheaper_from(Way("nystrom", 4), width) is None


def test_bytes_and_sizes():
    assert costs.softmax_bytes(100, 8) == 4 * 100 * (8 + 8)
    assert costs.state_bytes(Way("performer", 64), 100, 8) == 4 * (64 * 8 + 64)
    assert costs.state_bytes(Way("linear"), 100, 8) == 4 * (8 * 8 + 8)
    assert costs.state_bytes(WAYS["random"], 100, 8) == 4 * (5 * 8 + 5 * 8)
    assert costs.state_bytes(WAYS["nystrom"], 100, 8) == 4 * 100 * 3 * 8
    assert costs.size_of(WAYS["mean"], 3, 8) == 3 and costs.size_of(WAYS["random"], 3, 8) == 5
    T, m = 50, 5  # as published: both sides, the middle, the inverse, then from the right
    expected = 2 * (2 * T * m * E) + 2 * m * m * E + 48 * m**3 + 2 * m * T * E + 2 * m * m * E + 2 * T * m * E
    assert costs.published_operations(WAYS["nystrom"], T, E) == expected
    assert costs.published_operations(WAYS["random"], T, E) == costs.operations(WAYS["random"], T, E)


# --- the whole model -------------------------------------------------------------------------------------------

LENGTH = 14


@pytest.mark.parametrize("variant", VARIANTS)
def test_a_replacement_that_is_exact_changes_nothing(variant):
    """Through every wiring of a block, shared keys and values, too."""
    model, ids = tiny_model(VARIANTS[variant]), random_ids(1, LENGTH)[0].tolist()
    found = whole_model.measure(model, ids, [Way("nystrom", LENGTH)])
    assert found.rows[0].reading.kl < 1e-9 and found.rows[0].reading.agree == 1
    with torch.inference_mode():
        logits = model(torch.tensor([ids]))[0, :-1].double()
    expected = torch.nn.functional.cross_entropy(logits, torch.tensor(ids[1:]))
    assert found.before == pytest.approx(float(expected), rel=1e-5)
    assert found.rows[0].reading.loss == pytest.approx(float(expected), rel=1e-5)


@pytest.mark.parametrize("variant", ["gpt2", "llama", "mqa"])
def test_what_is_mixed_is_each_heads_matrix(variant):
    """In every layer, under the draws of that layer; heads that share keys and values, too."""
    model, ids, way = tiny_model(VARIANTS[variant]), random_ids(1, LENGTH), WAYS["performer"]
    seen = {}
    with torch.inference_mode():
        tap = record(["q", "k", "q_rot", "k_rot", "v", "z"], seen)
        model.trunk(ids, attend=whole_model.attend_by(way), tap=tap)
    turned = "_rot" if model.config.positions == "rope" else ""
    for layer, n in product(range(model.config.n_layer), range(model.config.n_head)):
        of = n // model.config.group_size
        q, k, v = seen[f"q{turned}", layer][0, n], seen[f"k{turned}", layer][0, of], seen["v", layer][0, of]
        alone = approximate(HeadQKV(q.numpy(), k.numpy(), v.numpy()), way, layer)
        assert_close(seen["z", layer][0, n], alone.matrix @ v.numpy(), 1e-4)


def test_reading_all_alike_is_a_uniform_pattern():
    model, ids = tiny_model(VARIANTS["gqa"]), random_ids(1, LENGTH)

    def even(site, layer, x):
        rows = torch.ones(LENGTH, LENGTH).tril()
        return (rows / rows.sum(-1, keepdim=True)).expand_as(x) if site == "pattern" else x

    with torch.inference_mode():
        expected = model.trunk(ids, tap=even)
        assert_close(model.trunk(ids, attend=whole_model.attend_alike), expected, 1e-4)


def test_an_experiment_tries_every_size_and_draw():
    model, ids, ticks = tiny_model(VARIANTS["gpt2"]), random_ids(1, LENGTH)[0].tolist(), []
    ways = whole_model.ways_of("linformer")
    assert [(way.size, way.seed) for way in ways] == list(product((8, 32, 128), range(whole_model.SEEDS)))
    assert len(whole_model.ways_of("linformer", projection="mean")) == 3 and len(whole_model.ways_of("linear")) == 1
    assert all(way.orthogonal for way in whole_model.ways_of("performer", orthogonal=True))
    found = whole_model.measure(model, ids, ways, lambda done, total, _: ticks.append((done, total)))
    assert [each.way for each in found.rows] == list(ways) and len(found.of(32)) == whole_model.SEEDS
    assert len({each.reading.loss for each in found.rows}) == len(ways)
    assert ticks == [(n, len(ways) * 3) for n in range(len(ways) * 3 + 1)]
    alone = whole_model.measure(model, ids[:1], ways[:1])
    assert alone.before is None and alone.rows[0].reading.loss is None
