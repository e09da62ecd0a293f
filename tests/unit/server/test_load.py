"""A small crowd on a real server: nobody gets anybody else's answer, nothing fails, and what is stopped stops."""

import asyncio
import dataclasses
import time
import types

import httpx
import pytest

from benchmarks.load import __main__ as load
from benchmarks.load import model as load_model
from benchmarks.load.browser import browsers
from benchmarks.load.ledger import ANYBODY, Ledger
from benchmarks.load.page import LIMITS, TIMEOUT
from benchmarks.load.report import Tally, quantile, summary, table
from benchmarks.load.users import User
from model import FOLDER
from tests.support.models.helpers import apart
from viz.page.build import build
from viz.serve import start
from viz.work.limits import PRIVATE
from viz.work.playground import Options, Playground
from viz.work.queue import Bounds


@pytest.fixture(scope="module")
def served(lm):
    """A page of the small model that is served, and the playground behind it."""
    allowed = dataclasses.replace(PRIVATE, bounds=Bounds(running=1, waiting=8))
    playground = Playground(Options(model=lm.id, max_tokens=64, allowed=allowed))
    playground.models.get(lm.id, lambda: lm)
    running = start(playground, FOLDER / "static", build(playground), host="127.0.0.1", port=None)
    yield types.SimpleNamespace(url=running.url, playground=playground)
    running.close()


def visit(served, lm, number, *acts):
    """Users that do something on the server, one after the other; what they saw."""
    ledger, tally = Ledger(lm), Tally()

    async def go():
        async with httpx.AsyncClient(limits=LIMITS, timeout=TIMEOUT) as client:
            for act in acts:
                await act(*(User(n, client, served.url, ledger, tally, lengths=(12,)) for n in range(1, number + 1)))

    apart(asyncio.wait_for(go(), 60))
    return tally


def until_free(playground):
    """Wait until nothing computes and nobody stands in line."""
    end = time.monotonic() + 20
    while playground.queue.working or playground.queue.line or playground.computing.locked():
        assert time.monotonic() < end
        time.sleep(0.01)


def test_a_crowd_gets_its_own_answers_and_no_error(served, lm, monkeypatch):
    monkeypatch.setattr("benchmarks.load.users.KEY", 0.002)

    async def live(user):
        await user.arrive()
        await user.type()
        await user.head()
        await user.race()
        await user.open_tab("attention")
        await user.slide()
        await user.job()
        await user.again()
        await user.token()
        await asyncio.gather(*user._background)
        await user.leave()

    async def crowd(*users):
        await asyncio.gather(*map(live, users))

    tally = visit(served, lm, 4, crowd)
    assert tally.crossings == [] and not tally.errors and not tally.busy
    assert {"last key", "head", "last slider", "tab or view", "token", "open the page"} <= set(tally.seconds)
    assert set(tally.of_user) == {1, 2, 3, 4}
    until_free(served.playground)


@pytest.mark.long
def test_real_browsers_type_and_click_without_an_error(served, lm):
    ledger, tally = Ledger(lm), Tally()
    apart(browsers(2, served.url, ledger, tally, time.monotonic() + 1))
    assert not tally.errors and tally.crossings == []
    wanted = {"browser: open the page", "browser: last key to map", "browser: click to painted"}
    assert set(tally.seconds) == wanted and len(tally.seconds["browser: open the page"]) == 2


@pytest.mark.parametrize("name", load.ENDINGS)
def test_what_is_stopped_or_left_stops(served, lm, name):
    tally = visit(served, lm, 1, load.ENDINGS[name])
    assert not tally.errors and not tally.busy and not tally.crossings
    until_free(served.playground)


def test_a_newer_question_closes_the_one_before(served, lm):
    async def hurry(user):
        await user.arrive()
        before = len(user.tally.seconds["token"])
        for at in range(3):
            user._select(tokens=[at])
            user.draw("token")
            await asyncio.sleep(0)
        await user.settled()
        assert len(user.tally.seconds["token"]) == before + 1
        await user.leave()

    tally = visit(served, lm, 1, hurry)
    assert not tally.errors and not tally.busy and not tally.crossings
    until_free(served.playground)


def test_a_picture_of_another_run_is_noticed(lm):
    ledger, tally = Ledger(lm), Tally()
    user = User(2, None, "", ledger, tally)
    run, _ = ledger.names("mine", 2)
    other, _ = ledger.names("else", 2)
    for told in ({"run": f"{run} 1.2"}, {"scene": run}, {"scene": ""}, {"run": "map"}):
        user.check([("plot", told)], "mine", [])
    assert tally.crossings == []
    for told in ({"run": f"{other} 1.2"}, {"scene": other}):
        user.check([("plot", told)], "mine", [])
    user.check([("map_plot", {"run": f"{run} 1.2"})], "mine", [[0, 1]])
    assert len(tally.crossings) == 3


def test_somebody_elses_answer_is_noticed(lm):
    ledger, tally = Ledger(lm), Tally()
    user = User(2, None, "", ledger, tally)
    mine, theirs = ledger.names("mine", 2), ledger.names("theirs", 1)
    user.own({"run": f"{mine[0]} 1.2"}, "plot")
    assert tally.crossings == []
    user.own({"deep": [{"run": f"{theirs[0]} 1.2"}]}, "plot")
    assert len(tally.crossings) == 1 and "user 1" in tally.crossings[0]
    assert ledger.names("theirs", 2) == theirs and ledger.owners[theirs[0]] == ANYBODY  # both typed it


def test_figures():
    assert [quantile([3.0, 1.0, 2.0, 4.0], share) for share in (0.0, 0.5, 0.75, 0.95, 1.0)] == [1, 2, 3, 4, 4]
    assert quantile([], 0.5) == 0
    tally = Tally()
    for user, seconds in ((1, 0.1), (1, 0.3), (2, 0.4), (2, 0.8)):
        for _ in range(6):
            tally.add("head", seconds, user)
    tally.add("head", 0.9, 3)  # too few to say what is usual for this one
    tally.ends = 0.0
    tally.add("key", 7.0, 2)  # asked for when the others had left
    tally.busy["job: The server is busy"] += 2
    tally.add("job: start to result", 2.0)
    found = summary(tally, [])
    assert found["kinds"]["head"] == {"count": 25, "p50": 400, "p95": 800, "p99": 900, "max": 900, "busy": 0}
    assert found["kinds"]["job: start to result"]["busy"] == 2
    assert found["fairness"] == {
        "best_user_p50": 200,
        "worst_user_p50": 600,
        "worst_over_best": 3,
        "visitors": 2,
        "longest_wait": 900,
        "fewest_answers": 1,
    }
    assert "| head | 25 | 400 | 800 | 900 | 900 | 0 |" in table(found)
    options = load.parse([])
    assert load.bad(found, options) == []
    tally.crossings.append("user 1: x")
    tally.errors["head: no answer"] += 1
    assert len(load.bad(summary(tally, []), options)) == 2


def test_what_more_machines_serve_follows_from_the_cores_that_a_visitor_takes():
    rows = {"page": 0.02, "replica": 0.05, "ray": 0.005, "child": 0.005, "pool": 9.0, "proxy": 0.001}
    run = {"processes": {kind: {"cores_a_visitor": cores} for kind, cores in rows.items()}}
    ten = load_model.plan(run, 10, 2, use=0.8)
    assert ten.visitors == 200 and (ten.page, ten.replica, ten.proxy) == pytest.approx((5.0, 11.0, 0.2))
    assert load_model.plan(run, 1, 2, use=0.8).visitors == 20
    assert load_model.plan(run, 1000, 2, use=0.8).visitors == 800  # as much as one proxy carries
    with pytest.raises(ValueError):
        load_model.plan({"processes": {}}, 10, 2)
