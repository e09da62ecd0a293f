"""Which pages are there, whose they are, and what waits for them: the server works for those who listen."""

import threading
from collections import Counter, OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field

MOST_OWNERS = 20_000  # visits whose owner is remembered


@dataclass(eq=False)
class Presence:
    """Open pages and waiting programs by the name that each gave its visit; safe to use from any thread.

    A visit is whatever a client calls itself, so that nothing is decided by it alone: `owner_of` says who it is, an
    address or a login name, and a client that invents visits stays one owner.
    """

    leaving: Callable[[str], None] = lambda visit: None  # what is to be ended when a page is closed
    _pages: Counter = field(default_factory=Counter)  # open pages, by visit
    _listening: Counter = field(default_factory=Counter)  # connections that read answers, by visit
    _owners: OrderedDict[str, str] = field(default_factory=OrderedDict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def arrive(self, visit: str) -> None:
        """A page says that it is open."""
        with self._lock:
            self._pages[visit] += 1

    def depart(self, visit: str) -> bool:
        """It is closed; whether it was the last one of that visit."""
        return self._less(self._pages, visit)

    def listen(self, visit: str) -> None:
        """Somebody reads the answers of a visit."""
        with self._lock:
            self._listening[visit] += 1

    def deafen(self, visit: str) -> bool:
        """And no longer; whether nobody else does."""
        return self._less(self._listening, visit)

    def belongs(self, visit: str, owner: str) -> bool:
        """Note whose a visit is at its first question; False for a later question of somebody else."""
        with self._lock:
            known = self._owners.setdefault(visit, owner)
            self._owners.move_to_end(visit)
            while len(self._owners) > MOST_OWNERS:
                self._owners.popitem(last=False)
        return known == owner

    def owner_of(self, visit: str) -> str:
        """The address or login name behind a visit; the visit itself where nobody has asked in its name."""
        return self._owners.get(visit, visit)

    def is_heard(self, visit: str) -> bool:
        """Whether somebody reads the answers of a visit now."""
        return self._listening[visit] > 0

    def is_open(self, visit: str) -> bool:
        """Whether its page is open."""
        return self._pages[visit] > 0

    def is_here(self, visit: str) -> bool:
        """Whether its page is open, or a program waits for its answers."""
        return self.is_open(visit) or self._listening[visit] > 0

    @property
    def open_pages(self) -> int:
        """How many visits have a page open."""
        return len(self._pages)

    @property
    def listeners(self) -> int:
        """How many visits somebody reads the answers of."""
        return len(self._listening)

    def _less(self, counter: Counter, visit: str) -> bool:
        with self._lock:
            counter[visit] -= 1
            if counter[visit] <= 0:
                del counter[visit]
            return visit not in counter
