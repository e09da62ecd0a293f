"""Published files config.json of families with other parts than Llama's: they give the parameters of transformers.

The parameters are transformers' (5.23), counted without memory.
"""

import json
import math
from pathlib import Path

import pytest
import torch

from model.errors import UnsupportedModel
from model.loading.checkpoint import read_config
from model.loading.convert import expected_shapes
from model.loading.families import FAMILIES
from model.loading.families.layernorm.opt import OFFSET

FILE = Path(__file__).parents[3] / "data" / "more_published_configs.json"
PUBLISHED = {entry["name"]: entry for entry in json.loads(FILE.read_text(encoding="utf-8"))}
MXFP4 = "openai--gpt-oss-20b"  # its experts are stored in a way that is not read


def config_of(name):
    values = {key: value for key, value in PUBLISHED[name]["config"].items() if key != "quantization_config"}
    return FAMILIES[values["model_type"]].to_config(values)


@pytest.mark.parametrize("name", PUBLISHED)
def test_a_published_config_has_the_parameters_of_transformers(name, tmp_path):
    config = config_of(name)
    unread = OFFSET * config.d_model if name.startswith("opt") else 0  # rows of the position table
    total = sum(math.prod(shape) for shape in expected_shapes(config).values())
    assert total + unread == PUBLISHED[name]["parameters"]
    (tmp_path / "config.json").write_text(json.dumps(PUBLISHED[name]["config"]))
    if name != MXFP4:
        assert read_config(tmp_path)[1] == config


def test_experts_in_4_bits_are_refused_with_what_to_do(tmp_path):
    (tmp_path / "config.json").write_text(json.dumps(PUBLISHED[MXFP4]["config"]))
    with pytest.raises(UnsupportedModel, match="4 bits") as caught:
        read_config(tmp_path)
    assert caught.value.got == "quant_method = 'mxfp4'" and "dequantize=True" in caught.value.hint


def test_the_facts_of_published_models():
    oss, tiny, opt = config_of(MXFP4), config_of("tinystories-1m"), config_of("opt-6.7b")
    assert (oss.n_expert, oss.experts_per_token, oss.d_head, oss.window, oss.sinks) == (32, 4, 64, 128, True)
    assert oss.mixers[:2] == ("sliding_window", "softmax") and oss.rope_theta == 150_000.0
    assert (oss.rope_scaling.kind, oss.rope_scaling.factor, oss.rope_scaling.whole_pairs) == ("yarn", 32.0, False)
    assert (tiny.window, tiny.score_multiplier, tiny.q_bias, tiny.o_bias) == (256, 1.0, False, True)
    assert tiny.mixers == ("softmax", "sliding_window") * 4
    assert (opt.n_ctx, opt.mlp, opt.positions, opt.tie_embeddings) == (2048, "relu", "learned", True)
    granite, bloom, phi = config_of("granite-3-8b-part"), config_of("bloom-176b-part"), config_of("onnxtool--phi-2")
    assert (granite.embed_multiplier, granite.residual_multiplier, granite.logit_multiplier) == (12.0, 0.22, 1 / 8)
    assert (granite.score_multiplier, granite.n_ctx) == (0.015625, 2048)
    assert (bloom.positions, bloom.embed_norm, bloom.tie_embeddings) == ("alibi", True, True)
    assert (phi.d_rotary, phi.shared_norm, phi.head_bias) == (32, True, True)


@pytest.mark.long
@pytest.mark.parametrize("name", PUBLISHED)
def test_transformers_counts_the_same(name):
    import transformers

    values = dict(PUBLISHED[name]["config"])
    values.pop("quantization_config", None)  # it is about the weights' storage, and needs packages of its own
    if values["model_type"] == "gptj":  # another project's key, which transformers' GPT-J does not have
        del values["rope_scaling"]
    config = transformers.AutoConfig.for_model(**values)
    with torch.device("meta"):
        if values["architectures"] == ["BertModel"]:  # its pooling layer is not read
            model = transformers.BertModel(config, add_pooling_layer=False)
        else:
            model = transformers.AutoModelForCausalLM.from_config(config)
    assert sum(parameter.numel() for parameter in model.parameters()) == PUBLISHED[name]["parameters"]
