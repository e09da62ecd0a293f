"""A norm step by step is what the model computes; LayerNorm by hand; and what BatchNorm does instead."""

import math

import numpy as np
import pytest
import torch

from model.activations.norm_walk import (
    SITES,
    batch_norm,
    compare_batch,
    norm_input,
    norm_of,
    norm_output,
    norms_of,
    quantiles,
    walk,
    walk_vector,
)
from model.errors import InputError
from model.gpt.edits import Edit
from model.gpt.norm import Norm
from model.gpt.tap import compose, identity, record
from model.tracing.trace import Trace, run
from tests.support.models.helpers import (
    ALL_VARIANTS,
    MORE_VARIANTS,
    VARIANTS,
    D,
    L,
    assert_close,
    random_ids,
    steer,
    tiny_config,
    tiny_model,
    tokens_of,
)

T = 11
IDS = random_ids(1, T, seed=5)[0]
EDITS = (Edit("scale", 0, 1, factor=-2.0), Edit("previous_token", 1, 2), Edit("zero", 2, 0))
HAND = [0.1, 0.3, 98.5, 123.7, 0.2, 201.3]


def traced(name: str = "gpt2", ids=IDS, edits=()) -> Trace:
    return run(tiny_model(ALL_VARIANTS[name]), tokens_of(ids), edits=edits)


def fresh(kind: str, width: int = 6, eps: float = 1e-5) -> Norm:
    """A norm with gain 1 and bias 0."""
    return Norm(tiny_config({"norm": kind, "norm_eps": eps}), width)


def steps_in_float64(norm: Norm, x: np.ndarray) -> np.ndarray:
    """The textbook formula, on its own. [..., D]"""
    x = x.astype(np.float64)
    mean = x.mean(-1, keepdims=True) if norm.kind == "layernorm" else 0.0
    y = (x - mean) / np.sqrt(np.mean((x - mean) ** 2, axis=-1, keepdims=True) + norm.eps)
    y = y * norm.weight.detach().numpy()
    return y if norm.bias is None else y + norm.bias.detach().numpy()


@pytest.mark.parametrize("name", MORE_VARIANTS)
def test_the_norms_that_a_model_has_read_what_they_read_in_the_run(name: str):
    trace, store = traced(name), {}
    names = [f"{site}_in" for site in SITES]
    trace.model(torch.from_numpy(trace.tokens.ids)[None], tap=record(names, store))
    assert norms_of(trace.config) == tuple((layer, site.removesuffix("_in")) for site, layer in store)
    for (site, layer), x in store.items():
        assert_close(
            norm_input(trace, layer, site.removesuffix("_in")), x[0], 5e-6 * max(1.0, float(x.abs().max())), site
        )
    if ("norm1_in", 0) not in store:
        with pytest.raises(InputError, match=r"no such norm.*norm1.*after1, after2, final"):
            norm_of(trace.model, 0, "norm1")


def test_the_norm_of_the_embeddings_and_layers_without_one():
    trace = traced("bloom")
    for layer in (0, 3, True):
        with pytest.raises(InputError, match="norm of the embeddings is at layer -1"):
            norm_of(trace.model, layer, "embed_norm")
    config = tiny_config({"unnormed": (0,)})
    assert norms_of(config)[:2] == ((0, "norm2"), (1, "norm1"))
    with pytest.raises(InputError, match="layer has no such norm"):
        norm_of(tiny_model({"unnormed": (0,)}), 0, "norm1")


# --- by hand ---


def test_layernorm_worked_by_hand():
    """With a calculator: the sum is 424.1, the sum of squares 65525.77, so that

    mean = 424.1 / 6 = 70.683333, variance = 65525.77 / 6 - mean^2 = 10920.961667 - 4996.133611 = 5924.828056,
    standard deviation = 76.972905, and e.g. the last value is (201.3 - 70.683333) / 76.972905 = 1.696917.
    """
    found = walk_vector(fresh("layernorm"), np.array(HAND, np.float32))
    assert found.mean == pytest.approx(70.683333, abs=1e-5)
    assert found.spread == pytest.approx(5924.828056, abs=1e-3)
    assert math.sqrt(found.spread) == pytest.approx(76.972905, abs=1e-5)
    assert found.divisor == pytest.approx(76.972905, abs=1e-5)  # eps = 0.00001 moves the eighth decimal
    centered = [-70.583333, -70.383333, 27.816667, 53.016667, -70.483333, 130.616667]
    assert found.centered == pytest.approx(centered, abs=1e-5)
    assert found.normalized == pytest.approx([-0.916989, -0.914391, 0.361383, 0.688771, -0.915690, 1.696917], abs=1e-6)
    assert found.model_out == pytest.approx(found.normalized, abs=1e-6) and found.gap < 1e-6


def test_rmsnorm_worked_by_hand():
    """Mean square 65525.77 / 6 = 10920.961667, its root 104.503405; 201.3 / 104.503405 = 1.926253."""
    found = walk_vector(fresh("rmsnorm"), np.array(HAND, np.float32))
    assert found.mean is None and found.bias is None
    assert found.spread == pytest.approx(10920.961667, abs=1e-3)
    assert found.normalized == pytest.approx([0.000957, 0.002871, 0.942553, 1.183693, 0.001914, 1.926253], abs=1e-6)
    assert found.out == pytest.approx(found.model_out, abs=1e-6)


def test_gain_bias_and_eps_by_hand():
    """x = (1, 3): mean 2, variance 1; with eps 3 the divisor is 2, so n = (-0.5, 0.5)."""
    norm = fresh("layernorm", 2, eps=3.0)
    with torch.no_grad():
        norm.weight.copy_(torch.tensor([4.0, 10.0]))
        norm.bias.copy_(torch.tensor([1.0, -1.0]))
    found = walk_vector(norm, np.array([1, 3], np.float32))
    assert (found.mean, found.spread, found.divisor, found.eps) == (2, 1, 2, 3)
    assert found.normalized.tolist() == [-0.5, 0.5] and found.scaled.tolist() == [-2, 5]
    assert found.out.tolist() == found.model_out.tolist() == [-1, 4] and found.gap == 0


def test_batch_norm_by_hand():
    """Columns (1, 3) and (5, 5): mean 2 and 5, variance 1 and 0. Without eps the first becomes (-1, 1)."""
    x = torch.tensor([[1.0, 5.0], [3.0, 5.0]])
    assert batch_norm(x, 3.0).tolist() == [[-0.5, 0.0], [0.5, 0.0]]


# --- on every way a block can be wired ---


@pytest.mark.parametrize("edits", [(), EDITS], ids=["plain", "edited"])
@pytest.mark.parametrize("name", VARIANTS)
def test_a_walk_is_what_the_run_computed(name: str, edits):
    trace = traced(name, edits=edits)
    store: dict = {}
    with torch.no_grad():
        sites = [f"{site}_{what}" for site in ("norm1", "norm2", "final") for what in ("in", "scale", "out")]
        trace.model(IDS[None], tap=compose(trace.tap or identity, record(sites, store)))
    places = norms_of(trace.config)
    assert len(places) == 2 * L + trace.config.final_norm
    for layer, site in places:
        x, norm = norm_input(trace, layer, site), norm_of(trace.model, layer, site)
        what = f"{site} of layer {layer}"
        assert x.shape == (T, D) and x.dtype == np.float32
        assert_close(x, store[f"{site}_in", layer][0], 1e-4, f"read by {what}")
        assert_close(norm_output(norm, x), store[f"{site}_out", layer][0], 1e-4, f"written by {what}")
        for position in (0, T - 1):
            found = walk(trace, layer, site, position)
            assert_close(found.out, steps_in_float64(norm, x[position]), 1e-12, what)
            assert_close(found.model_out, norm_output(norm, x)[position], 0, f"own output of {what}")
            assert found.gap == np.abs(found.out - found.model_out).max() < 3e-6
            assert found.divisor == pytest.approx(float(store[f"{site}_scale", layer][0, position, 0]), rel=1e-4)
            assert_close(found.centered / found.divisor * found.gain, found.scaled, 1e-13)
            assert (found.mean is None) == (trace.config.norm == "rmsnorm")
            if found.mean is not None:
                assert found.normalized.mean() == pytest.approx(0, abs=1e-14)
            assert np.mean(found.normalized**2) == pytest.approx(found.spread / (found.spread + found.eps), abs=1e-12)


@pytest.mark.parametrize("name", ["gpt2", "post"])
def test_a_tap_that_moves_the_stream_is_seen(name: str):
    """Also one that is not made of edits, and that changes what the final norm reads."""

    def tap(site, layer, x):
        return 2 * x if site == "final_in" else steer(site, layer, x)

    model = tiny_model(VARIANTS[name])
    trace, store = run(model, tokens_of(IDS), tap=tap), {}
    with torch.no_grad():
        model(IDS[None], tap=compose(tap, record(["norm1_in", "final_in"], store)))
    assert_close(norm_input(trace, 1, "norm1"), store["norm1_in", 1][0], 1e-4)
    if name == "gpt2":
        assert_close(norm_input(trace, L, "final"), store["final_in", L][0], 1e-4)


@pytest.mark.parametrize("name", VARIANTS)
def test_one_token_is_enough(name: str):
    trace = traced(name, ids=IDS[:1])
    for layer, site in norms_of(trace.config):
        assert walk(trace, layer, site, 0).gap < 3e-6
        found = compare_batch(norm_of(trace.model, layer, site), norm_input(trace, layer, site))
        assert found.own_later is found.batch_later is None and found.batch_alone == 0 < found.own_alone


# --- BatchNorm ---


@pytest.mark.parametrize("name", VARIANTS)
def test_batch_norm_reads_later_tokens_and_the_models_norm_does_not(name: str):
    trace = traced(name)
    for layer, site in norms_of(trace.config):
        norm, x = norm_of(trace.model, layer, site), norm_input(trace, layer, site)
        found = compare_batch(norm, x)
        assert found.own_later == 0 and found.batch_alone == 0
        module = torch.nn.BatchNorm1d(D, eps=norm.eps, affine=False).double().train()
        whole, less = (module(torch.from_numpy(part).double()).numpy() for part in (x, x[:-1]))
        assert_close(batch_norm(torch.from_numpy(x).double(), norm.eps), whole, 1e-12)
        assert found.batch_later == pytest.approx(np.abs(whole[0] - less[0]).max(), rel=1e-9)
        assert found.batch_later > 0.1
        assert_close(found.batch_tokens, np.sqrt((whole**2).mean(1)), 1e-12)
        assert_close(found.batch_dimensions, whole.std(0), 1e-12)
        gain, bias = norm.weight.detach().numpy(), 0 if norm.bias is None else norm.bias.detach().numpy()
        own = (steps_in_float64(norm, x) - bias) / gain
        assert_close(found.own_tokens, np.sqrt((own**2).mean(1)), 1e-9)
        assert_close(found.own_dimensions, own.std(0), 1e-9)
        assert found.own_alone == pytest.approx(np.abs(own[0]).max(), rel=1e-9)


# --- all norms, and what is refused ---


@pytest.mark.parametrize("name", VARIANTS)
def test_quantiles_of_gain_and_bias(name: str):
    model = tiny_model(VARIANTS[name])
    found, places = quantiles(model), norms_of(model.config)
    assert set(found) == ({"gain", "bias"} if model.config.norm == "layernorm" and model.config.norm_bias else {"gain"})
    for key, part in (("gain", "weight"), ("bias", "bias")):
        for n, place in enumerate(places if key in found else ()):
            values = getattr(norm_of(model, *place), part).detach().numpy()
            assert found[key][n] == pytest.approx(np.percentile(values.astype(float), [5, 50, 95]), abs=1e-12)


@pytest.mark.parametrize(
    "place", [(0, "norm3"), (-1, "norm1"), (L, "norm2"), (0, "final"), (L + 1, "final"), (0, None)], ids=str
)
def test_norms_that_are_not_there(place):
    with pytest.raises(InputError):
        norm_input(traced(), *place)


def test_a_final_norm_that_is_not_there_and_positions():
    for name in ("post", "mqa"):
        trace = traced(name)
        assert (L, "final") not in norms_of(trace.config)
        with pytest.raises(InputError, match="no final norm"):
            walk(trace, L, "final", 0)
    for position in (-1, T):
        with pytest.raises(InputError, match="position"):
            walk(traced(), 0, "norm1", position)
