"""Our adapters, read by peft onto transformers' own model: the same logits; and peft's own merging is ours."""

import pytest
import torch
from torch import nn

from model.alignment.adapter_files import peft_files, save_peft
from model.alignment.lora import MATRICES, Lora, adapt, adapters, merged
from model.errors import UnsupportedModel
from model.loading.checkpoint import build, load_folder
from tests.parity.common import ids, save
from tests.parity.families import build_hf

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
@pytest.mark.parametrize("case", ["gpt2", "gpt2 untied, erf, default width", "llama GQA", "qwen3 biases"])
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


def test_adapters_without_names_in_peft_are_not_offered(tmp_path):
    _, ours, lora = adapted("gpt_neox parallel", "attention", tmp_path)
    assert peft_files(ours, lora, "base") is None and peft_files(ours, None, "base") is None
    with pytest.raises(UnsupportedModel, match="no names in peft"):
        save_peft(tmp_path, ours, lora, "base")
