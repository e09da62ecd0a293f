"""Operations by formula are those that PyTorch counts in the forward that really runs."""

import dataclasses

import pytest
import torch
import torch.nn.functional as F
from torch.utils.flop_counter import FlopCounterMode

from model.anatomy.anatomy import ARCHITECTURES, weights
from model.anatomy.flops import (
    AGAINST,
    GROUPS,
    PassSize,
    by_group,
    cache_moved,
    counted,
    crossing,
    intensity,
    matrix_params,
    next_token,
    operations,
    prompt,
    rules,
    total,
    training,
    weights_read,
)
from model.anatomy.measured_memory import trainable
from model.errors import InputError
from model.gpt.cache import KVCache
from model.gpt.config import PRESETS
from model.gpt.passes import attend_explicit
from tests.support.models.helpers import (
    FEW_VARIANTS,
    N_CTX,
    VARIANTS,
    D,
    E,
    G,
    H,
    L,
    M,
    V,
    random_ids,
    tiny_config,
    tiny_model,
)

STEPWISE = attend_explicit(lambda site, layer, x: x)
LENGTHS = (1, 2, 7, N_CTX)


def by_pytorch(run) -> int:
    with FlopCounterMode(display=False) as counter:
        run()
    return counter.get_total_flops()


# --- equal to PyTorch's counter ---


@pytest.mark.parametrize("T", LENGTHS)
@pytest.mark.parametrize("name", VARIANTS)
def test_a_prompt_takes_what_pytorch_counts(name, T):
    model = tiny_model(VARIANTS[name])
    ids = random_ids(1, T)
    with torch.inference_mode():
        every = by_pytorch(lambda: model(ids, tap=lambda site, layer, x: x))
        last = by_pytorch(lambda: model.logits(model.trunk(ids, attend=STEPWISE)[:, -1:]))
    assert total(operations(model.config, prompt(T))) == every
    assert total(operations(model.config, prompt(T, 1))) == last


@pytest.mark.parametrize("T", [1, 3])
@pytest.mark.parametrize("S", [3, 4, N_CTX])
@pytest.mark.parametrize("name", FEW_VARIANTS)
def test_tokens_after_a_cache_take_what_pytorch_counts(name, S, T):
    model, ids = tiny_model(VARIANTS[name]), random_ids(1, S)
    cache = KVCache.empty(model.config, 1, S)
    with torch.inference_mode():
        if S > T:
            model(ids[:, : S - T], cache=cache)
        count = by_pytorch(lambda: model.logits(model.trunk(ids[:, S - T :], cache=cache, attend=STEPWISE)))
    assert total(operations(model.config, PassSize(T, S, T))) == count
    assert sum(counted(model.config, PassSize(T, S, T)).values()) == count


def test_a_loaded_model_counts_the_same():
    """Layers that are joined for speed are one product of the same size."""
    model = tiny_model(VARIANTS["llama"])
    model.join()
    with torch.inference_mode():
        count = by_pytorch(lambda: model.logits(model.trunk(random_ids(1, 7), attend=STEPWISE)))
    assert count == total(operations(model.config, prompt(7)))


def test_the_fused_kernel_of_a_cpu_is_not_counted_by_pytorch():
    model = tiny_model(VARIANTS["gpt2"])
    with torch.inference_mode():
        count = by_pytorch(lambda: model(random_ids(1, 7)))
    found = operations(model.config, prompt(7))
    assert count == total(found) - sum(op.all_products for op in found if op.key in ("scores", "mix"))


@pytest.mark.parametrize("name", VARIANTS)
def test_a_training_step_takes_three_forwards(name):
    model, ids = trainable(tiny_model(VARIANTS[name])), random_ids(2, 7)

    def step():
        logits = model.logits(model.trunk(ids, attend=STEPWISE))
        F.cross_entropy(logits.flatten(0, 1), ids.flatten()).backward()

    assert by_pytorch(step) == 2 * training(model.config, prompt(7))  # two texts


@pytest.mark.long
@pytest.mark.parametrize("key", ["gpt2", "llama-3.1-8b", "qwen3-0.6b", "pythia-70m", "minigpt", "vanilla-decoder"])
def test_known_architectures_count_the_same_without_numbers(key):
    config = ARCHITECTURES[key].config
    for reading in (prompt(300), next_token(3000)):
        assert sum(counted(config, reading).values()) == total(operations(config, reading))


# --- by hand ---


def test_by_hand():
    found = {op.key: op for op in operations(tiny_config(), PassSize(5, 9, 2))}
    assert found["q"].products == 2 * 5 * D * H * E and found["k"].products == found["v"].products == 2 * 5 * D * G * E
    assert found["scores"].products == found["mix"].products == 2 * H * 5 * 9 * E
    pairs = 5 + 6 + 7 + 8 + 9
    assert found["scores"].useful == found["mix"].useful == 2 * H * pairs * E
    assert found["o"].products == 2 * 5 * H * E * D
    assert found["up"].products == found["down"].products == 2 * 5 * D * M
    assert (found["head"].products, found["head"].layers, found["up"].layers) == (2 * 2 * D * V, 1, L)
    assert found["embed"].products == found["embed"].elementwise == 0
    assert found["norm1"].elementwise == 5 * (7 * D + 2) and found["final_norm"].elementwise == 2 * (7 * D + 2)
    assert found["softmax"].elementwise == H * 5 * (9 + 9 + 9 + 9 + 9 - 2)
    assert found["q"].elementwise == 5 * H * E and found["act"].elementwise == 5 * M * 9
    assert "rope" not in found and "gate" not in found


def test_elementwise_of_llama_by_hand():
    found = {op.key: op for op in operations(tiny_config(VARIANTS["llama"]), prompt(5))}
    assert found["rope"].elementwise == 5 * (H + G) * 3 * E
    assert found["norm1"].elementwise == 5 * (4 * D + 2)
    assert found["act"].elementwise == 5 * M * 5 and found["q"].elementwise == 0


@pytest.mark.parametrize("name", VARIANTS)
def test_elementwise_is_never_in_the_sum(name):
    found = operations(tiny_config(VARIANTS[name]), prompt(7))
    bare = [dataclasses.replace(op, elementwise=0) for op in found]
    assert total(found) == total(bare) and any(op.elementwise for op in found)
    assert sum(by_group(found).values()) == total(found)
    assert {op.key for op in found} <= {key for keys in GROUPS.values() for key in keys}


def test_one_token_of_a_prompt_sees_nothing_hidden():
    found = operations(tiny_config(), next_token(8))
    assert total(found) == total(found, useful=True)
    whole = operations(tiny_config(), prompt(9))
    assert total(whole, useful=True) == sum(total(operations(tiny_config(), PassSize(1, n))) for n in range(1, 10))


@pytest.mark.parametrize(
    ("given", "kind", "said"),
    [
        ((0, 1, 0), InputError, r"Got: T: 0\."),
        ((3, 3, -1), InputError, r"Got: logits: -1\."),
        ((2, 1, 1), ValueError, "got T 2, S 1, logits 1"),
        ((1, 1, 2), ValueError, "got T 1, S 1, logits 2"),
    ],
)
def test_a_reading_that_cannot_be(given, kind, said):
    with pytest.raises(kind, match=said):
        PassSize(*given)


# --- where attention overtakes ---


@pytest.mark.parametrize("name", VARIANTS)
@pytest.mark.parametrize("against", AGAINST)
def test_the_crossing_is_where_the_curves_meet(name, against):
    config = tiny_config(VARIANTS[name])

    def apart(T):
        found = by_group(operations(config, PassSize(1, T)))
        return found["attention"] - found["projections"] - (found["mlp"] if against == "layer" else 0)

    at = crossing(config, against)
    below = int(at) if at > int(at) else int(at) - 1
    assert apart(max(below, 1)) < 0 < apart(int(at) + 1)
    if at == int(at):
        assert apart(int(at)) == 0
    group = by_group(operations(config, prompt(int(at) + 1)))
    more = group["projections"] + (group["mlp"] if against == "layer" else 0)
    assert group["attention"] > more


def test_crossings_by_hand():
    assert crossing(PRESETS["gpt2"]) == 2 * 768 and crossing(PRESETS["gpt2"], useful=True) == 4 * 768 - 1
    assert crossing(PRESETS["gpt2"], "layer") == 2 * 768 + 2 * 4 * 768 * 768 / (2 * 768)
    assert crossing(PRESETS["llama"]) == 576 * (1 + 3 / 9) == 768
    assert crossing(ARCHITECTURES["llama-3.1-8b"].config) == 4096 * 1.25
    with pytest.raises(InputError, match="against: mlp"):
        crossing(PRESETS["gpt2"], "mlp")


def test_the_useful_crossing_is_where_half_the_square_is_as_much():
    at = round(crossing(PRESETS["gpt2"], useful=True))
    found = by_group(operations(PRESETS["gpt2"], prompt(at)), useful=True)
    assert found["attention"] == found["projections"]


# --- rules, bytes ---


def test_rules_of_gpt2():
    found = rules(PRESETS["gpt2"])
    assert found["blocks"] == 12 * 12 * 768**2 and found["all"] == 124_439_808
    assert found["forward"] == 2 * found["blocks"] and found["training"] == 6 * found["blocks"]


@pytest.mark.parametrize("name", VARIANTS)
def test_two_n_is_the_exact_number_without_attention_and_head(name):
    config = tiny_config(VARIANTS[name])
    found = by_group(operations(config, prompt(7)))
    assert found["projections"] + found["mlp"] == 7 * rules(config)["forward"] == 14 * matrix_params(config)


def test_kaplans_attention_is_the_useful_half():
    """2 L T H E a token (their table 1) is the mean of the useful half, but for half of the diagonal."""
    found = by_group(operations(PRESETS["gpt2"], prompt(512)), useful=True)["attention"]
    assert found == 512 * 2 * 12 * 513 * 768


@pytest.mark.parametrize("name", VARIANTS)
def test_weights_that_are_read(name):
    """All of them, less the rows of the tables that are not looked up; a tied head is the table itself."""
    config = tiny_config(VARIANTS[name])
    every = sum(each.size for each in weights(config))
    table = config.vocab_size * config.d_model
    tables = (0 if config.tie_embeddings else table) + (N_CTX * D if config.positions == "learned" else 0)
    rows = 7 * D * (2 if config.positions == "learned" else 1)
    assert weights_read(config, prompt(7)) == every - tables + rows
    cache = KVCache.empty(config, 1, 9)
    assert cache_moved(config, next_token(8)) == cache.k.numel() + cache.v.numel()
    read = 4 * (weights_read(config, next_token(8)) + cache_moved(config, next_token(8)))
    assert intensity(config, next_token(8)) == total(operations(config, next_token(8))) / read


def test_a_token_uses_each_weight_once():
    """2 FLOPs a weight: half a FLOP a byte of float32, whatever the model, while the context is short."""
    assert intensity(PRESETS["gpt2"], next_token(1)) == pytest.approx(0.5, rel=0.01)
    assert intensity(PRESETS["gpt2"], prompt(1024)) > 400
