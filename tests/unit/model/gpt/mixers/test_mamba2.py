"""Mamba 2 worked out number by number, with its heads and groups; beside attention; and layers without an MLP."""

import numpy as np
import pytest
import torch

from model.anatomy.anatomy import kinds_of_weights, weights
from model.attention.state_space import state_space
from model.errors import InputError
from model.generation.cache_costs import cache_bytes, state_bytes
from model.gpt.cache import KVCache
from model.gpt.config import ModelConfig
from model.gpt.mixers.needs import need_attention, need_heads_alone, need_rewinding, need_softmax
from model.gpt.tap import block_sites, record
from model.loading.checkpoint import build, load_folder, save_folder
from model.predictions.attribution import components
from model.tracing.trace import run
from tests.support.models.helpers import D, H, L, assert_close, random_ids, tiny_config, tiny_model, tokens_of

T, J, P, N = 11, 8, 6, 5  # tokens, state heads, channels of each, size of the state
NEAR = 1e-10  # of float64
SSM = {"ssm_heads": J, "d_ssm_head": P, "ssm_groups": 2, "d_state": N, "d_conv": 3, "norm": "rmsnorm"}
ALONE = SSM | {"mixer": "mamba2", "positions": "none"}
BESIDE = SSM | {"ssm_beside": True}
HYBRID = SSM | {"mixer": ("mamba2", "softmax", "mamba2"), "without_mlp": (0,), "ssm_norm": "none"}


def silu(x: torch.Tensor) -> torch.Tensor:
    return x / (1 + torch.exp(-x))


@pytest.mark.parametrize("norm", ["after_gate", "before_gate", "none"])
@torch.no_grad()
def test_a_layer_is_its_formula_token_by_token(exact, norm):
    """Dao & Gu 2024, 6 and 7.1, with limits of the step sizes and biases."""
    model = tiny_model(ALONE | {"ssm_norm": norm, "ssm_bias": True})
    layer, I, W = model.blocks[1].attn, J * P, J * P + 2 * 2 * N
    x = torch.randn(T, D, generator=torch.Generator().manual_seed(0))
    made = x @ layer.in_proj.weight.T + layer.in_proj.bias
    gate, u, low = made[:, :I], made[:, I : I + W], made[:, I + W :]
    padded = torch.cat((torch.zeros(2, W), u))
    u = silu(torch.stack([(padded[t : t + 3] * layer.conv.weight.T).sum(0) + layer.conv.bias for t in range(T)]))
    delta = torch.log(1 + torch.exp(low + layer.dt_bias))
    layer.limits = tuple(delta.quantile(torch.tensor([0.2, 0.8])).tolist())
    delta = delta.clamp(*layer.limits)
    y = torch.zeros(T, I)
    for j in range(J):
        group, own, state = j // 4, slice(j * P, (j + 1) * P), torch.zeros(N, P)
        for t in range(T):
            B = u[t, I + group * N : I + (group + 1) * N]
            C = u[t, I + 2 * N + group * N : I + 2 * N + (group + 1) * N]
            state = torch.exp(-delta[t, j] * torch.exp(layer.A_log[j])) * state
            state = state + torch.outer(B, delta[t, j] * u[t, own])
            y[t, own] = state.T @ C + layer.D[j] * u[t, own]
    y = y * silu(gate) if norm != "before_gate" else y
    if norm != "none":
        groups = y.unflatten(-1, (2, -1))
        y = (groups / torch.sqrt(groups.square().mean(-1, keepdim=True) + model.config.norm_eps)).flatten(-2)
        y = y * layer.norm.weight
    y = y * silu(gate) if norm == "before_gate" else y
    assert_close(layer(x[None], 1, model.prepare(0, T))[0], y @ layer.o.weight.T + layer.o.bias, NEAR)


@pytest.mark.parametrize("changes", [ALONE, BESIDE, HYBRID], ids=["alone", "beside", "hybrid"])
@torch.no_grad()
def test_any_chunking_gives_the_uncached_forward_and_its_bytes_are_told(exact, changes):
    model, ids = tiny_model(changes), random_ids(2, T)
    for sizes in ([T], [1] * T, [4, 1, 6]):
        cache = KVCache.empty(model.config, 2, T)
        parts = [model(chunk, cache=cache) for chunk in ids.split(sizes, 1)]
        assert_close(torch.cat(parts, 1), model(ids), NEAR, str(sizes))
        # the formulas count float32
        assert cache.nbytes == 2 * (cache_bytes(model.config, 2, T) + state_bytes(model.config, 2))
    with pytest.raises(InputError, match="cannot be removed"):
        cache.truncate(T - 3)
    with pytest.raises(InputError, match="cannot be removed"):
        need_rewinding(model.config)


def test_a_head_of_the_views_is_the_mean_of_its_state_heads():
    trace = run(tiny_model(ALONE), tokens_of(random_ids(1, T)[0]))
    at, each = trace.sites(1, ["v", "mixed"]), J // H
    channels = {name: x[0].transpose(0, 1).flatten(1).unflatten(1, (J, P)) for name, x in at.items()}  # [T, J, P]
    for j in range(J):
        matrix = torch.from_numpy(trace.mixing(1, j))
        assert_close(matrix @ channels["v"][:, j], channels["mixed"][:, j], 1e-4)
    for head in range(H):
        mean = np.mean([np.abs(trace.mixing(1, j)) for j in range(head * each, (head + 1) * each)], 0)
        assert_close(trace.pattern(1, head), mean / mean.sum(-1, keepdims=True), 1e-5)
    uneven = run(
        tiny_model(ALONE | {"ssm_heads": 6}), tokens_of(random_ids(1, T)[0])
    )  # 9 channels a head, 6 a state head
    mean = (6 * np.abs(uneven.mixing(1, 0)) + 3 * np.abs(uneven.mixing(1, 1))) / 9
    assert_close(uneven.pattern(1, 0), mean / mean.sum(-1, keepdims=True), 1e-5)
    with pytest.raises(InputError, match="head does not exist"):
        trace.mixing(1, J)
    with pytest.raises(InputError, match="no queries and keys"):
        trace.qkv(1, 0)


@pytest.mark.parametrize("changes", [ALONE, BESIDE], ids=["alone", "beside"])
def test_what_a_state_holds_gives_the_output(changes):
    """The selections of `state_space`, channel by channel with the B and C of their group, make y."""
    model = tiny_model(changes)
    trace = run(model, tokens_of(random_ids(1, T)[0]))
    s = state_space(trace, 1, source=2)
    assert s.B.shape == s.C.shape == (T, 2 * N) and s.A.shape == (J * P, N) and s.delta.shape == (T, J * P)
    assert np.isclose(sum(state_space(trace, 1, source=t).whole[-1] for t in range(T)), 1, atol=1e-5)
    B, C = (np.repeat(x.reshape(T, 2, N), J * P // 2, 1) for x in (s.B, s.C))
    state, y = np.zeros((J * P, N)), []
    for t in range(T):
        state = np.exp(s.delta[t, :, None] * s.A) * state + (s.delta[t] * s.u[t])[:, None] * B[t]
        y.append((state * C[t]).sum(-1))
    if changes is ALONE:
        mixed = trace.sites(1, ["mixed"])["mixed"][0].transpose(0, 1).flatten(1)
        assert_close(mixed, np.stack(y), 1e-4)
    with pytest.raises(InputError, match="not a state-space layer"):
        state_space(run(tiny_model(), tokens_of(random_ids(1, T)[0])), 1)


@torch.no_grad()
def test_beside_attention_both_write(exact):
    model = tiny_model(BESIDE)
    trace = run(model, tokens_of(random_ids(1, T)[0]))
    at = trace.sites(1, ["norm1_out", "z", "ssm_out", "attn_out", "resid_pre", "resid_mid"])
    attn = model.blocks[1].attn
    alone = attn.o(at["z"][0].transpose(0, 1).flatten(1)[None])
    assert_close(attn.beside(at["norm1_out"], 1, model.prepare(0, T)), at["ssm_out"], NEAR)
    assert_close(alone + at["ssm_out"], at["attn_out"], NEAR)
    assert_close(at["resid_pre"] + at["attn_out"], at["resid_mid"], NEAR)
    assert at["ssm_out"].abs().max() > 0.01 and "ssm_out" not in block_sites(tiny_config(), 1)
    for need in (need_attention, need_softmax, need_heads_alone):
        with pytest.raises(InputError) as caught:
            need(model.config)
        assert caught.value.got == "ssm_beside"
    with pytest.raises(InputError, match="not the sum of its heads"):
        components(trace)


@torch.no_grad()
def test_a_layer_without_an_mlp_adds_nothing(exact):
    model = tiny_model(HYBRID)
    store: dict = {}
    model(random_ids(1, T), tap=record({"resid_mid", "resid_post", "mlp_pre", "norm2_out"}, store))
    assert torch.equal(store["resid_mid", 0], store["resid_post", 0]) and ("norm2_out", 0) not in store
    assert not torch.equal(store["resid_mid", 1], store["resid_post", 1]) and ("mlp_pre", 1) in store
    assert model.config.has_mlp(1) and not model.config.has_mlp(0)


@pytest.mark.parametrize("changes", [ALONE, BESIDE, HYBRID], ids=["alone", "beside", "hybrid"])
def test_weights_are_counted_kept_and_have_gradients(changes, tmp_path):
    model, ids = tiny_model(changes | {"ssm_bias": True}), random_ids(2, T)
    listed = {weight.name: weight.shape for weight in weights(model.config)}
    assert listed == {name: tuple(weight.shape) for name, weight in model.named_parameters()}
    assert sum(each.size * n for each, n in kinds_of_weights(model.config)) == sum(
        p.numel() for p in model.parameters()
    )
    save_folder(tmp_path, model)
    with torch.no_grad():
        assert torch.equal(build(*load_folder(tmp_path))(ids), model(ids))
    model(ids).square().sum().backward()
    assert not [name for name, weight in model.named_parameters() if weight.grad is None or not weight.grad.any()]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (ALONE | {"ssm_heads": 6, "d_ssm_head": 5}, "30 channels must divide into 4 heads"),
        (ALONE | {"ssm_groups": 3}, "8 heads must divide into 3 groups"),
        (BESIDE | {"ssm_heads": 7}, "7 heads must divide into 2 groups"),
        (ALONE | {"dt_min": 0.3, "dt_max": 0.2}, "step sizes lie between"),
        (BESIDE | {"mixer": "mamba2"}, "beside the attention is defined for full attention"),
        ({"without_mlp": (L,)}, "without_mlp must name layers"),
        ({"without_mlp": (0,), "norm_placement": "post"}, "pre-norm blocks only"),
    ],
)
def test_what_does_not_fit_is_refused(changes, message):
    with pytest.raises(ValueError, match=message):
        tiny_config(changes)


def test_sizes_left_out_are_those_of_the_model():
    config = ModelConfig(vocab_size=9, n_ctx=9, n_layer=1, d_model=24, n_head=3, mixer="mamba2")
    assert (config.ssm_heads, config.d_ssm_head, config.d_ssm, config.z_width(0), config.matrices(0)) == (
        3,
        16,
        48,
        16,
        3,
    )
