"""GGUF files of more families, written by llama.cpp's rules and read by our loader, give transformers' numbers."""

import dataclasses

import gguf
import numpy as np
import pytest
import torch
from torch import nn

from model.errors import CheckpointError, UnsupportedModel
from model.loading import checkpoint
from model.loading.checkpoint import load_gguf
from model.loading.gguf_codes import codes_of
from model.loading.gguf_file import read_gguf
from model.loading.gguf_models import open_model, to_config
from tests.parity.common import D, V, compare, ids
from tests.parity.weights.gguf_cases import CASES, ENCODERS, EXPERTS
from tests.parity.weights.gguf_families import build, write


def loaded(path):
    """The model of a file."""
    return checkpoint.build(*load_gguf(path)[:2])


@pytest.mark.parametrize("case", CASES)
def test_float32_file(case, tmp_path, monkeypatch):
    monkeypatch.setattr("model.loading.families.hub.baichuan.WITH_ROPE", D)
    hf = build(case)
    compare(loaded(write(tmp_path / "m.gguf", case, hf)), hf, ids())


class Tied(nn.Module):
    """An encoder of transformers with its embedding as the head, since `compare` looks at logits, too."""

    def __init__(self, hf: nn.Module):
        super().__init__()
        self.hf, self.config = hf, hf.config

    def forward(self, tokens, **asked):
        out = self.hf(tokens, **asked)
        out.logits = out.last_hidden_state @ self.hf.get_input_embeddings().weight.T
        return out


@pytest.mark.parametrize("case", ENCODERS)
def test_encoders_come_without_a_head(case, tmp_path):
    hf = build(case)
    config, weights, _ = load_gguf(write(tmp_path / "m.gguf", case, hf))
    assert config.headless and config.n_ctx == 64
    ours = checkpoint.build(dataclasses.replace(config, headless=False), weights)
    compare(ours, Tied(hf), ids().clamp(min=2))  # transformers numbers positions without those of padding


def test_what_files_leave_unsaid(tmp_path, monkeypatch):
    """Queries of Ministral 3 grow beyond its first context; old files of MiniCPM have no multipliers; the rows of
    Baichuan 2's head have the length 1, and wide models of it ALiBi.
    """
    path = write(tmp_path / "m.gguf", "ministral3", build("ministral3"))
    assert open_model(path)[2].n_ctx == 24
    file = read_gguf(write(tmp_path / "n.gguf", "minicpm", build("minicpm")))
    old = {key: value for key, value in file.metadata.items() if not key.endswith("_scale")}
    config = to_config(dataclasses.replace(file, metadata=old))
    multipliers = (config.embed_multiplier, config.residual_multiplier, config.logit_multiplier)
    assert multipliers == (12.0, 1.4 / 3**0.5, 256 / D)
    monkeypatch.setattr("model.loading.families.hub.baichuan.SECOND", V)
    config, weights, _ = load_gguf(write(tmp_path / "b.gguf", "baichuan", build("baichuan")))
    assert config.positions == "alibi" and config.rope_scaling is None
    torch.testing.assert_close(weights["unembed.weight"].norm(dim=1), torch.ones(V))


def test_longrope_on_a_short_text(tmp_path):
    case = "phi3 longrope, tied"
    hf = build(case)
    model = loaded(write(tmp_path / "m.gguf", case, hf))
    assert model.config.rope_scaling.original_n_ctx == 24
    compare(model, hf, ids(length=19))
    compare(model, hf, ids(length=40))


def test_experts_with_a_tensor_each(tmp_path):
    hf = build("mixtral")
    path = write(tmp_path / "m.gguf", "mixtral", hf, apart=True)
    names = gguf.GGUFReader(path).tensors
    assert sum(".ffn_gate." in tensor.name for tensor in names) == 3 * EXPERTS["num_local_experts"]
    model = loaded(path)
    compare(model, hf, ids())
    model.join()
    assert codes_of(path, model) is None


@pytest.mark.parametrize("part", [1, 2, 5])
def test_a_split_file_from_any_part(part, tmp_path):
    hf = build("mistral")
    write(tmp_path / "m.gguf", "mistral", hf, split=7)
    files = sorted(path.name for path in tmp_path.iterdir())
    assert files == [f"m-{n:05}-of-00005.gguf" for n in range(1, 6)]
    compare(loaded(tmp_path / files[part - 1]), hf, ids())


def test_experts_in_mxfp4(tmp_path):
    """As gpt-oss is published: the model's experts are rounded to what the file holds."""
    hf = build("gpt_oss", intermediate_size=64, hidden_size=64, num_hidden_layers=1)
    kind = gguf.GGMLQuantizationType.MXFP4
    names = {name: parameter for name, parameter in hf.named_parameters() if "experts" in name and "bias" not in name}
    with torch.no_grad():
        for parameter in names.values():  # rows of the file are columns here
            stored = gguf.quants.quantize(np.ascontiguousarray(parameter.swapaxes(1, 2).numpy()), kind)
            parameter.copy_(torch.from_numpy(gguf.quants.dequantize(stored, kind)).swapaxes(1, 2))
    path = write(tmp_path / "m.gguf", "gpt_oss", hf, experts=kind)
    types = {tensor.name: tensor.tensor_type for tensor in gguf.GGUFReader(path).tensors}
    assert types["blk.0.ffn_up_exps.weight"] == kind
    compare(loaded(path), hf, ids())


REFUSED = {
    "mistral": ("logit_scale", 2.0),
    "mixtral": ("expert_gating_func", 2),
    "gemma4 26B-A4B": ("expert_gating_func", 2),
    "gemma4 E2B": ("rope.dimension_count_swa", 6),
    "gemma2": ("attention.shared_kv_layers", 1),
    "gpt_oss": ("rope.scaling.yarn_attn_factor", 2.0),
    "olmo3": ("rope.scaling.yarn_log_multiplier", 0.1),
    "qwen3_moe": ("expert_group_count", 4),
    "bloom": ("attention.max_alibi_bias", 8.0),
    "mpt": ("attention.max_alibi_bias", 4.0),
    "falcon multi-query": ("tensor_data_layout", "other"),
    "gpt_bigcode": ("attention.head_count_kv", 4),
    "cohere": ("final_logit_softcapping", 30.0),
    "glm4": ("nextn_predict_layers", 1),
    "dots1": ("expert_gating_func", 1),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_would_change_numbers_is_refused_by_name(case, tmp_path):
    key, value = REFUSED[case]
    path = write(tmp_path / "m.gguf", case, build(case), more={key: value})
    with pytest.raises((UnsupportedModel, CheckpointError), match=key):
        open_model(path)


def test_layers_that_predict_further_tokens_are_not_read(tmp_path):
    """The last layer of this file is said to be one, so its weights are left out."""
    hf = build("glm4_moe")
    config, weights, _ = load_gguf(write(tmp_path / "m.gguf", "glm4_moe", hf, more={"nextn_predict_layers": 1}))
    assert config.n_layer == 2 and not any(name.startswith("blocks.2.") for name in weights)
