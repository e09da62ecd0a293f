"""Calls of programs: they hold no thread while they wait, and one client's leave room for another's."""

import asyncio
import threading

import pytest

from model.errors import PlaygroundError
from tests.support.models.helpers import apart, serving
from viz.api import programs, registry
from viz.api.programs import UNREAD, Programs
from viz.seam.programs.endpoint import Endpoint
from viz.work.limits import Allowed
from viz.work.playground import Options
from viz.work.queue import Bounds


def quick(playground) -> dict:
    """Answers.

    Returns:
        value: One.
    """
    return {"value": 1}


SHORT = Endpoint(quick, reads="server", kind="listed")
LONG = Endpoint(quick, reads="server", kind="listed", long=True)


@pytest.fixture
def playground(lm):
    bounds = Bounds(views=1, running=1, share=3, questions=8)
    return serving(lm, Options(model=lm.id, allowed=Allowed(bounds=bounds)))


def listened(playground, *sessions):
    for each in sessions:
        playground.presence.listen(each)


def test_a_call_is_answered_while_somebody_reads(playground):
    listened(playground, "s")
    found = apart(Programs(playground).call(SHORT, {}, "s", "ann"))
    assert found["value"] == 1 and not playground.queue.working and playground.presence.unread("ann") == 1


def test_a_call_waits_for_its_reader_and_then_gives_up(playground, monkeypatch):
    ours = Programs(playground)

    async def late():
        call = asyncio.create_task(ours.call(SHORT, {}, "s", "ann"))
        await asyncio.sleep(0.02)
        assert not call.done() and not playground.queue.line and not playground.queue.working
        listened(playground, "s")
        return await call

    assert apart(late())["value"] == 1
    monkeypatch.setattr(programs, "HEARD_SECONDS", 0.01)
    with pytest.raises(PlaygroundError, match="busy"):
        apart(ours.call(SHORT, {}, "nobody", "ann"))
    assert not ours.calls and playground.presence.unread("ann") == 1


@pytest.mark.parametrize(("endpoint", "kind"), [(SHORT, "view"), (LONG, "job")])
def test_calls_take_turns_with_pages_and_hold_no_thread(playground, endpoint, kind, monkeypatch):
    ours, before = Programs(playground), playground.queue.join("page", kind)
    listened(playground, "s")

    async def waiting():
        threads = threading.active_count()
        call = asyncio.create_task(ours.call(endpoint, {}, "s", "ann"))
        await asyncio.sleep(0.02)
        (ticket,) = playground.queue.line
        assert (ticket.kind, ticket.client, ticket.owner) == (kind, "ann", "s")
        assert threading.active_count() == threads and not call.done()
        before.leave()
        return await call

    assert apart(waiting())["value"] == 1
    before = playground.queue.join("page", kind)
    monkeypatch.setattr(programs, "MOST_WAITING", 0.01)
    with pytest.raises(PlaygroundError, match="busy"):
        apart(ours.call(endpoint, {}, "s", "ann"))
    assert not playground.queue.line
    before.leave()


def test_a_client_has_its_share_of_the_calls_and_others_theirs(playground, monkeypatch):
    ours, before = Programs(playground), playground.queue.join("page", "view")

    async def flood():
        calls = [asyncio.create_task(ours.call(SHORT, {}, f"s{n}", "eve")) for n in range(3)]
        await asyncio.sleep(0.01)
        with pytest.raises(PlaygroundError, match="busy"):
            await ours.call(SHORT, {}, "s4", "eve")
        listened(playground, "polite", "s0", "s1", "s2")
        polite = asyncio.create_task(ours.call(SHORT, {}, "polite", "ann"))
        await asyncio.sleep(0.02)
        before.leave()
        return [await each for each in (polite, *calls)]

    assert len(apart(flood())) == 4
    monkeypatch.setattr(programs, "MOST_CALLS", 0)
    with pytest.raises(PlaygroundError, match="busy"):
        apart(ours.call(SHORT, {}, "polite", "ann"))


def test_no_work_begins_for_who_does_not_read(playground, monkeypatch):
    monkeypatch.setattr(programs, "LOOK_SECONDS", 0.005)
    ours = Programs(playground)
    listened(playground, "s", "other")

    async def slow():
        for _ in range(UNREAD):
            await ours.call(SHORT, {}, "s", "eve")
        another = asyncio.create_task(ours.call(SHORT, {}, "s", "eve"))
        assert (await ours.call(SHORT, {}, "other", "ann"))["value"] == 1  # somebody else's goes on
        await asyncio.sleep(0.03)
        assert not another.done() and not playground.queue.working
        playground.presence.took("s")
        return await another

    assert apart(slow())["value"] == 1
    monkeypatch.setattr(programs, "MOST_WAITING", 0.02)
    with pytest.raises(PlaygroundError, match="busy"):
        apart(ours.call(SHORT, {}, "s", "eve"))


def test_who_left_before_the_turn_came_costs_nothing(playground, monkeypatch):
    monkeypatch.setattr(registry, "answer", lambda *_: pytest.fail("computed"))
    ours, before = Programs(playground), playground.queue.join("page", "view")
    listened(playground, "s")

    async def leaving():
        call = asyncio.create_task(ours.call(SHORT, {}, "s", "ann"))
        await asyncio.sleep(0.02)
        playground.presence.deafen("s")
        before.leave()
        await call

    with pytest.raises(PlaygroundError, match="busy"):
        apart(leaving())
    assert not playground.queue.working


def test_a_cancelled_call_gives_its_place_back(playground):
    ours, before = Programs(playground), playground.queue.join("page", "view")
    listened(playground, "s")

    async def cancelled():
        call = asyncio.create_task(ours.call(SHORT, {}, "s", "ann"))
        await asyncio.sleep(0.02)
        call.cancel()
        await asyncio.wait((call,))

    apart(cancelled())
    assert not playground.queue.line and not ours.calls
    before.leave()


def test_nobody_asks_in_somebody_else_s_name(playground):
    listened(playground, "s")
    playground.presence.belongs("s", "ann")
    with pytest.raises(PlaygroundError, match="somebody else"):
        apart(Programs(playground).call(SHORT, {}, "s", "bob"))
