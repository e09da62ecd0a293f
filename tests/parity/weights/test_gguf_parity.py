"""Every GGUF architecture, written by llama.cpp's rules and read by our loader, gives transformers' numbers."""

import gguf
import pytest
import torch

from model.loading.checkpoint import build, load_gguf
from tests.parity.common import compare, greedy, hf_greedy, ids
from tests.parity.families import LLAMA3, build_hf
from tests.parity.weights.gguf_files import write_gguf

CASES = [
    "gpt2",
    "llama MHA",
    "llama GQA",
    "llama MQA, biases, tied",
    "llama head_dim",
    "qwen2",
    "qwen3",
    "gpt_neox parallel",
    "gpt_neox sequential",
]
# Rows of quantized matrices are multiples of 32.
WIDE = {"hidden_size": 64, "intermediate_size": 96}


@pytest.mark.parametrize("case", CASES)
def test_float32_file(case, tmp_path):
    hf = build_hf(case, shaken=True)
    config, state, metadata = load_gguf(write_gguf(tmp_path / "m.gguf", hf))
    ours = build(config, state)
    compare(ours, hf, ids())
    assert metadata["general.architecture"] in ("gpt2", "llama", "qwen2", "qwen3", "gptneox")
    prompt = ids(seed=2, length=7)
    assert torch.equal(greedy(ours, prompt, 20), hf_greedy(hf, prompt, 20))


@pytest.mark.parametrize("kind", ["Q8_0", "Q4_0", "Q4_1", "Q5_0", "F16", "BF16"])
@pytest.mark.parametrize("case", ["llama GQA", "gpt2"])
def test_quantized_file(case, kind, tmp_path):
    sizes = {"n_embd": 64, "n_inner": 96} if case == "gpt2" else WIDE | {"head_dim": 16}
    hf = build_hf(case, shaken=True, **sizes)
    before = hf.get_input_embeddings().weight.clone()
    config, state, _ = load_gguf(write_gguf(tmp_path / "m.gguf", hf, gguf.GGMLQuantizationType[kind]))
    assert not torch.equal(hf.get_input_embeddings().weight, before), "the file was not quantized"
    compare(build(config, state), hf, ids())


def test_llama_3_factors_are_recognized(tmp_path):
    rope = LLAMA3 | {"original_max_position_embeddings": 8192}
    hf = build_hf("llama GQA", shaken=True, rope_parameters=rope)
    config, state, _ = load_gguf(write_gguf(tmp_path / "m.gguf", hf))
    assert config.rope_scaling is not None and config.rope_scaling.factor == 4.0
    compare(build(config, state), hf, ids())


def test_other_rotary_factors_are_read_as_they_are(tmp_path):
    hf = build_hf("llama GQA", shaken=True, rope_parameters=LLAMA3)
    config, state, _ = load_gguf(write_gguf(tmp_path / "m.gguf", hf))
    assert config.rope_scaling is not None and config.rope_scaling.kind == "longrope"
    compare(build(config, state), hf, ids())
