"""A model whose weights are numbers of bfloat16 has its steps read them so, with float32's results."""

import numpy as np
import pytest
import torch

from model.api import load_model
from model.gpt import decode_step
from model.gpt.cache import KVCache
from model.gpt.decode_step import PLAIN, WAYS, step_of
from model.gpt.decode_ways import taken
from model.loading.checkpoint import save_folder
from tests.support.models.helpers import VARIANTS, assert_close, random_ids, tiny_model
from tests.support.models.rounding import logits_within
from tests.support.models.small_models import save_tiny
from tests.support.models.steps import prepared

T = 9
WIDE = {"d_model": 64, "d_mlp": 96, "vocab_size": 160, "d_head": 16, "n_kv_head": 2}


def rounded(name: str = "llama", keep: str = "none"):
    """A model with weights of bfloat16, as float32; those of which the name ends with `keep` are not rounded."""
    model = prepared(name, None, WIDE)
    with torch.no_grad():
        for own, parameter in model.named_parameters():
            if not own.endswith(keep):
                parameter.copy_(parameter.bfloat16())
    decode_step.take_bfloat16(model)
    decode_step._STEPS.pop(model, None)
    return model


def matrices(numbers) -> list[np.ndarray]:
    parts = [*numbers.head, *(part for layer in numbers.layers for part in (*layer.read, *layer.write))]
    return [part for part in parts if np.ndim(part) in (2, 3)]  # scales have four


@pytest.mark.parametrize("name", VARIANTS)
@pytest.mark.parametrize("how", WAYS[3:])
@pytest.mark.parametrize("rows", [1, 5])
def test_steps_are_one_forward(name, how, rows):
    model, ids = rounded(name), random_ids(rows, T)
    strips = matrices(step_of(model).coded())
    assert {(each.dtype.name, each.ndim) for each in strips} == {("uint16", 3)}
    assert len(strips) == 1 + 4 * model.config.n_layer
    cache = KVCache.empty(model.config, rows, T)
    with torch.inference_mode():
        steps = torch.cat([taken(model, part, cache, how) for part in ids.split(1, 1)], 1)
        assert_close(steps, model(ids), logits_within(model, ids))


def test_a_matrix_of_other_numbers_is_read_as_it_is():
    model, other = rounded(keep="attn.q.weight"), rounded(keep="mlp.down.weight")
    numbers = step_of(model).coded()
    assert {layer.read[5].dtype.name for layer in numbers.layers} == {"float32"}
    assert {layer.write[0].dtype.name for layer in numbers.layers} == {"uint16"}
    numbers = step_of(other).coded()
    assert {layer.read[5].dtype.name for layer in numbers.layers} == {"uint16"}
    assert {layer.write[0].dtype.name for layer in numbers.layers} == {"float32"}, "one kind for what writes"


def test_a_model_of_other_numbers_has_none_and_one_without_room_neither(monkeypatch):
    model = prepared(how=None)
    decode_step.take_bfloat16(model)
    decode_step._STEPS.pop(model, None)
    assert step_of(model).ways() == PLAIN and "with codes" in step_of(model).name(1)
    asked = []
    monkeypatch.setattr(decode_step, "have_room", lambda size: asked.append(size))
    other = rounded()
    assert step_of(other).ways() == PLAIN
    assert asked == [sum(weight.nbytes for weight in decode_step.weights_of(other)) // 2]


def test_a_model_without_compiled_steps_may_be_told():
    model = tiny_model({"n_expert": 2})
    decode_step.take_bfloat16(model)
    assert step_of(model) is None


def test_a_changed_weight_is_seen_at_the_next_text():
    model = rounded()
    assert step_of(model).ways() == WAYS
    model.blocks[0].mlp.down.weight.data[3, 5] = 0.1
    with torch.inference_mode():
        model.trunk(random_ids(1, 3), cache=KVCache.empty(model.config, 1, 4))
    assert step_of(model).ways() == PLAIN


def test_a_folder_in_bfloat16_is_loaded_so(tmp_path):
    shape = {"d_model": 32, "n_head": 2, "d_mlp": 64, "vocab_size": 288}
    save_tiny(tmp_path, **shape)
    assert step_of(load_model(tmp_path).model).ways() == PLAIN
    save_folder(tmp_path, load_model(tmp_path).model, torch.bfloat16)
    lm = load_model(tmp_path)
    assert step_of(lm.model).ways() == WAYS and lm.dtype == "float32"
    assert step_of(load_model(tmp_path, dtype="bfloat16").model) is None
