"""Published files config.json: those of a family that is computed give its parameters, others are refused by name.

Of those that are refused, long entries were left out. The parameters are transformers' (5.23), counted without memory,
except for families without a class there. Names with two dashes are repositories on the Hub; those of Gemma 1, OLMo,
SmolLM3, Mistral and Phi-4 were typed.
"""

import json
from pathlib import Path

import pytest
import torch

from model.anatomy.anatomy import config_of, n_params
from model.errors import UnsupportedModel
from model.loading.checkpoint import read_config
from model.loading.convert import skeleton
from model.loading.families.hub import HUB

FILE = Path(__file__).parents[3] / "data" / "published_configs.json"
PUBLISHED = {entry["name"]: entry for entry in json.loads(FILE.read_text(encoding="utf-8"))}
COMPUTED = [name for name, entry in PUBLISHED.items() if "parameters" in entry]
REFUSED = [name for name in PUBLISHED if name not in COMPUTED]
FP8 = "Qwen--Qwen3-32B-FP8"  # its weights are stored in a way that is not read


def test_there_are_files_of_both_kinds():
    assert len(COMPUTED) == 62 and len(REFUSED) == 8


@pytest.mark.parametrize("name", COMPUTED)
def test_a_published_config_has_the_parameters_of_transformers(name, tmp_path):
    text = json.dumps(PUBLISHED[name]["config"])
    config = config_of(text)
    assert n_params(config) == PUBLISHED[name]["parameters"]
    assert sum(each.numel() for each in skeleton(config).parameters()) == PUBLISHED[name]["parameters"]
    (tmp_path / "config.json").write_text(text)
    if name != FP8:
        assert read_config(tmp_path)[1] == config


@pytest.mark.parametrize("name", REFUSED)
def test_a_published_config_of_another_family_is_refused_by_its_model_type(name, tmp_path):
    text = json.dumps(PUBLISHED[name]["config"])
    (tmp_path / "config.json").write_text(text)
    for attempt in (lambda: config_of(text), lambda: read_config(tmp_path)):
        with pytest.raises(UnsupportedModel, match=r'Architecture "[^"]+" is not supported') as caught:
            attempt()
        assert caught.value.got == f"model_type = {PUBLISHED[name]['refused']!r}"


@pytest.mark.long
@pytest.mark.parametrize("name", [name for name in COMPUTED if PUBLISHED[name]["config"].get("model_type") not in HUB])
def test_transformers_counts_the_same(name):
    import transformers

    values = {"model_type": "gpt2"} | PUBLISHED[name]["config"]
    values.pop("quantization_config", None)  # it is about the weights' storage, and needs packages of its own
    config = transformers.AutoConfig.for_model(**values)
    with torch.device("meta"):
        model = transformers.AutoModelForCausalLM.from_config(config)
    assert sum(parameter.numel() for parameter in model.parameters()) == PUBLISHED[name]["parameters"]
