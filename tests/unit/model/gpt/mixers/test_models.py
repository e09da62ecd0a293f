"""Whole models of every mixer: cached as uncached, nothing looks ahead, what a trace shows makes the outputs."""

import dataclasses
import json

import numpy as np
import pytest
import torch

from model.anatomy.anatomy import n_params, weights
from model.errors import InputError
from model.generation.cache_costs import cache_bytes, state_bytes
from model.generation.generate import generate
from model.generation.requests import check_request
from model.generation.strategies import STRATEGIES, DecodingPlan, Strategy
from model.gpt.cache import KVCache
from model.gpt.config import ModelConfig, from_dict, to_dict
from model.gpt.edits import Edit
from model.gpt.mixers.names import BOUNDED, CHANNELS, MIXERS
from model.gpt.tap import SITES, block_sites, identity, record
from model.gpt.transformer import Transformer
from model.loading.checkpoint import build, load_folder, save_folder
from model.tracing.patterns import patterns_and_logits
from model.tracing.trace import run
from tests.support.models.helpers import H, L, V, assert_close, random_ids, tiny_config, tiny_model, tokens_of, written

T, WINDOW = 17, 5
HYBRID = ("softmax", "mamba", "delta")
MIXED = [*MIXERS[1:], HYBRID, ("sliding_window", "softmax", "linear"), ("gated_delta", "short_conv", "softmax")]
WIRED = {
    "plain": {},
    "modern": {
        "positions": "rope",
        "norm": "rmsnorm",
        "mlp": "swiglu",
        "qk_norm": True,
        "norm_bias": False,
        "output_gate": True,
    },
    "post": {"norm_placement": "post", "positions": "sinusoidal", "n_kv_head": H},
}
# Two states a head, and as many that share a query and a key; all sizes differ.
DELTA = {"n_delta_head": 2 * H, "n_delta_key": H, "d_delta_key": 10, "d_delta_value": 6, "short_conv_bias": True}
NEAR = 1e-10  # of float64: the sums of a text, in another order


def model_of(mixer, wired: str = "plain", **changes) -> Transformer:
    return tiny_model({**WIRED[wired], "mixer": mixer, "window": WINDOW, **DELTA, **changes})


@torch.no_grad()
def decode(model: Transformer, ids: torch.Tensor, cache: KVCache, sizes: list[int]) -> torch.Tensor:
    return torch.cat([model(chunk, cache=cache) for chunk in ids.split(sizes, 1)], 1)


@pytest.mark.parametrize("wired", WIRED)
@pytest.mark.parametrize("mixer", MIXED, ids=str)
def test_any_chunking_and_a_tap_give_the_uncached_forward(exact, mixer, wired: str):
    model, ids = model_of(mixer, wired), random_ids(2, T)
    with torch.no_grad():
        full = model(ids)
        assert_close(model(ids, tap=identity), full, NEAR, "tap")
    for sizes in ([T], [1] * T, [5, 1, 7, 4]):
        assert_close(decode(model, ids, KVCache.empty(model.config, 2, T), sizes), full, NEAR, str(sizes))


def test_a_window_of_one_token(exact):
    model, ids = model_of("sliding_window", window=1), random_ids(2, T)
    with torch.no_grad():
        full = model(ids)
    assert_close(decode(model, ids, KVCache.empty(model.config, 2, T), [5, 1, 1, 10]), full, NEAR)


@pytest.mark.parametrize("mixer", MIXED, ids=str)
def test_nothing_looks_ahead_and_everything_looks_back(mixer):
    model, ids = model_of(mixer), random_ids(1, T)
    other = ids.clone()
    other[0, 9] = (other[0, 9] + 1) % V
    with torch.no_grad():
        moved = (model(ids) - model(other)).abs().amax(-1)[0]
    assert not moved[:9].any() and moved[9:].all()


def test_a_window_as_long_as_the_text_is_full_attention(exact):
    wide, full = model_of("sliding_window", window=T), model_of("softmax")
    ids = random_ids(2, T)
    with torch.no_grad():
        assert_close(wide(ids), full(ids), NEAR)
        assert (model_of("sliding_window")(ids) - full(ids)).abs().max() > 0.01


@pytest.mark.parametrize("mixer", MIXED, ids=str)
def test_joined_projections_give_the_same_logits(exact, mixer):
    model, ids = model_of(mixer, "modern", qk_norm=False), random_ids(2, T)
    with torch.no_grad():
        apart = model(ids)
        model.join()
        assert_close(model(ids), apart, NEAR)


@pytest.mark.parametrize("mixer", BOUNDED)
def test_every_weight_has_a_gradient_and_training_starts_near_chance(mixer):
    torch.manual_seed(0)
    model, ids = Transformer(tiny_config({"mixer": mixer, "window": WINDOW})), random_ids(2, T)
    loss = torch.nn.functional.cross_entropy(model(ids)[:, :-1].flatten(0, 1), ids[:, 1:].flatten())
    loss.backward()
    assert abs(loss.item() - np.log(V)) < 0.5
    assert not [name for name, weight in model.named_parameters() if weight.grad is None or not weight.grad.any()]


# --- the cache -----------------------------------------------------------------------------------------


def test_sequences_are_copied_and_reordered_with_their_states(exact):
    model, ids = model_of(HYBRID), random_ids(2, 9)
    cache = KVCache.empty(model.config, 2, T)
    decode(model, ids, cache, [9])
    index, more = torch.tensor([1, 1, 0]), random_ids(3, 4, seed=7)
    with torch.no_grad():
        expected = model(torch.cat((ids[index], more), 1))[:, 9:]
    assert_close(decode(model, more, cache.rows(index), [4]), expected, NEAR)


def test_a_state_goes_back_to_the_last_forward_and_to_nothing(exact):
    model, ids, other = model_of(HYBRID), random_ids(1, T), random_ids(1, 3, seed=5)
    cache = KVCache.empty(model.config, 1, T)
    decode(model, ids[:, :12], cache, [9, 3])
    with pytest.raises(InputError, match="cannot be removed from it again"):
        cache.truncate(10)
    assert cache.length == 12
    cache.truncate(9)
    with torch.no_grad():
        expected = model(torch.cat((ids[:, :9], other), 1))[:, 9:]
    assert_close(decode(model, other, cache, [2, 1]), expected, NEAR)
    cache.truncate(0)
    with torch.no_grad():
        assert_close(decode(model, ids, cache, [T]), model(ids), NEAR)


def test_a_forward_that_broke_off_leaves_the_states_as_they_were(exact):
    model, ids = model_of(("mamba", "delta", "softmax")), random_ids(1, T)
    cache = KVCache.empty(model.config, 1, T)
    decode(model, ids[:, :8], cache, [8])

    def break_off(site: str, layer: int, x: torch.Tensor) -> torch.Tensor:
        if (site, layer) == ("scores", 2):
            raise InterruptedError
        return x

    with pytest.raises(InterruptedError):
        model(ids[:, 8:12], cache=cache, tap=break_off)
    with torch.no_grad():
        assert_close(decode(model, ids[:, 8:], cache, [9]), model(ids)[:, 8:], NEAR)


@pytest.mark.parametrize("mixer", MIXED, ids=str)
def test_bytes_of_keys_values_and_states(mixer):
    model = model_of(mixer)
    cache = KVCache.empty(model.config, 3, T)
    decode(model, random_ids(3, T), cache, [T])
    assert cache.nbytes == cache_bytes(model.config, 3, T) + state_bytes(model.config, 3)


@pytest.mark.parametrize("mixer", MIXED, ids=str)
def test_several_strategies_write_what_each_writes_alone(mixer):
    """Greedy, sampled and beams in one batch: states are copied, reordered and dropped with their rows."""
    model, prompt = model_of(mixer), random_ids(1, 6)[0].tolist()
    beams = Strategy(method="beam", options=(("beams", 3),))
    strategies, plan = [STRATEGIES["greedy"], beams, STRATEGIES["temperature"]], DecodingPlan(8)
    together = list(generate(model, prompt, strategies, plan, V))
    for row, strategy in enumerate(strategies[:2]):
        assert written(together, row) == written(list(generate(model, prompt, [strategy], plan, V)))
    ids = list(prompt)
    with torch.no_grad():
        for _ in range(8):
            ids.append(int(model(torch.tensor([ids]))[0, -1].argmax()))
    assert written(together, 0)[0] == ids[6:]


# --- the trace -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("edits", [(), (Edit("zero", 0, 1), Edit("scale", 1, 2, factor=3.0))], ids=["plain", "edited"])
@pytest.mark.parametrize("mixer", MIXED, ids=str)
def test_matrix_times_values_is_the_output(exact, mixer, edits):
    model = model_of(mixer, "modern")
    trace = run(model, tokens_of(random_ids(1, T)[0]), edits=edits)
    for layer in range(L):
        softmax = trace.config.is_attention(layer)
        mixed = "mixed" if "mixed" in block_sites(model.config, layer) else "z"
        at = trace.sites(layer, ["v", mixed])
        v, out = (side_by_side(x[0], trace.config, layer) for x in (at["v"], at[mixed]))
        if softmax and edits:
            continue  # z is what the edits made of it
        for index in (0, 1, len(out) - 1):
            shared = v[index // trace.config.group_size] if len(v) < len(out) else v[index]
            matrix = torch.from_numpy(trace.mixing(layer, index))
            assert_close(matrix @ shared, out[index], NEAR, f"{layer} {index}")
            assert not matrix.triu(1).any()


def side_by_side(x: torch.Tensor, config: ModelConfig, layer: int) -> torch.Tensor:
    """Channels one after the other, as many as share a matrix: [H, T, E'] -> [matrices, T, E"]; others as they are."""
    if config.mixer_of(layer) not in CHANNELS:
        return x
    return x.mT.flatten(0, 1).unflatten(0, (config.matrices(layer), -1)).mT


@pytest.mark.parametrize("mixer", MIXED, ids=str)
def test_maps_metrics_and_thumbnails_show_the_same_weights(mixer):
    model, ids = model_of(mixer), random_ids(1, T)
    trace = run(model, tokens_of(ids[0]))
    with torch.no_grad():
        patterns, logits = patterns_and_logits(model, ids[0])
        assert_close(logits, torch.from_numpy(trace.logits), 1e-4)
    metrics = trace.head_metrics()
    for layer in range(L):
        for head in range(H):
            pattern = trace.pattern(layer, head)
            assert_close(pattern.sum(1), np.ones(T), 1e-6)
            assert not np.triu(pattern, 1).any() and (pattern >= 0).all()
            # A row of the gated rule is divided by its sum: if that is small, rounding errors are large.
            assert_close(
                patterns[layer, head], pattern, 1e-3 if model.config.mixer_of(layer) == "gated_delta" else 1e-5
            )
            assert abs(metrics.loc[(layer, head), "first_token"] - pattern[1:, 0].mean()) < 1e-5
            lit = np.tril(pattern)[np.tril_indices(T)]
            shown = trace.thumbnails[layer, head][np.tril_indices(T)]
            assert np.abs(np.sqrt(lit) * 254 - shown).max() < 1


@pytest.mark.parametrize("mixer", MIXED, ids=str)
def test_a_block_has_the_sites_that_are_named(mixer):
    model = model_of(mixer, "modern")
    trace = run(model, tokens_of(random_ids(1, T)[0]))
    for layer in range(L):
        store: dict = {}
        tap = record(block_sites(model.config, layer), store)
        model.blocks[layer](trace.residuals[layer][None], layer, model.prepare(0, T, tap=tap))
        assert tuple(site for site, _ in store) == block_sites(model.config, layer)
        others = [site for site in SITES if site not in block_sites(model.config, layer)]
        model.blocks[layer](trace.residuals[layer][None], layer, model.prepare(0, T, tap=record(others, store)))
        assert len(store) == len(block_sites(model.config, layer))  # it has no other


def test_a_head_without_attention_can_be_ablated_and_nothing_else(exact):
    model = model_of(HYBRID)
    trace = run(model, tokens_of(random_ids(1, T)[0]))
    zeroed = trace.edit(Edit("zero", 1, 2))
    width = model.config.z_width(1)
    model.blocks[1].attn.o.weight.data[:, 2 * width : 3 * width] = 0
    with torch.no_grad():
        assert_close(zeroed.logits, model(random_ids(1, T))[0], NEAR)


@pytest.mark.parametrize("edit", [Edit("uniform", 1, 0), Edit("block_edge", query=4, key=1)], ids=lambda e: e.kind)
def test_edits_of_patterns_are_refused_where_there_are_none(edit: Edit):
    trace = run(model_of(HYBRID), tokens_of(random_ids(1, T)[0]))
    with pytest.raises(InputError, match="no attention scores") as caught:
        trace.edit(edit)
    assert caught.value.hint == "Choose a layer with attention: 0."


def test_a_window_cannot_be_blocked_whole():
    trace = run(model_of("sliding_window"), tokens_of(random_ids(1, T)[0]))
    edits = [Edit("block_edge", 0, 1, query=9, key=key) for key in range(5, 9)]
    assert np.isnan(trace.edit(*edits).scores(0, 1)[9, :9]).all()
    with pytest.raises(InputError, match="no key left to attend to"):
        trace.edit(*edits, Edit("block_edge", 0, 1, query=9, key=9))


def test_an_edit_of_a_window_finds_its_keys_in_a_cache(exact):
    """It may read a token that has left the window, so that the cache must keep them all."""
    model, ids = model_of("sliding_window"), random_ids(1, T)
    edits = [Edit("first_token", 1, 2), Edit("block_edge", 0, 1, query=12, key=10)]
    trace = run(model, tokens_of(ids[0]), edits=edits)
    cache, parts = KVCache.empty(model.config, 1, T, whole=True), []
    with torch.no_grad():
        for chunk in ids.split([9, 4, 4], 1):
            parts.append(model(chunk, cache=cache, tap=trace.tap))
        assert_close(torch.cat(parts, 1)[0], trace.logits, NEAR)
        with pytest.raises(ValueError, match="whole=True"):
            model(ids, cache=KVCache.empty(model.config, 1, T), tap=trace.tap)


def test_what_a_layer_does_not_have_is_said():
    trace = run(model_of(HYBRID), tokens_of(random_ids(1, T)[0]))
    for layer in (1, 2):
        with pytest.raises(InputError, match="no attention scores"):
            trace.scores(layer, 0)
    with pytest.raises(InputError, match="no queries and keys"):
        trace.qkv(1, 0)
    assert trace.qkv(2, 3).v.shape == (T, trace.config.d_head)
    with pytest.raises(InputError, match="head does not exist"):
        trace.mixing(2, H)
    assert trace.mixing(1, trace.config.d_inner - 1).shape == (T, T)


# --- files ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mixer", MIXED, ids=str)
def test_a_folder_keeps_the_mixers_and_every_weight(mixer, tmp_path):
    model, ids = model_of(mixer, "modern"), random_ids(1, T)
    save_folder(tmp_path, model)
    config, state = load_folder(tmp_path)
    assert config == model.config == from_dict(json.loads(json.dumps(to_dict(model.config))))
    assert hash(config) == hash(model.config)
    with torch.no_grad():
        assert torch.equal(build(config, state)(ids), model(ids))


@pytest.mark.parametrize("mixer", MIXED, ids=str)
def test_the_weights_are_counted_from_the_config(mixer):
    model = model_of(mixer, "modern")
    listed = {weight.name: weight.shape for weight in weights(model.config)}
    assert listed == {name: tuple(weight.shape) for name, weight in model.named_parameters()}
    assert n_params(model.config) == sum(weight.numel() for weight in model.parameters())


def test_new_models_differ_by_layer_in_their_mixer_only():
    model = model_of(HYBRID)
    assert [type(block.attn).__name__ for block in model.blocks] == ["Attention", "Mamba", "LinearAttention"]
    assert dataclasses.replace(model.config, mixer=["linear"] * L).mixer == "linear"


def test_a_draft_is_refused_where_tokens_cannot_be_taken_back():
    from model.generation.requests import Draft, Request

    with pytest.raises(InputError, match="cannot be removed from it again"):
        check_request(model_of(HYBRID), [1, 2], Draft("ngram", 2), Request(size=V))
