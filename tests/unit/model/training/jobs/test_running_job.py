"""A training under way: what is known at its start, and in which order one hears of it."""

import pytest
import torch

from model.errors import InputError
from model.training import loop
from model.training.jobs import job as training
from model.training.jobs.job import Job, Limits, begin, snapshot_steps
from model.training.loop import Report
from tests.support.training.rehearsal import quick as job


def test_what_is_known_at_the_start():
    run, dataset, started, probe = begin(job(layers=2, task="sort", length=12), Limits())
    assert run.step == 0 and dataset.name == "sort"
    c = run.model.config
    assert (c.n_layer, c.n_head, c.d_model, c.n_ctx, c.vocab_size) == (2, 2, 16, 12, 28)
    found = (started.vocab_size, started.n_layer, started.n_head, started.length, started.ids)
    assert found == (28, 2, 2, 12, tuple(probe.tolist()))
    block = 4 * (16 * 16 + 16) + (16 * 64 + 64) + (64 * 16 + 16) + 2 * 32  # attention, MLP, norms
    assert started.n_params == 28 * 16 + 12 * 16 + 2 * block + 32
    assert started.seconds > 0
    again = begin(job(layers=2, task="sort", length=12), Limits())[0]
    assert all(torch.equal(a, b) for a, b in zip(run.model.parameters(), again.model.parameters(), strict=True))


def test_begin_looks_at_the_bounds():
    with pytest.raises(InputError, match="layers: 7"):
        begin(job(layers=7), Limits())


def kinds(asked: Job) -> list[str]:
    run, dataset, _, probe = begin(asked, Limits())
    return [f"{type(m).__name__[0]}{m.step}" for m in training.messages(run, dataset, asked, probe)]


def test_messages_come_in_order(monkeypatch):
    assert kinds(job(steps=3)) == ["S0", "R1", "S1", "R2", "S2", "R3", "S3"]
    monkeypatch.setattr(training, "SNAPSHOTS", 2)
    assert kinds(job(steps=5)) == ["S0", "R1", "R2", "S2", "R3", "R4", "S4", "R5", "S5"]


@pytest.mark.parametrize(
    ("steps", "every"), [(1, 1), (60, 1), (89, 1), (90, 2), (131, 2), (600, 10), (601, 10), (20_000, 333)]
)
def test_snapshots_are_evenly_spread_and_the_last_step_has_one(steps, every):
    assert snapshot_steps(steps) == {*range(every, steps + 1, every), steps}
    assert len(snapshot_steps(steps)) <= 90


def test_looking_changes_nothing_of_the_training():
    asked = job(steps=4, layers=2)
    watched, dataset, _, probe = begin(asked, Limits())
    reports = [m for m in training.messages(watched, dataset, asked, probe) if isinstance(m, Report)]
    alone, dataset, _, _ = begin(asked, Limits())
    plain = [*loop.steps(alone, asked.recipe, dataset.train)]
    assert [r.loss for r in reports] == [r.loss for r in plain]
    assert all(torch.equal(a, b) for a, b in zip(watched.model.parameters(), alone.model.parameters(), strict=True))
