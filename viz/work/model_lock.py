"""A fair lock for the model: waiting threads get it in order, so that no thread waits indefinitely."""

import threading
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager

PATIENCE = 8  # maximum number of consecutive urgent turns while the other queue is not empty


class Turns:
    """A lock with two queues, urgent and `later`, each served in order of arrival.

    A release hands the lock directly to the head of a queue. Urgent threads go first, but after `PATIENCE` of them,
    one of the others gets the lock, so the wait in both queues is bounded. A thread that holds the lock and acquires
    it again without a timeout would wait indefinitely, so this raises RuntimeError.
    """

    def __init__(self) -> None:
        self._inside = threading.Lock()  # protects the fields below; held only briefly
        self._held = False
        self._holder: int | None = None  # the thread that acquired it last
        self._hurried: deque[threading.Event] = deque()
        self._patient: deque[threading.Event] = deque()
        self._in_a_row = 0

    def acquire(self, timeout: float = -1, *, later: bool = False) -> bool:
        """Wait for the lock for at most `timeout` seconds (-1: without limit); return whether it was acquired."""
        with self._inside:
            if not self._held:  # then both queues are empty, because a release hands the lock on
                self._held, self._holder = True, threading.get_ident()
                return True
            if timeout < 0 and self._holder == threading.get_ident():
                raise RuntimeError("this thread holds the lock already")
            line, ticket = self._patient if later else self._hurried, threading.Event()
            line.append(ticket)
        try:
            taken = ticket.wait(None if timeout < 0 else timeout)
        except BaseException:
            if not self._give_up(line, ticket):
                self.release()  # the lock was handed over before the interruption
            raise
        taken = taken or not self._give_up(line, ticket)
        if taken:
            self._holder = threading.get_ident()
        return taken

    def release(self) -> None:
        """Hand the lock to the next thread. Raises RuntimeError if it is not held."""
        with self._inside:
            if not self._held:
                raise RuntimeError("release of a lock that is not held")
            turn = self._patient if self._patient_turn() else self._hurried
            self._holder = None
            self._in_a_row = 0 if turn is self._patient or not self._patient else self._in_a_row + 1
            if turn:
                turn.popleft().set()
            else:
                self._held = False

    def locked(self) -> bool:
        """Return whether the lock is held."""
        with self._inside:
            return self._held

    def mine(self) -> bool:
        """Return whether the calling thread holds the lock."""
        with self._inside:
            return self._held and self._holder == threading.get_ident()

    @property
    def waiting(self) -> int:
        """The number of waiting threads."""
        with self._inside:
            return len(self._hurried) + len(self._patient)

    @contextmanager
    def later(self) -> Iterator[None]:
        """Hold the lock for one step of a long computation, yielding to urgent threads."""
        self.acquire(later=True)
        try:
            yield
        finally:
            self.release()

    def __enter__(self) -> bool:
        return self.acquire()

    def __exit__(self, *error: object) -> None:
        self.release()

    def _patient_turn(self) -> bool:
        return bool(self._patient) and (not self._hurried or self._in_a_row >= PATIENCE)

    def _give_up(self, line: deque[threading.Event], ticket: threading.Event) -> bool:
        """Leave a queue; return False if the lock was handed over at that moment."""
        with self._inside:
            if ticket.is_set():
                return False
            line.remove(ticket)
            return True
