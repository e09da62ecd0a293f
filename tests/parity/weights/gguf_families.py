"""Tiny transformers models of more families, written as GGUF by the rules of llama.cpp's converter for each."""

from collections.abc import Iterator
from pathlib import Path

import gguf
import numpy as np
import torch
from torch import nn

from model.loading.from_memory import weights_of
from tests.parity.common import N_CTX, D, shake
from tests.parity.weights.gguf_cases import CASES, CONFIGS, ENCODERS
from tests.parity.weights.gguf_files import permute

PERMUTED = ("llama", "olmo", "smollm3", "granite", "granitemoe", "arcee", "internlm2")
PERMUTED += ("mistral3", "minicpm", "baichuan", "xverse")
TWO_BASES = ("gemma3", "gemma4", "modern-bert")
PLUS_ONE = ("gemma", "gemma2", "gemma3", "nemotron", "qwen3next", "qwen35", "qwen35moe")
# Names of the modules in transformers 5 -> those of the published files, which gguf knows.
RENAMED = {
    "block_sparse_moe.router.": "block_sparse_moe.router.layer.",
    ".mlp.experts.gate_proj": ".mlp.experts.gate_proj.weight",
    ".mlp.experts.up_proj": ".mlp.experts.up_proj.weight",
    ".mlp.experts.down_proj": ".mlp.experts.down_proj.weight",
    ".self_attn.sinks": ".self_attn.sinks.weight",
    ".expert_bias": ".expert_bias.bias",
    ".layer_scalar": ".layer_scalar.weight",
    "gate.moe_statics.e_score_correction_bias": "moe_statics.e_score_correction.bias",
    "gate.e_score_correction_bias": "gate.e_score_correction.bias",
}


def build(case: str, **changes: object) -> nn.Module:
    """The shaken transformers model of a case; parameters that begin at 0 are shaken, too."""
    import transformers as hf

    _, name, values = (CASES | ENCODERS)[case]
    torch.manual_seed(0)
    given = {key: dict(value) if isinstance(value, dict) else value for key, value in (values | changes).items()}
    config = getattr(hf, CONFIGS.get(name, f"{name}Config"))(**given)
    config._attn_implementation = "eager"
    head = {} if case in CASES else {"add_pooling_layer": False} if name != "ModernBert" else {}
    model = getattr(hf, f"{name}{'ForCausalLM' if case in CASES else 'Model'}")(config, **head).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.ndim > 1 and not parameter.any():
                parameter.normal_(std=0.02)
    shake(model)
    return model


def write(
    path: Path,
    case: str,
    hf: nn.Module,
    *,
    apart: bool = False,
    split: int = 0,
    experts: gguf.GGMLQuantizationType | None = None,
    more: dict | None = None,
) -> Path:
    """The model as GGUF, with `more` metadata: experts `apart` as in 2023, or of a type; `split` files by tensors."""
    (architecture, _, given), c = (CASES | ENCODERS)[case], hf.config
    writer = gguf.GGUFWriter(path, architecture, split_max_tensors=split)
    own = _gemma4(given) if architecture == "gemma4" else {}
    c.allow_global_per_layer_attribute_access = True  # of Gemma 4; `own` has what differs
    for key, value in (_metadata(architecture, c) | own | (more or {})).items():
        _add(writer, f"{architecture}.{key}", value)
    arch = next(key for key, value in gguf.MODEL_ARCH_NAMES.items() if value == architecture)
    names = gguf.get_tensor_name_map(arch, c.num_hidden_layers)
    for theirs, tensor in _joined(hf, architecture):
        for name, array in _tensors(theirs, tensor.numpy(), architecture, c):
            place = _place(name, names, architecture)
            if apart and "_exps" in place:
                for n, one in enumerate(array):
                    writer.add_tensor(place.replace("_exps.", f".{n}."), np.ascontiguousarray(one))
            elif experts is not None and place.endswith("_exps.weight"):
                writer.add_tensor(place, gguf.quants.quantize(np.ascontiguousarray(array), experts), raw_dtype=experts)
            else:
                writer.add_tensor(place, np.ascontiguousarray(array, np.float32))
    for name, factors in (_factors(c) | (_beside(given) if architecture == "gemma4" else {})).items():
        writer.add_tensor(name, np.array(factors, np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def _joined(hf: nn.Module, architecture: str) -> Iterator[tuple[str, torch.Tensor]]:
    """The weights, with the gains of all heads in one tensor, as StableLM's class stacks them; q, k and v of Qwen 1."""
    gains: dict[str, list[torch.Tensor]] = {}
    fused: dict[str, list[torch.Tensor]] = {}
    for theirs, tensor in weights_of(hf).items():
        if "_layernorm.norms." in theirs:
            gains.setdefault(theirs.split(".norms.")[0], []).append(tensor)
        elif architecture == "qwen" and any(f".{part}_proj." in theirs for part in "qkv"):
            layer, kind = theirs.split(".")[2], theirs.rsplit(".", 1)[1]
            fused.setdefault(f"transformer.h.{layer}.attn.c_attn.{kind}", []).append(tensor)
        else:
            yield theirs, tensor
    for name, each in gains.items():
        yield f"{name}.weight", torch.stack(each)
    for name, each in fused.items():
        yield name, torch.cat(each)


def _add(writer: gguf.GGUFWriter, key: str, value: object) -> None:
    if isinstance(value, bool):
        writer.add_bool(key, value)
    elif isinstance(value, int):
        writer.add_uint32(key, value)
    elif isinstance(value, list):
        writer.add_array(key, value)
    else:
        (writer.add_string if isinstance(value, str) else writer.add_float32)(key, value)


def _first(config: object, *names: str) -> object:
    return next((found for name in names if (found := getattr(config, name, None)) is not None), None)


def _metadata(architecture: str, c) -> dict:
    """What TextModel.set_gguf_parameters and the class of the architecture write."""
    heads, width = c.num_attention_heads, c.hidden_size
    d_head = getattr(c, "head_dim", None) or width // heads
    rope = getattr(c, "rope_parameters", None) or {}
    whole = rope.get("full_attention", rope)
    values = {
        "block_count": c.num_hidden_layers,
        "context_length": _first(c, "max_position_embeddings", "max_seq_len", "seq_length") or width,
        "embedding_length": width,
        "feed_forward_length": _first(c, "intermediate_size", "n_inner", "ffn_hidden_size") or 4 * width,
        "attention.head_count": heads,
        "attention.head_count_kv": _kv_heads(architecture, c),
        "rope.freq_base": whole.get("rope_theta"),
        "rope.freq_base_swa": rope["sliding_attention"]["rope_theta"] if architecture in TWO_BASES else None,
        "attention.layer_norm_rms_epsilon": _first(c, "rms_norm_eps"),
        "attention.layer_norm_epsilon": _first(c, "layer_norm_eps", "layer_norm_epsilon", "norm_epsilon", "norm_eps"),
        "attention.key_length": getattr(c, "head_dim", None),
        "attention.value_length": getattr(c, "head_dim", None),
    }
    if architecture in ("olmo", "mpt"):
        values["attention.layer_norm_epsilon"] = 1e-5
    if fraction := whole.get("partial_rotary_factor"):
        values["rope.dimension_count"] = int(fraction * d_head)
    if architecture == "gptj":
        values["rope.dimension_count"] = c.rotary_dim
    values |= _scaling(whole, d_head) | _own(architecture, c)
    if "num_experts_per_tok" in c.to_dict():
        values |= {"expert_count": c.num_local_experts, "expert_used_count": c.num_experts_per_tok}
        if width := getattr(c, "moe_intermediate_size", None):
            values["expert_feed_forward_length"] = width
    return {key: value for key, value in values.items() if value is not None}


def _kv_heads(architecture: str, c) -> int | None:
    if architecture == "starcoder":
        return 1
    if architecture == "falcon":
        return c.num_kv_heads if c.new_decoder_architecture else 1
    return getattr(c, "num_key_value_heads", None)


def _scaling(rope: dict, d_head: int) -> dict:
    if rope.get("rope_type") == "linear":
        return {"rope.scaling.type": "linear", "rope.scaling.factor": rope["factor"]}
    if rope.get("rope_type") == "longrope":
        scale = N_CTX / rope["original_max_position_embeddings"]
        return {
            "rope.scaling.type": "longrope",
            "rope.scaling.original_context_length": rope["original_max_position_embeddings"],
            "rope.scaling.attn_factor": (1 + np.log(scale) / np.log(rope["original_max_position_embeddings"])) ** 0.5,
        }
    if rope.get("rope_type") != "yarn":
        return {}
    return {
        "rope.scaling.type": "yarn",
        "rope.scaling.factor": rope["factor"],
        "rope.scaling.original_context_length": rope["original_max_position_embeddings"],
        "rope.scaling.yarn_beta_fast": rope["beta_fast"],
        "rope.scaling.yarn_beta_slow": rope["beta_slow"],
    }


def _own(architecture: str, c) -> dict:
    """The keys of some architectures."""
    values: dict = {}
    if architecture in ("gemma2", "gemma3", "olmo2", "gpt-oss", "cohere2", "starcoder2", "phi3", "llama", "exaone4"):
        values["attention.sliding_window"] = getattr(c, "sliding_window", None)
    if architecture == "olmo2" and hasattr(c, "sliding_window"):
        values["attention.sliding_window_pattern"] = [kind == "sliding_attention" for kind in c.layer_types]
    if architecture == "exaone4" and c.sliding_window is not None:
        values["attention.sliding_window_pattern"] = [kind == "sliding_attention" for kind in c.layer_types]
    if architecture == "gemma2":
        values["attn_logit_softcapping"] = c.attn_logit_softcapping
        values["final_logit_softcapping"] = c.final_logit_softcapping
    if architecture in ("granite", "granitemoe", "minicpm"):
        values |= {
            "attention.scale": None if architecture == "minicpm" else c.attention_multiplier,
            "embedding_scale": c.embedding_multiplier,
            "residual_scale": c.residual_multiplier,
            "logit_scale": c.logits_scaling,
        }
    if architecture in ("command-r", "cohere2"):
        values |= {"logit_scale": c.logit_scale, "rope.scaling.type": "none"}
    if architecture == "mistral3":
        values["rope.scaling.yarn_log_multiplier"] = c.rope_parameters["mscale_all_dim"]
        values["attention.temperature_scale"] = c.rope_parameters["llama_4_scaling_beta"]
    if architecture == "qwen":
        values["feed_forward_length"] = 2 * c.intermediate_size
    if architecture in ("bert", "modern-bert"):
        values |= {"attention.causal": False, "pooling_type": 1}
    if c.model_type == "roberta":
        values["context_length"] = c.max_position_embeddings - 2
    if architecture == "modern-bert":
        values |= {"attention.sliding_window": c.local_attention, "attention.sliding_window_pattern": 3}
        values |= {"rope.scaling.type": "none", "vocab_size": c.vocab_size, "hidden_activation": c.hidden_activation}
    if architecture == "olmo":
        values["attention.clamp_kqv"] = c.clip_qkv
    if architecture == "mpt":
        values |= {"attention.clamp_kqv": c.attn_config.clip_qkv, "attention.max_alibi_bias": 8.0}
    if architecture == "stablelm":
        values["use_parallel_residual"] = c.use_parallel_residual
    if architecture == "falcon":
        values["tensor_data_layout"] = "jploski"
    if "moe" in architecture or architecture == "dots1":
        values["expert_weights_scale"] = getattr(c, "routed_scaling_factor", None)
        values["expert_gating_func"] = 2 if hasattr(c, "routed_scaling_factor") else 1
        if architecture in ("dots1", "glm4moe"):
            values["expert_weights_norm"] = c.norm_topk_prob
    if architecture == "ernie4_5-moe":
        values |= {"expert_count": c.moe_num_experts, "expert_used_count": c.moe_k}
        values["expert_feed_forward_length"] = c.moe_intermediate_size
    if architecture in ("qwen3next", "qwen35", "qwen35moe"):
        values |= {
            "ssm.conv_kernel": c.linear_conv_kernel_dim,
            "ssm.state_size": c.linear_key_head_dim,
            "ssm.group_count": c.linear_num_key_heads,
            "ssm.time_step_rank": c.linear_num_value_heads,
            "ssm.inner_size": c.linear_num_value_heads * c.linear_value_head_dim,
            "full_attention_interval": 2,
        }
    if architecture in ("lfm2", "lfm2moe"):
        heads = [c.num_key_value_heads if kind == "full_attention" else 0 for kind in c.layer_types]
        values |= {"attention.head_count_kv": heads, "shortconv.l_cache": c.conv_L_cache, "vocab_size": c.vocab_size}
        values |= {"attention.layer_norm_rms_epsilon": c.norm_eps, "attention.layer_norm_epsilon": None}
    return values


def _gemma4(c: dict) -> dict:
    """The keys of Gemma 4, whose layers differ."""
    near = [kind == "sliding_attention" for kind in c["layer_types"]]
    shared, width = c.get("num_kv_shared_layers", 0), c["intermediate_size"]
    values = {
        "attention.key_length": c["global_head_dim"],
        "attention.value_length": c["global_head_dim"],
        "attention.key_length_swa": c["head_dim"],
        "attention.value_length_swa": c["head_dim"],
        "rope.dimension_count": c["global_head_dim"],
        "rope.dimension_count_swa": c["head_dim"],
        "attention.shared_kv_layers": shared,
        "attention.sliding_window": c["sliding_window"],
        "attention.sliding_window_pattern": near,
        "embedding_length_per_layer_input": c["hidden_size_per_layer_input"],
        "final_logit_softcapping": c.get("final_logit_softcapping", 0.0),
        "attention.head_count_kv": c["num_key_value_heads"],
    }
    if shared:
        values["feed_forward_length"] = [width * (1 + (n >= len(near) - shared)) for n in range(len(near))]
    if c.get("enable_moe_block"):
        values |= {"expert_count": c["num_experts"], "expert_used_count": c["top_k_experts"]}
        values["expert_feed_forward_length"] = c["moe_intermediate_size"]
    if full := c.get("num_global_key_value_heads"):
        values["attention.head_count_kv"] = [c["num_key_value_heads"] if each else full for each in near]
    return values


# What the class of Gemma 4 makes of the names of its experts and their router.
_OF_EXPERTS = {
    "experts.gate_up_proj": "ffn_gate_up_exps.weight",
    "experts.down_proj": "ffn_down_exps.weight",
    "router.proj.weight": "ffn_gate_inp.weight",
    "router.scale": "ffn_gate_inp.scale",
    "router.per_expert_scale": "ffn_down_exps.scale",
}


def _beside(c: dict) -> dict[str, np.ndarray]:
    """Tensors that published files of Gemma 4 have and the class has not: keys and values of the last layers. The
    factors of the frequencies say which pairs do not rotate.
    """
    pairs = c["global_head_dim"] // 2
    rotated = int(c["global_head_dim"] * c["rope_parameters"]["full_attention"]["partial_rotary_factor"] / 2)
    last = range(len(c["layer_types"]) - c.get("num_kv_shared_layers", 0), len(c["layer_types"]))
    unread = {f"blk.{n}.{name}.weight": np.zeros((4, D)) for n in last for name in ("attn_k", "attn_v")}
    return {"rope_freqs.weight": np.array([1.0] * rotated + [1e30] * (pairs - rotated))} | unread


def _factors(c) -> dict[str, list]:
    rope = getattr(c, "rope_parameters", None) or {}
    if rope.get("rope_type") != "longrope":
        return {}
    return {"rope_factors_long.weight": rope["long_factor"], "rope_factors_short.weight": rope["short_factor"]}


def _tensors(theirs: str, array: np.ndarray, architecture: str, c) -> list[tuple[str, np.ndarray]]:
    """What modify_tensors makes of one tensor: names as in published files, and arrays."""
    if architecture == "lfm2moe" and "experts." in theirs:
        layer = f"blk.{theirs.split('.')[2]}"
        if "down_proj" in theirs:
            return [(f"{layer}.ffn_down_exps.weight", array)]
        gate, up = np.split(array, 2, 1)
        return [(f"{layer}.ffn_gate_exps.weight", gate), (f"{layer}.ffn_up_exps.weight", up)]
    if architecture == "gemma4" and ("experts." in theirs or "router." in theirs):
        place = f"blk.{theirs.split('.')[2]}.{_OF_EXPERTS[theirs.split('.', 3)[3]]}"
        return [(place, array)]
    if "position_embeddings" in theirs and c.model_type == "roberta":
        array = array[2:]
    if theirs.endswith("e_score_correction_bias"):
        array = array.flatten()
    if "experts.gate_up_proj" in theirs:  # of published files: one tensor each; gpt-oss: in turn along the outputs
        kind = "_bias" if theirs.endswith("_bias") else ""
        base = theirs.replace(f"gate_up_proj{kind}", "")
        end = ".bias" if kind else ""
        if architecture == "gpt-oss":
            array = array if kind else array.swapaxes(1, 2)
            return [(f"{base}gate_proj{end}", array[:, 0::2]), (f"{base}up_proj{end}", array[:, 1::2])]
        gate, up = np.split(array, 2, 1)
        return [(f"{base}gate_proj", gate), (f"{base}up_proj", up)]
    if architecture == "gpt-oss" and "experts.down_proj" in theirs:
        return [(theirs.replace("_bias", ".bias"), array if theirs.endswith("bias") else array.swapaxes(1, 2))]
    if architecture in PERMUTED and ".q_proj." in theirs:
        array = permute(array, c.num_attention_heads)
    if architecture in PERMUTED and ".k_proj." in theirs:
        array = permute(array, c.num_key_value_heads)
    if (
        architecture in PLUS_ONE
        and "linear_attn." not in theirs
        and (theirs.endswith("norm.weight") or "layernorm.weight" in theirs)
    ):
        array = array + 1
    if "linear_attn." in theirs:
        return _delta(theirs, array, architecture, c)
    if architecture in ("lfm2", "lfm2moe") and "conv.conv" in theirs:
        array = array.squeeze(1)
    if architecture == "bloom" and "query_key_value" in theirs:
        heads = array.reshape(c.n_head, 3, -1, *array.shape[1:])
        array = heads.swapaxes(0, 1).reshape(array.shape)
    if architecture == "falcon" and "query_key_value" in theirs:
        groups = _kv_heads(architecture, c)
        parts = array.reshape(groups, c.num_attention_heads // groups + 2, -1, array.shape[-1])
        array = np.concatenate(
            [each.reshape(-1, array.shape[-1]) for each in (parts[:, :-2], parts[:, -2], parts[:, -1])]
        )
    return [(theirs, array)]


def _delta(theirs: str, array: np.ndarray, architecture: str, c) -> list[tuple[str, np.ndarray]]:
    """What the classes of Qwen3-Next and Qwen3.5 make of a tensor of the delta rule."""
    keys, values = c.linear_num_key_heads, c.linear_num_value_heads
    if architecture == "qwen3next" and "in_proj_qkvz" in theirs:
        of_key, of_value = c.linear_key_head_dim, values // keys * c.linear_value_head_dim
        parts = np.split(array.reshape(keys, -1, D), np.cumsum([of_key, of_key, of_value]), 1)
        layer = f"blk.{theirs.split('.')[2]}"
        q, k, v, z = (part.reshape(-1, D) for part in parts)
        return [(f"{layer}.attn_qkv.weight", np.concatenate((q, k, v))), (f"{layer}.attn_gate.weight", z)]

    def tiled(x: np.ndarray) -> np.ndarray:
        if architecture == "qwen3next":
            return x
        return x.reshape(keys, values // keys, -1, *x.shape[1:]).swapaxes(0, 1).reshape(x.shape)

    if "conv1d" in theirs or "in_proj_qkv." in theirs:
        array, first = array.squeeze(1) if "conv1d" in theirs else array, 2 * keys * c.linear_key_head_dim
        return [(theirs, np.concatenate((array[:first], tiled(array[first:]))))]
    if "out_proj" in theirs:
        return [(theirs, tiled(array.T).T)]
    if theirs.endswith("A_log"):
        return [(theirs, tiled(-np.exp(array)))]
    if "norm" in theirs:
        return [(theirs, array)]
    return [(theirs.replace(".dt_bias", ".dt_proj.bias"), array if "in_proj_ba" in theirs else tiled(array))]


def _place(name: str, names: gguf.TensorNameMap, architecture: str) -> str:
    """The name in the file."""
    if name.startswith("blk."):
        return name
    name = name.removeprefix("transformer.") if architecture == "bloom" else name
    for before, after in RENAMED.items():
        name = name.replace(before, after) if before.endswith(".") or not name.endswith((".weight", ".bias")) else name
    name = name.replace("block_sparse_moe.experts.down_proj", "block_sparse_moe.output_linear.weight")
    if "block_sparse_moe.experts" in name:  # of input_linear, by the class of the architecture
        layer = name.split(".")[2]
        return f"blk.{layer}.ffn_{'gate' if 'gate' in name else 'up'}_exps.weight"
    found = names.get_name(name, try_suffixes=(".weight", ".bias"))
    if found is None and architecture == "gpt-oss" and name.endswith(".bias"):  # of experts
        found = f"{names.get_name(name.removesuffix('.bias') + '.weight', try_suffixes=('.weight',))[:-6]}bias"
    assert found is not None, name
    return found
