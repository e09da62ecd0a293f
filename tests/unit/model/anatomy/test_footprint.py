"""What must be held by formula is what the tensors say."""

import dataclasses

import pytest
import torch
import torch.nn.functional as F

from model.anatomy.anatomy import ARCHITECTURES
from model.anatomy.footprint import (
    FIXED,
    FORMATS,
    MODES,
    Setting,
    kept_bytes,
    largest,
    most,
    n_tensors,
    optimizer_bytes,
    parts,
    published_kept,
    total_bytes,
    weights_bytes,
    working_bytes,
)
from model.anatomy.measured_memory import (
    MOST_TOKENS,
    kept_by_autograd,
    measure,
    peak_bytes,
    storage_bytes,
    trainable,
)
from model.errors import InputError
from model.gpt import linear
from model.gpt.cache import KVCache
from model.gpt.config import PRESETS
from model.quantization.int8 import effect, quantized
from tests.support.models.helpers import N_CTX, VARIANTS, E, G, L, random_ids, tiny_config, tiny_model

# --- weights ---


@pytest.mark.parametrize("name", VARIANTS)
def test_float_weights_are_the_tensors(name):
    model = tiny_model(VARIANTS[name])
    assert weights_bytes(model.config) == sum(p.nbytes for p in model.parameters()) == storage_bytes(model)
    assert weights_bytes(model.config, "bfloat16") == sum(p.nbytes for p in model.bfloat16().parameters())
    assert n_tensors(model.config) == len(list(model.parameters()))


def test_joined_layers_hold_nothing_twice():
    model = tiny_model(VARIANTS["llama"])
    before = storage_bytes(model)
    model.join()
    assert storage_bytes(model) == before == weights_bytes(model.config)


@pytest.mark.parametrize("name", ["gpt2", "llama"])
def test_int8_is_what_this_projects_int8_holds(name):
    """Of the matrices that it makes int8; this project leaves the table of embeddings in float32."""
    model = tiny_model(VARIANTS[name] | {"d_model": 64, "d_mlp": 128, "d_head": 16, "tie_embeddings": False})
    found = effect(model, quantized(model), random_ids(1, 3)[0].tolist())
    c = model.config
    tables = [(c.vocab_size, 64)] + [(c.n_ctx, 64)] * (c.positions == "learned")
    vectors = sum(p.nbytes for p in model.parameters() if p.ndim == 1)
    assert weights_bytes(c, "int8") == found.nbytes + sum(rows * (width + 4) for rows, width in tables) + vectors


def test_formats_by_hand():
    config = tiny_config(
        {
            "n_layer": 1,
            "d_model": 40,
            "n_head": 2,
            "n_kv_head": 1,
            "d_head": 12,
            "d_mlp": 33,
            "positions": "none",
            "vocab_size": 10,
        }
    )
    matrices = [(10, 40), (24, 40), (12, 40), (12, 40), (40, 24), (33, 40), (40, 33)]
    vectors = 2 * (40 + 40) + 24 + 12 + 12 + 40 + 33 + 40 + 2 * 40
    assert weights_bytes(config) == 4 * (sum(a * b for a, b in matrices) + vectors)
    assert weights_bytes(config, "int8") == sum(a * (b + 4) for a, b in matrices) + 4 * vectors
    groups = {40: 2, 24: 1, 33: 2}
    assert weights_bytes(config, "int4") == sum(18 * a * groups[b] for a, b in matrices) + 4 * vectors


def test_well_known_sizes():
    config = ARCHITECTURES["llama-3.1-8b"].config
    assert weights_bytes(config, "bfloat16") == 2 * 8_030_261_248
    assert weights_bytes(config, "int4") / 8_030_261_248 * 8 == pytest.approx(4.5, abs=0.01)


# --- training ---


@pytest.mark.parametrize("name", VARIANTS)
def test_the_optimizer_state_is_that_of_adamw(name):
    model, ids = trainable(tiny_model(VARIANTS[name])), random_ids(1, 7)
    optimizer = torch.optim.AdamW(model.parameters())
    F.cross_entropy(model(ids).flatten(0, 1), ids.flatten()).backward()
    optimizer.step()
    state = [x for each in optimizer.state.values() for x in each.values()]
    assert sum(x.nbytes for x in state) == optimizer_bytes(model.config)
    found = parts(model.config, Setting("adamw", tokens=7))
    assert sum(p.grad.nbytes for p in model.parameters()) == found["gradients"] == found["weights"]


@pytest.mark.parametrize("explicit", [False, True])
@pytest.mark.parametrize(("batch", "T"), [(1, 1), (1, 2), (2, 7), (3, 16), (2, N_CTX)])
@pytest.mark.parametrize("name", VARIANTS)
def test_activations_are_what_autograd_keeps(name, batch, T, explicit):
    model = trainable(tiny_model(VARIANTS[name]))
    kept = kept_by_autograd(model, random_ids(batch, T), explicit)
    assert kept_bytes(model.config, batch, T, explicit) == kept


def test_mixed_precision_is_sixteen_bytes_a_parameter():
    config = tiny_config()
    found = parts(config, Setting("mixed", tokens=7))
    assert sum(found[name] for name in FIXED) == 16 * weights_bytes(config) // 4
    assert found["cache"] == 0 and found["activations"] == kept_bytes(config, 1, 7, item=2)


def test_the_published_formula_by_hand():
    config = PRESETS["gpt2"]
    assert published_kept(config, 2, 100) == 12 * (34 * 200 * 768 + 5 * 12 * 200 * 100)
    assert published_kept(config, 2, 100, explicit=False) == 12 * 34 * 200 * 768


# --- reading and writing ---


@pytest.mark.parametrize("T", [1, 2, 9, 33, N_CTX])
@pytest.mark.parametrize("name", VARIANTS)
def test_working_memory_is_that_of_the_tensors(name, T):
    model = tiny_model(VARIANTS[name] | {"vocab_size": 53 if T > 2 else 256})
    model.join()
    for explicit in (False, True):
        for batch in (1, 3):
            peak, cache = peak_bytes(model, random_ids(batch, T), explicit)
            setting = Setting(batch=batch, tokens=T, explicit=explicit)
            assert working_bytes(model.config, setting) == peak
            assert (
                parts(model.config, setting)["cache"]
                == cache
                == 2 * L * batch * model.config.n_kv_head * T * (model.config.d_head) * 4
            )


def test_weights_packed_for_small_batches_change_no_measurement(monkeypatch):
    """As they are once somebody has generated texts: such a tensor has no storage that could be asked for its size."""
    monkeypatch.setattr(linear, "packing_pays", lambda *shape: True)
    model = tiny_model().requires_grad_(False)
    linear.tune(model)
    before = measure(model, range(6))
    assert linear.pack(model) > 0
    assert measure(model, range(6)) == before


def test_smaller_numbers_halve_cache_and_activations():
    whole, half = (parts(tiny_config(), Setting(tokens=9, batch=2, item=item)) for item in (4, 2))
    assert whole["cache"] == 2 * half["cache"] == 2 * L * 2 * G * 9 * E * 4
    assert whole["activations"] == 2 * half["activations"] and whole["weights"] == half["weights"]


def test_a_mode_that_is_none():
    with pytest.raises(InputError, match="mode: dreaming"):
        parts(tiny_config(), Setting("dreaming"))


# --- what fits ---


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("form", FORMATS)
def test_the_largest_fits_and_one_more_does_not(mode, form):
    config, budget = PRESETS["gpt2"], 4 * 10**9
    for explicit in (False, True):
        setting = Setting(mode, form, 2, 300, explicit=explicit)
        tokens, batch = largest(config, setting, budget)
        for name, n in (("tokens", tokens), ("batch", batch)):
            assert n > 1
            assert total_bytes(config, dataclasses.replace(setting, **{name: n})) <= budget
            assert total_bytes(config, dataclasses.replace(setting, **{name: n + 1})) > budget


def test_nothing_fits_where_the_weights_do_not():
    assert largest(PRESETS["gpt2"], Setting(), 400_000_000) == (0, 0)


@pytest.mark.parametrize("n", [0, 1, 2, 3, 7, 8, 9, 1000])
def test_the_largest_is_found(n):
    assert most(lambda m: m <= n) == n
    assert most(lambda m: True, 100) == 100
    assert most(lambda m: m <= 100, 100) == 100


# --- measured on a model ---


@pytest.mark.parametrize("name", ["gpt2", "llama", "post"])
def test_a_measurement_is_the_formulas(name):
    model = tiny_model({**VARIANTS[name], "n_ctx": 300})
    model.join()
    model.requires_grad_(False)
    before = {key: value.clone() for key, value in model.state_dict().items()}
    steps = []
    found = measure(model, random_ids(1, 80)[0].tolist(), lambda done, total, what: steps.append(done))
    c, T = model.config, MOST_TOKENS
    assert found.tokens == T and steps == [0, 1, 2, 3]
    assert (found.weights, found.kept, found.kept_explicit) == (
        weights_bytes(c),
        kept_bytes(c, 1, T),
        kept_bytes(c, 1, T, True),
    )
    assert found.peak == working_bytes(c, Setting(tokens=T))
    assert found.cache == KVCache.empty(c, 1, T).k.nbytes * 2
    assert not any(p.requires_grad for p in model.parameters())
    assert all(torch.equal(before[key], value) for key, value in model.state_dict().items())


def test_the_twin_shares_the_tensors():
    model = tiny_model(VARIANTS["gpt2"])
    twin = trainable(model)
    ours = dict(model.named_parameters())
    assert all(p.data_ptr() == ours[name].data_ptr() and p.requires_grad for name, p in twin.named_parameters())
    ids = random_ids(1, 5)
    assert torch.equal(twin(ids), model(ids))
