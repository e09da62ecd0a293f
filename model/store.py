"""A cache with a limit in bytes, which keeps loaded models, recent traces and results between requests.

Apart from such caches, a module holds only values that never change once computed (`functools.cache`), locks, and data
about a model behind a weak reference to it: its compiled step (model/gpt/decode_step.py), the results of its timing
trials (decode_ways.py), the texts that share its forward passes (model/generation/together.py), and its number among
those given in memory (model/in_memory.py).
"""

import itertools
import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from concurrent.futures import Future
from typing import Any


class ByteLRU:
    """A thread-safe least-recently-used cache with a limit in bytes.

    `get(key, make)` returns the stored value or computes it; concurrent threads with the same key share one call of
    `make`. A value larger than the limit is returned but not stored. The size of a value is its `nbytes`, read at
    every lookup because it may grow.
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._lock = threading.Lock()
        self._values: OrderedDict[Hashable, Any] = OrderedDict()
        self._making: dict[Hashable, Future] = {}

    def get(self, key: Hashable, make: Callable[[], Any]) -> Any:
        """Return the value of a key, computed if necessary; an error in `make` is raised to every waiting thread, and
        nothing is stored.
        """
        with self._lock:
            if key in self._values:
                self._values.move_to_end(key)
                value = self._values[key]
                self._evict()
                return value
            future = self._making.get(key)
            mine = future is None
            if future is None:
                future = self._making[key] = Future()
        if not mine:
            return future.result()
        try:
            value = make()
        except BaseException as error:
            with self._lock:
                del self._making[key]
            future.set_exception(error)
            raise
        with self._lock:
            self._values[key] = value
            del self._making[key]
            self._evict()
        future.set_result(value)
        return value

    def peek(self, key: Hashable) -> Any | None:
        """Return the value of the key if it is stored, else None; nothing is computed."""
        with self._lock:
            if key in self._values:
                self._values.move_to_end(key)
            return self._values.get(key)

    def newest(self, wanted: Callable[[Hashable], bool], most: int) -> list[Any]:
        """Return at most `most` of the most recently used values whose keys satisfy `wanted`; nothing is computed."""
        with self._lock:
            return [self._values[key] for key in itertools.islice(filter(wanted, reversed(self._values)), most)]

    def put(self, key: Hashable, value: Any) -> None:
        """Store a value, replacing any previous one."""
        with self._lock:
            self._values[key] = value
            self._values.move_to_end(key)
            self._evict()

    def _evict(self) -> None:
        while self._values and self._total() > self.limit:
            self._values.popitem(last=False)

    def _total(self) -> int:
        return sum(value.nbytes for value in self._values.values())

    @property
    def nbytes(self) -> int:
        """The total size of the stored values in bytes."""
        with self._lock:
            return self._total()

    def __len__(self) -> int:
        with self._lock:
            return len(self._values)

    def drop(self, keep: Callable[[Hashable], bool]) -> None:
        """Remove every key for which `keep` is false."""
        with self._lock:
            for key in [key for key in self._values if not keep(key)]:
                del self._values[key]
