"""A model saved under GPT-2's names is the same model, here and in transformers."""

import pytest
import torch

from model.errors import UnsupportedModel
from model.gpt.transformer import Transformer
from model.loading.checkpoint import build, load_folder
from model.loading.export import gpt2_config, save_gpt2
from tests.support.models.helpers import assert_close, shake, tiny_config, tiny_model
from tests.support.models.rounding import logits_within

SHAPE = {"n_kv_head": 4, "d_head": 12}  # 4 heads x 12 = 48 = d_model


@pytest.mark.parametrize("mlp", ["gelu_tanh", "gelu", "relu"])
def test_exported_model_is_the_same_here_and_in_transformers(tmp_path, mlp):
    transformers = pytest.importorskip("transformers")
    model = Transformer(tiny_config({**SHAPE, "mlp": mlp})).eval()
    shake(model, torch.Generator().manual_seed(1))
    save_gpt2(tmp_path, model, "{}", 52, torch.float32)
    ids = torch.arange(23)[None] * 2
    again = build(*load_folder(tmp_path))
    theirs = transformers.GPT2LMHeadModel.from_pretrained(tmp_path).eval()
    with torch.inference_mode():
        expected = model(ids)
        assert torch.equal(again(ids), expected)
        assert_close(theirs(ids).logits, expected, logits_within(model, ids))


def test_float16_rounds_each_weight(tmp_path):
    model = tiny_model(SHAPE)
    save_gpt2(tmp_path, model, "{}", 52, torch.float16)
    _, state = load_folder(tmp_path)
    for name, weight in state.items():
        assert torch.equal(weight, model.get_parameter(name).half().float()), name


@pytest.mark.parametrize(
    "change",
    [
        {"norm": "rmsnorm"},
        {"norm_placement": "post"},
        {"positions": "rope"},
        {"mlp": "swiglu"},
        {"qk_norm": True},
        {"n_kv_head": 2},
        {"d_head": 10},
        {"q_bias": False},
        {"tie_embeddings": False},
        {"norm_bias": False},
    ],
    ids=str,
)
def test_another_shape_is_refused(change):
    with pytest.raises(UnsupportedModel, match="does not have GPT-2's architecture"):
        gpt2_config(tiny_config({**SHAPE, **change}), 0)
