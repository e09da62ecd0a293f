"""Our adapters, read by peft onto transformers' own model: the same logits; and peft's own merging is ours."""

import dataclasses

import pytest
import torch
from torch import nn

from model.alignment.adapter_files import peft_files, save_peft
from model.alignment.lora import MATRICES, Lora, adapt, adapters, merged
from model.errors import UnsupportedModel
from model.loading.checkpoint import build, load_folder
from model.loading.convert import skeleton
from tests.parity.common import ids, save
from tests.parity.families import build_hf

CASES = [
    "gpt2",
    "gpt2 untied, erf, default width",
    "llama GQA",
    "qwen3 biases",
    "gpt_neox parallel",
    "gpt_neox sequential",
    "gpt_neox no biases",
]
ROUNDING = 2e-5  # of the largest logit; float32


def adapted(case: str, matrices: str, folder):
    """transformers' model, ours with adapters as they may be after training, and the settings of these."""
    hf, lora = build_hf(case, shaken=True), Lora(3, 5.0, matrices)
    ours = build(*load_folder(save(hf, folder / "base")))
    adapt(ours, lora)
    for seed, (_, layer) in enumerate(adapters(ours)):
        nn.init.normal_(layer.b, std=0.3, generator=torch.Generator().manual_seed(seed))
    return hf, ours, lora


@pytest.mark.parametrize("matrices", MATRICES)
@pytest.mark.parametrize("case", CASES)
@torch.inference_mode()
def test_peft_reads_our_adapters_and_computes_what_we_do(tmp_path, case, matrices):
    from peft import PeftModel

    hf, ours, lora = adapted(case, matrices, tmp_path)
    plain = hf(ids()).logits
    peft_files(ours, lora, "base")(tmp_path)
    theirs = PeftModel.from_pretrained(hf, str(tmp_path / "adapter")).eval()
    found, expected = ours(ids()), theirs(ids()).logits
    largest = expected.abs().max()
    assert (expected - plain).abs().max() > 0.01 * largest  # the adapters do something
    assert (found - expected).abs().max() < ROUNDING * largest
    whole = theirs.merge_and_unload()(ids()).logits
    assert (merged(ours)(ids()) - whole).abs().max() < ROUNDING * largest


NAMELESS = [
    ({"norm": "layernorm"}, "GPT-NeoX", "n_kv_head"),
    ({"norm": "layernorm", "n_kv_head": 4, "mlp": "swiglu"}, "GPT-NeoX", "mlp"),
    ({"norm": "layernorm", "n_kv_head": 4, "mlp": "gelu", "k_bias": True}, "GPT-NeoX", "k_bias"),
    ({"norm": "layernorm", "n_kv_head": 4, "mlp": "gelu", "d_head": 10}, "GPT-NeoX", "d_head"),
    ({"parallel_residual": True}, "Llama", "parallel_residual"),
    ({"positions": "learned"}, "GPT-2", "norm"),
]


@pytest.mark.parametrize(("changes", "label", "field"), NAMELESS, ids=[field for _, _, field in NAMELESS])
def test_adapters_without_names_in_peft_are_not_offered(tmp_path, changes, label, field):
    """The error names the closest architecture and the fields that differ."""
    _, ours, lora = adapted("llama GQA", "attention", tmp_path)
    if "norm" in changes:
        changes = {"norm_bias": True, "mlp_bias": True} | changes
    other = skeleton(dataclasses.replace(ours.config, **changes))
    assert peft_files(ours, None, "base") is None and peft_files(other, lora, "base") is None
    with pytest.raises(
        UnsupportedModel, match=f"no names for this model's adapters: its architecture is not {label}"
    ) as caught:
        save_peft(tmp_path, other, lora, "base")
    assert field in caught.value.got and not (tmp_path / "adapter_config.json").exists()
