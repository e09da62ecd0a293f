"""A mixture of experts against transformers' Mixtral: shaken random weights, all at once and step by step."""

import pytest
import torch

from model.gpt.cache import KVCache
from model.gpt.config import ModelConfig
from model.gpt.experts import balance_loss, route
from model.gpt.presets import LLAMA_STYLE
from model.gpt.tap import record
from model.gpt.transformer import Transformer
from model.loading.from_memory import shared
from tests.parity.common import N_CTX, D, E, G, H, L, M, T, V, assert_close, compare, greedy, hf_greedy, ids, shake
from tests.parity.families import GQA, build_hf
from tests.support.models.rounding import products, rounded, within

N = 5  # experts
EXPERTS = {"num_local_experts": N, "sliding_window": None, "rms_norm_eps": 1e-6, "head_dim": E}


def pair(k: int) -> tuple[Transformer, torch.nn.Module]:
    """Our model and transformers' with the same shaken weights, k experts a token."""
    import transformers as hf

    torch.manual_seed(0)
    values = hf.MixtralConfig(**GQA, **EXPERTS, num_experts_per_tok=k)
    values._attn_implementation = "eager"
    theirs = hf.MixtralForCausalLM(values).eval()
    shake(theirs)
    sizes = {"n_layer": L, "d_model": D, "n_head": H, "n_kv_head": G, "d_head": E, "d_mlp": M}
    theta = values.rope_parameters["rope_theta"]
    experts = {"n_expert": N, "experts_per_token": k}
    shape = LLAMA_STYLE | sizes | experts | {"norm_eps": 1e-6, "rope_theta": theta, "tie_embeddings": False}
    ours = Transformer(ModelConfig(vocab_size=V, n_ctx=N_CTX, **shape)).eval()
    state = {
        "embed.weight": theirs.model.embed_tokens.weight,
        "final_norm.weight": theirs.model.norm.weight,
        "unembed.weight": theirs.lm_head.weight,
    }
    for i, layer in enumerate(theirs.model.layers):
        at = f"blocks.{i}"
        state[f"{at}.norm1.weight"] = layer.input_layernorm.weight
        state[f"{at}.norm2.weight"] = layer.post_attention_layernorm.weight
        state |= {f"{at}.attn.{name}.weight": getattr(layer.self_attn, f"{name}_proj").weight for name in "qkvo"}
        gate, up = layer.mlp.experts.gate_up_proj.chunk(2, dim=1)
        state |= {f"{at}.mlp.router.weight": layer.mlp.gate.weight}
        state |= {f"{at}.mlp.experts.gate.weight": gate, f"{at}.mlp.experts.up.weight": up}
        state |= {f"{at}.mlp.experts.down.weight": layer.mlp.experts.down_proj}
    ours.load_state_dict(state)
    return ours.requires_grad_(False), theirs


@pytest.mark.parametrize("k", [2, 3])
def test_logits_patterns_hidden_states_and_generation(k: int):
    ours, theirs = pair(k)
    compare(ours, theirs, ids())
    prompt = ids(seed=2, length=7)
    assert torch.equal(greedy(ours, prompt, 20), hf_greedy(theirs, prompt, 20))


@torch.inference_mode()
def test_step_by_step_with_a_cache_gives_the_logits_of_all_at_once():
    ours, theirs = pair(2)
    tokens, cache = ids(), KVCache.empty(ours.config, 2, T)
    stepwise = torch.cat([ours(tokens[:, t : t + 1], cache=cache) for t in range(T)], 1)
    bound = within(ours, tokens, sites=["logits"])["logits", L]
    assert_close(stepwise, theirs(tokens).logits, bound, "logits, a token at a time")


@torch.inference_mode()
def test_small_sigmoids_are_divided_as_in_lfm2():
    """All experts far from chosen: the sum is 1e-6 to 1e-3, so that the number added to it shows."""
    hf = build_hf("lfm2_moe", shaken=False)
    model, _ = shared(hf)
    gate, mlp = hf.model.layers[1].feed_forward.gate, model.blocks[1].mlp
    logits = torch.linspace(-16, -7, N).repeat(T, 1) + torch.randn(T, N, generator=torch.Generator().manual_seed(0))
    gate.weight, gate.hidden_dim = torch.nn.Parameter(torch.eye(N)), N  # so that its input is the logits
    _, weights, experts = gate(logits, torch.zeros(N))
    chosen = mlp.route(logits)
    assert torch.equal(chosen.experts, experts) and (weights.sum(-1) < 0.999).any()
    assert_close(chosen.weights, weights, rounded(weights, N), "weights")


@torch.inference_mode()
def test_router_and_balance_loss_are_those_of_transformers():
    """Theirs adds the choices of a token, ours is their share: k times less."""
    from transformers.models.mixtral.modeling_mixtral import load_balancing_loss_func

    ours, theirs = pair(2)
    store: dict = {}
    ours(ids(), tap=record({"norm2_out", "router"}, store))
    for layer in range(L):
        read, logits = (store[site, layer].flatten(0, 1) for site in ("norm2_out", "router"))
        wanted, weights, experts = theirs.model.layers[layer].mlp.gate(read)
        assert_close(logits, wanted, products(read, ours.blocks[layer].mlp.router.weight.T), "router")
        chosen = route(wanted, 2)
        assert torch.equal(chosen.experts, experts)
        assert_close(chosen.weights, weights, rounded(weights, N), "weights")
        assert len(experts.unique()) == N  # every expert is used, so none can be swapped unseen
        mine, others = 2 * balance_loss(wanted, 2), load_balancing_loss_func((wanted,), N, 2)
        assert_close(mine, others, rounded(others, 2 * len(wanted)), "load-balancing loss")
