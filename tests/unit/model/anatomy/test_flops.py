"""Operations by formula are those that PyTorch counts in the forward that really runs."""

import dataclasses
import itertools
import math

import pytest
import torch
import torch.nn.functional as F
from torch.utils.flop_counter import FlopCounterMode

from model.anatomy.anatomy import n_params, weights
from model.anatomy.architectures import ARCHITECTURES
from model.anatomy.flops import (
    AGAINST,
    GROUPS,
    PassSize,
    by_group,
    cache_moved,
    countable,
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
from model.gpt.passes import attend_explicit
from model.gpt.presets import PRESETS
from tests.support.models.helpers import (
    FEW_VARIANTS,
    MORE_VARIANTS,
    N_CTX,
    OWN_LAYERS,
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
from tests.support.models.mixtures import MIXTURES
from tests.support.models.states import STATES

ALL = VARIANTS | MORE_VARIANTS | MIXTURES | OWN_LAYERS
_BERT = {"two_way": True, "norm_placement": "post", "n_segment": 2, "head_dense": True, "head_bias": True}
BOTH_WAYS = {
    "bert": _BERT | {"embed_norm": True, "mlp": "gelu"},
    "modernbert": {
        "two_way": True,
        "mixer": ("softmax", "sliding_window", "softmax"),
        "window": 4,
        "positions": "rope",
        "mlp": "geglu",
        "unnormed": (0,),
        "head_dense": True,
        "n_kv_head": H,
    },
}
STEPWISE = attend_explicit(lambda site, layer, x: x)
LENGTHS = (1, 2, 7, N_CTX)


def by_pytorch(run) -> int:
    with FlopCounterMode(display=False) as counter:
        run()
    return counter.get_total_flops()


# --- equal to PyTorch's counter ---


@pytest.mark.parametrize("T", LENGTHS)
@pytest.mark.parametrize("name", ALL)
def test_a_prompt_takes_what_pytorch_counts(name, T):
    model = tiny_model(ALL[name])
    ids = random_ids(1, T)
    with torch.inference_mode():
        every = by_pytorch(lambda: model(ids, tap=lambda site, layer, x: x))
        last = by_pytorch(lambda: model.logits(model.trunk(ids, tap=lambda site, layer, x: x)[:, -1:]))
    assert total(operations(model.config, prompt(T))) == every
    assert total(operations(model.config, prompt(T, 1))) == last


@pytest.mark.parametrize("reading", [prompt(7), prompt(70, 1), PassSize(1, 12), PassSize(3, 12, 1)])
@pytest.mark.parametrize("name", MORE_VARIANTS | STATES | BOTH_WAYS | OWN_LAYERS)
def test_models_without_numbers_count_the_same(name, reading):
    """70 tokens are more than a chunk of a state."""
    config = tiny_config((MORE_VARIANTS | STATES | BOTH_WAYS | OWN_LAYERS)[name])
    if config.two_way and reading.T < reading.S:
        return  # there is no cache
    if config.n_expert > 1:
        with pytest.raises(InputError, match="several experts"):
            counted(config, reading)
        return
    assert sum(counted(config, reading).values()) == total(operations(config, reading))


def test_pairs_within_a_window_by_hand():
    for T, S, window in itertools.product(range(1, 6), range(1, 9), (1, 2, 4, 20)):
        if T <= S:
            seen = sum(min(t, window) for t in range(S - T + 1, S + 1))
            assert PassSize(T, S).pairs_within(window) == seen
    found = {op.key: op for op in operations(tiny_config(MORE_VARIANTS["gemma"]), prompt(9))}
    assert (found["window_scores"].layers, found["scores"].layers) == (2, 1)
    assert found["window_scores"].useful == 2 * H * E * (1 + 2 + 3 + 4 + 5 * 5) < found["scores"].useful
    # 2 G E numbers per token: all 9 in one layer; in the others one new and the 4 before it
    assert cache_moved(tiny_config(MORE_VARIANTS["gemma"]), next_token(8)) == 2 * G * E * (9 + 2 * 5)


def test_layers_of_their_own_sizes_by_hand():
    """Gemma 4 E2B: layers 0 and 2 with a window and 12 dimensions, 1 and 3 without and 16; 2 and 3 take keys and values
    of 0 and 1, and have an MLP twice as wide.
    """
    config = tiny_config(OWN_LAYERS["gemma4 E2B"])
    found = {op.key: op for op in operations(config, prompt(9))}
    assert found["q"].all_products == 2 * 9 * 48 * H * (12 + 16 + 12 + 16)
    assert found["k"].all_products == found["v"].all_products == 2 * 9 * 48 * G * (12 + 16)
    assert found["up"].all_products == 2 * 9 * 48 * (100 + 100 + 200 + 200)
    assert found["entry_proj"].all_products == 2 * 9 * 48 * 4 * 6
    assert (found["entry"].layers, found["entry"].products) == (4, 2 * 2 * 9 * 48 * 6)
    assert found["v_norm"].all_elementwise == 9 * G * (3 * 12 + 2 + 3 * 16 + 2)
    assert crossing(config) == (found["q"].all_products * 2 + found["k"].all_products * 2) / 9 / (4 * H * 56)
    # One more token: 4 before it are in the window; layers 2 and 3 read what layers 0 and 1 keep
    assert cache_moved(config, next_token(8)) == 2 * G * (12 * (1 + 4) + 16 * 9 + 12 * 4 + 16 * 8)
    assert weights_read(config, prompt(1)) == n_params(config) - 53 * 24 + 24 + 48
    values = {op.key: op for op in operations(tiny_config(OWN_LAYERS["gemma4 31B"]), prompt(9))}
    assert (values["v"].layers, values["k"].all_products) == (2, 2 * 9 * 48 * (2 * 12 + 2 * 12 + 16))


@pytest.mark.parametrize("name", STATES)
def test_a_state_takes_what_pytorch_counts(name):
    """Of a real forward, also after tokens that a state has read."""
    model, ids = tiny_model(STATES[name]), random_ids(1, 9)
    cache = KVCache.empty(model.config, 1, 9)
    with torch.inference_mode():
        every = by_pytorch(lambda: model.logits(model.trunk(ids[:, :8], cache=cache, attend=STEPWISE)))
        one = by_pytorch(lambda: model.logits(model.trunk(ids[:, 8:], cache=cache, attend=STEPWISE)))
    assert total(operations(model.config, prompt(8))) == every
    assert total(operations(model.config, next_token(8))) == one


def test_states_by_hand():
    def found(name, reading):
        return {op.key: op for op in operations(tiny_config(STATES[name]), reading)}

    mamba = found("mamba", prompt(5))
    assert "q" not in mamba and mamba["in_proj"].products == 2 * 5 * D * 4 * D and mamba["in_proj"].layers == L
    assert (mamba["state"].products, mamba["state"].elementwise) == (0, 5 * 2 * D * 7 * 16)
    nemotron = found("nemotron", prompt(65))  # J = 8 heads of N = 5, P = 12: 64 tokens, and one more
    across = 4 * 8 * 65 * 5 * 12
    assert nemotron["state"].products == 2 * 8 * (64 * 64 + 1) * (5 + 12) + across
    assert nemotron["state"].useful == 8 * (64 * 65 + 1 * 2) * (5 + 12) + across
    assert (nemotron["state"].layers, nemotron["q"].layers, nemotron["up"].layers) == (2, 1, 2)
    assert nemotron["residual"].layers == L + 2 and nemotron["norm2"].layers == 2
    config = tiny_config(STATES["nemotron"])  # one layer of attention, two states that are read and written
    state = 8 * 12 * 5 + (8 * 12 + 2 * 2 * 5) * 3
    assert cache_moved(config, next_token(8)) == 2 * G * E * 9 + 2 * 2 * state
    assert cache_moved(config, prompt(9)) == 2 * G * E * 9 + 2 * state
    assert crossing(tiny_config(STATES["mamba"])) == math.inf
    once = found("mamba", next_token(8)), found("mamba", next_token(800))
    assert total([*once[0].values()]) == total([*once[1].values()])


def test_pairs_of_both_directions_by_hand():
    for T, window in itertools.product(range(1, 8), (1, 2, 4, 5, 30)):
        near = sum(abs(t - j) <= window // 2 for t in range(T) for j in range(T))
        assert prompt(T).pairs_around(window) == near
    found = operations(tiny_config(BOTH_WAYS["bert"]), prompt(7))
    assert total(found) == total(found, useful=True)
    assert {"segments", "head_dense", "head_norm"} <= {op.key for op in found}
    assert cache_moved(tiny_config(BOTH_WAYS["bert"]), prompt(7)) == 0


def test_only_short_prompts_are_counted_step_by_step():
    mamba, gpt2 = tiny_config(STATES["mamba"]), tiny_config()
    assert countable(mamba, prompt(500)) and not countable(mamba, prompt(501))
    assert countable(gpt2, prompt(1 << 20)) and not countable(tiny_config(STATES["falcon"]), prompt(1 << 20))


def test_elementwise_of_the_rules_by_hand():
    def count(key, changes):
        return {op.key: op for op in operations(tiny_config(changes), prompt(5))}[key].elementwise

    plain = {"n_kv_head": H}
    assert count("scores", plain | {"score_cap": 3.0}) - count("scores", plain) == 3 * H * 25
    assert count("scores", plain | {"positions": "alibi"}) - count("scores", plain) == 2 * H * 25
    assert count("softmax", plain | {"sinks": True}) - count("softmax", plain) == 4 * H * 5
    assert count("q", plain | {"qkv_limit": 1.0}) - count("q", plain) == 2 * 5 * H * E
    assert count("residual", plain | {"residual_multiplier": 0.5}) == 2 * count("residual", plain)
    assert count("head", plain | {"logit_cap": 3.0, "logit_multiplier": 2.0, "head_bias": True}) == 5 * V * 5
    assert count("norm1", plain) - count("norm1", plain | {"norm_weight": False}) == 5 * D
    assert count("after1", plain | {"norm_placement": "sandwich"}) == count("norm1", plain)
    assert count("act", plain | {"mlp": "relu2"}) == 2 * 5 * M and count("act", plain | {"mlp": "geglu"}) == 6 * 5 * M


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


@pytest.mark.parametrize("name", ALL)
def test_elementwise_is_never_in_the_sum(name):
    found = operations(tiny_config(ALL[name]), prompt(7))
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


@pytest.mark.parametrize("name", ALL)
def test_two_n_is_the_exact_number_without_attention_and_head(name):
    config = tiny_config(ALL[name])
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
