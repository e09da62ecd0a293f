"""What may be asked of a training run, within which bounds, and in which order one hears of it."""

import dataclasses
import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from model.errors import InputError
from model.gpt.config import PRESETS as config_presets
from model.gpt.config import to_dict
from model.gpt.tap import record
from model.training import job as training
from model.training.form import BIASES, PRESETS, job_of, presets_within
from model.training.job import RUN_MIXERS, Job, Limits, check
from model.training.loop import Recipe

LIMITS = Limits()
SMALL = {"layers": 1, "heads": 2, "width": 16, "length": 16, "batch": 4, "steps": 2, "warmup": 1}
TALE = "The cat sat on the mat. The dog saw it & ran away, far away.\n" * 50
OWN = {**SMALL, "task": "text", "text": TALE, "vocabulary": 270}


def job(**changes) -> Job:
    return job_of({**SMALL, **changes}, LIMITS)


def own(**changes) -> Job:
    return job_of({**OWN, **changes}, LIMITS)


def recipe(base: Job, **changes) -> Job:
    return dataclasses.replace(base, recipe=dataclasses.replace(base.recipe, **changes))


def config(base: Job, **changes) -> Job:
    return dataclasses.replace(base, config=base.config | changes)


# --- bounds ---

BOUNDS = [  # what is told, the last value that is accepted, the first that is refused
    ("layers: 7", job(layers=6), job(layers=7)),
    ("heads: 9", job(heads=8, width=72), job(heads=9, width=72)),
    ("width: 385", job(heads=1, width=384), job(heads=1, width=385)),
    ("width: 7", job(heads=1, width=8), job(heads=1, width=7)),
    ("MLP width: 1537", job(mlp_width=1536), job(mlp_width=1537)),
    ("width of a head: 385", config(job(), d_head=384), config(job(), d_head=385)),
    ("tokens a row: 257", job(length=256), job(length=257)),
    ("tokens a row: 3", own(length=4), own(length=3)),
    ("rows a step: 65", job(batch=64), job(batch=65)),
    ("tokens a step: 8256", job(batch=64, length=128), job(batch=64, length=129)),
    (
        "tokens a step: 8320",
        recipe(job(batch=64), length=64, accumulate=2),
        recipe(job(batch=64), length=65, accumulate=2),
    ),
    ("window: 257", job(mixer="sliding_window", window=256), job(mixer="sliding_window", window=257)),
    ("steps: 20001", job(steps=20_000), job(steps=20_001)),
    ("warm-up steps: 20001", recipe(job(), warmup=20_000), recipe(job(), warmup=20_001)),
    ("minutes: 20.5", dataclasses.replace(job(), minutes=20.0), dataclasses.replace(job(), minutes=20.5)),
    ("minutes: 0.009", dataclasses.replace(job(), minutes=0.01), dataclasses.replace(job(), minutes=0.009)),
    ("learning rate: 0.11", recipe(job(), learning_rate=0.1), recipe(job(), learning_rate=0.11)),
    ("learning rate: 9e-07", recipe(job(), learning_rate=1e-6), recipe(job(), learning_rate=9e-7)),
    ("seed: 1e+09", recipe(job(), seed=1_000_000_000), recipe(job(), seed=1_000_000_001)),
    ("vocabulary: 256", own(vocabulary=257), own(vocabulary=256)),
    ("vocabulary: 4097", own(vocabulary=4096), own(vocabulary=4097)),
]


@pytest.mark.parametrize(("told", "accepted", "refused"), BOUNDS, ids=[told for told, *_ in BOUNDS])
def test_every_setting_has_its_bounds(told, accepted, refused):
    check(accepted, LIMITS)
    with pytest.raises(InputError) as error:
        check(refused, LIMITS)
    assert (error.value.what, error.value.got) == ("A setting is out of bounds on this server.", told)
    assert error.value.hint.startswith("Choose a value from ")


@pytest.mark.parametrize(
    ("told", "accepted", "refused"),
    [
        ("warm-up steps: -1", {"warmup": 0}, {"warmup": -1}),
        ("learning rate: -1", {}, {"rate": -1}),
        ("dropout: -0.1", {"dropout": 0}, {"dropout": -0.1}),
        ("dropout: 0.91", {"dropout": 0.9}, {"dropout": 0.91}),
        ("seed: -1", {"seed": 0}, {"seed": -1}),
    ],
)
def test_what_a_recipe_cannot_hold_is_told_like_other_bounds(told, accepted, refused):
    check(job(**accepted), LIMITS)
    with pytest.raises(InputError) as error:
        job(**refused)
    assert (error.value.what, error.value.got) == ("A setting is out of bounds on this server.", told)


def test_the_bounds_are_those_of_the_server():
    ours = Limits(
        layers=3,
        width=24,
        heads=4,
        length=12,
        batch=6,
        batch_tokens=48,
        steps=9,
        vocabulary=300,
        text_bytes=3100,
        minutes=0.5,
    )
    fits = job_of(
        {**OWN, "layers": 3, "width": 24, "heads": 4, "length": 12, "batch": 4, "steps": 9, "vocabulary": 300}, ours
    )
    check(fits, ours)
    for changed in (
        config(fits, n_layer=4),
        config(fits, mixer="sliding_window", window=13),
        config(fits, d_model=28),
        config(fits, n_head=6),
        recipe(fits, length=13),
        recipe(fits, batch=7, length=4),
        recipe(fits, batch=5),
        recipe(fits, steps=10),
        dataclasses.replace(fits, vocab_size=301),
        dataclasses.replace(fits, text="x" * 3101),
        dataclasses.replace(fits, minutes=0.6),
    ):
        check(changed, LIMITS)
        with pytest.raises(InputError):
            check(changed, ours)


@pytest.mark.parametrize(
    ("what", "accepted", "refused"),
    [
        ("The text is too large for this server.", "x" * 5_000_000, "x" * 5_000_001),
        ("The text is too large for this server.", "é" * 2_500_000, "é" * 2_500_001),
        ("There is too little text to train on.", "x" * 2000, "x" * 1999),
        ("There is too little text to train on.", "é" * 1000, "é" * 999 + "x"),
        ("The text holds half of a surrogate pair, which is no character.", TALE, TALE + "\ud800"),
    ],
    ids=["bytes", "bytes of UTF-8", "little", "little UTF-8", "surrogate"],
)
def test_a_text_has_bounds_of_its_own(what, accepted, refused):
    check(own(text=accepted), LIMITS)
    with pytest.raises(InputError) as error:
        check(own(text=refused), LIMITS)
    assert error.value.what == what and error.value.hint and len(error.value.got) < 30


@pytest.mark.parametrize(
    ("name", "shortest", "longest"),
    [("induction", 8, 256), ("copy", 4, 128), ("reverse", 4, 128), ("sort", 4, 128), ("modular_addition", 4, 4)],
)
def test_a_task_says_which_context_it_needs(name, shortest, longest):
    for length in (shortest, longest):
        assert check(job(task=name, length=length), LIMITS).n_ctx == length
    for length in {max(4, shortest - 1), min(256, longest + 1)} - {shortest, longest}:
        with pytest.raises(InputError, match=f"another context. Got: {length} tokens. .* {shortest} to {longest}"):
            check(job(task=name, length=length), LIMITS)


def test_a_task_has_no_use_for_a_text_or_a_vocabulary():
    assert job(text="\ud800" * 10_000_000).text == ""
    check(job(text=5 * "x", vocabulary=1), LIMITS)


@pytest.mark.parametrize("name", RUN_MIXERS)
def test_every_mixer_makes_a_model(name):
    made = check(job(mixer=name, layers=3, window=5), LIMITS)
    alternating = ("mamba", "softmax", "mamba")
    assert made.mixers == (alternating if name == "hybrid" else (name,) * 3)
    assert made.window == (5 if name == "sliding_window" else None)
    assert check(job(mixer=name, layers=1), LIMITS).mixers == ("mamba" if name == "hybrid" else name,)


def test_softmax_attention_is_the_default():
    assert job() == job(mixer="softmax") == job(window=3) and job().config["mixer"] == "softmax"
    assert job(mixer="sliding_window").config["window"] == training.WINDOW


@pytest.mark.parametrize("name", ["", "Mamba", "x" * 1_000_000, "mamba,softmax", "<b>"])
def test_a_mixer_that_there_is_not_is_refused_by_name(name):
    with pytest.raises(InputError, match="no mixer of that name") as error:
        job(mixer=name)
    assert error.value.got == name[:40] and "delta, mamba, hybrid" in error.value.hint


def test_a_hybrid_of_too_many_layers_is_refused_before_it_is_written_down():
    for layers in (7, 10**14, -(10**14)):
        with pytest.raises(InputError, match="out of bounds on this server") as error:
            job(mixer="hybrid", layers=layers)
        assert error.value.got.startswith("layers: ")


@pytest.mark.parametrize(
    "changes",
    [
        {"mixer": ["mamba"]},
        {"mixer": None},
        {"mixer": "sliding_window", "window": "8"},
        {"mixer": "sliding_window", "window": 2.5},
        {"mixer": "sliding_window", "window": math.nan},
    ],
)
def test_settings_of_a_mixer_of_another_kind_are_refused(changes):
    with pytest.raises(InputError):
        job(**changes)


@pytest.mark.parametrize(
    "changes",
    [
        {"width": 18, "heads": 4},
        {"mixer": "sliding_window", "window": 0},
        {"mixer": "sliding_window", "window": -(10**14)},
        {"mixer": "mamba", "layers": 0},
        {"mixer": "hybrid", "width": 18, "heads": 4},
        {"norm": "batchnorm"},
        {"placement": "both"},
        {"positions": "x" * 1_000_000},
        {"mlp": "<script>"},
        {"width": 18, "heads": 2, "positions": "rope"},
        {"heads": 0},
        {"layers": 0},
        {"width": 0},
        {"layers": -1},
    ],
)
def test_what_is_no_model_is_refused(changes):
    with pytest.raises(InputError, match="do not describe a model") as error:
        check(job(**changes), LIMITS)
    assert len(error.value.got) <= 80


@pytest.mark.parametrize("name", ["juggling", "", "TEXT", "x" * 1_000_000])
def test_an_unknown_task_is_refused(name):
    with pytest.raises(InputError, match="no task of that name") as error:
        check(job(task=name), LIMITS)
    assert len(error.value.got) <= 40


# --- plain values ---


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
        probe="The cat",
        config=shape,
        minutes=7,
        recipe=Recipe(schedule="trapezoid", **recipe),
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
    what = "The learning rate is not a number." if name == "rate" else "A setting is not a whole number."
    assert error.value.what == what and error.value.hint and len(error.value.got) <= 60


@pytest.mark.parametrize("name", TEXTS)
@pytest.mark.parametrize("wrong", [None, 3, True, [], {}, 2.5], ids=repr)
def test_what_is_no_text_is_refused(name, wrong):
    with pytest.raises(InputError, match=f"do not describe a model. Got: {name}. Change"):
        own(**{name: wrong})


@pytest.mark.parametrize("name", FLAGS)
@pytest.mark.parametrize("wrong", [None, 0, 1, "yes", [], {}], ids=repr)
def test_what_is_no_flag_is_refused(name, wrong):
    with pytest.raises(InputError, match=f"do not describe a model. Got: {name}. Change"):
        own(**{name: wrong})


@pytest.mark.parametrize(
    "wrong",
    NO_NUMBER,
    ids=lambda value: repr(value)[:12] if isinstance(value, str | float | list) else type(value).__name__,
)
def test_a_dropout_that_is_no_number_is_refused(wrong):
    with pytest.raises(InputError) as error:
        job(dropout=wrong)
    assert error.value.what == "The dropout is not a number."


@pytest.mark.parametrize("changes", [{"schedule": "linear"}, {"steps": 0}, {"batch": 0}, {"length": -4}])
def test_what_is_no_recipe_is_refused(changes):
    with pytest.raises(InputError, match="do not describe a model"):
        job(**changes)


@pytest.mark.parametrize("value", [None, [], "task", 3, True, [["layers", 2]]], ids=repr)
def test_settings_are_an_object(value):
    with pytest.raises(InputError, match="do not describe a model"):
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
