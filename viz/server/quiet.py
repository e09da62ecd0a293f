"""A log filter that limits repeated messages: a few per minute and kind, then the number of suppressed ones."""

import logging
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field

MOST = 20  # maximum number of messages per kind and minute
SECONDS = 60.0
KINDS = 256  # maximum number of kinds counted; beyond that, the oldest is dropped


@dataclass(eq=False)
class Few(logging.Filter):
    """A filter that passes only a few messages of the same kind: same logger, and same text before its arguments are
    filled in.
    """

    clock: Callable[[], float] = time.monotonic
    # kind -> (start, count)
    _kinds: OrderedDict[tuple[str, str], tuple[float, int]] = field(default_factory=OrderedDict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def filter(self, record: logging.LogRecord) -> bool:
        """Return whether to log a message. The first one of a kind after a minute reports how many were suppressed."""
        first = str(record.msg).partition("\n")[0][:120]
        kind, now = (record.name, first), self.clock()
        with self._lock:
            since, many = self._kinds.pop(kind, (now, 0))
            left_out = 0
            if now - since >= SECONDS:
                left_out, since, many = max(0, many - MOST), now, 0
            self._kinds[kind] = (since, many + 1)
            while len(self._kinds) > KINDS:
                self._kinds.popitem(last=False)
        if many == MOST:
            record.msg, record.args = f"more of this is left out for {SECONDS:g} s: {first}", ()
            record.exc_info = record.exc_text = record.stack_info = None
            return True
        if left_out:
            record.msg = f"({left_out} like this were left out) {record.msg}"
        return many < MOST


FEW = Few()


def quieten() -> None:
    """Limit the logs of uvicorn, and of everything that logs to the root logger (asyncio, this app)."""
    for handler in (logging.lastResort, *logging.getLogger("uvicorn").handlers):
        if handler is not None and not any(isinstance(each, Few) for each in handler.filters):
            handler.addFilter(FEW)
