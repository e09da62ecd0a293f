"""Stored runs: small, of the present weights and default settings, and shown as a visitor's own run would be."""

import numpy as np
import pytest

from model.training.jobs.form import job_of as training_job
from model.training.jobs.job import Limits
from viz.page.store.runs import STORES, thinned
from viz.seam.jobs import stored_runs
from viz.seam.jobs.stored_runs import ID, StoredRun
from viz.seam.view import Visit
from viz.views.assistant.fine_tune import view as fine_tune
from viz.views.assistant.reinforcement import view as reinforcement
from viz.views.assistant.reinforcement.pieces import Histories
from viz.views.training.training import view as training
from viz.work.playground import Options, Playground
from viz.work.prompt import Prompt

MOST_BYTES = 500_000  # of all files
JOBS = {
    "fine_tune": fine_tune.job_of,
    "reinforcement": reinforcement.job_of,
    "training": lambda visit: training_job({}, Limits()),
}
PIECES = {
    "fine_tune": fine_tune.piece_payload,
    "reinforcement": reinforcement.piece_in(Histories(), ""),
    "training": training.piece_payload,
}


def test_the_files_are_small_and_one_for_each_view():
    files = list(stored_runs.FOLDER.iterdir())
    assert {path.name.removesuffix(".json.gz") for path in files} == set(STORES)
    assert sum(path.stat().st_size for path in files) < MOST_BYTES


@pytest.mark.parametrize("view", STORES)
def test_a_run_is_of_the_present_weights(view):
    run = stored_runs.read(view)
    assert run.weights == stored_runs.weights(), f"run python -m viz.page.store.runs {view}"
    assert run.seconds > 0 and run.threads >= 1


@pytest.mark.parametrize("view", JOBS)
def test_a_run_is_of_the_default_settings(view):
    visit = Visit(Playground(Options(model="tinygpt")), "", "en", "tinygpt", Prompt(), {})
    job = stored_runs.as_live(stored_runs.read(view)).job
    assert stored_runs.bare(job) == stored_runs.bare(JOBS[view](visit)), f"run python -m viz.page.store.runs {view}"


@pytest.mark.parametrize("language", ["en", "zh"])
@pytest.mark.parametrize("view", PIECES)
def test_a_view_shows_it_as_a_finished_run_without_a_model(view, language):
    shown = stored_runs.shown(view, language, PIECES[view])["stored"]
    assert (shown["run"], shown["state"], shown["over"], shown["model_id"]) == (ID, "done", True, "")
    assert len(shown["reports"]) >= shown["steps"] and len(shown["snapshots"]) >= 2
    if language == "en":
        seconds = stored_runs.read(view).seconds
        assert f"took {seconds:.0f} s on one CPU thread. A run of yours replaces it." in shown["note"]
        assert ("TinyGPT" in shown["note"]) == (view != "training")


def test_a_written_run_is_read_as_it_was(tmp_path, monkeypatch):
    monkeypatch.setattr(stored_runs, "FOLDER", tmp_path / "runs")
    run = StoredRun({"losses": np.array([1.5, 0.5])}, 3.5, 2, "abc", {"tokenizer.json": "{}"})
    stored_runs.read.cache_clear()
    assert stored_runs.write("mine", run) == (tmp_path / "runs" / "mine.json.gz").stat().st_size
    found = stored_runs.read("mine")
    stored_runs.read.cache_clear()
    assert found.value["losses"].tolist() == [1.5, 0.5]
    assert vars(found) | {"value": None} == vars(run) | {"value": None}
    assert stored_runs.note(found, "en") == "Stored run with the default settings: took 4 s on 2 CPU threads."


def test_snapshots_are_thinned_evenly_with_both_ends():
    assert thinned(list(range(61)), 16) == list(range(0, 61, 4))
    assert thinned([1, 2, 3], 16) == [1, 2, 3] and thinned([1, 2, 3], 2) == [1, 3]
