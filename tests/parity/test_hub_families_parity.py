"""Families without a class in transformers: models of transformers that compute the same, under the families' names."""

import json
import re

import pytest
import torch
from safetensors.torch import save_file

from model.loading.checkpoint import build, load_folder
from model.loading.families import family_of
from model.loading.families.hub.baichuan import unit_rows
from tests.parity.common import N_CTX, D, G, H, L, M, V, compare, greedy, hf_greedy, ids, shake

COMMON = {"vocab_size": V, "bos_token_id": None, "eos_token_id": None, "pad_token_id": None}
SIZES = COMMON | {
    "hidden_size": D,
    "intermediate_size": M,
    "num_hidden_layers": L,
    "num_attention_heads": H,
    "max_position_embeddings": N_CTX,
    "tie_word_embeddings": False,
}
GQA = SIZES | {"num_key_value_heads": G, "rms_norm_eps": 1e-5}
E = D // H
DYNAMIC = {"type": "dynamic", "factor": 3.0}


def fused(w: dict, name: str, kind: str = "weight") -> torch.Tensor:
    """Concatenate q, k and v of a layer."""
    return torch.cat([w.pop(f"{name}.{part}_proj.{kind}") for part in "qkv"])


def grouped(w: dict, name: str) -> torch.Tensor:
    """Put the queries of each KV head, its key and its value one after the other, as InternLM2 does."""
    q, k, v = (w.pop(f"{name}.{part}_proj.weight").unflatten(0, (G, -1, E)) for part in "qkv")
    return torch.cat((q, k, v), 1).flatten(0, 2)


def renamed(w: dict, names: dict[str, str]) -> dict:
    """Replace parts of the names, in this order."""
    for theirs, ours in names.items():
        w = {re.sub(theirs, ours, name): tensor for name, tensor in w.items()}
    return w


def internlm2(w: dict) -> dict:
    for i in range(L):
        w[f"model.layers.{i}.attention.wqkv.weight"] = grouped(w, f"model.layers.{i}.self_attn")
    names = {"embed_tokens": "tok_embeddings", "lm_head": "output", "self_attn.o_proj": "attention.wo"}
    names |= {"input_layernorm": "attention_norm", "post_attention_layernorm": "ffn_norm"}
    for theirs, ours in {"gate": "w1", "up": "w3", "down": "w2"}.items():
        names[f"mlp.{theirs}_proj"] = f"feed_forward.{ours}"
    return renamed(w, names)


def exaone(w: dict) -> dict:
    names = {"^model.": "transformer.", "embed_tokens": "wte", r"layers\.": "h.", "input_layernorm": "ln_1"}
    names |= {"post_attention_layernorm": "ln_2", "self_attn": "attn.attention", "o_proj": "out_proj"}
    names |= {"mlp.gate_proj": "mlp.c_fc_0", "mlp.up_proj": "mlp.c_fc_1", "mlp.down_proj": "mlp.c_proj"}
    return renamed(w, names | {r"transformer\.norm": "transformer.ln_f"})


def qwen1(w: dict) -> dict:
    for i in range(L):
        for kind in ("weight", "bias"):
            w[f"model.layers.{i}.attn.c_attn.{kind}"] = fused(w, f"model.layers.{i}.self_attn", kind)
    names = {"^model.": "transformer.", "embed_tokens": "wte", r"layers\.": "h.", "input_layernorm": "ln_1"}
    names |= {
        "post_attention_layernorm": "ln_2",
        "self_attn.o_proj": "attn.c_proj",
        r"transformer\.norm": "transformer.ln_f",
    }
    return renamed(w, names | {"mlp.gate_proj": "mlp.w2", "mlp.up_proj": "mlp.w1", "mlp.down_proj": "mlp.c_proj"})


def baichuan(w: dict) -> dict:
    for i in range(L):
        w[f"model.layers.{i}.self_attn.W_pack.weight"] = fused(w, f"model.layers.{i}.self_attn")
    return w


def chatglm(w: dict) -> dict:
    for i in range(L):
        for kind in ("weight", "bias"):
            name = f"model.layers.{i}.self_attention.query_key_value.{kind}"
            w[name] = fused(w, f"model.layers.{i}.self_attn", kind)
    names = {
        "^model.": "transformer.encoder.",
        "transformer.encoder.embed_tokens": "transformer.embedding.word_embeddings",
    }
    names |= {"encoder.norm": "encoder.final_layernorm", "lm_head": "transformer.output_layer"}
    names |= {"self_attn.o_proj": "self_attention.dense", "gate_up_proj": "dense_h_to_4h", "down_proj": "dense_4h_to_h"}
    return renamed(w, names)


def same(w: dict) -> dict:
    return w


# name: class of transformers, its config, the family's config, and its names
CASES = {
    "internlm": (
        "Llama",
        GQA | {"num_key_value_heads": H, "attention_bias": True},
        SIZES | {"bias": True, "rms_norm_eps": 1e-5},
        same,
    ),
    "internlm2": ("Llama", GQA, GQA | {"bias": False, "rope_theta": 10_000, "rope_scaling": None}, internlm2),
    "internlm2 dynamic": (
        "Llama",
        GQA
        | {
            "max_position_embeddings": 16,
            "rope_parameters": {"rope_type": "dynamic", "rope_theta": 1e6, "factor": 3.0},
        },
        GQA | {"max_position_embeddings": 16, "bias": False, "rope_theta": 1e6, "rope_scaling": DYNAMIC},
        internlm2,
    ),
    "minicpm": (
        "Granite",
        GQA
        | {"embedding_multiplier": 12.0, "residual_multiplier": 1.4 / L**0.5, "attention_multiplier": E**-0.5}
        | {"logits_scaling": D / 16},
        GQA | {"scale_emb": 12, "scale_depth": 1.4, "dim_model_base": 16},
        same,
    ),
    "orion": (
        "StableLm",
        SIZES
        | {"num_key_value_heads": G, "layer_norm_eps": 1e-5}
        | {"rope_parameters": {"rope_type": "default", "rope_theta": 1e4, "partial_rotary_factor": 1.0}},
        GQA | {"pretraining_tp": 1},
        same,
    ),
    "xverse": (
        "Llama",
        GQA | {"num_key_value_heads": H},
        SIZES | {"rms_norm_eps": 1e-5, "max_tokenizer_truncation": 6},
        same,
    ),
    "exaone": (
        "Llama",
        GQA | {"head_dim": 10},
        {name: value for name, value in GQA.items() if name not in ("rms_norm_eps", "num_hidden_layers")}
        | {"head_dim": 10, "layer_norm_epsilon": 1e-5, "num_layers": L, "activation_function": "silu"},
        exaone,
    ),
    "qwen": (
        "Qwen2",
        GQA | {"num_key_value_heads": H},
        {name: value for name, value in SIZES.items() if name != "max_position_embeddings"}
        | {
            "intermediate_size": 2 * M,
            "layer_norm_epsilon": 1e-5,
            "kv_channels": E,
            "seq_length": N_CTX,
            "no_bias": True,
        }
        | {"max_position_embeddings": 4 * N_CTX, "use_dynamic_ntk": True, "rotary_emb_base": 10_000, "rotary_pct": 1.0},
        qwen1,
    ),
    "baichuan": ("Llama", GQA | {"num_key_value_heads": H}, SIZES | {"rms_norm_eps": 1e-5}, baichuan),
    "chatglm": (
        "Glm",
        GQA
        | {
            "head_dim": 12,
            "rope_parameters": {"rope_type": "default", "rope_theta": 5e4, "partial_rotary_factor": 0.5},
        },
        dict.fromkeys(("bos_token_id", "eos_token_id", "pad_token_id"))
        | {"padded_vocab_size": V, "hidden_size": D, "ffn_hidden_size": M, "num_layers": L, "num_attention_heads": H}
        | {"multi_query_attention": True, "multi_query_group_num": G, "kv_channels": 12, "seq_length": N_CTX}
        | {"add_qkv_bias": True, "rope_ratio": 5, "layernorm_epsilon": 1e-5, "rmsnorm": True, "post_layer_norm": True},
        chatglm,
    ),
}


def theirs(name: str):
    """Return a model of transformers with shaken weights, and the weights."""
    import transformers as hf

    kind, values = CASES[name][0], dict(CASES[name][1])
    torch.manual_seed(0)
    config = getattr(hf, f"{kind}Config")(**values)
    config._attn_implementation = "eager"
    model = getattr(hf, f"{kind}ForCausalLM")(config).eval()
    shake(model)
    return model, {key: tensor.clone() for key, tensor in model.state_dict().items()}


def saved(folder, model_type: str, values: dict, weights: dict):
    """Write a checkpoint and return its folder."""
    save_file({name: tensor.contiguous() for name, tensor in weights.items()}, folder / "model.safetensors")
    (folder / "config.json").write_text(json.dumps({"model_type": model_type, **values}))
    return folder


@pytest.mark.parametrize("name", CASES)
def test_logits_maps_and_generation_equal_those_of_the_same_model_of_transformers(name, tmp_path, monkeypatch):
    monkeypatch.setattr("model.loading.families.hub.baichuan.WITH_ROPE", D)
    hf, weights = theirs(name)
    _, _, values, layout = CASES[name]
    ours = build(*load_folder(saved(tmp_path, name.split()[0], values, layout(weights))))
    compare(ours, hf, ids())
    prompt = ids(seed=2, length=7)
    assert torch.equal(greedy(ours, prompt, 20), hf_greedy(hf, prompt, 20))


def test_baichuan_by_its_size(monkeypatch):
    """Wider models have ALiBi in place of RoPE, and the second generation rows of length 1 in its head."""
    values = SIZES | {"model_type": "baichuan", "model_max_length": 4096, "max_position_embeddings": None}
    config = family_of(values).to_config(values)
    assert (config.positions, config.n_ctx, config.norm) == ("alibi", 4096, "rmsnorm")
    head = torch.randn(V, D)
    assert unit_rows(head, config)[0] is head
    monkeypatch.setattr("model.loading.families.hub.baichuan.SECOND", V)
    torch.testing.assert_close(unit_rows(head, config)[0], head / head.norm(dim=1, keepdim=True))
