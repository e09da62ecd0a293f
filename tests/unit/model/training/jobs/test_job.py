"""What may be asked of a training run, within which bounds, and in which order one hears of it."""

import dataclasses
import math

import pytest

from model.errors import InputError
from model.training.jobs import job as training
from model.training.jobs.form import job_of
from model.training.jobs.job import RUN_MIXERS, Job, Limits, check
from tests.support.training.training_jobs import LIMITS, OWN, TALE, job, own


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
        ("The text is too short for training.", "x" * 2000, "x" * 1999),
        ("The text is too short for training.", "é" * 1000, "é" * 999 + "x"),
        ("The text contains an unpaired surrogate, which is not a character.", TALE, TALE + "\ud800"),
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
        with pytest.raises(
            InputError, match=f"another context length. Got: {length} tokens. .* {shortest} to {longest}"
        ):
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
    with pytest.raises(InputError, match="No mixer has this name") as error:
        job(mixer=name)
    assert error.value.got == name[:40] and "delta, mamba, mamba2, gated_delta, short_conv, hybrid" in error.value.hint


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
    with pytest.raises(InputError, match="are not valid for a model") as error:
        check(job(**changes), LIMITS)
    assert len(error.value.got) <= 80


@pytest.mark.parametrize("name", ["juggling", "", "TEXT", "x" * 1_000_000])
def test_an_unknown_task_is_refused(name):
    with pytest.raises(InputError, match="No task has this name") as error:
        check(job(task=name), LIMITS)
    assert len(error.value.got) <= 40
