"""A replica by itself: what it answers, refuses, tells of long work, and how that is stopped."""

import dataclasses
import pickle
import threading

import pytest
import torch

from model.errors import InputError
from model.gpt.edits import Edit
from model.progress import silent
from model.records import RunKey
from tests.support.models.small_models import save_tiny
from tests.unit.views.test_seam import same
from viz.cluster.replica import VIEWS, RefusedQuestion, Replica
from viz.page.pipeline import PageRequest, scene_of
from viz.seam import panels
from viz.seam.tasks import Answering, MeasureTask, TraceReading, WritingTask
from viz.views.sampling.side_by_side.run import request_of, rounds
from viz.work.engine import Done, Ran
from viz.work.playground import Options, Playground
from viz.work.prompt import Prompt


@pytest.fixture(scope="module")
def options(tmp_path_factory):
    local = save_tiny(tmp_path_factory.mktemp("tiny"), n_layer=2)
    return Options(model="tiny", local=local, memory_mb=64)


@pytest.fixture
def replica(options):
    threads = torch.get_num_threads()
    yield Replica(options, "tiny", 1)
    torch.set_num_threads(threads)


@pytest.fixture
def page(options, replica):
    playground = Playground(options)
    playground.load("tiny")
    return playground


def scene(page):
    return scene_of(page, PageRequest("tiny", "the cat", None, {}, {}, "en"))


def task_of(page, view, name):
    opened = scene(page)
    settings = panels.settings_of(VIEWS[view], opened, {})
    return panels._ask(MeasureTask(VIEWS[view], VIEWS[view].measure(name), opened, settings), lambda: None).elsewhere()


def writing(page):
    cards = {"strategies": [{"preset": "top_p"}], "tokens": 8}
    request = request_of(page, page.opened("tiny"), Prompt("the cat"), cards, {})
    return request, WritingTask("tiny", request.prompt, dataclasses.replace(request, model=None, writer=None))


def test_it_runs_a_prompt_and_measures_as_the_page_would(replica, page):
    opened = scene(page)
    ran = pickle.loads(replica.run(opened.trace.key))
    assert isinstance(ran, Ran) and same(ran.metrics, opened.trace.metrics) and ran.seconds > 0
    there = pickle.loads(replica.measure(task_of(page, "map", "main")))
    settings = panels.settings_of(VIEWS["map"], opened, {})
    assert same(there.value, panels.measured(VIEWS["map"], "main", opened, settings).value)
    assert all(z.flags.writeable for z in there.value.z)
    assert replica.status()["answered"] == 2 and replica.status()["traces"] == 1 and replica.unused() < 60


@pytest.mark.parametrize("loaded", [{"stored": True}, {"dtype": "bfloat16"}], ids=["stored", "bfloat16"])
def test_it_loads_its_model_as_the_page_does(options, loaded):
    options, threads = dataclasses.replace(options, **loaded), torch.get_num_threads()
    try:
        replica, page = Replica(options, "tiny", 1), Playground(options)
        model, own = page.load("tiny"), replica.playground.load("tiny")
        assert (own.dtype, own.nbytes) == (model.dtype, model.nbytes)
        key = scene(page).trace.key
        assert same(pickle.loads(replica.run(key)).metrics, scene(page).trace.metrics)
    finally:
        torch.set_num_threads(threads)
    plain = Playground(dataclasses.replace(options, stored=False, dtype="float32")).load("tiny")
    assert own.dtype != plain.dtype and own.nbytes < plain.nbytes


def test_a_trace_is_read_where_it_is(replica, page):
    trace = scene(page).trace
    read = pickle.loads(replica.read(TraceReading(trace.key, "pattern", (1, 0))))
    assert same(read, trace.pattern(1, 0))
    assert "head does not exist" in pickle.loads(replica.read(TraceReading(trace.key, "pattern", (0, 99)))).error.what
    with pytest.raises(ValueError, match="not asked"):
        replica.read(TraceReading(trace.key, "edit", ()))


def test_what_a_person_can_cause_is_an_answer(replica, options, tmp_path):
    ids = scene_ids = (1, 2, 3)
    refused = pickle.loads(replica.run(RunKey("tiny", scene_ids, (Edit("zero", 99, 0),))))
    assert isinstance(refused, RefusedQuestion) and isinstance(refused.error, InputError) and refused.error.hint
    gone = Replica(options, "no such model", 1)
    for answer in (gone.ready(), gone.run(RunKey("no such model", ids))):
        assert "No model" in pickle.loads(answer).error.what
    assert pickle.loads(replica.ready()) == "tiny"


def test_a_job_reports_and_ends_with_its_value(replica, page):
    task = task_of(page, "lens", "whole")
    done, reports = pickle.loads(replica.work("a", task))
    opened = scene(page)
    expected = panels.job_of(VIEWS["lens"], "whole", opened, task.settings).work(silent)
    assert isinstance(done, Done) and same(done.value, expected) and done.seconds > 0
    assert reports and len(reports[0]) == 3 and replica.going == {} and replica.news("a", 0) == []


def test_a_text_has_the_pieces_that_the_page_would_write(replica, page):
    request, task = writing(page)
    nothing, pieces = pickle.loads(replica.work("b", task))
    expected = list(rounds(page, request, threading.Event()))
    assert nothing is None and len(pieces) == len(expected) > 2
    assert all(same(a, b) for a, b in zip(pieces, expected, strict=True))


def test_news_come_piece_by_piece_and_a_stop_ends_the_work(replica, page):
    _, task = writing(page)
    answers = []
    replica.playground.computing.acquire()  # nothing goes on until this is handed on
    worker = threading.Thread(target=lambda: answers.append(pickle.loads(replica.work("c", task))))
    worker.start()
    try:
        while not replica.news("c", 0) and "c" not in replica.going:
            pass
        assert replica.news("c", 0) == [] and not replica.idle(0.0) and replica.unused() == 0.0
        replica.stop("c")
    finally:
        replica.playground.computing.release()
    worker.join(30)
    ((_, pieces),) = answers
    assert len(pieces) <= 1 and replica.idle(0.0)


def test_what_was_stopped_before_it_began_does_not_begin(replica, page):
    replica.stop("d")
    assert pickle.loads(replica.work("d", task_of(page, "lens", "whole"))) is None
    replica.stop("e")
    assert pickle.loads(replica.work("e", writing(page)[1])) == (None, [])


def test_a_conversation_that_cannot_be_answered_is_refused(replica):
    refused = pickle.loads(replica.work("f", Answering("tiny", Prompt("the cat"), "greedy")))
    assert "awaits an answer" in refused.error.what
