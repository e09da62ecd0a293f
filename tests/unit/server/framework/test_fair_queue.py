"""Turns, room and waiting answers of the queue, by hand."""

import asyncio
import types

import gradio as gr
import pytest
from gradio.queueing import Queue

from tests.support.models.helpers import apart
from viz.server.framework import fair_queue, visits
from viz.server.framework.fair_queue import FairQueue, Mailbox, Room, weight
from viz.work.presence import Presence


@pytest.fixture
def line():
    """A queue of a page with one function, and who is there."""
    with gr.Blocks() as page:
        box = gr.Textbox()
        box.change(lambda text: text, box, box, concurrency_limit=1)
    page.queue(max_size=8)
    queue = page._queue = FairQueue.of(page, Presence(), Room(waiting=8, share=4, bytes=1000))
    page.state_holder = visits.Visits()
    page.state_holder.set_blocks(page)
    page.state_holder.presence = queue.presence
    queue.active_jobs = [None] * 4
    return queue


def body(visit, line):
    """A question of a visit to the one function there is."""
    (number,) = line.blocks.fns
    return types.SimpleNamespace(
        session_hash=visit, fn_index=number, data=["x"], request=None, event_id=None, batched=False, trigger_id=None
    )


def anyone(owner="ann"):
    return types.SimpleNamespace(scope={"playground.client": owner}, client=None)


def ask(line, visit, owner, name=None):
    """A question of a visit; the id it gets, or why there is no room."""
    return apart(line.push(body(visit, line), anyone(owner), name))[:2]


def answer(line, visit, size):
    """Put an answer of so many bytes into the mailbox of a visit."""
    message = types.SimpleNamespace(output={"data": ["x" * size]}, msg="process_completed")
    line.pending_messages_per_session[visit].put_nowait(message)


def turns(line):
    """The visits in the order in which they are served, one at a time, each answered at once and read."""
    order = []
    while found := line.get_events():
        (event,), _, _ = found
        order.append(event.session_hash)
    return order


def test_owners_take_turns_however_many_visits_they_invent(line):
    for visit in ("e1", "e2", "e3", "e4"):
        assert ask(line, visit, "eve")[0]
        line.presence.listen(visit)
    assert ask(line, "a1", "ann")[0]
    line.presence.listen("a1")
    assert turns(line) == ["e1", "a1", "e2", "e3", "e4"]


def test_who_was_served_longest_ago_is_next(line):
    for visit, owner in (("a", "ann"), ("b", "bob"), ("a", "ann"), ("b", "bob")):
        ask(line, visit, owner)
        line.presence.listen(visit)
    assert turns(line) == ["a", "b", "a", "b"]
    ask(line, "b", "bob"), ask(line, "a", "ann")
    assert turns(line) == ["a", "b"]  # bob was last


def test_each_place_where_models_are_answers_as_many_at_once(line):
    for visit in ("a", "b", "c"):
        ask(line, visit, visit)
        line.presence.listen(visit)
    (name,) = line.event_queue_per_concurrency_id
    line.event_queue_per_concurrency_id[name].current_concurrency = 1  # one is at work
    assert turns(line) == []
    line.places = lambda: 2
    assert turns(line) == ["a", "b", "c"]


def test_behind_one_address_open_pages_go_before_invented_visits(line):
    for visit in ("e1", "e2", "e3"):
        ask(line, visit, "school")
    ask(line, "pupil", "school")
    line.presence.arrive("pupil")
    assert turns(line)[0] == "pupil"


def test_nobody_works_for_those_who_do_not_listen(line, monkeypatch):
    monkeypatch.setattr(fair_queue, "UNHEARD", 1)
    for visit in ("e1", "e2"):
        ask(line, visit, "eve")
    event = line.get_events()[0][0]
    line.active_jobs[0] = [event]
    assert line.get_events() is None and len(line) == 1  # one is at work for nobody: enough
    line.presence.listen("e2")
    assert line.get_events()[0][0].session_hash == "e2"


def test_an_answer_that_lies_unread_counts_as_work_for_nobody(line, monkeypatch):
    monkeypatch.setattr(fair_queue, "UNHEARD", 1)
    ask(line, "e1", "eve")
    assert turns(line) == ["e1"]
    monkeypatch.setattr(fair_queue, "SMALL", 500)
    answer(line, "e1", 500)
    ask(line, "e2", "eve")
    assert line.get_events() is None
    ask(line, "a1", "ann")
    assert turns(line) == ["a1"]  # hers is begun


def test_a_question_that_nobody_listens_for_is_dropped_in_time(line, monkeypatch):
    monkeypatch.setattr(fair_queue, "ASKED_SECONDS", -1.0)
    ask(line, "gone", "eve"), ask(line, "here", "eve")
    line.presence.listen("here")
    line.sweep()
    assert [event.session_hash for each in line.event_queue_per_concurrency_id.values() for event in each.queue] == [
        "here"
    ]
    assert len(line.event_ids_to_events) == 1


def test_answers_are_forgotten_when_nobody_comes_for_them(line, monkeypatch):
    monkeypatch.setattr(fair_queue, "KEPT_SECONDS", -1.0)
    for visit in ("gone", "here", "working"):
        ask(line, visit, visit)
        if visit != "working":
            turns(line)
            line.event_ids_to_events.clear()
        answer(line, visit, 10)
    line.presence.listen("here")
    line.sweep()
    assert set(line.pending_messages_per_session) == {"here", "working"}
    assert "gone" not in line.pending_event_ids_session


def test_answers_stay_within_the_room_that_there_is(line):
    for visit in ("old", "new", "read"):
        ask(line, visit, visit)
    line.presence.listen("read")
    turns(line)
    for visit in ("read", "old", "new"):
        answer(line, visit, 500)
    ask(line, "next", "next")
    assert turns(line) == ["next"]
    assert "old" not in line.pending_messages_per_session  # the oldest that nobody reads
    answer(line, "read", 800)
    ask(line, "last", "last")
    assert line.get_events() is None  # what is read is not forgotten: new work waits
    assert set(line.pending_messages_per_session) >= {"read"} and "new" not in line.pending_messages_per_session


def test_a_visit_that_reads_too_slowly_waits(line, monkeypatch):
    monkeypatch.setattr(fair_queue, "MOST_OF_ONE", 100)
    ask(line, "slow", "eve")
    line.presence.listen("slow")
    answer(line, "slow", 200)
    assert line.get_events() is None
    piece = types.SimpleNamespace(output={"data": ["x" * 50]}, msg="process_generating")
    event = types.SimpleNamespace(session_hash="slow", alive=True, _id="1")
    line.send_message(event, piece)
    assert not event.alive  # and what it streams ends


def test_a_gone_visit_is_sent_nothing(line):
    event = types.SimpleNamespace(session_hash="nobody", alive=True, _id="1")
    line.send_message(event, types.SimpleNamespace(output=None, msg="process_completed"))
    assert not event.alive and not line.pending_messages_per_session


def test_one_owner_fills_no_more_than_a_share(line):
    for n in range(4):
        assert ask(line, f"e{n}", "eve")[0]
    assert ask(line, "e9", "eve") == (False, "The server is busy.")
    assert ask(line, "a1", "ann")[0]


def test_an_open_page_takes_the_place_of_a_visit_that_nobody_reads(line):
    for n in range(4):
        ask(line, f"e{n}", "school")
    line.presence.arrive("pupil")
    assert ask(line, "pupil", "school")[0]
    assert sorted(turns(line)) == ["e1", "e2", "e3", "pupil"]
    assert line.pending_messages_per_session["e0"].get_nowait().success is False  # which says so to who comes for it
    for visit in ("p1", "p2", "p3", "p4"):
        line.presence.arrive(visit)
        assert ask(line, visit, "school")[0]
    line.presence.arrive("p5")
    assert not ask(line, "p5", "school")[0]  # all are open pages


def test_a_new_page_takes_the_place_of_what_nobody_came_for_in_a_moment(line, monkeypatch):
    monkeypatch.setattr(fair_queue, "MOMENT", 60.0)
    for n in range(4):
        ask(line, f"e{n}", "school")
    assert not ask(line, "new", "school")[0]  # they may be pages that open in this very moment
    monkeypatch.setattr(fair_queue, "MOMENT", 0.0)
    assert ask(line, "new", "school")[0] and "e0" not in turns(line)


def test_a_visit_of_one_name_is_closed_to_another(line):
    assert ask(line, "v", "ann", "ann")[0]
    assert ask(line, "v", "bob", "bob") == (False, "This visit is somebody else's.")


def test_a_full_house_takes_no_further_visit_and_no_page_loses_its_state(line):
    holder = line.blocks.state_holder
    holder.capacity = 3
    for visit in ("a", "b", "c"):
        line.presence.arrive(visit)
        assert ask(line, visit, visit)[0]
    assert ask(line, "d", "d") == (False, "The server has no room for another visitor.")
    assert set(holder.session_data) == {"a", "b", "c"}
    line.presence.depart("b")
    assert ask(line, "d", "d")[0] and set(holder.session_data) == {"a", "c", "d"}


def test_visits_that_never_listened_go_first(line):
    holder = line.blocks.state_holder
    holder.capacity = 3
    line.presence.arrive("page")
    _ = holder["page"]
    for n in range(20):
        _ = holder[f"e{n}"]
    assert list(holder.session_data) == ["page", "e18", "e19"]


def test_messages_weigh_about_what_they_hold():
    assert 1000 <= weight("x" * 1000) < 1100
    assert 1000 <= weight({"data": ["x" * 500, {"payload": "y" * 500}]}) < 1500
    assert weight([[0.5] * 1000] * 1000) >= 8e6  # a matrix of numbers, by its first entries


def test_a_mailbox_knows_what_is_in_it():
    async def use():
        box = Mailbox()
        for size in (100, 200):
            box.put_nowait(types.SimpleNamespace(output="x" * size))
        held = box.bytes
        first = await box.get()
        return held, first.output, box.bytes, (await box.get()).output, box.bytes

    assert apart(use()) == (428, "x" * 100, 264, "x" * 200, 0)


def test_work_begins_with_the_question_and_nothing_looks_meanwhile(line, monkeypatch):
    """An idle queue sleeps until it is asked; one whose processes are all at work looks now and then."""
    looks, begun = [], []

    async def until(happened):
        async with asyncio.timeout(30):
            while not happened():
                await asyncio.sleep(0.001)

    async def process(events, batch, since, function):
        begun.append(events[0].session_hash)
        for each in line.event_queue_per_concurrency_id.values():
            each.current_concurrency = 0

    monkeypatch.setattr(line, "process_events", process)
    monkeypatch.setattr(type(line), "__len__", lambda self: (looks.append(1), Queue.__len__(self))[1])

    async def visitor():
        working = asyncio.create_task(line.start_processing())
        await asyncio.sleep(0.1)
        assert len(looks) == 1  # nobody asked
        line.presence.listen("a")
        assert (await line.push(body("a", line), anyone(), None))[0]
        await until(lambda: begun == ["a"])
        assert len(looks) < 5
        line.active_jobs = [[]] * 4  # all at work
        line.presence.listen("b")
        assert (await line.push(body("b", line), anyone(), None))[0]
        await asyncio.sleep(0.05)
        assert begun == ["a"]
        line.active_jobs = [None] * 4
        await until(lambda: begun == ["a", "b"])
        line.stopped = True
        line._asked.set()
        await asyncio.wait_for(working, 5)

    apart(visitor())
