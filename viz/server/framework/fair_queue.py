"""Gradio's queue, made fair and bounded: turns by who asks, no work for nobody, no answers kept for ever."""

import asyncio
import logging
import time
import uuid
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

import gradio as gr
from gradio.queueing import Event, Queue
from gradio.server_messages import ProcessCompletedMessage
from gradio.utils import run_coro_in_background, set_task_name

from viz.work.presence import Presence

log = logging.getLogger("playground")
KEPT_SECONDS = 60.0  # that an answer waits for somebody to read it
ASKED_SECONDS = 20.0  # that a question waits for somebody to listen
UNHEARD = 4  # answers that are worked out for an owner before anybody listens to them
MOMENT = 1.0  # in which a new page has begun to listen, in seconds
SMALL = 2048  # bytes of messages that say how things are; an answer is larger
BUSY = "The server is busy."
SWEEP_SECONDS = 5.0  # between two looks at what is too old
MOST_OF_ONE = 32 << 20  # bytes that wait for one visit; beyond, its work waits, too
SAMPLE = 8  # entries of a list by which its size is estimated


def weight(value: object) -> int:
    """About how many bytes a message holds: texts whole, long lists by their first entries."""
    if isinstance(value, str | bytes):
        return 64 + len(value)
    if isinstance(value, dict):
        return 64 + sum(weight(each) for each in value.values())
    if isinstance(value, list | tuple):
        first = value[:SAMPLE]
        return 64 + (len(value) * sum(map(weight, first)) // len(first) if first else 0)
    return 32


class Mailbox(asyncio.Queue):
    """The messages that wait for one visit, with their bytes and the moment of the oldest."""

    def __init__(self) -> None:
        super().__init__()
        self.bytes, self.since = 0, time.monotonic()

    def _put(self, item) -> None:
        if not self._queue:  # type: ignore[attr-defined]
            self.since = time.monotonic()
        item = (item, weight(getattr(item, "output", None)))
        self.bytes += item[1]
        super()._put(item)

    def _get(self):
        item, size = super()._get()
        self.bytes -= size
        self.since = time.monotonic()
        return item


@dataclass(frozen=True)
class Room:
    """How much a server holds for those who asked."""

    waiting: int  # questions in all
    share: int  # of them those of one owner
    bytes: int  # of answers that nobody has read yet


class FairQueue(Queue):
    """The queue of a page.

    * Whose turn it is: the owner (address or login name) with the least at work, then the one served longest ago;
      within an owner open pages before visits that nobody listens for, and those served longest ago first.
    * A visit that nobody listens for has its work begun only while its owner has few such; otherwise it waits for a
      listener, and is dropped after `ASKED_SECONDS`.
    * So many questions of a kind are worked on at once as its event allows, for each place where models are.
    * Answers that wait are bounded by size and age: those of nobody go first, and no work begins while they are full.
    """

    presence: Presence
    room: Room
    places: Callable[[], int]

    @classmethod
    def of(cls, page: gr.Blocks, presence: Presence, room: Room, places: Callable[[], int] = lambda: 1) -> "FairQueue":
        """Copy the queue that `page.queue()` made, with these rules. `places`: viz.work.engine.Engine.places."""
        old = page._queue
        new = cls(
            live_updates=True,
            concurrency_count=old.max_thread_count,
            update_intervals=old.update_intervals,
            max_size=room.waiting,
            blocks=page,
            default_concurrency_limit=old.default_concurrency_limit,
        )
        new.presence, new.room, new.places = presence, room, places
        new.pending_messages_per_session = {}  # type: ignore[assignment]
        new.ANALYTICS_MAX_EVENTS = 16  # of a page that shows them to nobody
        new._served: dict[str, int] = {}
        new._clock = 0
        new._asked = asyncio.Event()
        return new

    # --- a question comes ---

    async def push(self, body, request, username):
        """Take a question into the line, or say why not."""
        body.session_hash = visit = body.session_hash or uuid.uuid4().hex
        owner = request.scope.get("playground.client") or (request.client.host if request.client else "")
        if not self.presence.belongs(visit, owner) and username:
            return False, "This visit is somebody else's.", "error"
        if not self.blocks.state_holder.has_room(visit):
            return False, "The server has no room for another visitor.", "queue_full"
        if not self._has_room(owner, visit):
            return False, BUSY, "queue_full"
        if visit not in self.pending_messages_per_session:
            self.pending_messages_per_session[visit] = Mailbox()
        taken = await super().push(body, request, username)
        self._asked.set()
        return taken

    def _has_room(self, owner: str, visit: str) -> bool:
        """Whether there is room for a question, if need be in place of an older one that nobody listens for.

        A page opens its lines in the moment in which it asks, so that a question of its own is soon listened for.
        """
        waiting = [event for line in self.event_queue_per_concurrency_id.values() for event in line.queue]
        mine = [event for event in waiting if self._owner(event) == owner]
        if len(mine) < self.room.share and len(waiting) < self.room.waiting:
            return True
        of, now = waiting if len(waiting) >= self.room.waiting else mine, time.monotonic()
        least = 0.0 if self.presence.is_here(visit) else MOMENT
        unheard = [event for event in of if not self.presence.is_here(event.session_hash)]
        oldest = min(unheard, key=lambda event: event.enqueue_time, default=None)
        if oldest is None or now - oldest.enqueue_time < least:
            return False
        self._drop(oldest)
        return True

    # --- work begins ---

    async def start_processing(self) -> None:
        """Begin work the moment somebody asks: Gradio's own loop looks every few milliseconds, asked or not."""
        try:
            while not self.stopped:
                if len(self) == 0:
                    self._asked.clear()
                    await self._asked.wait()
                elif not await self._begin():  # no process is free, or nobody listens yet
                    await asyncio.sleep(self.sleep_when_free)
        finally:
            self.stopped = True
            self._cancel_asyncio_tasks()

    async def _begin(self) -> bool:
        """Work on the next question in the background; whether there is one that can be worked on."""
        if None not in self.active_jobs:
            return False
        async with self.delete_lock:
            found = self.get_events()
        if not found:
            return False
        events, batch, name = found
        line, function, now = self.event_queue_per_concurrency_id[name], events[0].fn, time.time()
        self.active_jobs[self.active_jobs.index(None)] = events
        line.current_concurrency += 1
        line.start_times_per_fn[function].add(now)
        for event in events:
            if (record := self.event_analytics.get(event._id)) is not None:
                record["status"] = "processing"
        task = run_coro_in_background(self.process_events, events, batch, now, function)
        set_task_name(task, events[0].session_hash, function._id, events[0]._id, batch)
        self._asyncio_tasks.add(task)
        task.add_done_callback(self._asyncio_tasks.discard)
        return True

    # --- whose turn it is ---

    def get_events(self):
        """The next question to work on with its line, None for none."""
        working = [event for job in self.active_jobs if job for event in job]
        if self._held() > self.room.bytes:
            self._make_room()
            if self._held() > self.room.bytes:
                return None
        busy = Counter(self._owner(event) for event in working)
        unheard = Counter(self._owner(event) for event in working if not self.presence.is_heard(event.session_hash))
        for visit, box in self.pending_messages_per_session.items():
            if box.bytes > SMALL and not self.presence.is_heard(visit):
                unheard[self.presence.owner_of(visit)] += 1
        places = self.places()
        ready = [
            (event, name)
            for name, line in self.event_queue_per_concurrency_id.items()
            if line.concurrency_limit is None or line.current_concurrency < places * line.concurrency_limit
            for event in line.queue
            if self._may_begin(event, unheard)
        ]
        if not ready:
            return None
        pages = Counter(event.session_hash for event in working)

        def turn(each: tuple[Event, str]) -> tuple:
            event, owner = each[0], self._owner(each[0])
            visit = event.session_hash
            by_owner = busy[owner], self._served.get(owner, 0)
            return *by_owner, not self.presence.is_here(visit), pages[visit], self._served.get(f"{owner} {visit}", 0)

        event, name = min(ready, key=turn)
        self._clock += 1
        owner = self._owner(event)
        for key in (owner, f"{owner} {event.session_hash}"):
            self._served.pop(key, None)
            self._served[key] = self._clock
        while len(self._served) > 4096:
            self._served.pop(next(iter(self._served)))
        self.event_queue_per_concurrency_id[name].queue.remove(event)
        return [event], False, name

    def _may_begin(self, event: Event, unheard: Counter) -> bool:
        visit = event.session_hash
        box = self.pending_messages_per_session.get(visit)
        if box is not None and box.bytes > MOST_OF_ONE:
            return False
        return self.presence.is_heard(visit) or unheard[self._owner(event)] < UNHEARD

    def _owner(self, event: Event) -> str:
        return self.presence.owner_of(event.session_hash)

    # --- what waits ---

    def send_message(self, event: Event, event_message) -> None:
        """Put a message into a visit's mailbox; a visit without one is gone, and its work ends."""
        box = self.pending_messages_per_session.get(event.session_hash)
        if box is None or (box.bytes > 2 * MOST_OF_ONE and event_message.msg == "process_generating"):
            event.alive = False
            return
        super().send_message(event, event_message)

    def _held(self) -> int:
        return sum(box.bytes for box in self.pending_messages_per_session.values())

    def _make_room(self) -> None:
        """Forget answers that nobody has come for, the oldest first, until the others fit."""
        boxes = self.pending_messages_per_session.items()
        for visit, box in sorted(boxes, key=lambda each: each[1].since):
            if self._held() <= self.room.bytes:
                return
            if box.bytes and not self.presence.is_heard(visit):
                self._forget(visit)

    def _forget_unheard(self) -> None:
        """Forget the answers that nobody has come for in time, and empty boxes."""
        now = time.monotonic()
        for visit, box in list(self.pending_messages_per_session.items()):
            events = self.pending_event_ids_session.get(visit, set())
            at_work = any(event in self.event_ids_to_events for event in events)
            if now - box.since > KEPT_SECONDS and not (at_work or self.presence.is_heard(visit)):
                self._forget(visit)

    def _forget(self, visit: str) -> None:
        del self.pending_messages_per_session[visit]
        self.pending_event_ids_session.pop(visit, None)

    def _drop(self, event: Event) -> None:
        """Take a question out of its line, and say so to whoever may come for the answer."""
        self.send_message(event, ProcessCompletedMessage(output={"error": BUSY}, success=False))
        line = self.event_queue_per_concurrency_id[event.concurrency_id].queue
        if event in line:
            line.remove(event)
        self.event_ids_to_events.pop(event._id, None)

    def start(self) -> None:
        super().start()
        run_coro_in_background(self._sweep)

    async def _sweep(self) -> None:
        """Drop what is too old, as long as the server runs."""
        while not self.stopped:
            await asyncio.sleep(SWEEP_SECONDS)
            self.sweep()
        self._asked.set()  # who waits for a question sees that there will be none

    def sweep(self) -> None:
        """Drop questions that nobody listens for, and answers that nobody reads."""
        now = time.monotonic()
        for line in self.event_queue_per_concurrency_id.values():
            for event in list(line.queue):
                if now - event.enqueue_time > ASKED_SECONDS and not self.presence.is_heard(event.session_hash):
                    self._drop(event)
        self._forget_unheard()

    # --- what nobody sees ---

    def broadcast_estimations(self, concurrency_id: str, after: int | None = None) -> None:
        """The page shows no places in line: told to all at each question, they cost the square of their number."""

    def compute_analytics_summary(self, records) -> dict:
        """Nor figures of all answers so far, which would be worked out again after each."""
        return self.cached_event_analytics_summary
