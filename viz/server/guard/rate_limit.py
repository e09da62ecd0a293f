"""How often a client may ask: token buckets, in bounded memory."""

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field

from viz.work.rates import Rate


@dataclass(eq=False)
class Buckets:
    """One bucket a client, full at first. Of those not seen for longest the oldest are forgotten beyond `capacity`.

    A bucket that had time to fill says nothing, so forgetting it changes nothing; forgetting an emptier one, which
    takes more than `capacity` clients at once, gives that client a new burst.
    """

    rate: Rate
    capacity: int = 4096
    clock: Callable[[], float] = time.monotonic
    _levels: OrderedDict[Hashable, tuple[float, float]] = field(default_factory=OrderedDict)  # level, at what time
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def wait(self, client: Hashable) -> float:
        """Take one and return 0, or take none and return the seconds until there is one."""
        now = self.clock()
        with self._lock:
            level, then = self._levels.pop(client, (self.rate.burst, now))
            level = min(self.rate.burst, level + (now - then) * self.rate.per_second)
            allowed = level >= 1
            self._levels[client] = (level - 1 if allowed else level, now)
            while len(self._levels) > self.capacity:
                self._levels.popitem(last=False)
        return 0.0 if allowed else (1 - level) / self.rate.per_second

    def give_back(self, client: Hashable) -> None:
        """One more for a client that took one and turned out to need none."""
        with self._lock:
            if client in self._levels:
                level, then = self._levels[client]
                self._levels[client] = (min(self.rate.burst, level + 1), then)

    def __len__(self) -> int:
        return len(self._levels)
