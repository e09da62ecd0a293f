"""What a server keeps of trained models: the files one may fetch, for how long, and the bounds of a run."""

import io
import os
import signal
import time
import types
import zipfile
from pathlib import Path

import numpy as np
import pytest
from starlette.applications import Starlette
from starlette.routing import Route
from starlette.testclient import TestClient

from model.api import load_resolved
from model.loading.sources import Resolved
from model.training.jobs.job import Limits
from tests.support.models.helpers import assert_close
from tests.support.scripts import STATIC
from tests.support.training.rehearsal import LONG, TALE, finish, in_threads, quick
from viz import serve
from viz.serve import trained_archive
from viz.work.playground import Options, Playground
from viz.work.processes.archive import archive


@pytest.fixture
def playground():
    with in_threads():
        ours = Playground(Options())
        yield ours
        ours.workshop.close()


def assert_model_files(content: bytes, run, folder: Path) -> None:
    with zipfile.ZipFile(io.BytesIO(content)) as file:
        assert file.testzip() is None
        assert sorted(file.namelist()) == ["config.json", "model.safetensors", "tokenizer.json"]
        file.extractall(folder)
    loaded, last = load_resolved(Resolved("folder", folder, "x", "x")), run.snapshots[-1]
    assert_close(loaded.trace(list(run.started.ids)).pattern(0, 1), last.patterns[0, 1], 1e-6)


def test_the_archive_holds_the_model(playground, tmp_path):
    run = finish(playground.workshop)
    assert_model_files(archive(run.folder), run, tmp_path)


@pytest.mark.parametrize("mixer", ["sliding_window", "linear", "delta", "hybrid"])
def test_a_model_of_another_mixer_is_trained_saved_and_opened(playground, tmp_path, mixer):
    """A window, the two kinds of matrix state, and Mamba beside softmax: what was replayed is what the file gives."""
    run = finish(playground.workshop, mixer=mixer, layers=2, window=3, task="text", text=TALE, vocabulary=270)
    assert run.state == "done" and run.failure is None
    assert_model_files(archive(run.folder), run, tmp_path)
    opened = playground.opened(run.model_id)
    assert opened.config.mixers == (("mamba", "softmax") if mixer == "hybrid" else (mixer,) * 2)
    trace, last = opened.trace(list(run.started.ids)), run.snapshots[-1]
    for layer in range(2):
        maps = np.stack([trace.pattern(layer, head) for head in range(2)])
        assert_close(maps, last.patterns[layer], 1e-5)
        assert (maps[0].sum(-1) <= 1 + 1e-5).all() and (maps[0] >= 0).all()
    text = opened.decode(list(last.sample))
    assert len(last.sample) > last.prompt and text


def test_the_archive_is_served_to_who_knows_its_number(playground, tmp_path):
    run = finish(playground.workshop)
    going = playground.workshop.start("me", quick(**LONG))
    client = TestClient(Starlette(routes=[Route("/playground/trained/{number}.zip", trained_archive(playground))]))
    answer = client.get(f"/playground/trained/{run.id}.zip")
    assert answer.status_code == 200 and answer.headers["content-type"] == "application/zip"
    assert answer.headers["content-disposition"] == 'attachment; filename="trained-gpt.zip"'
    assert_model_files(answer.content, run, tmp_path)
    for number in ("0", going.id, run.model_id, run.id[:-1], "..%2f..%2fetc", "%00"):
        assert client.get(f"/playground/trained/{number}.zip").status_code == 404
    playground.workshop.leave("me")
    assert client.get(f"/playground/trained/{run.id}.zip").status_code == 404


def test_the_minutes_of_the_command_line_bound_a_run():
    assert Playground(Options(training_minutes=3.5)).workshop.limits == Limits(minutes=3.5)


def test_a_terminated_server_removes_what_was_trained(playground, monkeypatch):
    run = finish(playground.workshop)

    def wait():
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(30)  # the signal comes before this ends

    closed = []
    running = types.SimpleNamespace(url="", network_urls=(), wait=wait, close=lambda: closed.append(True))
    monkeypatch.setattr(serve, "build", lambda playground: None)
    monkeypatch.setattr(serve, "start", lambda *_, **__: running)
    before = signal.signal(signal.SIGTERM, lambda *_: pytest.fail("not handled"))
    try:
        serve.launch(playground, STATIC, host="", port=None, open_browser=False)
    finally:
        signal.signal(signal.SIGTERM, before)
    assert closed and not run.folder.parent.exists() and playground.workshop.of("me") == []
