"""Shapes of published checkpoints: at least four of each family that has them, with the number of their parameters.

The keys are those that their files config.json have apart from notes. `source` is the public repository or note in
which the values were read, "typed by hand" those that were not. The parameters are transformers' (5.23), counted
without memory, or for families without a class there ours; `stated` marks those that equal the total that the Hub or
the model card states, as typed by hand.
"""

import json
import math
from collections import Counter
from pathlib import Path

import pytest
import torch

from model.errors import CheckpointError, UnsupportedModel
from model.loading.checkpoint import read_config
from model.loading.convert import expected_shapes
from model.loading.families import FAMILIES
from model.loading.families.hub import HUB
from model.loading.families.layernorm.opt import OFFSET
from model.loading.from_memory import weights_of

DATA = Path(__file__).parents[3] / "data"
SHAPES = {each["name"]: each for each in json.loads((DATA / "published_shapes.json").read_text(encoding="utf-8"))}
# Families with fewer published checkpoints, or with fewer shapes that are known here.
FEWER = {
    *("ministral", "qwen2_moe", "gpt_oss", "olmo3", "olmoe", "smollm3", "arcee", "helium", "gptj"),
    *("mamba2", "nemotron_h", "falcon_h1", "bamba", "granitemoehybrid", "vaultgemma", "lfm2", "gemma3", "gemma4"),
    *("gemma4_text", "apertus", "phimoe"),
    *("qwen3_next", "qwen3_5", "qwen3_5_text", "qwen3_5_moe", "qwen3_5_moe_text", "mistral3", "ministral3"),
    *("cohere", "cohere2", "openai-gpt", "granitemoe", "glm", "glm4", "modernbert", "xlm-roberta", "camembert", "phi"),
    *("lfm2_moe", "dots1", "glm4_moe", "ernie4_5_moe", "granitemoeshared", "cwm", "iquestcoder", "jais2", "biogpt"),
    *("starcoder2", "nemotron", "seed_oss", "ernie4_5", "exaone4", "internlm3", *HUB, "attention-playground"),
}


def published() -> Counter[str]:
    """Count the published checkpoints of each family in the tests' data."""
    kinds = ("published_configs", "more_published_configs", "gated_published_configs", "published_shapes")
    files = [DATA / f"{kind}.json" for kind in kinds]
    entries = [entry for file in files for entry in json.loads(file.read_text(encoding="utf-8"))]
    return Counter(entry["config"].get("model_type") for entry in entries if "parameters" in entry)


def test_every_family_has_four_published_checkpoints_or_is_named():
    fewer = {name for name in FAMILIES if published()[name] < 4}
    assert fewer <= FEWER, f"fewer than four: {', '.join(sorted(fewer - FEWER))}"


def test_most_totals_equal_what_the_hub_states():
    assert sum(each.get("stated", False) for each in SHAPES.values()) >= 95
    assert all(each["source"] for each in SHAPES.values())


@pytest.mark.parametrize("name", SHAPES)
def test_a_published_shape_has_the_parameters_of_transformers(name, tmp_path):
    values = SHAPES[name]["config"]
    config = FAMILIES[values["model_type"]].to_config(dict(values))
    total = sum(math.prod(shape) for shape in expected_shapes(config).values())
    first = OFFSET if values["model_type"] in ("opt", "biogpt", "roberta", "xlm-roberta", "camembert") else 0
    assert total + first * config.d_model == SHAPES[name]["parameters"]  # rows of the position table that are not read
    (tmp_path / "config.json").write_text(json.dumps(values))
    assert read_config(tmp_path)[1] == config


def test_a_key_that_changes_numbers_is_a_reason_to_refuse(tmp_path):
    """MiniCPM with experts, under MiniCPM's name, and a reward model."""
    for name, more in (
        ("openbmb--MiniCPM-2B-sft-bf16", {"num_experts": 8, "num_experts_per_tok": 2}),
        ("internlm--internlm2-chat-7b", {"reward_token_id": 92527}),
        ("Qwen--Qwen3-235B-A22B", {"is_causal": False}),
    ):
        (tmp_path / "config.json").write_text(json.dumps(SHAPES[name]["config"] | more))
        with pytest.raises((CheckpointError, UnsupportedModel), match=next(iter(more))):
            read_config(tmp_path)


@pytest.mark.long
@pytest.mark.parametrize("name", [name for name, each in SHAPES.items() if each["config"]["model_type"] not in HUB])
def test_transformers_counts_the_same(name):
    import transformers

    config = transformers.AutoConfig.for_model(**SHAPES[name]["config"])
    two_way = FAMILIES[config.model_type].to_config(dict(SHAPES[name]["config"])).two_way
    kind = transformers.AutoModelForMaskedLM if two_way else transformers.AutoModelForCausalLM
    with torch.device("meta"):
        model = kind.from_config(config)
    assert sum(tensor.numel() for tensor in weights_of(model).values()) == SHAPES[name]["parameters"]
