"""The view of mixers side by side, without a browser: what is drawn and said follows from the numbers."""

import dataclasses

import numpy as np
import pytest

from model.design.mixer_trial import DECODED, MIXERS, WINDOW, Comparison, MixerTrial, compare
from model.progress import silent
from tests.support.models.helpers import byte_model, serving
from tests.support.views.endpoints import ask
from tests.support.views.views import array, drawn, no_holes, opened, run_lines, traces
from viz.seam import panels
from viz.seam.jobs import background
from viz.views.training.which_mixer import view as which_mixer
from viz.views.training.which_mixer.view import VIEW
from viz.words import words
from viz.work.playground import Options

KEY = "which_mixer"


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return byte_model(tmp_path_factory.mktemp("bytes"))


@pytest.fixture
def playground(model):
    return serving(model)


def made(trial: MixerTrial, gap: float = 0.3) -> Comparison:
    """A comparison in which each mixer is `gap` behind the one before it, and seeds differ by 0.1."""
    M, R, sizes = len(trial.mixers), trial.seeds, (1, 6, 11, 16)
    base = 0.9 - gap * np.arange(M)[:, None, None] + np.linspace(0, -0.1, R)[None, :, None] + np.zeros(4)
    losses = np.linspace(3, 1, 12) + np.zeros((M, R, 12))
    nbytes = np.stack([np.array(DECODED) * 1000 if n == 0 else np.full(3, 33_000) for n in range(M)])
    seconds = np.linspace(1e-3, 2e-3, 3) + np.zeros((M, 3))
    error = trial.task == "regression"
    reference = np.full(4, 0.01) if error else None
    chance = None if error else 1 / 26
    return Comparison(trial, sizes, base, losses, (88_896,) * M, nbytes, seconds, reference, chance)


def show(playground, found, form=None, language: str = "en") -> dict[str, dict]:
    """The view once its button has brought this."""
    scene = opened(playground, "training", KEY, form)
    job = panels.job_of(VIEW, "race", scene, panels.settings_of(VIEW, scene, {f"{KEY}_form": form}))
    playground.results.put(job.key, background.Result(found, 1.0))
    return drawn(playground, "training", KEY, form, language=language)


@pytest.mark.parametrize("language", ["en", "zh"])
@pytest.mark.parametrize("task", ["induction", "regression"])
def test_what_was_compared_is_drawn_and_said(playground, language, task):
    trial = MixerTrial(task=task)
    parts = show(playground, made(trial), {"task": task}, language)
    no_holes(parts)
    lines = traces(parts["scores"])
    assert len(lines) == 4 * (1 + 3) + 1  # a mean and three seeds for each of four mixers, and the reference
    assert np.allclose(array(lines[0]["y"]), 0.85) and np.allclose(array(lines[1]["y"]), 0.9)
    assert np.allclose(array(lines[-1]["y"]), 0.01 if task == "regression" else 1 / 26, rtol=1e-4)
    assert np.allclose(array(traces(parts["memory"])[0]["y"]), np.array(DECODED))  # kB
    assert np.allclose(array(traces(parts["seconds"])[0]["y"]), [1, 1.5, 2])
    assert len(parts["table"]["rows"]) == 4 and parts["table"]["rows"][0][1] == "88,896"


def test_the_sentence_names_the_winner_or_says_that_there_is_none(playground):
    trial = MixerTrial()
    clear = show(playground, made(trial))["facts"]["items"][0][1]
    assert clear.startswith("softmax attention: 85.0%") and "exceeds the spread of the seeds (10.00%)" in clear
    assert "ahead of sliding window (8 tokens) with 55.0%" in clear and "The difference, 30.0%" in clear
    close = show(playground, made(trial, gap=0.05))["facts"]["items"][0][1]
    assert close.startswith("No clear winner") and "is within the spread of the seeds (10.00%)" in close
    cost = show(playground, made(trial))["facts"]["items"][1][1]
    assert (
        "every token: softmax attention." in cost
        and "as after 64: sliding window (8 tokens), linear attention, delta rule." in cost
    )


@pytest.mark.parametrize("language", ["en", "zh"])
def test_the_name_of_the_window_says_how_much_it_sees(language):
    assert str(WINDOW) in words(language)["which_mixer.settings.sliding_window"]


def test_the_button_waits_for_two_mixers(playground):
    one = {name: name == "mamba" for name in MIXERS}
    start = drawn(playground, "training", KEY, one)["start"]
    assert start["state"] == "unready" and start["text"] == "Choose at least two mixers."
    usual = drawn(playground, "training", KEY)["start"]
    assert usual["state"] == "idle" and usual["text"].startswith("4 mixers × 3 seeds")


def test_where_nothing_may_be_trained_the_button_says_so(model):
    closed = serving(model, Options(model="tiny", max_tokens=40, training_minutes=0))
    scene = opened(closed, "training", KEY)
    job = panels.job_of(VIEW, "race", scene, panels.settings_of(VIEW, scene, {}))
    assert not job.locks
    last = list(background.perform(closed, job, "en"))[-1][0]
    assert last["state"] == "failed" and last["text"].startswith("Training is disabled on this server.")


def test_the_measure_hands_its_parts_to_processes_and_puts_their_values_together(playground, monkeypatch):
    """Two steps of two mixers in this process; what the page and its Python lines find is the same."""
    asked = []

    def here(workshop, tasks, steps, progress):
        asked.append((workshop, len(tasks), steps))
        return [function(*arguments, lambda done: None) for function, arguments in tasks]

    monkeypatch.setattr(which_mixer, "side_by_side", here)
    scene = opened(playground, "training", KEY)
    chosen = {name: name in ("softmax", "linear") for name in MIXERS}
    settings = panels.settings_of(VIEW, scene, {f"{KEY}_form": chosen}).but(steps="2")
    found = panels.job_of(VIEW, "race", scene, settings).work(silent)
    assert asked == [(playground.workshop, 2 * 3 + 2, 2)]
    assert found.trial == MixerTrial(("softmax", "linear"), steps=2)
    playground.results.put(panels.job_of(VIEW, "race", scene, settings).key, background.Result(found, 1.0))
    answer = ask(playground, "mixer_comparison", mixers=["softmax", "linear"], steps=2)
    assert [row["mixer"] for row in answer["mixers"]] == ["softmax", "linear"]
    assert np.allclose(array(answer["mixers"][1]["score"]), found.scores[1]) and answer["clear"] in (True, False)
    again = compare(dataclasses.replace(found.trial, seeds=1))
    assert np.array_equal(again.scores, found.scores[:, :1])


def test_the_python_lines_run(playground, model):
    trial = MixerTrial(("softmax", "linear"), steps=1, seeds=1)
    for part in ("scores", "loss", "memory", "seconds"):
        text = show(playground, made(trial))[part]["python"]
        assert f"compare({trial!r})" in text
    space, values = run_lines(text, model)
    assert values[0].shape == (2, len(DECODED)) and space["found"].trial == trial
