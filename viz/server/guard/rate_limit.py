"""Rate limits by token buckets, in bounded memory."""

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field

from viz.work.rates import Rate


@dataclass(eq=False)
class Buckets:
    """One token bucket per client, initially full. Beyond `capacity` clients, the least recently seen are forgotten.

    Forgetting a bucket that has had time to refill changes nothing. Forgetting an emptier one, which requires more
    than `capacity` clients at once, gives that client a new burst.
    """

    rate: Rate
    capacity: int = 4096
    clock: Callable[[], float] = time.monotonic
    _levels: OrderedDict[Hashable, tuple[float, float]] = field(default_factory=OrderedDict)  # client -> (level, time)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def wait(self, client: Hashable) -> float:
        """Take one token and return 0, or return the seconds until the next token."""
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
        """Return a token that a client did not need."""
        with self._lock:
            if client in self._levels:
                level, then = self._levels[client]
                self._levels[client] = (min(self.rate.burst, level + 1), then)

    def __len__(self) -> int:
        return len(self._levels)
