"""Every kind of run, when its process is killed and when its page is closed: what is said, what stays, what goes."""

import dataclasses
import os
import signal

import pytest
import torch
from safetensors.torch import load_file

from model.alignment.adapter_files import CONFIG, WEIGHTS
from model.alignment.instructions import Example
from model.alignment.lora import Lora
from model.alignment.reinforcement.job import course_of, practice
from model.alignment.tuning import TuneJob
from model.training.loop import Recipe
from tests.support.models.small_models import save_tiny
from tests.support.training.rehearsal import LONG, exit_code, in_threads, quick, until
from viz.seam.jobs.live_runs import failure
from viz.work.playground import Options, Playground
from viz.work.processes import saving as saving_module
from viz.work.processes.archive import archive
from viz.work.processes.saving import Saving
from viz.work.processes.training_process import CUT_SHORT

EXAMPLES = tuple(Example("Say it.", word, word) for word in ("ho", "ha", "hi", "oh"))
SMALL = {"texts": 4, "group": 2, "new_tokens": 2, "steps": 500, "learning_rate": 1e-4}
KINDS = ("training", "tuning", "tuning adapters", "ppo", "dpo", "grpo adapters")


@pytest.fixture(scope="module")
def base(tmp_path_factory):
    return save_tiny(tmp_path_factory.mktemp("base"))


def job_of(kind: str, base):
    """A long job of a kind, with a snapshot after a few steps."""
    what, *adapted = kind.split()
    lora = Lora(2) if adapted else None
    if what == "training":
        return quick(**LONG)
    if what == "tuning":
        recipe = Recipe(steps=20_000, batch=2, length=64, learning_rate=1e-4, warmup=0)
        return TuneJob(source=base, examples=EXAMPLES, recipe=recipe, lora=lora)
    return dataclasses.replace(practice(base, course_of(what, "", SMALL), "length: 2", "The cat"), lora=lora)


@pytest.fixture
def playground(monkeypatch):
    """One whose runs are threads of this process, with a look at the model every few steps."""
    monkeypatch.setattr("model.training.jobs.job.SNAPSHOTS", 5000)
    monkeypatch.setattr("model.alignment.tuning.SNAPSHOTS", 5000)
    monkeypatch.setattr("model.alignment.reinforcement.job.LOOKS", 250)
    monkeypatch.setattr("model.alignment.tuning.WRITTEN", 2)
    monkeypatch.setattr("model.alignment.four_prompts.STORY_TOKENS", 64)
    with in_threads():
        ours = Playground(Options())
        yield ours
        ours.workshop.close()


@pytest.mark.parametrize("kind", KINDS)
def test_of_a_process_that_is_killed_the_last_good_model_stays(playground, base, kind):
    shop = playground.workshop
    run = shop.start("me", job_of(kind, base))
    until(lambda: run.kept)
    assert not run.left_a_model and shop.find(run.model_id) is None  # it is still being trained
    run.process.kill()
    until(lambda: run.over)
    assert run.state == "failed" and run.failure.what == CUT_SHORT
    (run.folder / "half.part").write_bytes(b"x")  # what it was writing
    told = failure(run, "en")
    assert told == {"text": CUT_SHORT, "hint": f"The model after {run.kept} steps is kept."}
    assert "保留" in failure(run, "zh")["hint"] and "终止" in failure(run, "zh")["text"]
    label = {model_id: label for label, model_id in playground.choices("me")}[run.model_id]
    assert label.endswith(f", {run.kept} steps")
    model = playground.load(run.model_id).model
    assert all(torch.isfinite(each).all() for each in model.parameters())
    assert b"half.part" not in archive(run.folder)
    assert (run.adapter is not None) == ("adapters" in kind)
    if run.adapter:
        assert {path.name for path in run.adapter.iterdir()} == {CONFIG, WEIGHTS}
        assert all(bool(torch.isfinite(tensor).all()) for tensor in load_file(run.adapter / WEIGHTS).values())
    assert not shop.start("you", quick()).over  # the next one may begin


@pytest.mark.parametrize("kind", KINDS)
def test_a_page_that_is_closed_ends_its_run_and_leaves_nothing(playground, base, kind):
    shop = playground.workshop
    run = shop.start("me", job_of(kind, base))
    until(lambda: run.kept)
    playground.leave("me")
    assert run.state == "stopped" and shop.of("me") == [] and shop.find(run.model_id) is None
    until(lambda: not run.process.is_alive())
    assert not run.folder.exists() and base.path.exists()
    assert not shop.start("you", quick()).over


def test_weights_that_are_no_numbers_are_not_kept(tmp_path):
    spoilt = torch.nn.Linear(2, 2)
    torch.nn.init.constant_(spoilt.bias, float("nan"))
    assert not Saving(tmp_path, lambda: spoilt).after(3)
    assert not Saving(tmp_path, lambda: None).after(3)
    assert list(tmp_path.iterdir()) == []


def test_a_run_is_saved_now_and_then_and_not_before_its_first_step(tmp_path, base, monkeypatch):
    from model.api import load_resolved

    clock = [100.0]
    monkeypatch.setattr(saving_module, "time", type("Clock", (), {"monotonic": staticmethod(lambda: clock[0])}))
    saving = Saving(tmp_path, lambda: load_resolved(base).model)
    assert [saving.after(step) for step in (0, 1, 2)] == [False, True, False]
    clock[0] += saving_module.SAVE_EVERY
    assert saving.after(3)


@pytest.mark.long
@pytest.mark.parametrize("kind", ["tuning adapters", "ppo"])
def test_a_real_process_that_is_killed_or_left(base, kind, monkeypatch):
    ours = Playground(Options())
    try:
        for gone in (False, True):
            run = ours.workshop.start("me", job_of(kind, base))
            until(lambda run=run: run.reports)
            if gone:
                ours.leave("me")
                assert run.state == "stopped" and not run.folder.exists()
            else:
                os.kill(run.process.pid, signal.SIGKILL)
                until(lambda run=run: run.over)
                assert run.state == "failed" and run.failure.what == CUT_SHORT
            assert exit_code(run) == -signal.SIGKILL
    finally:
        ours.workshop.close()
