"""Connection limits: timeouts for slow clients, and bounds on the number of connections.

uvicorn waits indefinitely for a request's head and for a client that does not read, and accepts connections until the
process has no file descriptors left.
"""

import asyncio
import contextlib
import logging
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from uvicorn.protocols.http.h11_impl import H11Protocol

from viz.server.clients import network_of

log = logging.getLogger("playground")

HEAD_SECONDS = 10.0  # seconds to wait for a request's head, from the connection or from its first byte
STALL_SECONDS = 60.0  # seconds within which a client must read at least LEAST bytes of a pending answer
LEAST = 16 << 10
EACH = 500  # maximum number of connections per address: the 400 concurrent requests, and idle ones
BACKLOG = 128  # maximum number of connections accepted at once
RESERVE = 256 + 4 * BACKLOG  # file descriptors reserved for files and for connections that are being closed
ENOUGH = 1000  # number of connections that a shared server should be able to accept


@dataclass(eq=False)
class Crowd:
    """The open connections of a server, in total and, if `each` is a bound, by address.

    When there is no room, the connection whose client has kept the server waiting longest is closed, so that a client
    that opens connections and sends nothing does not lock out others.
    """

    total: int
    each: int | None = None
    by_address: Counter = field(default_factory=Counter)
    count: int = 0
    # connections that are waiting for their client, longest first
    silent: dict["Bounded", None] = field(default_factory=dict)

    def enter(self, address: str) -> bool:
        """Count a connection if there is room for it; return whether it was accepted."""
        full = self.each is not None and self.by_address[address] >= self.each
        if full or self.count >= self.total:
            candidates = (each for each in self.silent if not full or each.address == address)
            if (longest := next(candidates, None)) is not None:
                longest.give_way()
        if self.count >= self.total or (self.each is not None and self.by_address[address] >= self.each):
            if not self.by_address[address]:
                del self.by_address[address]
            return False
        self.count += 1
        self.by_address[address] += 1
        return True

    def leave(self, address: str) -> None:
        """Remove a counted connection that was closed."""
        self.count -= 1
        self.by_address[address] -= 1
        if not self.by_address[address]:
            del self.by_address[address]


class Bounded(H11Protocol):
    """A connection that is closed if its client keeps it waiting, or if there are too many connections.

    viz.server.middleware bounds the time for a request's body; uvicorn closes idle connections.
    """

    crowd: Crowd

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.address: str | None = None  # the address of an accepted connection, otherwise None
        self.counted = False
        self.head: asyncio.TimerHandle | None = None
        self.stall: asyncio.TimerHandle | None = None
        self.unsent = 0  # number of unsent bytes at the last check

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        address = network_of((transport.get_extra_info("peername") or ("",))[0])
        if not self.crowd.enter(address):
            transport.abort()
            log.warning("a connection was closed at once: there are too many")
            return
        self.address, self.counted = address, True
        super().connection_made(transport)
        transport.set_write_buffer_limits(0)  # any unsent byte pauses writing, so that it is noticed
        self._await_head()

    def connection_lost(self, exc: Exception | None) -> None:
        if self.address is None:
            return
        self._uncount()
        self._have_head()
        self.stall = _stopped(self.stall)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self.address is None:
            return
        super().data_received(data)
        if self.cycle is not None and not self.cycle.response_complete:
            self._have_head()
        elif self.head is None:  # the start of another request, or the remainder of an unread body
            self._await_head()

    def pause_writing(self) -> None:
        super().pause_writing()
        self.unsent = self.transport.get_write_buffer_size()
        self.stall = self.loop.call_later(STALL_SECONDS, self._look_again)

    def resume_writing(self) -> None:
        self.stall = _stopped(self.stall)
        super().resume_writing()

    def give_way(self) -> None:
        """Close this connection, which is only waiting for its client, to make room immediately."""
        self._have_head()
        self._uncount()
        self.transport.abort()

    def _uncount(self) -> None:
        if self.counted and self.address is not None:
            self.counted = False
            self.crowd.leave(self.address)

    def _await_head(self) -> None:
        self.head = self.loop.call_later(HEAD_SECONDS, self.transport.abort)
        self.crowd.silent[self] = None

    def _have_head(self) -> None:
        self.head = _stopped(self.head)
        self.crowd.silent.pop(self, None)

    def _look_again(self) -> None:
        left = self.transport.get_write_buffer_size()
        if left > self.unsent - LEAST:
            self.transport.abort()
            return
        self.unsent, self.stall = left, self.loop.call_later(STALL_SECONDS, self._look_again)

    def _should_upgrade(self) -> bool:
        return False  # treated as a normal request: websockets would not be bounded, and the page uses none


def _stopped(timer: asyncio.TimerHandle | None) -> asyncio.TimerHandle | None:
    """Cancel a timer and return None."""
    if timer is not None:
        timer.cancel()
    return None


def bounded(crowd: Crowd) -> type[Bounded]:
    """Create the protocol class of one server."""
    return type("BoundedHere", (Bounded,), {"crowd": crowd})


def crowd_of(*, public: bool, proxies: int, files: int) -> Crowd:
    """Compute the connection limits for a process that may open `files` files. Behind a proxy there is no limit per
    address, because all its connections come from one.
    """
    return Crowd(max(32, files - RESERVE), EACH if public and not proxies else None)


def files_allowed() -> int:
    """Raise this process's limit of open files to the system's maximum, and return it."""
    try:
        import resource
    except ImportError:  # Windows
        return 2048
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        with contextlib.suppress(ValueError, OSError):  # some systems have a lower maximum than "unlimited"
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return 1 << 20 if soft == resource.RLIM_INFINITY else soft


def tell_few(crowd: Crowd, tell: Callable[[str], None]) -> None:
    """Warn if a shared server can accept only few connections."""
    if crowd.total < ENOUGH:
        tell(
            f"This process may have so few files open that it takes {crowd.total} connections at once. "
            f"Raise the limit (ulimit -n {ENOUGH + RESERVE}) for a server that others use."
        )
