"""The engine on a Ray cluster of this machine, which is started once for all tests of this file."""

import contextlib
import dataclasses
import functools
import os
import threading
import time

import psutil
import pytest
import torch

from model.errors import InputError, PlaygroundError
from model.kernels import ready
from model.loading.devices import available
from tests.support.models.small_models import save_tiny
from tests.unit.views.test_seam import DECLARED, QUICK, same
from viz.cluster import join
from viz.page.pipeline import PageRequest, payloads, scene_of
from viz.seam import panels
from viz.seam.jobs.background import Cancelled
from viz.seam.tasks import MeasureTask, travels
from viz.views.sampling.side_by_side.run import request_of
from viz.views.sampling.writers import texts_of_request
from viz.views.tabs import TABS
from viz.work.engine import Busy, Status
from viz.work.limits import PRIVATE
from viz.work.playground import Options, Playground
from viz.work.prompt import Prompt

pytestmark = pytest.mark.long
TEXT, LOOKED_AT = "abcabd ab", "abcabd abc"
PICKED = {"heads": [[1, 2]], "tokens": [5]}
VIEWS = {view.key: view for tab in TABS for view in tab.all_views}


@pytest.fixture(scope="module")
def cluster():
    """viz.cluster.cluster, joined to a cluster of two processors and, as it is told, a GPU."""
    join.STORE = 80 << 20
    # A replica imports what it needs beside all else that the tests run; a question waits for one that starts anew.
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    os.environ["RAY_worker_niceness"] = "0"  # noqa: SIM112 (its name; else replicas get what other tests leave)
    os.environ["RAY_raylet_start_wait_time_s"] = "200"  # noqa: SIM112
    join.connect("ray", cpus=2, gpus=1)
    from viz.cluster import cluster

    cluster.START = cluster.PATIENCE = 400.0
    yield cluster
    cluster.ray.shutdown()
    torch.set_num_threads(threads)


@pytest.fixture(scope="module")
def options(tmp_path_factory):
    """A server whose only model is a tiny one: its sums are the same to the last bit in every process."""
    local = save_tiny(tmp_path_factory.mktemp("tiny"), n_layer=3, n_head=4, d_model=32)
    only = dataclasses.replace(PRIVATE, models=(local.model_id,))  # no example of another model takes a place
    return Options(model=local.model_id, local=local, memory_mb=128, allowed=only)


@pytest.fixture(scope="module")
def here(options, cluster):
    """It computes in this process."""
    playground = Playground(options)
    playground.load(options.model)
    return playground


@pytest.fixture(scope="module")
def there(options, cluster):
    """Its model has a replica."""
    again = functools.partial(join.rejoin, "ray", 2, 1)
    playground = Playground(options, cluster.Cluster(options, rejoin=again))
    playground.load(options.model)
    yield playground
    playground.engine._closed.set()


def test_a_replica_on_a_gpu_reserves_its_own_and_says_what_its_machine_lacks(cluster, tmp_path):
    """Where torch finds none, the replica that was given the GPU says so; more than there are nobody waits for."""
    local = dataclasses.replace(save_tiny(tmp_path), model_id="of_a_gpu")
    options = Options(model=local.model_id, local=local, memory_mb=64, device="cuda")
    one, two = (Playground(options, cluster.Cluster(options, gpus=n)) for n in (1, 2))
    with pytest.raises(InputError, match="fewer GPUs than one replica") as caught:
        two.load(local.model_id)
    assert caught.value.got == "1 < 2" and not two.engine.status()
    if "cuda" in available():
        assert one.load(local.model_id).device == "cuda"
    else:
        with pytest.raises(InputError, match="does not find this device"):
            one.load(local.model_id)
    assert cluster.ray.available_resources().get("GPU", 0.0) == 0.0
    for playground in (one, two):
        playground.engine._closed.set()
        for held in playground.engine._rings.get(local.model_id, ()):
            cluster.ray.kill(held.actor)


def asked(playground, text=TEXT, selection=None, tab="start", values=None):
    return PageRequest(playground.options.model, text, selection, values or {}, {}, "en", tab)


def scene(playground, text=TEXT, **selection):
    return scene_of(playground, asked(playground, text, selection or None))


def status(cluster, playground):
    """What the model's first replica says of itself."""
    return cluster.ray.get(cluster._send(playground.engine._rings[playground.options.model][0], "status"))


def test_every_view_measures_the_same_on_a_replica(cluster, here, there):
    """To the last bit, once both compute the softmax in the compiled loops."""
    assert ready.now() and until(lambda: status(cluster, there)["compiled"])
    ours, theirs = (scene(each, LOOKED_AT, **PICKED) for each in (here, there))
    wrong = []
    for _, view, measure in QUICK:
        settings = panels.settings_of(view, ours, {})
        if not travels(MeasureTask(view, measure, theirs, settings)):
            continue
        a, b = (panels.measured(view, measure.name, each, settings).value for each in (ours, theirs))
        if not same(a, b):
            wrong.append(f"{view.key}.{measure.name}")
    assert not wrong and there.engine.status()[0].ready
    assert there.engine.status() == (Status(f"{there.options.model}#0", there.options.model, True, 0),)


def test_every_view_is_drawn_without_running_the_prompt_here(there):
    """After the test above, so that only what it did not measure is asked for again."""
    run_here = []
    for tab, view in DECLARED:
        before = scene(there, LOOKED_AT).trace.is_here
        parts, _ = payloads(there, asked(there, LOOKED_AT, PICKED, tab, {f"{tab}_view": {"view": view.key}}))
        assert not parts["notice"], view.key
        assert not [name for name in panels.names_of(view) if "problem" in parts[name]], view.key
        if scene(there, LOOKED_AT).trace.is_here and not before:
            run_here.append(view.key)
    assert run_here == []


def test_edits_and_errors_travel(here, there):
    edits = {"heads": [[1, 2]], "edits": [{"kind": "zero", "layer": 1, "head": 2}]}
    ours, theirs = scene(here, **edits), scene(there, **edits)
    assert theirs.key == ours.key and theirs.trace.head_metrics().equals(ours.trace.head_metrics())
    view = VIEWS["edits"]
    settings = panels.settings_of(view, ours, {})
    a, b = (panels.measured(view, "main", each, settings).value for each in (ours, theirs))
    assert same(a, b)
    model, tokens = there.opened(there.options.model), ours.tokens
    from model.gpt.edits import Edit

    with pytest.raises(InputError) as refused:
        there.trace_tokens(model, tokens, (Edit("zero", 99, 0),))
    assert refused.value.what and refused.value.hint


def job(playground, key="lens", name="whole", text=TEXT):
    view, opened = VIEWS[key], scene(playground, text)
    return panels.job_of(view, name, opened, panels.settings_of(view, opened, {}))


def test_a_job_has_the_same_result_and_says_how_far_it_is(here, there):
    said = []
    ours = job(here)
    theirs = job(there)
    assert ours.locks and not theirs.locks and ours.key == theirs.key
    value = theirs.work(lambda *report: said.append(report))
    assert same(value, ours.work(lambda *report: None)) and said


def test_a_cancelled_job_is_stopped_there(cluster, there, monkeypatch):
    begun, sent, send = time.monotonic(), [], cluster._send
    monkeypatch.setattr(cluster, "_send", lambda held, *call: sent.append(call[:2]) or send(held, *call))

    def progress(done, total, what):
        if done or time.monotonic() - begun > 20:
            raise Cancelled

    with pytest.raises(Cancelled):
        job(there, "past_length", "main").work(progress)
    (name,) = [each[1] for each in sent if each[0] == "work"]
    assert sent[-1] == ("stop", name)
    until = time.monotonic() + 20
    while status(cluster, there)["long work"] and time.monotonic() < until:
        time.sleep(0.05)
    assert status(cluster, there)["long work"] == 0
    assert there.engine.status()[0].under_way == 0


def texts(playground, stop=None):
    """Texts of two strategies, step by step."""
    cards = {"strategies": [{"preset": "greedy"}, {"preset": "top_p"}], "tokens": 12}
    request = request_of(playground, playground.opened(playground.options.model), Prompt(TEXT), cards, {})
    return texts_of_request(playground, request, stop or threading.Event())


def test_texts_are_the_same_and_a_stop_ends_them(cluster, here, there):
    ours, theirs = list(texts(here)), list(texts(there))
    assert len(ours) > 3 and len(theirs) == len(ours)
    # Each process takes a step in the way that it found fastest; the ways differ by rounding.
    assert all(same(a, b, within=1e-4) for a, b in zip(ours, theirs, strict=True))
    stop = threading.Event()
    steps = texts(there, stop)
    next(steps)
    stop.set()
    assert len(list(steps)) < len(ours)


def test_a_replica_that_is_killed_is_started_again_and_nothing_is_lost(cluster, here, there, monkeypatch):
    monkeypatch.setattr(cluster, "FULL", cluster.START)
    before = status(cluster, there)["process"]
    own = "a text that nothing here begins like"  # so both run all of it: a run that goes on is equal to rounding only
    work = job(there, text=own)
    there.results.drop(lambda key: False)
    ours, theirs = scene(here, own, tokens=[3]), scene(there, own, tokens=[3])
    os.kill(before, 9)
    settings = panels.settings_of(VIEWS["map"], ours, {})
    a, b = (panels.measured(VIEWS["map"], "main", each, settings).value for each in (ours, theirs))
    assert same(a, b)
    assert same(work.work(lambda *report: None), job(here, text=own).work(lambda *report: None))
    assert status(cluster, there)["process"] != before


def test_a_question_waits_for_a_place_at_a_full_replica(cluster, there):
    held, waiting = there.engine._rings[there.options.model][0], []
    with contextlib.suppress(cluster.PendingCallsLimitExceeded):
        while True:
            waiting.append(cluster._send(held, "news", "nobody", 0))
    assert scene(there, "nobody has run this one")
    cluster.ray.get(waiting)


def test_a_replica_with_too_much_to_do_is_busy_and_says_so(cluster, there, monkeypatch):
    monkeypatch.setattr(cluster, "FULL", 0.0)
    held = there.engine._rings[there.options.model][0]
    waiting, refused = [], None
    for attempt in range(20):  # between filling it and asking, the replica may have made room
        with contextlib.suppress(cluster.PendingCallsLimitExceeded):
            while True:
                waiting.append(cluster._send(held, "news", "nobody", 0))
        try:
            scene(there, f"nobody has run it {attempt}")
        except Busy as busy:
            refused = busy
            break
    assert "busy" in refused.what and isinstance(refused, PlaygroundError)
    cluster.ray.get(waiting)
    assert scene(there, "nobody has run it")


@pytest.mark.parametrize("name", join.LOCAL)
def test_a_cluster_that_dies_ends_every_wait_and_comes_back(there, name):
    """The last tests: all replicas are new ones after them."""
    job_under_way = threading.Thread(target=lambda: failures.append(failure(lambda: job(there).work(print))))
    failures: list[str] = []
    (process,) = (each for each in psutil.Process().children(recursive=True) if each.name() == name)
    process.kill()
    job_under_way.start()
    assert until(lambda: not there.engine.is_reachable())
    with pytest.raises(PlaygroundError, match="cannot be reached"):
        scene(there, f"nobody has run it before the {name} died")
    job_under_way.join(60)
    assert failures and ("cannot be reached" in failures[0] or not failures[0])
    assert until(there.engine.is_reachable)
    assert scene(there, f"nobody has run it after the {name} died").trace.head_metrics().shape[0]


def failure(act) -> str:
    """Return the message of what is raised, "" where nothing is."""
    try:
        act()
    except PlaygroundError as error:
        return error.what
    return ""


def until(is_so, seconds: float = 300.0) -> bool:
    """Wait until something is so; return whether it came to be."""
    end = time.monotonic() + seconds
    while not is_so() and time.monotonic() < end:
        time.sleep(0.1)
    return is_so()
