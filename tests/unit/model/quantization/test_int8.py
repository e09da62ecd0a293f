"""8-bit weights: what they round to, that the model around them is the same, and that their effect is measured."""

import math

import pytest
import torch

from model.generation.generate import generate
from model.generation.strategies import STRATEGIES, DecodingPlan
from model.gpt.cache import KVCache
from model.kernels import ready
from model.quantization.int8 import Int8Linear, effect, quantized, rounded
from tests.support.models.helpers import VARIANTS, V, assert_close, random_ids, tiny_model
from tests.support.models.rounding import logits_within, products, sums

T = 9


def test_a_row_is_whole_numbers_times_its_scale():
    weight = torch.tensor([[1.27, -0.635, 0.01, 0.0], [0.0, 0.0, 0.0, 0.0], [-254.0, 2.0, 3.0, 100.0]])
    whole, scale = rounded(weight)
    assert whole.tolist() == [[127, -64, 1, 0], [0, 0, 0, 0], [-127, 1, 2, 50]]  # 63.5 and 1.5 to the even number
    assert scale.tolist() == pytest.approx([0.01, 0.0, 2.0])
    assert whole.dtype == torch.int8


def test_no_weight_is_off_by_more_than_half_a_scale():
    weight = torch.randn(40, 30, generator=torch.Generator().manual_seed(0))
    whole, scale = rounded(weight)
    layer = Int8Linear(whole, scale, None)
    assert ((layer.weight - weight).abs() <= scale[:, None] * 0.5001).all()


@pytest.mark.parametrize("rows", [1, 6, 16, 17, 40])
def test_few_rows_and_many_give_the_same_product(rows):
    generator = torch.Generator().manual_seed(1)
    weight, x = torch.randn(48, 64, generator=generator), torch.randn(rows, 1, 64, generator=generator)
    layer = Int8Linear(*rounded(weight), torch.randn(48, generator=generator))
    exact = x @ layer.weight.T + layer.bias
    found = layer(x)
    assert found.shape == (rows, 1, 48) and found.dtype == torch.float32
    assert_close(found, exact, products(x, layer.weight.mT) + sums(3, exact))  # times the scale, plus the bias


@pytest.mark.parametrize("name", VARIANTS)
def test_the_model_around_the_weights_is_the_same(name):
    """A float32 model whose matrices are the rounded ones says the same, to rounding."""
    model = tiny_model(VARIANTS[name])
    small = quantized(model)
    twin = tiny_model(VARIANTS[name])
    ids = random_ids(2, 20)
    for ours, theirs in zip(twin.blocks, small.blocks, strict=True):
        mine_all, others = (
            [*block.attn.parts(), block.attn.o, *block.mlp.parts(), block.mlp.down] for block in (ours, theirs)
        )
        for mine, other in zip(mine_all, others, strict=True):
            mine.weight.data = other.weight
            assert other.weight.shape == mine.weight.shape
    twin.unembed.weight = torch.nn.Parameter(small.unembed.weight)  # the embedding itself stays float32
    with torch.inference_mode():
        assert_close(small(ids), twin(ids), logits_within(twin, ids))


@pytest.mark.parametrize("name", ["gpt2", "llama", "qwen3"])
def test_it_decodes_with_a_cache(name):
    small, ids = quantized(tiny_model(VARIANTS[name])), random_ids(1, T)
    cache = KVCache.empty(small.config, 1, T)
    with torch.inference_mode():
        one_by_one = torch.cat([small(token, cache=cache) for token in ids.split(1, 1)], 1)
        assert_close(one_by_one, small(ids), logits_within(small, ids))


@pytest.mark.parametrize("name", ["gpt2", "llama"])
def test_a_batch_writes_what_one_row_writes(name):
    small, plan = quantized(tiny_model(VARIANTS[name])), DecodingPlan(max_new_tokens=8)
    alone, batch = (
        [
            change.made[0].id
            for tick in generate(small, [1, 2, 3], [STRATEGIES["greedy"]] * n, plan, V)
            for change in tick.changes
        ]
        for n in (1, 6)
    )
    assert batch == [token for token in alone for _ in range(6)]


def test_the_effect_is_that_of_the_two_distributions():
    model = tiny_model(VARIANTS["llama"])
    small, ids = quantized(model), random_ids(1, T)[0]
    found = effect(model, small, ids.tolist())
    with torch.inference_mode():
        p, q = model(ids[None])[0].softmax(-1), small(ids[None])[0].softmax(-1)
    assert found.kl == pytest.approx(float((p * (p / q).log()).sum(-1).mean()), rel=1e-3)
    assert found.agree == pytest.approx(float((p.argmax(-1) == q.argmax(-1)).float().mean()))
    assert found.positions == T
    assert 0 < found.kl < 0.1 and 0 < found.largest < 1
    matrices = [w for name, w in model.named_parameters() if w.ndim == 2 and "embed" not in name]
    tied = model.config.vocab_size * model.config.d_model
    assert found.full == 4 * (sum(w.numel() for w in matrices) + tied)
    assert found.nbytes == sum(len(w) * (w.shape[1] + 4) for w in (*matrices, model.embed.weight))


def test_the_same_model_has_no_effect():
    model = tiny_model()
    none = effect(model, model, [1, 2, 3])
    assert none.kl == pytest.approx(0, abs=1e-6) and none.agree == 1
    assert none.largest <= logits_within(model, torch.tensor([[1, 2, 3]])).max()
    assert not math.isnan(none.kl)


def test_a_machine_without_compiled_loops_multiplies_in_float32(monkeypatch):
    monkeypatch.setattr(ready, "now", lambda: None)
    layer = Int8Linear(*rounded(torch.randn(8, 16)), None)
    x = torch.randn(1, 16)
    assert_close(layer(x), x @ layer.weight.T, products(x, layer.weight.mT) + sums(2, layer(x)))
