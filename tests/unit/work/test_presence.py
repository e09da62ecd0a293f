"""Who is there, and whose a visit is."""

import asyncio

from tests.support.models.helpers import apart
from viz.work import presence
from viz.work.presence import Presence


def test_a_page_is_there_until_its_last_line_is_closed():
    there = Presence()
    there.arrive("a"), there.arrive("a")
    assert there.is_open("a") and not there.is_heard("a") and not there.is_open("b") and there.open_pages == 1
    assert not there.depart("a") and there.is_open("a")
    assert there.depart("a") and not there.is_open("a") and there.open_pages == 0


def test_who_reads_answers_is_heard():
    there = Presence()
    there.listen("a")
    assert there.is_heard("a") and not there.is_open("a") and there.listeners == 1
    assert there.deafen("a") and not there.is_heard("a")


def test_one_waits_until_somebody_reads():
    there = Presence()

    async def wait():
        late = asyncio.create_task(there.heard("a", 20))
        await asyncio.sleep(0)
        there.listen("b")
        assert await there.heard("b", 20) and not late.done()
        there.listen("a")
        return await late, await there.heard("c", 0.01)

    assert apart(wait()) == (True, False) and not there._wakes


def test_answers_that_nobody_has_read_are_counted_by_owner():
    there = Presence()
    for visit, owner in (("a", "ann"), ("b", "ann"), ("c", "cy")):
        there.belongs(visit, owner)
        there.listen(visit)
        there.owe(visit)
    there.owe("nobody listens")
    assert (there.unread("ann"), there.unread("cy"), there.unread("nobody listens")) == (2, 1, 0)
    there.took("a"), there.took("a")
    assert there.unread("ann") == 1
    there.deafen("b")
    assert there.unread("ann") == 0 and there.unread("cy") == 1
    assert there.is_known("a") and not there.is_known("nobody listens")


def test_the_first_to_ask_in_the_name_of_a_visit_owns_it(monkeypatch):
    monkeypatch.setattr(presence, "MOST_OWNERS", 3)
    there = Presence()
    assert there.owner_of("a") == "a"  # nobody has asked
    assert there.belongs("a", "ann") and there.belongs("a", "ann") and not there.belongs("a", "bob")
    assert there.owner_of("a") == "ann"
    for n in range(4):
        there.belongs(f"v{n}", "eve")
    assert there.owner_of("a") == "a" and len(there._owners) == 3  # remembered within bounds
