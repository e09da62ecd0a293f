"""Every family, plain and shaken: the production loader and our forward give transformers' numbers."""

import json

import pytest
import torch

from model.loading.checkpoint import build, load_folder
from tests.parity.common import compare, greedy, hf_greedy, ids, save
from tests.parity.families import CASES, build_hf


@pytest.mark.parametrize("shaken", [False, True], ids=["plain", "shaken"])
@pytest.mark.parametrize("case", CASES)
def test_logits_patterns_hidden_states_and_generation(case, shaken, tmp_path):
    hf = build_hf(case, shaken)
    ours = build(*load_folder(save(hf, tmp_path)))
    compare(ours, hf, ids())
    prompt = ids(seed=2, length=7)
    assert torch.equal(greedy(ours, prompt, 20), hf_greedy(hf, prompt, 20))


@pytest.mark.parametrize("case", ["gpt2", "llama GQA", "gpt_neox parallel"])
def test_shards_give_the_same_weights_as_one_file(case, tmp_path):
    hf = build_hf(case, shaken=True)
    one, many = save(hf, tmp_path / "one"), save(hf, tmp_path / "many", max_shard_size="40KB")
    assert len(list(many.glob("*.safetensors"))) > 2
    (config, whole), (same_config, sharded) = load_folder(one), load_folder(many)
    assert config == same_config and whole.keys() == sharded.keys()
    assert all(torch.equal(whole[name], sharded[name]) for name in whole)


@pytest.mark.parametrize("case", ["llama GQA", "llama 3 rope", "gpt_neox parallel"])
def test_config_in_the_older_spelling_gives_the_same_model(case, tmp_path):
    """Before transformers 5, rope_theta stood beside rope_scaling, and GPT-NeoX had names of its own."""
    hf = build_hf(case, shaken=True)
    folder = save(hf, tmp_path)
    new, _ = load_folder(folder)
    values = json.loads((folder / "config.json").read_text())
    rope = values.pop("rope_parameters")
    theta, fraction = rope.pop("rope_theta"), rope.pop("partial_rotary_factor", None)
    if values["model_type"] == "gpt_neox":
        values |= {"rotary_emb_base": int(theta), "rotary_pct": fraction}
    else:
        values |= {"rope_theta": theta, "rope_scaling": rope if rope["rope_type"] != "default" else None}
    (folder / "config.json").write_text(json.dumps(values))
    old, state = load_folder(folder)
    assert old == new
    compare(build(old, state), hf, ids())


@pytest.mark.parametrize("case", ["gpt2", "llama GQA", "gpt_neox parallel"])
def test_names_without_the_prefix_are_read_too(case, tmp_path):
    """Early GPT-2 files say h.0 where later ones say transformer.h.0."""
    from safetensors.torch import load_file, save_file

    hf = build_hf(case, shaken=True)
    folder = save(hf, tmp_path)
    prefix = hf.base_model_prefix + "."
    file = folder / "model.safetensors"
    tensors = {name.removeprefix(prefix): tensor for name, tensor in load_file(file).items()}
    save_file(tensors, file, metadata={"format": "pt"})
    compare(build(*load_folder(folder)), hf, ids())


def test_bfloat16_weights_are_widened_exactly(tmp_path):
    hf = build_hf("llama GQA", shaken=True).to(torch.bfloat16)
    _, state = load_folder(save(hf, tmp_path))
    expected = hf.state_dict()["model.layers.2.mlp.up_proj.weight"].float()
    assert state["blocks.2.mlp.up.weight"].dtype == torch.float32
    assert torch.equal(state["blocks.2.mlp.up.weight"], expected)
