"""Open pages, their owners, and pending answers: the server computes only for connected clients."""

import asyncio
import threading
from collections import Counter, OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field

MOST_OWNERS = 20_000  # maximum number of visits whose owner is stored


@dataclass(eq=False)
class Presence:
    """The open pages and waiting programs, by the name that each chose for its visit; thread-safe.

    A client chooses the name of its visit, so the name alone grants no rights: `owner_of` identifies the client by
    address or login name, and a client that invents visits still counts as one owner.
    """

    leaving: Callable[[str], None] = lambda visit: None  # called with the visit when its page is closed
    _pages: Counter = field(default_factory=Counter)  # visit -> number of open pages
    _listening: Counter = field(default_factory=Counter)  # visit -> number of connections that read answers
    _unread: Counter = field(default_factory=Counter)  # visit -> number of finished answers not sent yet
    _wakes: dict[str, set[Callable[[], None]]] = field(default_factory=dict)  # visit -> callbacks waiting for a reader
    _owners: OrderedDict[str, str] = field(default_factory=OrderedDict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def arrive(self, visit: str) -> None:
        """Record that a page is open."""
        with self._lock:
            self._pages[visit] += 1

    def depart(self, visit: str) -> bool:
        """Record that a page was closed; return whether it was the visit's last one."""
        return self._less(self._pages, visit)

    def listen(self, visit: str) -> None:
        """Record a reader of a visit's answers."""
        with self._lock:
            self._listening[visit] += 1
            wakes = tuple(self._wakes.get(visit, ()))
        for wake in wakes:
            wake()

    def deafen(self, visit: str) -> bool:
        """Record that a reader has disconnected; return whether it was the last one."""
        last = self._less(self._listening, visit)
        if last:
            self._unread.pop(visit, None)  # unread answers are dropped with the last reader
        return last

    def owe(self, visit: str) -> None:
        """Record an answer that is waiting for a reader of the visit."""
        with self._lock:
            if self._listening[visit] > 0:
                self._unread[visit] += 1

    def took(self, visit: str) -> None:
        """Record that an answer has been sent."""
        self._less(self._unread, visit)

    def unread(self, owner: str) -> int:
        """Count the unread answers of all visits of an owner."""
        with self._lock:
            return sum(many for visit, many in self._unread.items() if self._owners.get(visit, visit) == owner)

    def belongs(self, visit: str, owner: str) -> bool:
        """Assign a visit to the first owner that uses it; return False for a question from any other owner."""
        with self._lock:
            known = self._owners.setdefault(visit, owner)
            self._owners.move_to_end(visit)
            while len(self._owners) > MOST_OWNERS:
                self._owners.popitem(last=False)
        return known == owner

    def owner_of(self, visit: str) -> str:
        """Return the address or login name behind a visit, or the visit itself if it has not asked a question yet."""
        return self._owners.get(visit, visit)

    def is_known(self, visit: str) -> bool:
        """Return whether the visit has asked a question."""
        return visit in self._owners

    def is_heard(self, visit: str) -> bool:
        """Return whether the visit's answers currently have a reader."""
        return self._listening[visit] > 0

    async def heard(self, visit: str, seconds: float) -> bool:
        """Wait at most `seconds` for a reader of the visit's answers; return whether there is one."""
        loop, heard = asyncio.get_running_loop(), asyncio.Event()

        def wake() -> None:
            loop.call_soon_threadsafe(heard.set)

        with self._lock:
            if self._listening[visit] > 0:
                return True
            self._wakes.setdefault(visit, set()).add(wake)
        try:
            await asyncio.wait_for(heard.wait(), seconds)
        except TimeoutError:
            return False
        finally:
            with self._lock:
                self._wakes[visit].discard(wake)
                if not self._wakes[visit]:
                    del self._wakes[visit]
        return True

    def is_open(self, visit: str) -> bool:
        """Return whether the visit's page is open."""
        return self._pages[visit] > 0

    @property
    def open_pages(self) -> int:
        """The number of visits with an open page."""
        return len(self._pages)

    @property
    def listeners(self) -> int:
        """The number of visits whose answers have a reader."""
        return len(self._listening)

    def _less(self, counter: Counter, visit: str) -> bool:
        with self._lock:
            counter[visit] -= 1
            if counter[visit] <= 0:
                del counter[visit]
            return visit not in counter
