"""The parts of a model from its config, and what passes through them: against real tensors and numbers by hand."""

import itertools

import numpy as np
import pytest
import torch

from model.activations.site_statistics import block_numbers, block_sites, outside_numbers, sizes_of, vector
from model.anatomy.anatomy import ARCHITECTURES, PARTS, n_params
from model.anatomy.blueprint import blueprint, by_component, shares
from model.errors import InputError
from model.gpt.config import PRESETS
from model.gpt.edits import Edit
from model.gpt.tap import SITES, record
from model.tracing.trace import run
from tests.support.models.helpers import (
    VARIANTS,
    E,
    H,
    M,
    assert_close,
    random_ids,
    tiny_config,
    tiny_model,
    tokens_of,
)

T = 7
CONFIGS = {f"variant {name}": tiny_config(changes) for name, changes in VARIANTS.items()} | {
    name: each.config for name, each in ARCHITECTURES.items()
}


@pytest.fixture(scope="module", params=list(VARIANTS))
def traced(request):
    return run(tiny_model(VARIANTS[request.param]), tokens_of(random_ids(1, T)[0]))


# --- shapes and order ---


def test_shapes_are_those_of_the_tensors(traced):
    """Every tensor that a tap sees in a whole forward has the shape that its part says."""
    store = {}
    ids = torch.from_numpy(traced.tokens.ids)[None]
    traced.model(ids, tap=record(tuple(SITES), store))
    seen = {site: tuple(tensor.shape) for (site, layer), tensor in store.items() if layer in (-1, 1, 3)}
    told = {flow.site: flow.shape for part in blueprint(traced.config, T).values() for flow in part.reads + part.gives}
    for site in set(told) - {"ids", "probabilities"}:
        real = seen[site]
        assert told[site] == (real if site == "pos_embed" else real[1:]), site
    assert told["ids"] == (T,)


@pytest.mark.parametrize("name", CONFIGS)
def test_a_part_reads_what_was_given_before(name):
    """Pre-norm, post-norm and parallel: no part reads a tensor that no part before it has given."""
    config = CONFIGS[name]
    # The same vectors by other names: what a norm reads is the stream as the last sum, or the embedding, left it.
    stream = {
        "embed",
        "resid_pre",
        "resid_mid",
        "resid_post",
        "norm1_in",
        "norm2_in",
        "norm1_out",
        "norm2_out",
        "final_in",
    }
    given = set()
    for key, part in blueprint(config, T).items():
        for flow in part.reads:
            assert flow.site in given or (flow.site in stream and given & stream), (key, flow.site)
        given |= {flow.site for flow in part.gives}
    assert key == "output"


@pytest.mark.parametrize("name", CONFIGS)
def test_parameters_are_all_there_once(name):
    config = CONFIGS[name]
    found = shares(config)
    assert set(found) <= set(blueprint(config, T)) & set(PARTS)
    assert sum(share.whole for share in found.values()) == n_params(config)
    assert sum(by_component(found, PARTS).values()) == n_params(config)
    assert sum(share.share for share in found.values()) == pytest.approx(1)
    for key, share in found.items():
        layers = config.n_layer if blueprint(config, T)[key].block else 1
        assert share.whole == layers * share.once == layers * sum(each.size for each in share.tensors)


def test_orders_by_hand():
    def block(config):
        return [key for key, part in blueprint(config, T).items() if part.block]

    attention = ["q", "k", "v", "scores", "softmax", "mix", "o"]
    assert block(PRESETS["gpt2"]) == ["norm1", *attention, "add1", "norm2", "up", "act", "down", "add2"]
    assert block(PRESETS["minigpt"]) == [*attention, "add1", "norm1", "up", "act", "down", "add2", "norm2"]
    rotated = ["q", "k", "v", "rope", "scores", "softmax", "mix", "o"]
    assert block(ARCHITECTURES["pythia-70m"].config) == ["norm1", *rotated, "norm2", "up", "act", "down", "add2"]
    normed = ["norm1", "q", "k", "v", "qk_norm", *rotated[3:], "add1", "norm2", "gate", "up", "act", "down", "add2"]
    assert block(PRESETS["qwen3-8b"]) == normed


def test_formulas_follow_the_config():
    def formulas(config):
        return {key: part.formula for key, part in blueprint(config, T).items()}

    gpt2, llama = formulas(PRESETS["gpt2"]), formulas(ARCHITECTURES["llama-3.1-8b"].config)
    assert gpt2["q"] == "q = W_Q x + b_q" and llama["q"] == "q = W_Q x"
    assert gpt2["unembed"] == "z = W_E x" and llama["unembed"] == "z = W_U x"
    assert gpt2["norm1"].endswith("⊙ g + b") and llama["norm1"] == "y = x / √(mean(x²) + ε) ⊙ g"
    assert "√64" in gpt2["scores"] and "√128" in llama["scores"]
    assert "500000^(−2i/128)" in llama["rope"] and "8192" in llama["rope"] and "rope" not in gpt2
    assert formulas(PRESETS["vanilla-decoder"])["embed"] == "x = W_E[id] · √512"
    assert formulas(ARCHITECTURES["pythia-70m"].config)["rope"].endswith("10000^(−2i/16)")  # a quarter of 64


def test_no_tokens_are_no_prompt():
    with pytest.raises(InputError, match="T: 0"):
        blueprint(tiny_config(), 0)


# --- what passes through ---


def test_sizes_by_hand():
    found = sizes_of(torch.tensor([[3.0, -4.0, 0.0, 0.0], [1.0, 1.0, 1.0, 1.0]]))
    assert_close(found.rms, [2.5, 1], 0)
    assert_close(found.mean, [-0.25, 1], 0)
    assert_close(found.largest, [-4, 1], 0)
    assert found.place.tolist() == [1, 0] and found.n == 4


@pytest.mark.parametrize("layer", [0, 2])
def test_what_passes_is_what_the_sites_are(traced, layer):
    """Every size against the tensor of that site, worked out anew in float64."""
    passed = block_numbers(traced, layer)
    for site in block_sites(traced.config):
        x = traced.sites(layer, [site])[site][0].double().numpy()
        found = passed.sizes[site]
        assert_close(found.rms, np.sqrt((x**2).mean(-1)), 1e-5, site)
        assert_close(found.mean, x.mean(-1), 1e-5, site)
        assert_close(np.abs(found.largest), np.abs(x).max(-1), 1e-5, site)
        assert_close(np.take_along_axis(x, found.place[..., None].astype(int), -1)[..., 0], found.largest, 1e-5, site)
    pre = traced.sites(layer, ["mlp_pre"])["mlp_pre"][0].numpy()
    assert_close(passed.active, (pre > 0).mean(-1), 1e-6)
    heads = passed.sizes["heads"]
    z = traced.sites(layer, ["z"])["z"][0]
    assert heads.n == z.shape[0] * z.shape[2]
    assert_close(heads.rms**2, (passed.sizes["z"].rms ** 2).mean(0), 1e-5)  # side by side: the mean of mean squares


def test_rows_are_those_of_the_pattern(traced):
    passed = block_numbers(traced, 1)
    for head, t in itertools.product(range(traced.config.n_head), range(T)):
        row, scores = traced.pattern(1, head)[t, : t + 1].astype(float), traced.scores(1, head)[t, : t + 1]
        assert passed.rows.top[head, t] == pytest.approx(row.max(), abs=1e-6)
        assert row[passed.rows.key[head, t]] == pytest.approx(row.max(), abs=1e-6)
        entropy = -sum(p * np.log(p) for p in row if p > 0)
        assert passed.rows.entropy[head, t] == pytest.approx(entropy, abs=1e-5)
        assert passed.rows.top_score[head, t] == pytest.approx(scores.max(), abs=1e-5)
        assert passed.rows.mean_score[head, t] == pytest.approx(scores.mean(), abs=1e-5)


def test_a_rotation_keeps_lengths(traced):
    passed = block_numbers(traced, 1)
    if traced.config.positions == "rope":
        assert_close(passed.sizes["q"].rms, passed.sizes["q_rot"].rms, 1e-5)
        assert_close(passed.sizes["k"].rms, passed.sizes["k_rot"].rms, 1e-5)
    if traced.config.qk_norm:
        assert np.abs(passed.sizes["q_raw"].rms - passed.sizes["q"].rms).max() > 0.01
        x = traced.sites(1, ["resid_pre" if traced.config.norm_placement == "post" else "norm1_out"])
        with torch.inference_mode():
            raw = traced.model.blocks[1].attn.k(next(iter(x.values()))[0]).numpy()
        each = raw.reshape(T, -1, traced.config.d_head).astype(float)
        assert_close(passed.sizes["k_raw"].rms, np.sqrt((each**2).mean(-1)).T, 1e-5)
    else:
        assert "q_raw" not in passed.sizes


@pytest.mark.parametrize("token", [0, 4])
def test_before_and_after_the_blocks(traced, token):
    store = {}
    traced.model(
        torch.from_numpy(traced.tokens.ids)[None], tap=record(("embed", "pos_embed", "final_in", "final_out"), store)
    )
    found = outside_numbers(traced, token)
    for (site, _), tensor in store.items():
        x = tensor.reshape(T, -1)[token].detach().double()
        assert found[site].rms[0] == pytest.approx(x.square().mean().sqrt().item(), abs=1e-5), site
        assert found[site].mean[0] == pytest.approx(x.mean().item(), abs=1e-5), site
    assert set(found) == {site for site, _ in store} | {"resid_pre", "resid_post"}
    assert found["resid_pre"].rms[0] == pytest.approx(np.sqrt((traced.hidden(0)[token] ** 2).mean()), abs=1e-5)
    last = traced.hidden(traced.config.n_layer)[token]
    assert found["resid_post"].rms[0] == pytest.approx(np.sqrt((last**2).mean()), abs=1e-5)


def test_edits_are_seen():
    trace = run(tiny_model(VARIANTS["gpt2"]), tokens_of(random_ids(1, T)[0]))
    edited = trace.edit(Edit("zero", 1, 2), Edit("block_edge", query=4, key=1))
    passed = block_numbers(edited, 1)
    assert passed.sizes["z"].rms[2].max() == 0 and passed.sizes["z"].rms[1].min() > 0
    assert np.isfinite(passed.rows.mean_score).all()
    scores = edited.scores(1, 0)[4, :5]
    assert np.isnan(scores[1]) and passed.rows.mean_score[0, 4] == pytest.approx(np.nanmean(scores), abs=1e-5)


def test_one_vector_and_its_bytes(traced):
    passed = block_numbers(traced, 1)
    one = vector(passed.sizes["q"], 3, 2)
    assert (one.n, one.rms) == (traced.config.d_head, pytest.approx(passed.sizes["q"].rms[2, 3]))
    assert vector(passed.sizes["mlp_post"], 3).n == M and H > 2 and E
    arrays = [each for sizes in passed.sizes.values() for each in (sizes.rms, sizes.mean, sizes.largest, sizes.place)]
    arrays += [*vars(passed.rows).values(), passed.active]
    assert passed.nbytes == sum(each.nbytes for each in arrays)


def test_what_is_not_there_is_told():
    trace = run(tiny_model(VARIANTS["llama"]), tokens_of(random_ids(1, T)[0]))
    for layer in (-1, 3):
        with pytest.raises(InputError):
            block_numbers(trace, layer)
    for token in (-1, T):
        with pytest.raises(InputError):
            outside_numbers(trace, token)


def test_one_token():
    for changes in VARIANTS.values():
        passed = block_numbers(run(tiny_model(changes), tokens_of([3])), 0)
        assert_close(passed.rows.entropy, np.zeros((H, 1)), 0)
        assert_close(passed.rows.top, np.ones((H, 1)), 0)
