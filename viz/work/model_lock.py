"""A lock that is handed on in order, so that nobody who waits for the model is passed over for ever."""

import threading
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager

PATIENCE = 8  # turns that those in a hurry may take in a row while somebody else waits


class Turns:
    """A lock with two lines: those in a hurry, and those who have time (`later`), each served in the order they came.

    A release hands the lock to the head of a line; nobody can take it in between. Those in a hurry go first, but after
    `PATIENCE` of their turns one of the others has one, so both wait for a bounded number of turns. A thread
    that has it and asks again without a timeout would wait for ever: RuntimeError.
    """

    def __init__(self) -> None:
        self._inside = threading.Lock()  # held for moments only
        self._held = False
        self._holder: int | None = None  # the thread that took it last
        self._hurried: deque[threading.Event] = deque()
        self._patient: deque[threading.Event] = deque()
        self._in_a_row = 0

    def acquire(self, timeout: float = -1, *, later: bool = False) -> bool:
        """Take the lock, waiting `timeout` seconds at most (-1: as long as it takes); whether it was taken."""
        with self._inside:
            if not self._held:  # then nobody waits: a release hands it on
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
                self.release()  # it had been handed over before the interruption
            raise
        taken = taken or not self._give_up(line, ticket)
        if taken:
            self._holder = threading.get_ident()
        return taken

    def release(self) -> None:
        """Hand the lock on. Raises RuntimeError where nobody holds it."""
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
        """Return whether somebody holds it."""
        with self._inside:
            return self._held

    def mine(self) -> bool:
        """Return whether the thread that asks holds it."""
        with self._inside:
            return self._held and self._holder == threading.get_ident()

    @property
    def waiting(self) -> int:
        """How many wait."""
        with self._inside:
            return len(self._hurried) + len(self._patient)

    @contextmanager
    def later(self) -> Iterator[None]:
        """The lock for one piece of long work: a click goes first."""
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
        """Leave a line; False where the lock was handed over in the very moment."""
        with self._inside:
            if ticket.is_set():
                return False
            line.remove(ticket)
            return True
