"""What a page sends, as a training job: every field, numbers and texts of any kind, presets."""

import dataclasses
import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from model.errors import InputError
from model.gpt.config import to_dict
from model.gpt.presets import PRESETS as config_presets
from model.gpt.tap import record
from model.training.jobs import job as training
from model.training.jobs.form import BIASES, PRESETS, job_of, presets_within
from model.training.jobs.job import Job, Limits, check
from model.training.loop import Recipe
from tests.support.training.training_jobs import LIMITS, TALE, job, own


def test_nothing_said_is_the_default_job():
    shape = {
        "n_layer": 2,
        "n_head": 4,
        "d_model": 128,
        "norm": "layernorm",
        "norm_placement": "pre",
        "positions": "learned",
        "mlp": "gelu_tanh",
        "d_mlp": None,
        "tie_embeddings": True,
        "embed_scale": False,
        "mixer": "softmax",
        "window": None,
    } | dict.fromkeys(BIASES, True)
    assert job_of({}, Limits(minutes=3)) == Job(
        task="induction",
        text="",
        vocab_size=512,
        probe="",
        config=shape,
        minutes=3,
        recipe=Recipe(steps=600, batch=32, length=64, learning_rate=1e-3, schedule="cosine", warmup=50, seed=0),
    )
    check(job_of({}, LIMITS), LIMITS)


def test_every_field_reaches_the_job():
    asked = {
        "task": "text",
        "text": TALE,
        "vocabulary": 300,
        "probe": "The cat",
        "layers": 3,
        "heads": 2,
        "width": 24,
        "norm": "rmsnorm",
        "placement": "post",
        "positions": "rope",
        "mlp": "swiglu",
        "mlp_width": 33,
        "untied": True,
        "scaled": True,
        "biases": False,
        "dropout": 0.25,
        "zero_positions": True,
        "beta1": 0.8,
        "beta2": 0.999,
        "weight_decay": 0,
        "characters": True,
        "mixer": "sliding_window",
        "window": 7,
        "steps": 11,
        "batch": 3,
        "length": 20,
        "rate": 0.002,
        "schedule": "trapezoid",
        "warmup": 4,
        "seed": 9,
        "minutes": 1e9,
    }
    shape = {
        "n_layer": 3,
        "n_head": 2,
        "d_model": 24,
        "norm": "rmsnorm",
        "norm_placement": "post",
        "positions": "rope",
        "mlp": "swiglu",
        "d_mlp": 33,
        "tie_embeddings": False,
        "embed_scale": True,
        "mixer": "sliding_window",
        "window": 7,
    } | dict.fromkeys(BIASES, False)
    recipe = {"steps": 11, "batch": 3, "length": 20, "learning_rate": 0.002, "warmup": 4, "seed": 9, "dropout": 0.25}
    assert job_of(asked, Limits(minutes=7)) == Job(
        task="text",
        text=TALE,
        vocab_size=300,
        characters=True,
        zero_positions=True,
        probe="The cat",
        config=shape,
        minutes=7,
        recipe=Recipe(schedule="trapezoid", beta1=0.8, beta2=0.999, weight_decay=0, **recipe),
    )


def test_every_choice_is_part_of_the_model_that_is_trained():
    """The config of the model that a run begins with, its weights, and what its forward does with them."""
    choices = {"mlp_width": 24, "untied": True, "scaled": True, "biases": False, "mlp": "relu"}
    one = job(scaled=True).config  # each field by itself
    assert (one["embed_scale"], one["tie_embeddings"], one["q_bias"]) == (True, True, True)
    run, dataset, *_ = training.begin(job(**choices, task="copy"), LIMITS)
    model, plain = run.model, training.begin(job(task="copy", untied=True, mlp_width=24), LIMITS)[0].model
    assert model.blocks[0].mlp.up.weight.shape == (24, 16)
    assert model.unembed.weight is not model.embed.weight
    assert not [name for name, _ in model.named_parameters() if name.endswith("bias")]
    assert [name for name, _ in plain.named_parameters() if name.endswith("bias")]
    ids = torch.arange(8)[None] % dataset.tokenizer.vocab_size
    seen: dict = {}
    model(ids, tap=record(("embed",), seen))
    assert torch.allclose(seen["embed", -1], model.embed.weight[ids] * 4)  # sqrt(16)


def test_positions_begin_at_zero_and_betas_and_decay_reach_the_optimizer():
    run = training.begin(job(task="copy", zero_positions=True, beta2=0.999, weight_decay=0), LIMITS)[0]
    assert not run.model.pos_embed.weight.any() and run.model.embed.weight.any()
    groups = run.optimizer.param_groups
    assert all(group["betas"] == (0.9, 0.999) and group["weight_decay"] == 0 for group in groups)
    assert training.begin(job(task="copy"), LIMITS)[0].model.pos_embed.weight.any()
    training.begin(job(task="copy", zero_positions=True, positions="rope"), LIMITS)  # has none


@pytest.mark.parametrize(("name", "value"), [("beta1", 1), ("beta2", -0.1), ("weight_decay", 2), ("beta2", "x")])
def test_optimizer_settings_out_of_bounds_are_refused(name, value):
    with pytest.raises(InputError) as error:
        job(task="copy", **{name: value})
    assert error.value.hint


def test_characters_of_a_text_are_its_tokens():
    dataset = training.open_dataset(own(characters=True))
    assert dataset.tokenizer.vocab_size == len(set(TALE)) + 1  # the end of text
    assert [dataset.tokenizer.piece(i) for i in dataset.tokenizer.encode_ids("The dog")] == [*"The dog"]
    check(own(characters=True, vocabulary=3), LIMITS)  # which then means nothing
    with pytest.raises(InputError) as error:
        check(own(characters=True), dataclasses.replace(LIMITS, vocabulary=5))
    assert error.value.got == f"characters: {len(set(TALE))}"


def test_the_excerpt_is_a_text_that_everybody_can_train_on():
    excerpt = job(task="shakespeare", characters=True)
    check(excerpt, LIMITS)
    assert excerpt.text == "" and training.text_of(excerpt).startswith("First Citizen:")
    assert 50_000 < len(training.text_of(excerpt)) < 60_000
    assert len(training.open_dataset(excerpt).tokenizer.raw) == len(set(training.text_of(excerpt))) + 1


@pytest.mark.parametrize("name", PRESETS)
def test_a_preset_fills_the_form_with_what_can_be_trained(name):
    config = check(job_of(PRESETS[name], LIMITS), LIMITS)
    if name == "minigpt":
        wanted = {**to_dict(config_presets["minigpt"]), "vocab_size": 1, "n_ctx": 20}
        assert to_dict(config) == wanted
    if name == "shakespeare":
        wanted = {**to_dict(config_presets["shakespeare-char"]), "vocab_size": 1}
        assert to_dict(config) == wanted


def test_a_server_offers_the_presets_that_it_trains():
    assert list(presets_within(LIMITS)) == list(PRESETS)
    assert list(presets_within(dataclasses.replace(LIMITS, width=128))) == ["minigpt", "shakespeare_cpu"]


def test_whole_numbers_may_come_as_floats_and_the_warm_up_ends_with_the_run():
    found = job(steps=5.0, warmup=50, layers=2.0)
    assert (found.recipe.steps, found.recipe.warmup, found.config["n_layer"]) == (5, 5, 2)
    assert all(type(n) is int for n in (found.recipe.steps, found.recipe.warmup, found.config["n_layer"]))
    assert type(job(rate=1).recipe.learning_rate) is float


FLAGS = ("untied", "scaled", "biases", "characters")
WHOLE = ("layers", "heads", "width", "steps", "batch", "length", "warmup", "seed", "vocabulary", "mlp_width")
NO_NUMBER = (None, True, [], [3], {}, "3", "x" * 1_000_000, math.nan, math.inf, -math.inf, 10**400, -(10**5000))
TEXTS = ("task", "text", "probe", "norm", "placement", "positions", "mlp", "schedule")


@pytest.mark.parametrize("name", [*WHOLE, "rate"])
@pytest.mark.parametrize("wrong", [*NO_NUMBER, 2.5], ids=lambda wrong: type(wrong).__name__)
def test_what_is_no_number_is_refused(name, wrong):
    if name == "rate" and wrong == 2.5:
        assert job(rate=2.5).recipe.learning_rate == 2.5
        return
    with pytest.raises(InputError) as error:
        job(**{name: wrong})
    what = "A setting is not a number." if name == "rate" else "A setting is not a whole number."
    assert error.value.what == what and error.value.hint and len(error.value.got) <= 60


@pytest.mark.parametrize("name", TEXTS)
@pytest.mark.parametrize("wrong", [None, 3, True, [], {}, 2.5], ids=repr)
def test_what_is_no_text_is_refused(name, wrong):
    with pytest.raises(InputError, match=f"are not valid for a model. Got: {name}. Change"):
        own(**{name: wrong})


@pytest.mark.parametrize("name", FLAGS)
@pytest.mark.parametrize("wrong", [None, 0, 1, "yes", [], {}], ids=repr)
def test_what_is_no_flag_is_refused(name, wrong):
    with pytest.raises(InputError, match=f"are not valid for a model. Got: {name}. Change"):
        own(**{name: wrong})


@pytest.mark.parametrize(
    "wrong",
    NO_NUMBER,
    ids=lambda value: repr(value)[:12] if isinstance(value, str | float | list) else type(value).__name__,
)
def test_a_dropout_that_is_no_number_is_refused(wrong):
    with pytest.raises(InputError) as error:
        job(dropout=wrong)
    assert error.value.what == "A setting is not a number."


@pytest.mark.parametrize("changes", [{"schedule": "linear"}, {"steps": 0}, {"batch": 0}, {"length": -4}])
def test_what_is_no_recipe_is_refused(changes):
    with pytest.raises(InputError, match="are not valid for a model"):
        job(**changes)


@pytest.mark.parametrize("value", [None, [], "task", 3, True, [["layers", 2]]], ids=repr)
def test_settings_are_an_object(value):
    with pytest.raises(InputError, match="are not valid for a model"):
        job_of(value, LIMITS)


SIMPLE = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.integers(-300, 300),
    st.floats(),
    st.text(max_size=9),
    st.sampled_from([10**400, -(10**4000), 1e300, "\ud800"]),
)
VALUES = st.recursive(SIMPLE, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3))
NEARLY = {
    "task": ["text", "copy", "sort", "modular_addition"],
    "text": [TALE, TALE + "\ud800", ""],
    "probe": ["", "a"],
    "norm": ["rmsnorm"],
    "placement": ["post"],
    "positions": ["rope", "none", "sinusoidal"],
    "mlp": ["swiglu"],
    "schedule": ["trapezoid"],
    "rate": [0.01, 1],
    "layers": [1, 6, 7.0],
    "heads": [1, 3, 8],
    "width": [96, 256],
    "length": [4, 16, 64, 128, 256],
    "batch": [1, 64],
    "vocabulary": [256, 300],
}
NAMES = st.sampled_from([*WHOLE, *TEXTS, *FLAGS, "rate", "dropout"])
PAGES = st.fixed_dictionaries(
    {},
    optional={name: st.sampled_from(some) for name, some in NEARLY.items()}
    | dict.fromkeys(("steps", "warmup", "seed", "minutes", "other"), VALUES),
)


@given(VALUES | PAGES | st.builds(lambda page, name, value: {**page, name: value}, PAGES, NAMES, VALUES))
@settings(max_examples=400, deadline=None, derandomize=True, database=None)
def test_whatever_a_page_sends_is_a_job_within_bounds_or_refused(value):
    try:
        shape = check(job_of(value, LIMITS), LIMITS)
    except InputError as error:
        assert error.what and error.hint and len(error.got) < 200
    else:
        assert shape.n_layer <= 6 and shape.d_model <= 256 and shape.n_ctx <= 256
