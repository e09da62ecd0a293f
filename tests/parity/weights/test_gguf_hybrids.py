"""GGUF files of models with Mamba 2 layers, written by llama.cpp's rules, give transformers' numbers."""

from pathlib import Path

import gguf
import numpy as np
import pytest
from torch import nn

from model.errors import UnsupportedModel
from model.loading.checkpoint import build, load_gguf
from model.loading.from_memory import weights_of
from tests.parity.common import D, G, H, M, V, ids, shake
from tests.parity.test_hybrids_parity import build_hf, compare
from tests.parity.weights.gguf_files import permute

NEMOTRON = ("nemotron_h", "nemotron_h_moe")
# case: (architecture, the prefix of transformers' keys about Mamba 2)
CASES = {
    "mamba": "mamba",
    "mamba2": "mamba2",
    "mamba2 biases, tied": "mamba2",
    "falcon_h1": "falcon-h1",
    "falcon_h1 scaled": "falcon-h1",
    "falcon_h1 norm": "falcon-h1",
    "granite hybrid dense": "granitehybrid",
    "granite hybrid experts": "granitehybrid",
    "nemotron_h": "nemotron_h",
    "nemotron_h experts": "nemotron_h_moe",
}


def mamba() -> nn.Module:
    """A shaken model of transformers."""
    import transformers

    special = dict.fromkeys(("bos_token_id", "eos_token_id", "pad_token_id"))
    sizes = {"vocab_size": V, "hidden_size": D, "num_hidden_layers": 2, "state_size": 8, "time_step_rank": 5}
    hf = transformers.MambaForCausalLM(transformers.MambaConfig(**sizes, **special)).eval()
    shake(hf)
    return hf


def made(case: str) -> nn.Module:
    """The shaken transformers model of a case."""
    if case == "mamba":
        return mamba()
    if case == "falcon_h1 scaled":
        scaled = {
            "key_multiplier": 0.3,
            "ssm_in_multiplier": 1.3,
            "ssm_out_multiplier": 0.6,
            "embedding_multiplier": 2.5,
        }
        scaled |= {"ssm_multipliers": [0.35, 0.25, 0.18, 0.5, 0.7], "mlp_multipliers": [0.9, 0.2]}
        return build_hf("falcon_h1", True, lm_head_multiplier=0.4, attention_in_multiplier=0.9, **scaled)
    if case == "granite hybrid dense":  # the converter knows positions in Bamba alone
        return build_hf("granite hybrid", True, position_embedding_type=None)
    more = {"time_step_min": 1e-12} if case.startswith("nemotron_h") else {}  # a file has no limits
    return build_hf(case, True, **more)


def _ssm(c) -> dict:
    """The keys about Mamba 2."""

    def first(*names: str) -> int:
        return next(int(getattr(c, name)) for name in names if hasattr(c, name))

    heads = first("mamba_n_heads", "mamba_num_heads", "num_heads")
    return {
        "ssm.conv_kernel": first("mamba_d_conv", "conv_kernel"),
        "ssm.state_size": first("mamba_d_state", "ssm_state_size", "state_size"),
        "ssm.group_count": first("mamba_n_groups", "n_groups"),
        "ssm.time_step_rank": heads,
        "ssm.inner_size": heads * first("mamba_d_head", "mamba_head_dim", "head_dim"),
    }


def _metadata(architecture: str, c) -> dict:
    eps = getattr(c, "rms_norm_eps", None) or getattr(c, "layer_norm_epsilon", 1e-5)
    values = {"context_length": 1 << 20, "embedding_length": D, "block_count": c.num_hidden_layers}
    values |= {"attention.layer_norm_rms_epsilon": eps}
    if architecture == "mamba":
        values |= {"ssm.conv_kernel": c.conv_kernel, "ssm.state_size": c.state_size, "ssm.inner_size": 2 * D}
        values |= {"ssm.time_step_rank": c.time_step_rank, "ssm.dt_b_c_rms": False}
    else:
        values |= _ssm(c)
    if architecture in ("mamba", "mamba2"):
        return values | {"feed_forward_length": 0, "attention.head_count": 0}
    kinds = ["full_attention"] * c.num_hidden_layers if architecture == "falcon-h1" else c.layer_types
    values |= {"attention.head_count": H, "feed_forward_length": M}
    values["attention.head_count_kv"] = [G if kind == "full_attention" else 0 for kind in kinds]
    if architecture == "falcon-h1":
        return values | {"attention.head_count_kv": G, "rope.freq_base": c.rope_parameters["rope_theta"]}
    if architecture in NEMOTRON:
        width, kind_of = (c.moe_intermediate_size, "moe") if architecture == "nemotron_h_moe" else (M, "mlp")
        values |= {"attention.key_length": c.head_dim, "attention.value_length": c.head_dim}
        values |= {"feed_forward_length": [width if kind == kind_of else 0 for kind in kinds]}
        return values | (_experts(c) if kind_of == "moe" else {})
    values |= {"attention.scale": c.attention_multiplier, "embedding_scale": c.embedding_multiplier}
    values |= {
        "residual_scale": c.residual_multiplier,
        "logit_scale": c.logits_scaling,
        "rope.scaling.finetuned": False,
    }
    if c.num_local_experts:
        values |= {"expert_count": c.num_local_experts, "expert_used_count": c.num_experts_per_tok}
    return values


def _experts(c) -> dict:
    """The keys about experts of Nemotron 3."""
    return {
        "expert_count": c.n_routed_experts,
        "expert_used_count": c.num_experts_per_tok,
        "expert_shared_count": 1,
        "expert_feed_forward_length": c.moe_intermediate_size,
        "expert_shared_feed_forward_length": c.moe_shared_expert_intermediate_size,
        "expert_weights_norm": c.norm_topk_prob,
        "expert_weights_scale": c.routed_scaling_factor,
        "expert_group_count": 1,
    }


def _tensors(name: str, x: np.ndarray, architecture: str, c) -> list[tuple[str, np.ndarray]]:
    """What the converter makes of one tensor."""
    name = name.replace("dt_bias", "dt_proj.bias")
    if architecture == "mamba":
        return [(name, -np.exp(x) if name.endswith("A_log") else x.squeeze(1) if "conv1d.weight" in name else x)]
    if name.endswith("A_log"):
        return [(name, -np.exp(x)[:, None])]
    if name.endswith((".D", "mamba.norm.weight", "mixer.norm.weight")):
        return [(name, x[:, None] if name.endswith(".D") else x.reshape(_ssm(c)["ssm.group_count"], -1))]
    x = x.squeeze(1) if "conv1d.weight" in name else x
    if ".mixer.experts." in name:
        return [(f"blk.{name.split('.')[2]}.ffn_{'up' if 'up_proj' in name else 'down'}_exps.weight", x)]
    name = name.replace("e_score_correction_bias", "e_score_correction.bias")
    if architecture in ("granitehybrid", *NEMOTRON) and name.endswith(("q_proj.weight", "k_proj.weight")):
        x = permute(x, H if "q_proj" in name else G)
    if architecture == "falcon-h1":
        x = _multiplied(name, x, c)
    if "gate_up_proj" in name or "shared_mlp.input_linear" in name:
        layer, shared = name.split(".")[2], "shared" in name
        gate, up = np.split(x, 2, -2)
        end = "_exps" if not shared else "_shexp" if c.num_local_experts else ""
        return [(f"blk.{layer}.ffn_gate{end}.weight", gate), (f"blk.{layer}.ffn_up{end}.weight", up)]
    if "shared_mlp.output_linear" in name and not c.num_local_experts:
        return [(f"blk.{name.split('.')[2]}.ffn_down.weight", x)]
    name = name.replace("block_sparse_moe.experts.down_proj", "block_sparse_moe.output_linear.weight")
    return [(name.replace("block_sparse_moe.router.", "block_sparse_moe.router.layer."), x)]


def _multiplied(name: str, x: np.ndarray, c) -> np.ndarray:
    attention, (gate, down) = c.attention_in_multiplier, c.mlp_multipliers
    factors = {"down_proj": down, "gate_proj": gate, "k_proj": c.key_multiplier * attention, "q_proj": attention}
    factors |= {"v_proj": attention, "o_proj": c.attention_out_multiplier, "out_proj": c.ssm_out_multiplier}
    factors |= {"lm_head": c.lm_head_multiplier, "embed_tokens": c.embedding_multiplier}
    for part, by in factors.items():
        if f".{part}." in f".{name}":
            return x * by
    if "in_proj" in name:
        groups = c.mamba_n_groups * c.mamba_d_state
        sizes = (c.mamba_d_ssm, c.mamba_d_ssm, groups, groups, c.mamba_n_heads)
        rows = np.repeat(np.array(c.ssm_multipliers), sizes) * c.ssm_in_multiplier
        return x * rows[:, None].astype(np.float32)
    return x


def write(path: Path, architecture: str, hf: nn.Module, **more: object) -> Path:
    """The model as GGUF."""
    writer, c = gguf.GGUFWriter(path, architecture), hf.config
    for key, value in (_metadata(architecture, c) | more).items():
        add = {bool: writer.add_bool, int: writer.add_uint32, list: writer.add_array}.get(
            type(value), writer.add_float32
        )
        add(f"{architecture}.{key}", value)
    arch = next(key for key, value in gguf.MODEL_ARCH_NAMES.items() if value == architecture)
    names = gguf.get_tensor_name_map(arch, c.num_hidden_layers)
    for theirs, weight in weights_of(hf).items():
        for name, array in _tensors(theirs, weight.numpy(), architecture, c):
            name = name.replace("model.", "backbone.") if architecture in NEMOTRON else name
            place = name if name.startswith("blk.") else names.get_name(name, try_suffixes=(".weight", ".bias"))
            assert place is not None, name
            writer.add_tensor(place, np.ascontiguousarray(array, np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


@pytest.mark.parametrize("case", CASES)
def test_float32_file(case, tmp_path):
    hf = made(case)
    ours = build(*load_gguf(write(tmp_path / "m.gguf", CASES[case], hf))[:2])
    compare(ours, hf, ids())


def test_what_a_file_cannot_say_is_refused(tmp_path):
    hf = made("granite hybrid dense")
    path = write(tmp_path / "m.gguf", "granitehybrid", hf, **{"rope.scaling.finetuned": True})
    with pytest.raises(UnsupportedModel, match="finetuned"):
        load_gguf(path)
    path = write(tmp_path / "n.gguf", "granitehybrid", hf, **{"attention.head_count_kv": [0, 2, 4]})
    with pytest.raises(UnsupportedModel, match=r"head_count_kv = \[2, 4\]"):
        load_gguf(path)
