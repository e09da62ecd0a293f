"""The engine of one process: what it answers is what a measure says when it is called, for every view."""

import dataclasses
import pickle

import pytest
import torch

from model.errors import InputError, PromptTooLong, say
from model.gpt.edits import Edit
from model.loading.devices import available
from model.progress import silent
from tests.support.models.helpers import byte_model, serving
from tests.support.models.small_models import save_tiny
from tests.unit.views.test_seam import QUICK, same
from viz.page.pipeline import PageRequest, scene_of
from viz.seam import panels
from viz.seam.jobs.background import Result
from viz.seam.tasks import MeasureTask, Measuring
from viz.seam.view import Measure, View
from viz.views.tabs import TABS
from viz.work.distant import DistantTrace
from viz.work.engine import READS, Busy, Ran
from viz.work.local import Local
from viz.work.playground import Options, Playground

VIEWS = {view.key: view for tab in TABS for view in tab.all_views}


@pytest.fixture(autouse=True)
def one_thread():
    """Sums in one order."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture(scope="module")
def playground(tmp_path_factory):
    return serving(byte_model(tmp_path_factory.mktemp("bytes")))


def scene(playground, **selection):
    return scene_of(playground, PageRequest("tiny", "abcabd ab", selection or None, {}, {}, "en"))


def direct(view, measure, opened, settings):
    """A measure called as the plain function that it is, and those that it builds on likewise."""
    question = MeasureTask(view, measure, opened, settings)
    panels.prepare(question)
    used = {}
    for name in measure.uses:
        other = view.measure(name)
        used[name] = None if other.slow else direct(view, other, opened, settings)
    return question.answer(results=used)


@pytest.mark.long
def test_it_answers_what_the_measures_say_for_every_view(playground):
    assert isinstance(playground.engine, Local) and playground.engine.status() == ()
    opened = scene(playground, heads=[[1, 2]], tokens=[5])
    assert opened.trace.logits.size  # all rows are kept from now on: a row alone is rounded otherwise
    for _, view, measure in QUICK:
        settings = panels.settings_of(view, opened, {})
        answer = panels.measured(view, measure.name, opened, settings).value
        assert same(answer, direct(view, measure, opened, settings)), f"{view.key}.{measure.name}"


def task_of(view, measure, opened):
    """The measure as it would travel; None where it stays."""
    settings = panels.settings_of(view, opened, {})
    return panels._ask(MeasureTask(view, measure, opened, settings), lambda: None).elsewhere()


def test_what_travels_is_a_small_value_and_what_a_visitor_has_here_does_not(playground):
    opened = scene(playground)
    tasks = {(view.key, each.name): task_of(view, each, opened) for view in VIEWS.values() for each in view.measures}
    for task in filter(None, tasks.values()):
        assert isinstance(task, Measuring) and len(pickle.dumps(task)) < 20_000
        assert pickle.loads(pickle.dumps(task)) == task
    stays = [(view.key, each.name) for view in VIEWS.values() for each in view.measures if "visitor" in each.depends]
    for name in [*stays, ("reward_model", "trained"), ("reward_model", "run"), ("speculative", "drafters")]:
        assert tasks[name] is None, name
    for name in [("map", "main"), ("lens", "all"), ("lens", "whole"), ("distribution", "main"), ("heads", "survey")]:
        assert tasks[name] is not None, name


def test_slow_results_go_along_with_what_builds_on_them(playground):
    """On the other side the key is the same, so that what is kept there is kept for all."""
    opened = scene(playground)
    slow = Measure("slow", lambda scene, settings, progress: 7, slow=True)
    quick = Measure("quick", lambda scene, settings, results: results["slow"], uses=("slow",))
    last = Measure("last", lambda scene, settings, results: results["quick"], uses=("quick",))
    view = View("tried", layout=(), parts={}, measures=(slow, quick, last))
    none = panels.settings_of(view, opened, {})
    (without,) = [panels._ask(MeasureTask(view, last, opened, none), lambda: None).elsewhere()]
    assert without.prior == ()
    job = panels.job_of(view, "slow", opened, none)
    opened.playground.results.put(job.key, Result(job.work(silent), 0.1))
    task = pickle.loads(pickle.dumps(panels._ask(MeasureTask(view, last, opened, none), lambda: None).elsewhere()))
    assert [(name, result.value) for name, result in task.prior] == [("slow", 7)]
    there = dataclasses.replace(playground)
    there.models.get("tiny", lambda: playground.models.peek("tiny"))
    again = task.scene.open(there)
    assert panels.measured(view, "last", again, none).value is None
    panels.add_prior(view, again, task)
    assert panels.measured(view, "last", again, none).value == 7
    assert panels.key_of(MeasureTask(view, last, again, none)) == panels.key_of(MeasureTask(view, last, opened, none))


@pytest.mark.parametrize(
    "error",
    [
        InputError(say("Rows run from 0 to {}.", 7), "<b>", "Choose one."),
        PromptTooLong("The prompt is too long.", "9 tokens", say("Shorten it to {} tokens or fewer.", 4), "ab", 4),
        Busy(),
    ],
)
def test_an_error_is_the_same_in_another_process(error):
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is type(error) and vars(again) == vars(error) and str(again) == str(error)
    if hasattr(error.hint, "template"):
        assert again.hint.template == error.hint.template


def test_a_distant_trace_is_run_here_only_when_it_is_read(playground):
    trace = scene(playground).trace
    made = []
    make = lambda: made.append(1) or trace  # noqa: E731
    distant = DistantTrace(trace.key, trace.tokens, trace.config, Ran(trace.metrics, 0.5), make)
    assert distant.head_metrics().equals(trace.head_metrics()) and distant.seconds == 0.5
    assert not distant.is_here and distant.nbytes == trace.metrics.nbytes and made == []
    assert (distant.pattern(1, 2) == trace.pattern(1, 2)).all() and distant.is_here
    assert (distant.hidden(1) == trace.hidden(1)).all() and made == [1] and distant.nbytes > trace.nbytes


def test_a_distant_trace_is_read_where_it_is(playground):
    trace = scene(playground).trace
    asked = []

    def read(name, *arguments):
        asked.append((name, arguments))
        return getattr(trace, name)(*arguments)

    ran = Ran(trace.metrics, 0.5, read)
    distant = DistantTrace(trace.key, trace.tokens, trace.config, ran, lambda: trace)
    assert (distant.pattern(1, 2) == trace.pattern(1, 2)).all() and (distant.logits_at(-1) == trace.logits_at(-1)).all()
    assert asked == [("pattern", (1, 2)), ("logits_at", (-1,))] and not distant.is_here
    assert (distant.logits == trace.logits).all() and distant.is_here
    assert all(callable(getattr(trace, name)) for name in READS)


class Away(Local):
    """Says of every run that it was done elsewhere."""

    def run(self, ask):
        trace = ask.local()
        return Ran(trace.metrics, trace.seconds)


def test_a_distant_trace_may_be_read_in_work_that_holds_the_model(playground):
    ours = dataclasses.replace(playground, engine=Away())
    ours.models.get("tiny", lambda: playground.models.peek("tiny"))
    model, expected = ours.opened("tiny"), scene(playground).unedited
    edits = (Edit("zero", 1, 2),)
    trace = ours.trace_tokens(model, expected.tokens, edits)
    assert isinstance(trace, DistantTrace) and trace is ours.trace_tokens(model, expected.tokens, edits)
    with ours.computing:
        assert (trace.logits == expected.edit(*edits).logits).all()


class Elsewhere(Local):
    """It answers elsewhere."""

    is_here = False


def test_what_a_cluster_computes_on_a_device_is_kept_here_in_memory(tmp_path):
    """The page's copy of a model needs no device of its own; what is trained here is computed here."""
    local = save_tiny(tmp_path)
    options = Options(model=local.model_id, local=local, device="cuda")
    model = Playground(options, Elsewhere()).load(local.model_id)
    assert model.device == "cuda" and {each.device.type for each in model.model.parameters()} == {"cpu"}
    if "cuda" not in available():
        with pytest.raises(InputError, match="does not find this device"):
            Playground(options).load(local.model_id)
