"""Fine-tuning as a job: what is learned and looked at, a loss that runs away, and what is refused. On a tiny model."""

import dataclasses
import math

import numpy as np
import pytest
import torch

from model.alignment import tuning
from model.alignment.instructions import Example
from model.alignment.lora import Lora
from model.alignment.tuning import TuneJob, TuneSnapshot, open_job, token_losses
from model.api import load_resolved
from model.errors import InputError
from model.gpt.transformer import Transformer
from model.loading.checkpoint import save_folder
from model.loading.sources import Resolved
from model.training import data
from model.training.jobs.job import Limits
from model.training.jobs.running_job import DIVERGED, Finished
from model.training.loop import Recipe, Report
from tests.support.models.helpers import tiny_config

EXAMPLES = tuple(Example("Say it.", word, word) for word in ("ho", "ha", "hi", "he", "oh", "ah"))
LLAMA = {"norm": "rmsnorm", "positions": "rope", "mlp": "swiglu", "n_head": 4, "n_kv_head": 2, "d_model": 32}


@pytest.fixture(scope="module", params=[{}, LLAMA], ids=["gpt2", "llama"])
def source(request, tmp_path_factory) -> Resolved:
    """A tiny model of bytes; the second is of the shape of SmolLM2."""
    folder = tmp_path_factory.mktemp("base")
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        save_folder(folder, Transformer(tiny_config({"vocab_size": 257, "n_ctx": 64, "n_layer": 2} | request.param)))
    (folder / "tokenizer.json").write_text(data.train_vocabulary(["a"], 257), encoding="utf-8")
    return Resolved("folder", folder, "base", "Base")


def job_of(source: Resolved, lora=None, **recipe) -> TuneJob:
    settings = {"steps": 4, "batch": 2, "length": 64, "learning_rate": 1e-3, "warmup": 0} | recipe
    return TuneJob(source=source, examples=EXAMPLES, lora=lora, recipe=Recipe(**settings))


def run(job: TuneJob, limits: Limits | None = None):
    running = open_job(job, limits or Limits())
    return running, [*running.messages]


@pytest.mark.parametrize("lora", [None, Lora(2, 4.0, "all")], ids=["full", "lora"])
def test_a_run_tells_what_it_learns_and_leaves_a_model(source, lora, tmp_path):
    running, messages = run(job_of(source, lora, steps=6, learning_rate=5e-3))
    started, snapshots = running.started, [each for each in messages if isinstance(each, TuneSnapshot)]
    assert (started.learned_from, started.held_out, started.left_out) == (5, 1, 0)
    assert (started.n_learned == started.n_params) is (lora is None) and started.n_learned > 0
    assert [each.step for each in messages if isinstance(each, Report)] == [1, 2, 3, 4, 5, 6]
    assert [each.step for each in snapshots] == [0, 1, 2, 3, 4, 5, 6]
    assert snapshots[-1].train_loss < snapshots[0].train_loss
    first = snapshots[0]
    assert len(first.losses) == len(started.ids) - 1 and math.isfinite(first.bits_per_byte)
    assert first.loss == pytest.approx(first.losses[started.prompt - 1 :].mean(), rel=1e-4)  # one is held out
    save_folder(tmp_path, running.model())
    for name, text in running.files.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    saved = load_resolved(Resolved("folder", tmp_path, "x", "x"))
    again = token_losses(saved.model, started.ids)
    np.testing.assert_allclose(again, running.look().losses, rtol=1e-3, atol=1e-4)
    assert saved.decode(started.ids[: started.prompt]) == f"Instruction: Say it.\nInput: {saved_word(started)}\nAnswer:"


def saved_word(started) -> str:
    return started.questions[0].input


def test_the_same_seed_makes_the_same_run(source):
    def told(**recipe):
        _, messages = run(job_of(source, Lora(2), **recipe))
        return [each.loss for each in messages if isinstance(each, Report)], messages[-1].answers

    assert told(seed=1) == told(seed=1)
    assert told(seed=1)[0] != told(seed=2)[0]


@pytest.mark.parametrize("lora", [None, Lora(2)], ids=["full", "lora"])
def test_a_loss_that_is_no_number_ends_the_run_with_the_last_good_model(source, lora, monkeypatch):
    """The third step finds a weight that is no number: the best of the snapshots before comes back."""
    steps = tuning.loop.steps

    def broken(model_run, recipe, batches):
        for report in steps(model_run, recipe, batches):
            if report.step == 3:
                with torch.no_grad():
                    next(each for each in model_run.model.parameters() if each.requires_grad).fill_(math.nan)
                report = dataclasses.replace(report, loss=math.nan)
            yield report

    monkeypatch.setattr(tuning.loop, "steps", broken)
    running, messages = run(job_of(source, lora))
    assert isinstance(messages[-1], Finished) and messages[-1].reason == DIVERGED
    seen = [each for each in messages[:-2] if isinstance(each, TuneSnapshot)]
    assert [each.step for each in seen] == [0, 1, 2]
    good = min(reversed(seen), key=lambda each: each.loss)
    np.testing.assert_array_equal(messages[-2].losses, good.losses)
    assert all(torch.isfinite(each).all() for each in running.model().parameters())


@pytest.mark.parametrize(
    ("loss", "norm", "first", "gone"),
    [
        (math.nan, 1.0, 3.0, True),
        (math.inf, 1.0, 3.0, True),
        (3.0, math.nan, 3.0, True),
        (12.0, 1.0, 3.0, True),  # ln 8192 = 9.01: guessing would be better
        (11.0, 1.0, 3.0, False),
        (12.0, 1.0, 11.0, False),  # it began no better
        (1.0, 500.0, 3.0, False),
    ],
)
def test_a_loss_runs_away_where_it_is_no_number_or_much_worse_than_guessing(loss, norm, first, gone):
    assert tuning.ran_away(Report(1, loss, 0.1, norm, 10, 0.1), tuning.most_loss(8192, first)) is gone


def test_a_learning_rate_far_too_high_ends_with_a_model_no_worse_than_the_first(source):
    _, messages = run(job_of(source, None, steps=8, learning_rate=10.0))
    assert isinstance(messages[-1], Finished) and messages[-1].reason == DIVERGED
    first, last = messages[0], messages[-2]
    assert isinstance(last, TuneSnapshot) and last.loss <= first.loss


def test_what_is_out_of_bounds_is_refused(source):
    job = job_of(source)
    for changes, what in (
        ({"examples": EXAMPLES[:1]}, "out of bounds.*examples"),
        ({"minutes": 21.0}, "minutes"),
        ({"template": "x"}, "no place"),
        ({"recipe": dataclasses.replace(job.recipe, steps=30_000)}, "steps"),
        ({"recipe": dataclasses.replace(job.recipe, learning_rate=1.0)}, "learning rate"),
    ):
        with pytest.raises(InputError, match=what):
            tuning.check(dataclasses.replace(job, **changes), Limits())
    tuning.check(job, Limits())
    for limits, lora, hint in (
        (Limits(full_parameters=10), None, "LoRA"),
        (Limits(adapted_parameters=10), Lora(), "smaller"),
    ):
        with pytest.raises(InputError, match=f"too large.*{hint}"):
            open_job(job_of(source, lora), limits)
    with pytest.raises(InputError, match="tokens a step"):
        open_job(job, Limits(batch_tokens=20))


def test_token_losses_are_those_of_single_forwards(source):
    lm = load_resolved(source)
    ids = lm.tokenizer.encode_ids("Say it.")
    for at, loss in enumerate(token_losses(lm.model, ids), start=1):
        with torch.no_grad():
            logits = lm.model(torch.tensor([ids[:at]]))[0, -1].double()
        assert loss == pytest.approx((logits.exp().sum().log() - logits[ids[at]]).item(), rel=1e-4)
