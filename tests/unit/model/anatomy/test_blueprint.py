"""The parts of a model from its config, and what passes through them: against real tensors and numbers by hand."""

import itertools

import numpy as np
import pytest
import torch

from model.activations.site_statistics import block_numbers, block_sites, outside_numbers, sizes_of, vector
from model.anatomy.anatomy import PARTS, n_params
from model.anatomy.architectures import ARCHITECTURES
from model.anatomy.blueprint import blueprint
from model.anatomy.mixers.kinds import keys_of, kinds, layers_with
from model.anatomy.parameter_shares import by_component, shares
from model.errors import InputError
from model.gpt.edits import Edit
from model.gpt.presets import PRESETS
from model.gpt.rope_scaling import RopeScaling
from model.gpt.tap import SITES, record
from model.tracing.trace import run
from tests.support.models.helpers import (
    MORE_VARIANTS,
    OWN_LAYERS,
    VARIANTS,
    H,
    M,
    assert_close,
    random_ids,
    tiny_config,
    tiny_model,
    tokens_of,
)
from tests.support.models.mixtures import MIXTURES
from tests.support.models.states import STATES

T = 7
ALL = VARIANTS | MORE_VARIANTS | MIXTURES
CONFIGS = {f"variant {name}": tiny_config(changes) for name, changes in (ALL | STATES | OWN_LAYERS).items()} | {
    name: each.config for name, each in ARCHITECTURES.items()
}
OF_EXPERTS = {"expert_pre", "expert_up", "expert_post"}  # of an expert and its tokens, not of all tokens
# The tensors between the parts of a mixer with channels that a tap sees, by their names as sites.
OF_CHANNELS = {"v": "channels", "mixed": "state_out", "z": "gated"}
BETWEEN = {"conv_in", "open", "steps", "keys", "rates", "attn_alone"}  # those that no tap sees


@pytest.fixture(scope="module", params=list(ALL))
def traced(request):
    return run(tiny_model(ALL[request.param]), tokens_of(random_ids(1, T)[0]))


# --- shapes and order ---


@pytest.mark.parametrize("name", ALL | STATES)
def test_shapes_are_those_of_the_tensors(name):
    """Every tensor that a tap sees in a whole forward has the shape that its part says."""
    model, store = tiny_model((ALL | STATES)[name]), {}
    with torch.inference_mode():
        model(random_ids(1, T), tap=record(tuple(SITES), store))
    seen = {}
    for (site, layer), tensor in store.items():
        if layer in (-1, 3) or model.config.has_experts(layer) == (model.config.n_expert > 1):
            channels = 0 <= layer < 3 and model.config.channels(layer) is not None
            seen[OF_CHANNELS.get(site, site) if channels else site] = tuple(tensor.shape)
    told = {flow.site: flow.shape for part in blueprint(model.config, T).values() for flow in part.reads + part.gives}
    unseen = BETWEEN | (set(OF_CHANNELS.values()) if model.config.ssm_beside else set())
    for site in set(told) - {"ids", "probabilities"} - OF_EXPERTS - unseen:
        assert told[site] == (seen[site] if site == "pos_embed" else seen[site][1:]), site
    assert told["ids"] == (T,)


@pytest.mark.parametrize("name", OWN_LAYERS)
def test_shapes_of_a_layer_are_those_of_its_tensors(name):
    """Layers that differ in size, and take keys and values from an earlier one."""
    model, store = tiny_model(OWN_LAYERS[name]), {}
    config = model.config
    with torch.inference_mode():
        model(random_ids(1, T), tap=record(tuple(SITES), store))
    for kind, layer in [(each, layer) for each in kinds(config) for layer in each.layers]:
        parts = blueprint(config, T, layer)
        flows = [flow for key in keys_of(config, kind, parts) if parts[key].block for flow in parts[key].gives]
        told, source = {flow.site: flow.shape for flow in flows}, config.kv_source(layer)
        for site in set(told) - {"resid_entered", "resid_unscaled"} - OF_EXPERTS:
            at = source if site in ("k", "v", "k_rot") else layer
            assert told[site] == tuple(store[site, at].shape)[1:], (layer, site)
        assert ("borrowed" in keys_of(config, kind, parts)) == (source != layer)
        assert ("window" in keys_of(config, kind, parts)) == (config.mixer_of(layer) == "sliding_window")
    with pytest.raises(InputError):
        blueprint(config, T, config.n_layer)


@pytest.mark.parametrize("name", CONFIGS)
def test_a_part_reads_what_was_given_before(name):
    """Pre-norm, post-norm and parallel: no part reads a tensor that no part before it has given."""
    config = CONFIGS[name]
    # The same vectors by other names: what a norm reads is the stream as the last sum, or the embedding, left it.
    stream = {
        *("embed", "embed_norm_in", "embed_norm_out", "attn_out", "after1_in", "mlp_out", "after2_in"),
        "resid_pre",
        "resid_mid",
        "resid_post",
        "norm1_in",
        "norm2_in",
        "norm1_out",
        "norm2_out",
        "final_in",
        "layer_input",
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
    found, without = shares(config), config.mixers.count("softmax") if config.keys_as_values else 0
    assert set(found) <= set(blueprint(config, T)) & set(PARTS)
    assert sum(share.whole for share in found.values()) == n_params(config)
    assert sum(by_component(found, PARTS).values()) == n_params(config)
    assert sum(share.share for share in found.values()) == pytest.approx(1)
    for key, share in found.items():
        layers, dense = share.layers, len(config.dense)
        outside = dense if key in ("router", "gate", "up", "down", "shared") else 0
        outside += without if key == "v" else 0  # values that are the keys before their norm
        held = dense if key == "dense" else len(layers_with(config, key)) - outside
        assert layers == (held if blueprint(config, T)[key].block else 1)
        assert share.once == sum(each.size for each in share.tensors)
        assert share.alike == (share.whole == layers * share.once) and (share.alike or not config.alone)


def test_parts_of_layers_of_their_own_by_hand():
    parts = blueprint(tiny_config(OWN_LAYERS["gemma4 E2B"]), T, 2)
    assert list(parts)[:4] == ["tokens", "embed", "entry_embed", "entry_proj"]
    assert list(parts)[-8:-3] == ["after2", "add2", "entry", "add3", "scale"]
    assert parts["borrowed"].formula == "ℓ ∈ {2}: k′, v of layer 0;  ℓ ∈ {3}: k′, v of layer 1"
    assert parts["scores"].formula.startswith("s[t, j] = q_t · k_j / √12,")
    assert parts["rope"].formula.endswith("1000^(−2i/16),  i ≥ 2: θ_i = 0,  ℓ ∈ {0, 2}: t · 50^(−2i/12)")
    assert parts["qk_norm"].formula.startswith("q ← 3.464 · q /")  # √12
    assert parts["entry_embed"].formula == "[e₀; …; e_3] = √6 · W_e[id]"
    values = blueprint(tiny_config(OWN_LAYERS["gemma4 31B"]), T)
    assert values["v"].formula == "v = W_V x,  ℓ ∈ {2}: W_V = W_K" and "borrowed" not in values
    assert parts["add2"].gives[0].site == parts["entry"].reads[0].site == "resid_entered"


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


def test_formulas_of_later_rules():
    def formulas(changes):
        return {key: part.formula for key, part in blueprint(tiny_config(changes), T).items()}

    gemma, oss, gptj = (formulas(MORE_VARIANTS[name]) for name in ("gemma", "oss", "gptj"))
    assert gemma["cap"] == "s ← 3 tanh(s / 3)" and gemma["window"].endswith("t − j ≥ 5,  ℓ ∈ {0, 2}")
    assert "ℓ ∈ {0, 2}: t · 50^" in gemma["rope"] and gemma["add1"] == "x ← x + norm(attention)"
    assert gemma["unembed"].endswith("5 tanh(z / 5)") and gemma["qk_norm"].startswith("q ← 0.6928 · q")
    assert "exp(σ_h)" in oss["softmax"] and oss["o"].startswith("y = 0.4 · W_O") and "⊙ g" not in oss["norm1"]
    assert "(x₂ᵢ, x₂ᵢ₊₁)" in gptj["rope"] and gptj["rope"].endswith("ℓ ∈ {1}: θ_i = 0") and "norm2" not in gptj
    assert formulas(MORE_VARIANTS["bloom"])["alibi"].endswith("m_h = 2^(−8h/4)")
    assert "(h ≤ 4), …" in formulas({"positions": "alibi", "n_head": 6, "n_kv_head": 6, "d_head": 8})["alibi"]
    assert formulas(MORE_VARIANTS["olmo"])["q"] == "q = clip(W_Q x, ±0.9)"
    moe = formulas(MIXTURES["qwen-moe"])
    assert moe["router"].endswith("e ∈ top 2,  w_e = p_e") and moe["dense"].endswith("ℓ ∈ {0}")
    assert "Σ p_e" in formulas(MIXTURES["mixtral"])["router"]
    scaled = RopeScaling(kind="linear", factor=4.0)
    assert formulas({"positions": "rope", "rope_scaling": scaled})["rope"].endswith("10000^(−2i/12) / 4")


def test_kinds_of_layers_by_hand():
    config = tiny_config(STATES["nemotron"])
    found = [(kind.mixer, kind.mlp, kind.layers) for kind in kinds(config)]
    assert found == [("mamba2", True, (0,)), ("attention", True, (1,)), ("mamba2", False, (2,))]
    parts = [key for key, part in blueprint(config, T).items() if part.block]
    state = ["in_proj", "conv", "rates", "state", "state_gate", "out_proj"]
    assert keys_of(config, kinds(config)[2], parts) == ["norm1", *state, "add1"]
    assert keys_of(config, kinds(config)[1], parts)[1:4] == ["q", "k", "v"] and layers_with(config, "conv") == [0, 2]
    beside = keys_of(tiny_config(STATES["falcon"]), kinds(tiny_config(STATES["falcon"]))[0], [*state, "q", "o"])
    assert beside == [*state, "q", "o"]


def test_formulas_of_states():
    def formulas(name):
        return {key: part.formula for key, part in blueprint(tiny_config(STATES[name]), T).items()}

    assert formulas("mamba")["state"].startswith("h_t = exp(−e^A Δ)") and "norm2" not in formulas("mamba")
    assert formulas("falcon")["out_proj"] == "y = 0.5 · W_out z" and "norm(" not in formulas("falcon")["state_gate"]
    assert formulas("nemotron")["state_gate"].startswith("z = norm(")
    assert formulas("lfm")["conv"].startswith("y_t = b + Σ_i w_i") and "state" not in formulas("lfm")
    gated = formulas("qwen-next")
    assert gated["gate_o"] == "z ← σ(W_g x + b_g) ⊙ z" and "β_t k_t (v_t − a_t" in gated["state"]
    assert "2^(−5 − h)" in formulas("retention")["state"] and "a_t" not in formulas("delta")["state"]


def test_several_kinds_of_states_are_refused_by_name():
    with pytest.raises(InputError, match="delta, retention"):
        blueprint(tiny_config({"mixer": ("delta", "retention", "softmax")}), T)


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
    for site in block_sites(traced.config, layer):
        x = traced.sites(layer, [site])[site][0].double().numpy()
        found = passed.sizes[site]
        assert_close(found.rms, np.sqrt((x**2).mean(-1)), 1e-5, site)
        assert_close(found.mean, x.mean(-1), 1e-5, site)
        assert_close(np.abs(found.largest), np.abs(x).max(-1), 1e-5, site)
        assert_close(np.take_along_axis(x, found.place[..., None].astype(int), -1)[..., 0], found.largest, 1e-5, site)
    if traced.config.has_experts(layer):
        assert passed.active is None and "router" in passed.sizes
    else:
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
        window = traced.config.window if traced.config.mixer_of(1) == "sliding_window" else T
        row, scores = row[-window:], scores[-window:]
        assert passed.rows.top[head, t] == pytest.approx(row.max(), abs=1e-6)
        first = t + 1 - len(row)
        assert row[passed.rows.key[head, t] - first] == pytest.approx(row.max(), abs=1e-6)
        assert passed.rows.visible[head, t] == len(row)
        entropy = -sum(p * np.log(p) for p in row / row.sum() if p > 0)
        assert passed.rows.entropy[head, t] == pytest.approx(entropy, abs=1e-5)
        assert passed.rows.top_score[head, t] == pytest.approx(scores.max(), abs=1e-5)
        assert passed.rows.mean_score[head, t] == pytest.approx(scores.mean(), abs=1e-5)


def test_a_rotation_keeps_lengths(traced):
    passed = block_numbers(traced, 1)
    if traced.config.rotates(1):
        assert_close(passed.sizes["q"].rms, passed.sizes["q_rot"].rms, 1e-5)
        assert_close(passed.sizes["k"].rms, passed.sizes["k_rot"].rms, 1e-5)
    if traced.config.qk_norm:
        assert np.abs(passed.sizes["q_raw"].rms - passed.sizes["q"].rms).max() > 0.01
        direct = traced.config.norm_placement in ("post", "output")
        x = traced.sites(1, ["resid_pre" if direct else "norm1_out"])
        with torch.inference_mode():
            raw = traced.model.blocks[1].attn.k(next(iter(x.values()))[0]).numpy()
        raw = raw.clip(-(traced.config.qkv_limit or np.inf), traced.config.qkv_limit)
        each = raw.reshape(T, -1, traced.config.d_head).astype(float)
        assert_close(passed.sizes["k_raw"].rms, np.sqrt((each**2).mean(-1)).T, 1e-5)
    else:
        assert "q_raw" not in passed.sizes


@pytest.mark.parametrize("token", [0, 4])
def test_before_and_after_the_blocks(traced, token):
    store, sites = {}, ("embed", "pos_embed", "embed_norm_in", "embed_norm_out", "final_in", "final_out")
    traced.model(torch.from_numpy(traced.tokens.ids)[None], tap=record(sites, store))
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
    assert "mlp_post" not in passed.sizes or vector(passed.sizes["mlp_post"], 3).n in (M, 30)
    arrays = [each for sizes in passed.sizes.values() for each in (sizes.rms, sizes.mean, sizes.largest, sizes.place)]
    arrays += [*vars(passed.rows).values(), *([] if passed.active is None else [passed.active])]
    assert passed.nbytes == sum(each.nbytes for each in arrays)


def test_what_is_not_there_is_told():
    trace = run(tiny_model(VARIANTS["llama"]), tokens_of(random_ids(1, T)[0]))
    for layer in (-1, 3):
        with pytest.raises(InputError):
            block_numbers(trace, layer)
    for token in (-1, T):
        with pytest.raises(InputError):
            outside_numbers(trace, token)


@pytest.mark.parametrize("name", ["mamba", "qwen-next", "delta"])
def test_what_passes_in_a_layer_without_attention(name):
    trace = run(tiny_model(STATES[name]), tokens_of(random_ids(1, T)[0]))
    passed, sites = block_numbers(trace, 0), trace.sites(0, ["v", "mixed", "z"])
    assert passed.rows is None and passed.nbytes > 0
    for site, tensor in sites.items():
        assert_close(passed.sizes[site].rms, tensor[0].double().square().mean(-1).sqrt(), 1e-5, site)
    assert (passed.active is None) == (name == "mamba")


def test_one_token():
    for changes in ALL.values():
        passed = block_numbers(run(tiny_model(changes), tokens_of([3])), 0)
        assert_close(passed.rows.entropy, np.zeros((H, 1)), 0)
        assert changes.get("sinks") or (passed.rows.top == 1).all()
