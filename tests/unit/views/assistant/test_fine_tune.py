"""The view Fine-tune without a browser: its form as a job, what is scored, a run's pieces and events."""

import json
import math

import numpy as np
import pytest

from model.alignment.example_sets import SETS
from model.alignment.instructions import TEMPLATE, Example
from model.alignment.lora import Lora
from model.alignment.tuning import TuneJob, TuneSnapshot
from model.errors import InputError
from model.training.jobs.job import Job
from tests.support.models.helpers import serving
from tests.support.picking import opened
from tests.support.training.rehearsal import in_threads, until
from viz.seam.jobs import live_runs
from viz.seam.jobs.live_runs import own_run
from viz.seam.view import ModelsChanged, Open, Visit
from viz.views.assistant.fine_tune import view
from viz.views.assistant.fine_tune.figures import losses_payload
from viz.views.assistant.fine_tune.view import TUNING, job_of, piece_payload
from viz.work.playground import Options, Playground
from viz.work.prompt import Prompt

LINES = "\n".join(
    json.dumps({"instruction": "Say it.", "input": word, "output": word}) for word in ("ho", "ha", "<b>", "hi")
)
SMALL = {"set": "own", "examples": LINES, "steps": 2, "batch": 1, "rank": "1"}


@pytest.fixture
def playground(monkeypatch):
    """One whose runs are threads of this process, and whose messages come at once."""
    monkeypatch.setattr(live_runs, "EVERY", 0.0)
    monkeypatch.setattr("model.alignment.tuning.WRITTEN", 2)
    monkeypatch.setattr("model.alignment.four_prompts.STORY_TOKENS", 64)
    with in_threads():
        ours = Playground(Options())
        yield ours
        ours.workshop.close()


def visit(playground, form=None, owner="me", language="en", model_id="tinygpt"):
    return Visit(playground, owner, language, model_id, Prompt("x"), {"fine_tune_form": form or {}})


def test_the_form_as_it_is_is_a_job(playground):
    job = job_of(visit(playground))
    assert job.examples == tuple(SETS["questions"]()) and job.template == TEMPLATE
    assert (job.lora, job.source.model_id, job.minutes) == (Lora(8, 16.0, "qv"), "tinygpt", 20.0)
    assert (job.recipe.steps, job.recipe.batch, job.recipe.learning_rate, job.recipe.seed) == (60, 16, 5e-3, 0)


def test_what_is_set_is_done(playground):
    form = {
        "method": "full",
        "steps": 7,
        "batch": 3,
        "seed": 5,
        "set": "opposites",
        "template": "{instruction} {input}",
    }
    job = job_of(visit(playground, form))
    assert job.lora is None and job.recipe.learning_rate == 5e-4 and job.name == "opposites"
    assert (job.recipe.steps, job.recipe.batch, job.recipe.seed, job.recipe.warmup) == (7, 3, 5, 5)
    assert (
        job.template == "{instruction} {input}"
        and job_of(visit(playground, {"rate": 0.02})).recipe.learning_rate == 0.02
    )
    adapted = job_of(visit(playground, {"rank": "2", "alpha": 3, "matrices": "mlp"}))
    assert adapted.lora == Lora(2, 3.0, "mlp")


@pytest.mark.parametrize(
    ("lines", "what"),
    [
        ("", "Examples are missing"),
        ("hello", "not JSON"),
        ('{"instruction": "a", "output": 1}', "not an example"),
        ("x" * 60_001, "too large"),
    ],
)
def test_examples_that_are_none_are_refused(playground, lines, what):
    with pytest.raises(InputError, match=what):
        job_of(visit(playground, {"set": "own", "examples": lines}))


def test_losses_are_shown_with_the_prompt_masked():
    """The losses are those of tokens 1 on; of four tokens two are the prompt."""
    payload = losses_payload(("a", "b\n", " <i>", "d"), 2, np.array([1.0, 2.0, math.nan], np.float32), {})
    assert payload["losses"] == [None, 1.0, 2.0, None] and payload["prompt"] == 2 and payload["breaks"] == [1]
    assert payload["tokens"][2] == "·<i>"


def test_a_run_is_followed_from_its_start_to_its_model(playground):
    told = [*TUNING.events["start"].handle(visit(playground, SMALL), {})]
    assert isinstance(told[-1], ModelsChanged)
    pieces = [each for each in told if isinstance(each, dict)]
    assert pieces[-1]["state"] == "done" and sum(len(each["reports"]) for each in pieces) == 2
    snapshots = [each for piece in pieces for each in piece["snapshots"]]
    assert [each["step"] for each in snapshots] == [0, 1, 2]
    last = pieces[-1]
    assert "8,192 of 8,546,816" in last["facts"] and "3 training examples, 1 held out" in last["facts"]
    assert len(last["questions"]) == 1 and len(last["example"]["tokens"]) == len(snapshots[0]["losses"])
    (run,) = playground.workshop.of("me")
    assert run.model_id in [model_id for _, model_id in playground.choices("me")]
    (opened,) = TUNING.events["open"].handle(visit(playground), {"run": run.id})
    assert isinstance(opened, Open) and opened.prompt.startswith("Instruction: Say it.")
    (lacking,) = TUNING.events["again"].handle(visit(playground), {"run": run.id, "snapshots": 2})
    assert [each["step"] for each in lacking["snapshots"]] == [2] and lacking["from_snapshot"] == 2
    assert own_run(visit(playground), {"run": run.id}, Job) is None  # the other tab's events are not for it
    assert own_run(visit(playground, owner="you"), {"run": run.id}, TuneJob) is None
    # What came of it can be tuned again.
    more = [*TUNING.events["start"].handle(visit(playground, SMALL, model_id=run.model_id), {})]
    assert more[-2]["state"] == "done"


def test_a_run_that_ran_away_says_so_and_what_was_kept(playground):
    run = playground.workshop.start("me", job_of(visit(playground, SMALL)))
    until(lambda: run.over)
    run.state = "diverged"
    for language, said in (("en", "learning rate is too high"), ("zh", "学习率太高")):
        assert said in piece_payload(run, language, (0, 0))["error"]["text"]
    best = min(reversed(run.snapshots[:-1]), key=lambda each: each.loss).step
    assert f"from step {best}, was kept" in piece_payload(run, "en", (0, 0))["error"]["hint"]
    assert isinstance(run.snapshots[-1], TuneSnapshot)


def test_the_endpoint_scores_the_answer_alone(lm):
    there = opened(serving(lm))
    found = view.masked_losses(there, "Say.", "ho", "ha", template="Q {instruction} A")
    scored = [each["loss"] for each in found["tokens"] if each["scored"]]
    assert found["tokens"][0]["loss"] is None and len(found["tokens"]) == found["prompt"] + len(scored)
    assert found["loss"] == pytest.approx(sum(scored) / len(scored), rel=1e-5)
    with pytest.raises(InputError, match="an answer"):
        view.masked_losses(there, "Say it.", "")
    assert Example("a", "", "b").input == ""
