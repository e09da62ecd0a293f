"""A compiled step says what the model says, wherever it is taken, and it is taken where it is fastest."""

import gc
import weakref

import numpy as np
import pytest
import torch

from model.generation.generate import generate
from model.generation.strategies import STRATEGIES, DecodingPlan
from model.generation.together import SharedBatch
from model.gpt import decode_step
from model.gpt.cache import KVCache
from model.gpt.decode_step import PLAIN, step_of
from model.gpt.linear import tune
from model.gpt.tap import identity
from model.kernels import ready
from model.loading.halves import halved
from model.quantization.int8 import quantized
from tests.support.models.helpers import VARIANTS, V, assert_close, random_ids, tiny_model, written
from tests.support.models.rounding import logits_within
from tests.support.models.steps import prepared

T = 21
COMPILED = PLAIN[1:]
PIECES = ([1] * T, [3, 1, 1, 8, 1, 7], [16, 5])


def decoded(model, ids, pieces) -> torch.Tensor:
    cache = KVCache.empty(model.config, len(ids), ids.shape[1])
    with torch.inference_mode():
        out = torch.cat([model(part, cache=cache) for part in ids.split(pieces, 1)], 1)
    assert cache.length == ids.shape[1]
    return out


@pytest.mark.parametrize("name", VARIANTS)
@pytest.mark.parametrize("how", COMPILED)
@pytest.mark.parametrize("pieces", PIECES, ids=str)
def test_steps_of_any_size_are_one_forward(name, how, pieces, taken):
    model, ids = prepared(name, how), random_ids(2, T)
    with torch.inference_mode():
        full = model(ids)
    assert_close(decoded(model, ids, pieces), full, logits_within(model, ids))
    assert taken == [(2 * n, how) for n in pieces if 2 * n <= 16]


@pytest.mark.parametrize("name", ["gpt2", "qwen3", "neox"])
@pytest.mark.parametrize("how", COMPILED)
def test_steps_with_8_bits(name, how, taken):
    """Beside float32 copies of the same rounded weights, by which many rows are multiplied."""
    model, ids = quantized(prepared(name, None)), random_ids(1, T)
    step_of(model).fastest.update(dict.fromkeys((1, 2, 4, 8, 16), how))
    with torch.inference_mode():
        full = model(ids)
    assert_close(decoded(model, ids, [1] * T), full, logits_within(model, ids))
    assert taken == [(1, how)] * T


@pytest.mark.parametrize("how", COMPILED)
def test_texts_of_several_visitors_share_a_step(how, taken):
    model, prompts = prepared("qwen3", how), [random_ids(1, n, seed=n)[0].tolist() for n in (3, 20, 9)]
    plan, greedy, room = DecodingPlan(6), [STRATEGIES["greedy"]], SharedBatch.of(model)
    known = [written(generate(tiny_model(VARIANTS["qwen3"]), ids, greedy, plan, V))[0] for ids in prompts]
    texts = [room.generate(ids, greedy, plan, V) for ids in prompts]
    ticks = [[next(text)] for text in texts]
    taken.clear()
    for _ in range(5):
        for at, text in enumerate(texts):
            ticks[at].append(next(text))
    assert [written(of)[0] for of in ticks] == known
    assert max(rows for rows, _ in taken) == 3


def test_nothing_is_copied_and_the_model_may_go():
    model = prepared()
    step = step_of(model)
    assert step_of(model) is step
    held = [
        each for layer in step.plain.layers for each in (*layer.read, *layer.attend, *layer.write) if np.size(each) > 1
    ]
    ours = [parameter.detach().numpy() for name, parameter in model.blocks.named_parameters()]
    assert len(held) >= 6 * len(step.plain.layers)
    assert all(any(np.shares_memory(each, own) for own in ours) for each in held)
    assert np.shares_memory(step.plain.head[5], model.embed.weight.detach().numpy())
    gone = weakref.ref(model)
    del model, ours
    gc.collect()
    assert gone() is None


def test_what_is_given_is_left_as_it_was():
    model = prepared()
    x, cache = torch.ones(1, model.config.d_model), KVCache.empty(model.config, 1, 4)
    cache.k.zero_(), cache.v.zero_()
    out = step_of(model).blocks(x, [decode_step.CacheRows.of(cache, 1, model.prepare(0, 1).rope)], "alone")
    assert (x == 1).all() and (out != 1).any() and cache.length == 0
    assert cache.k[:, :, :, 0].any() and not cache.k[:, :, :, 1:].any()


@pytest.mark.parametrize(("rows", "width", "tokens"), [(2, 0, 1), (1, 1, 1), (1, -1, 1), (5, 0, 5)])
def test_what_would_be_read_or_written_beyond_is_refused(rows, width, tokens):
    model = prepared()
    x, cache = torch.ones(rows, model.config.d_model + width), KVCache.empty(model.config, 1, 4)
    with pytest.raises(ValueError, match="no step of"):
        step_of(model).blocks(x, [decode_step.CacheRows.of(cache, tokens, model.prepare(0, tokens).rope)], "alone")


def test_who_is_not_ready_or_another_kind_is_torch_s():
    assert step_of(tiny_model()) is None, "neither joined nor tuned"
    joined = tiny_model()
    joined.join()
    assert step_of(joined) is None, "not tuned"
    tuned = tiny_model()
    tune(tuned)
    assert step_of(tuned) is None, "not joined"
    assert step_of(halved(tiny_model(VARIANTS["llama"]), torch.bfloat16)) is None, "16 bits"
    for more in (
        {"n_expert": 2},
        {"mixer": "sliding_window", "window": 4},
        {"mixer": ("softmax", "retention", "softmax")},
    ):
        other = tiny_model(more)
        other.join()
        tune(other)
        assert step_of(other) is None, more


def test_taps_gradients_prompts_and_other_attention_are_torch_s(taken):
    model, ids = prepared(), random_ids(1, T)

    def run(ids, **options):
        return model.trunk(ids, cache=KVCache.empty(model.config, 1, T), **options)

    run(ids[:, :4])
    run(ids)
    with torch.no_grad():
        run(ids)
        run(ids[:, :4], tap=identity)
        run(ids[:, :4], attend=lambda layer, q, k, v: q)
        model.trunk(ids[:, :4])
        assert taken == []
        run(ids[:, :4])
    assert taken == [(4, "alone")]


def test_as_long_as_nothing_is_compiled_torch_computes(taken, monkeypatch):
    model, ids = prepared(how=None), random_ids(1, T)
    monkeypatch.setattr(ready, "soon", lambda: None)
    with torch.inference_mode():
        assert_close(decoded(model, ids, [1] * T), model(ids), logits_within(model, ids))
    assert taken == []


def test_weights_are_reordered_only_where_torch_will_read_them(monkeypatch):
    packed = []
    monkeypatch.setattr(decode_step, "pack", packed.append)
    compiled, other = prepared(), tiny_model({"n_expert": 2})
    for model in (compiled, other):
        decode_step.pack_where_needed(model, 3)
        decode_step.pack_where_needed(model, 6)
    assert packed == [other]
    monkeypatch.setattr(ready, "never", lambda: True)
    decode_step.pack_where_needed(compiled, 6)
    assert packed == [other, compiled]
