"""The survey of the residual stream equals float64 statistics of tensors that a tap recorded, for every wiring."""

import numpy as np
import pytest
import torch

from model.activations import residual_statistics as module
from model.activations.residual_statistics import (
    RULES,
    Rule,
    StreamStatistics,
    limit,
    middle_of,
    outliers,
    ratios,
    survey,
    top_dimensions,
)
from model.gpt.edits import Edit
from model.gpt.tap import SITES, block_sites, compose, record
from model.tracing.norm_sites import STREAM_SITES, moments, stream_sites
from model.tracing.trace import Trace, run
from tests.support.models.helpers import VARIANTS, D, L, V, random_ids, steer, tiny_model, tokens_of

T = 17
IDS = random_ids(1, T, seed=5)
CLOSE = 1e-5  # relative


def rescale(site: str, layer: int, x: torch.Tensor) -> torch.Tensor:
    """A tap that changes what norms read, what they divide by, and what a sublayer adds."""
    if (site, layer) == ("norm2_in", 1):
        return x * 3
    if (site, layer) in (("norm1_scale", 2), ("final_scale", L)):
        return x + 1
    return x * 0.5 if (site, layer) == ("mlp_out", 0) else x


TAPS = {"none": None, "steer": steer, "rescale": rescale}


@torch.no_grad()
def recorded(model, tap=None) -> dict[tuple[str, int], np.ndarray]:
    """Every site of one explicit forward in float64, without the batch axis."""
    store: dict = {}
    keep = record(SITES, store)
    model(IDS, tap=keep if tap is None else compose(tap, keep))
    return {key: tensor.double().numpy()[0] for key, tensor in store.items() if key[0] != "pos_embed"}


def of(name: str, tap=None) -> tuple[Trace, StreamStatistics, dict]:
    trace = run(tiny_model(VARIANTS[name]), tokens_of(IDS[0]), tap=tap)
    return trace, survey(trace), recorded(trace.model, tap)


def near(actual, expected, what: str) -> None:
    np.testing.assert_allclose(actual, expected, rtol=CLOSE, atol=0, err_msg=what)


def lengths(x: np.ndarray) -> np.ndarray:
    return np.sqrt((x**2).sum(-1))


def cosines(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return (a * b).sum(-1) / (lengths(a) * lengths(b))


@pytest.mark.parametrize("tap", TAPS.values(), ids=TAPS)
@pytest.mark.parametrize("name", VARIANTS)
def test_statistics_of_what_every_norm_reads(name: str, tap):
    trace, found, at = of(name, tap)
    assert set(found.norms) == {(site[:-3], layer) for site, layer in at if site.endswith("_in")}
    assert found.rms.shape == found.norm.shape == found.divisor.shape == (len(found.norms), T)
    for n, (site, layer) in enumerate(found.norms):
        x, what = at[f"{site}_in", layer], f"{site} {layer}"
        # A mean may cancel to almost 0: float32 inputs are known to rounding of their size.
        np.testing.assert_allclose(found.mean[n], x.mean(-1), rtol=CLOSE, atol=1e-6 * np.abs(x).max(), err_msg=what)
        near(found.variance[n], x.var(-1), f"variance of {what}")
        near(found.rms[n], np.sqrt((x**2).mean(-1)), f"rms of {what}")
        near(found.norm[n], lengths(x), f"norm of {what}")
        near(found.divisor[n], at[f"{site}_scale", layer][:, 0], f"divisor of {what}")
        near(found.median[n], np.median(np.abs(x)), f"median of {what}")
        if tap is None:
            square = x.var(-1) if trace.config.norm == "layernorm" else (x**2).mean(-1)
            near(found.divisor[n], np.sqrt(square + trace.config.norm_eps), f"divisor by its formula of {what}")


@pytest.mark.parametrize("name", VARIANTS)
def test_order_and_number_of_norms(name: str):
    trace, found, _ = of(name)
    expected = [(site, layer) for layer in range(L) for site in ("norm1", "norm2")]
    assert list(found.norms) == expected + ([("final", L)] if trace.config.final_norm else [])
    assert found.rows(["norm2"]) == [1, 3, 5]


@pytest.mark.parametrize("tap", TAPS.values(), ids=TAPS)
@pytest.mark.parametrize("name", VARIANTS)
def test_how_far_each_sublayer_moves_the_stream(name: str, tap):
    trace, found, at = of(name, tap)
    for layer in range(L):
        pre, mid = at["resid_pre", layer], at["resid_mid", layer]
        streams = [pre, pre if trace.config.parallel_residual else mid]
        for n, (site, stream) in enumerate(zip(("attn_out", "mlp_out"), streams, strict=True)):
            near(found.update[layer, n], lengths(at[site, layer]) / lengths(stream), f"{site} {layer}")
            np.testing.assert_allclose(found.along[layer, n], cosines(at[site, layer], stream), atol=1e-6)
        np.testing.assert_allclose(found.cosine[layer], cosines(pre, at["resid_post", layer]), atol=1e-6)


@pytest.mark.parametrize("name", VARIANTS)
def test_sites_of_the_stream_are_those_of_the_forward(name: str):
    trace, _, at = of(name)
    for layer in range(L):
        sites = stream_sites(trace, layer)
        assert tuple(sites) == tuple(site for site in STREAM_SITES if site in block_sites(trace.config, layer))
        for site, tensor in sites.items():
            np.testing.assert_allclose(tensor.double().numpy(), at[site, layer], atol=1e-5, err_msg=f"{site} {layer}")
        if not trace.model.blocks[layer].post_norm:
            added = (sites["resid_mid"] - sites["resid_pre"], sites["resid_post"] - sites["resid_mid"])
            for name_of, difference in zip(("attn_out", "mlp_out"), added, strict=True):
                np.testing.assert_allclose(difference.numpy(), sites[name_of].numpy(), atol=1e-5, err_msg=name_of)


def test_an_unedited_block_of_a_pre_norm_model_does_not_run_its_mlp(monkeypatch):
    plain, post = of("llama")[0], of("post")[0]
    ran = []
    for trace in (plain, post):
        for block in trace.model.blocks:
            block.mlp.register_forward_hook(lambda *_: ran.append(1))
    survey(plain)
    plain.norms()
    assert not ran
    survey(post)
    assert len(ran) == L


@pytest.mark.parametrize("name", VARIANTS)
def test_the_largest_of_each_dimension_and_its_token(name: str):
    _, found, at = of(name)
    for n, (site, layer) in enumerate(found.norms):
        x = at[f"{site}_in", layer]
        token = found.carrier[n]
        near(np.abs(found.largest[n]), np.abs(x).max(0), f"{site} {layer}")
        near(found.largest[n], x[token, np.arange(D)], "signed, at its token")
        for rule, counts in found.outlying.items():
            reach = max(RULES[rule].ratio * np.median(np.abs(x)), RULES[rule].size)
            assert counts[n].tolist() == (np.abs(x) >= reach).sum(1).tolist(), rule


def test_edits_are_in_what_is_measured():
    plain = run(tiny_model(), tokens_of(IDS[0]))
    edited = plain.edit(Edit("zero", 1, 2), Edit("first_token", 1, 0))
    before, after = survey(plain), survey(edited)
    assert np.array_equal(before.mean[:3], after.mean[:3])  # up to the norm that block 1 starts with
    assert np.abs(before.rms[3:] - after.rms[3:]).min(0).max() > 1e-4
    assert np.abs(before.update[1, 0] - after.update[1, 0]).max() > 1e-3
    expected = edited.sites(1, ["attn_out", "resid_pre", "mlp_out", "resid_mid"])
    attn, pre, mlp, mid = (x[0].double().numpy() for x in expected.values())
    near(after.update[1, 0], lengths(attn) / lengths(pre), "attention")
    near(after.update[1, 1], lengths(mlp) / lengths(mid), "MLP")


def test_a_stream_known_by_hand():
    """Every embedding is (3, 4) repeated, but dimension 7 of token 2 is -1000; nothing is added in one layer."""
    model = tiny_model({"positions": "none", "n_layer": 1})
    model.embed.weight.data = torch.tensor([3.0, 4.0]).repeat(V, D // 2)
    model.embed.weight.data[2, 7] = -1000
    model.tie()
    for part in (model.blocks[0].attn.o, model.blocks[0].mlp.down):
        part.weight.data.zero_()
        part.bias.data.zero_()
    found = survey(run(model, tokens_of([1, 2, 1])))
    assert found.norms == (("norm1", 0), ("norm2", 0), ("final", 1))
    assert found.mean[:, 0] == pytest.approx(3.5) and found.variance[:, 0] == pytest.approx(0.25)
    assert found.rms[:, 0] == pytest.approx(np.sqrt(12.5)) and found.norm[:, 2] == pytest.approx(np.sqrt(12.5 * D))
    assert found.divisor[:, 0] == pytest.approx(np.sqrt(0.25 + 1e-5), rel=1e-6)
    assert (found.update == 0).all() and np.isnan(found.along).all()
    assert found.cosine == pytest.approx(1)
    assert found.median.tolist() == [3.5, 3.5, 3.5]  # 72 threes, 71 fours and the thousand
    assert found.largest[0, 7] == -1000 and found.carrier[0, 7] == 1 and found.carrier[0, 6] == 0
    assert found.outlying["x100"].tolist() == [[0, 1, 0]] * 3
    assert found.outlying["x1000"].sum() == 0 and found.outlying["int8"].sum() == 3
    table = outliers(found, "x20", ["final"])
    assert table.to_dict("records") == [
        {"site": "final", "layer": 1, "dimension": 7, "token": 1, "value": -1000.0, "ratio": 1000 / 3.5}
    ]
    assert outliers(found, "massive", ["norm1"]).empty
    assert top_dimensions(found, ["norm2"], 2) == [7, 1]


def test_a_model_without_a_final_norm_has_no_outliers_there():
    _, found, _ = of("mqa")
    assert found.rows(["final"]) == [] and outliers(found, "x20", ["final"]).empty
    assert list(outliers(found, "x20", ["final"]).columns) == ["site", "layer", "dimension", "token", "value", "ratio"]
    assert top_dimensions(found, ["final"], 3) == [0, 1, 2]


def test_outliers_are_the_dimensions_beyond_the_rule_the_largest_ratio_first(monkeypatch):
    _, found, at = of("llama")
    monkeypatch.setitem(module.RULES, "x2", Rule(2, 0.1))
    table = outliers(found, "x2", ["norm2"])
    expected = set()
    for layer in range(L):
        size = np.abs(at["norm2_in", layer])
        expected |= {(layer, int(d)) for d in np.flatnonzero(size.max(0) >= max(2 * np.median(size), 0.1))}
    assert 3 < len(expected) < L * D and set(zip(table["layer"], table["dimension"], strict=True)) == expected
    assert table["ratio"].is_monotonic_decreasing
    row = table.iloc[0]
    x = at["norm2_in", int(row["layer"])]
    near(row["value"], x[int(row["token"]), int(row["dimension"])], "value")
    near(row["ratio"], abs(row["value"]) / np.median(np.abs(x)), "ratio")
    best = top_dimensions(found, ["norm2"], 3)
    assert best[0] == table["dimension"][0] and len(set(best)) == 3
    highest = np.max([ratios(found, n) for n in found.rows(["norm2"])], axis=0)
    assert highest[best].tolist() == sorted(highest, reverse=True)[:3]


def test_the_rules_by_hand():
    assert [limit(rule, 0.5) for rule in RULES.values()] == [500, 500, 50, 10, 6]
    assert limit(RULES["massive"], 0.01) == 100  # the size decides where the median is small
    assert limit(RULES["x20"], 0.0) > 0


@pytest.mark.parametrize("n", [1, 2, 3, 4, 17, 1000, 40_001])
def test_median(n: int):
    x = np.abs(np.random.default_rng(n).standard_normal(n)).astype(np.float32)
    assert middle_of(x) == np.median(x.astype(np.float64))
    assert middle_of(np.zeros(n, np.float32)) == 0
    assert middle_of(np.repeat(x, 3).reshape(3, n)) == np.median(np.repeat(x, 3).astype(np.float64))


def test_moments_keep_their_digits_far_from_zero():
    x = torch.tensor([[4096.0, 4097.0, 4098.0]])
    mean, variance = moments(x)
    assert mean.tolist() == [4097.0] and variance.tolist() == [2 / 3]


def test_one_token_and_progress():
    steps = []
    found = survey(run(tiny_model(), tokens_of([5])), lambda done, total, what: steps.append((done, total, what)))
    assert found.rms.shape == (2 * L + 1, 1) and (found.carrier == 0).all()
    assert steps == [(1, L, "layers"), (2, L, "layers"), (3, L, "layers")]
    arrays = [value for value in vars(found).values() if isinstance(value, np.ndarray)]
    assert found.nbytes == sum(a.nbytes for a in arrays) + sum(a.nbytes for a in found.outlying.values())
