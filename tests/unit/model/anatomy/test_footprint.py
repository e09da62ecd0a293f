"""What must be held by formula is what the tensors say."""

import dataclasses

import pytest
import torch
import torch.nn.functional as F

from model.anatomy.architectures import ARCHITECTURES
from model.anatomy.footprint import (
    FIXED,
    FORMATS,
    MODES,
    MOST,
    Setting,
    counts_activations,
    held_bytes,
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
from model.gpt.presets import PRESETS
from model.quantization.int8 import effect, quantized
from tests.support.models.helpers import (
    MORE_VARIANTS,
    N_CTX,
    OWN_LAYERS,
    VARIANTS,
    E,
    G,
    L,
    random_ids,
    tiny_config,
    tiny_model,
)
from tests.support.models.mixtures import MIXTURES
from tests.support.models.states import STATES

_LLAMA, _OURS = VARIANTS["llama"], ("olmo", "gptj")
# Later rules with the softmax of q.k / sqrt(d_head) alone and without experts; activations of others are refused.
COUNTED = {
    **{name: MORE_VARIANTS[name] for name in _OURS},
    "sandwich": {
        **_LLAMA,
        "norm_placement": "sandwich",
        "mlp": "geglu_tanh",
        "logit_cap": 5.0,
        "score_multiplier": 0.2,
    },
    "embed_norm": {"embed_norm": True, "mlp": "relu2"},
    "multipliers": {**_LLAMA, "residual_multiplier": 0.3, "embed_multiplier": 2.0, "logit_multiplier": 0.5},
    "clamped": {**_LLAMA, "mlp": "swiglu_clamped", "norm_weight": False, "qk_norm": True},
    "unrotated": {**_LLAMA, "unrotated": (0, 2), "mlp": "silu"},
}

WINDOWED = ("gemma", "oss", *OWN_LAYERS)  # caches of windows

# --- weights ---


@pytest.mark.parametrize("name", VARIANTS | MORE_VARIANTS | MIXTURES | OWN_LAYERS)
def test_float_weights_are_the_tensors(name):
    model = tiny_model((VARIANTS | MORE_VARIANTS | MIXTURES | OWN_LAYERS)[name])
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
@pytest.mark.parametrize("name", VARIANTS | COUNTED)
def test_activations_are_what_autograd_keeps(name, batch, T, explicit):
    model = trainable(tiny_model((VARIANTS | COUNTED)[name]))
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
@pytest.mark.parametrize("name", VARIANTS | COUNTED)
def test_working_memory_is_that_of_the_tensors(name, T):
    model = tiny_model((VARIANTS | COUNTED)[name] | {"vocab_size": 53 if T > 2 else 256})
    model.join()
    for explicit in (False, True):
        for batch in (1, 3):
            peak, cache, _ = peak_bytes(model, random_ids(batch, T), explicit)
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


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        (MORE_VARIANTS["gemma"], "sliding_window"),
        (MORE_VARIANTS["bloom"], "alibi"),
        ({"score_cap": 2.0}, "score_cap 2"),
        ({"sinks": True}, "sinks"),
        (MIXTURES["mixtral"], "5 experts"),
    ],
)
def test_activations_of_other_attention_and_experts_are_refused_by_name(changes, named):
    for count in (lambda c: kept_bytes(c, 1, 7), lambda c: working_bytes(c, Setting(tokens=7))):
        with pytest.raises(InputError) as caught:
            count(tiny_config(changes))
        assert named in caught.value.got


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


def test_activations_of_xielu_are_not_counted():
    config = tiny_config(MORE_VARIANTS["apertus"])
    assert parts(config, Setting(tokens=9))["activations"] == 0
    for count in (lambda: working_bytes(config, Setting(tokens=9)), lambda: kept_bytes(config, 1, 9)):
        with pytest.raises(InputError, match="activation function is not counted"):
            count()


@pytest.mark.parametrize("T", [3, 11])
@pytest.mark.parametrize("name", [*WINDOWED, "bloom", *STATES])
def test_a_cache_of_windows_and_states_is_what_is_held(name, T):
    """Shorter and longer than the windows; activations of these models are not counted."""
    changes = (MORE_VARIANTS | STATES | OWN_LAYERS)[name]
    model = tiny_model(changes)
    cache = KVCache.empty(model.config, 2, T)
    with torch.inference_mode():
        model(random_ids(2, T), cache=cache)
    held = sum(each.nbytes for state in cache.states.values() for each in state)
    growing = cache.k.nbytes + cache.v.nbytes + (held if name in WINDOWED else 0)
    assert held_bytes(model.config, 2, T) == (growing, 0 if name in WINDOWED else held)
    found = parts(model.config, Setting(batch=2, tokens=T))
    assert (found["cache"], found["cache"] + found["state"]) == (growing, cache.k.nbytes + cache.v.nbytes + held)
    assert found["activations"] == 0 and found["weights"] == weights_bytes(model.config)
    longer = parts(model.config, Setting(batch=2, tokens=1000))
    assert longer["state"] == found["state"] and (longer["cache"] > growing) == (name not in ("mamba", "delta"))
    training = parts(model.config, Setting("adamw", batch=2, tokens=T))
    assert training["activations"] == training["state"] == 0 and training["gradients"] == weights_bytes(model.config)


@pytest.mark.parametrize("name", ["mamba", "qwen-next", "falcon", "bert"])
def test_memory_is_measured_where_activations_are_not_counted(name):
    both = {"two_way": True, "norm_placement": "post"}
    model = tiny_model(STATES.get(name, both))
    model.requires_grad_(False)
    found = measure(model, random_ids(1, 7)[0].tolist())
    assert (found.cache, found.state) == held_bytes(model.config, 1, 7)
    assert found.weights == weights_bytes(model.config) and found.peak > 0 and found.kept > 0
    assert found.peak_explicit is None and found.kept_explicit is None


def test_a_context_that_takes_no_memory_fits_in_any_length():
    config = tiny_config(STATES["mamba"])
    tokens, batch = largest(config, Setting(tokens=8), 10**6)
    assert tokens == MOST and 0 < batch < MOST
    assert parts(tiny_config({"two_way": True}), Setting(tokens=8))["cache"] == 0


def test_the_memory_of_a_mixture_without_activations():
    config = tiny_config({"n_expert": 3})
    assert not counts_activations(config) and counts_activations(tiny_config())
    tokens, batch = largest(config, Setting(tokens=8), 10**6)
    assert tokens > 0 and batch > 0 and parts(config, Setting(tokens=8))["activations"] == 0
