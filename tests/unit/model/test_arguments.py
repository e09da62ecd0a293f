"""What no public function takes: wrong types, numbers out of range, NaN. The message names the value."""

import math

import numpy as np
import pytest
import torch

from model.activations.neurons import ranked, token_scores
from model.activations.norm_swap import places_of
from model.activations.norm_walk import norm_input
from model.anatomy.footprint import Setting
from model.anatomy.prices import talk
from model.anatomy.scaling import kaplan_compute, kaplan_params, kaplan_tokens, planned
from model.api import LanguageModel
from model.arguments import check_number, check_whole, is_number, is_whole, shown
from model.attention.cell import explain
from model.attention.measures import MEASURES, measure
from model.errors import InputError
from model.predictions.attribution import by_source, components
from model.predictions.predictions import follow
from model.quantization.formats import FORMATS, stored
from model.quantization.formats import Scheme as Rounding
from model.quantization.rounding import compare
from tests.support.models.helpers import D, H, L, V, byte_tokenizer, tiny_model

NO_INDEX = (True, 1.0, 0.5, "1", None, math.nan, [1], (1,), np.bool_(True), np.float32(1), 99, -99, 10**30)


@pytest.fixture(scope="module")
def lm(tmp_path_factory):
    tokenizer = byte_tokenizer(tmp_path_factory.mktemp("bytes"))
    return LanguageModel("tiny", "Tiny", tiny_model({"vocab_size": 256}), tokenizer)


@pytest.fixture(scope="module")
def run(lm):
    return lm.trace("abcabd")


def test_what_is_whole_and_what_is_a_number():
    assert all(map(is_whole, (0, -3, 10**30, np.int64(4), np.uint8(4))))
    assert not any(map(is_whole, (True, np.bool_(True), 1.0, np.float64(1), "1", None, [1], math.nan)))
    assert all(map(is_number, (0, 1.5, -2.0, np.float32(0.5), np.int64(4))))
    assert not any(map(is_number, (True, "1", None, math.nan, math.inf, -math.inf, [1.0], 1j)))


def test_a_refusal_names_the_setting_the_value_and_the_bounds():
    check_whole("seed", 3, 0, 9)
    check_number("p", 0.5, 0, 1)
    with pytest.raises(InputError, match=r"Got: seed: 2\.5\. Choose a whole number from 0 to 9\."):
        check_whole("seed", 2.5, 0, 9)
    with pytest.raises(InputError, match=r"Got: p: nan\. Choose a value from 0 to 1\."):
        check_number("p", math.nan, 0, 1)
    assert shown(np.float32(0.5)) == shown(torch.tensor(0.5)) == "0.5" and shown(np.int64(7)) == "7"
    assert shown([1] * 999) == "list" and shown("x" * 999) == "x" * 40 and shown(10**30) == "int"


PROMPTS = (
    [1.7, 2.2],
    np.array([1.9, 2.9]),
    [True],
    np.array([True, False]),
    ["5", "6"],
    [None],
    [[1, 2]],
    [math.nan],
    b"abc",
    {1: 2},
    5,
    None,
    torch.tensor(3),
    [-1],
    [256],
)


@pytest.mark.parametrize("prompt", PROMPTS, ids=repr)
def test_a_prompt_that_is_neither_text_nor_ids_is_refused(lm, prompt):
    for call in (lm.trace, lm.generate, lm.decode):
        with pytest.raises(InputError, match=r"no token with this id|not token ids"):
            call(prompt)


def test_ids_of_numpy_and_torch_are_ids(lm):
    expected = lm.trace([97, 98]).logits
    for ids in (np.array([97, 98]), np.array([97, 98], np.uint8), torch.tensor([97, 98]), (97, np.int32(98))):
        assert np.array_equal(lm.trace(ids).logits, expected)


@pytest.mark.parametrize("wrong", NO_INDEX, ids=repr)
def test_layers_heads_and_positions_are_whole_numbers_that_exist(lm, run, wrong):
    model, post, u = lm.model, np.ones((6, 4), np.float32), np.zeros(D)
    calls = {
        "hidden": lambda: run.hidden(wrong),
        "middle": lambda: run.middle(wrong),
        "logits_at": lambda: run.logits_at(wrong),
        "qkv layer": lambda: run.qkv(wrong, 0),
        "qkv head": lambda: run.qkv(0, wrong),
        "pattern layer": lambda: run.pattern(wrong, 0),
        "pattern head": lambda: run.pattern(0, wrong),
        "scores": lambda: run.scores(0, wrong),
        "z": lambda: run.z(wrong, 0),
        "lens": lambda: run.logit_lens(positions=[wrong]),
        "rollout head": lambda: measure(run, "rollout", 0, wrong),
        "rollout layer": lambda: measure(run, "rollout", wrong, 0),
        "neuron": lambda: token_scores(model, 1, [wrong if wrong != 99 else model.config.d_mlp]),
        "neurons' layer": lambda: token_scores(model, wrong, [0]),
        "ranked": lambda: ranked(post, np.ones(4), "here", wrong),
        "norm": lambda: norm_input(run, wrong, "final"),
        "cell": lambda: explain(run, 0, 0, 2, wrong),
        "components": lambda: components(run, wrong),
        "by_source": lambda: by_source(run, 0, wrong, 2, u),
        "follow": lambda: follow(run, wrong if wrong != 99 else 256),
        "compare": lambda: compare(model, wrong, "v", Rounding("x", 4, True, "channel"), [[1, 2], [3, 4]]),
    }
    for name, call in calls.items():
        with pytest.raises(InputError, match=r"does not exist|has this name|no token with this id|no such") as error:
            call()
        assert error.value.got, name


def test_indices_of_numpy_are_indices(run):
    assert np.array_equal(run.pattern(np.int64(1), np.int8(2)), run.pattern(1, 2))
    assert np.array_equal(run.logits_at(np.int64(-1)), run.logits_at(-1))


@pytest.mark.parametrize("name", MEASURES)
def test_no_measure_ignores_the_head(run, name):
    with pytest.raises(InputError, match=f"Heads run from 0 to {H - 1}"):
        measure(run, name, 0, H)
    with pytest.raises(InputError, match=f"Layers run from 0 to {L - 1}"):
        measure(run, name, -1, 0)


def test_a_layer_counted_from_the_end_is_not_another_layer(lm):
    with pytest.raises(InputError, match="Got: -1"):
        compare(lm.model, -1, "v", Rounding("x", 4, True, "channel"), [[1, 2], [3, 4]])


@pytest.mark.parametrize("where", ["norm3", "", "one", None, 3])
def test_norms_that_there_are_not(lm, where):
    with pytest.raises(InputError, match="No norm has this name"):
        places_of(lm.config, where)
    assert len(places_of(lm.config, "all")) == 2 * L + 1


@pytest.mark.parametrize("quantity", ["flops", "", "token", None, 3])
def test_a_plan_is_for_a_known_quantity(quantity):
    with pytest.raises(InputError, match="Choose one of: compute, params, tokens"):
        planned("besiroglu", quantity, 1e20)
    assert planned("besiroglu", "compute", 1e20).compute == 1e20


@pytest.mark.parametrize("value", [math.nan, math.inf, -1, True, "1e20", None, 1j, 0, 1e41])
def test_a_budget_is_a_number(value):
    for quantity in ("compute", "params", "tokens"):
        with pytest.raises(InputError, match="budget is out of range"):
            planned("besiroglu", quantity, value)


@pytest.mark.parametrize("value", [-1, 0, math.nan, math.inf, True, "3", 1j])
def test_kaplan_wants_a_number_above_0(value):
    for law in (kaplan_params, kaplan_tokens, kaplan_compute):
        with pytest.raises(InputError, match="Give a number above 0"):
            law(value)


@pytest.mark.parametrize("value", [-5, 2.5, math.nan, True, "3", None])
def test_counts_are_counts(value):
    for given in ((value, 3, 2), (3, value, 2), (3, 2, value)):
        with pytest.raises(InputError, match="whole number"):
            talk(*given)
    for name in ("batch", "tokens", "item"):
        with pytest.raises(InputError, match=rf"{name}: .* Choose a whole number from 1"):
            Setting(**{name: value})


@pytest.mark.parametrize("value", [math.inf, -math.inf, math.nan])
@pytest.mark.parametrize("kind", FORMATS)
def test_an_infinite_weight_has_no_format(kind, value):
    weight = torch.randn(4, 256, generator=torch.Generator().manual_seed(0))
    weight[1, 3] = value
    with pytest.raises(InputError, match="not finite"):
        stored(weight, FORMATS[kind])


def test_a_token_beyond_the_vocabulary_has_no_text(lm):
    with pytest.raises(InputError, match=f"Got: {V + 300}"):
        lm.decode([V + 300])
