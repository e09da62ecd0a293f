"""What a visitor's page shows, and the line in which its questions wait for one another."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Self

# A header: the page's number of a question, rising (static/page/server/connection.js).
QUESTION = "x-playground-question"


class PageState:
    """What one page shows now, as viz.page.pipeline.view returns it.

    Each answer holds only what changes, so it has to be worked out from the one before it. The framework asks twice
    at once where two events come in the same moment, and would have both answered from the same state, in any order.
    """

    def __init__(self, now: dict):
        self.now = now
        self.asked = 0  # questions so far
        self._line, self._count = threading.Lock(), threading.Lock()

    def __deepcopy__(self, memo: dict) -> Self:
        """The state of another page that begins the same way."""
        return type(self)(dict(self.now))

    @contextmanager
    def turn(self, number: str | None = None) -> Iterator[bool]:
        """Wait until the questions before this one are answered; False where a newer one waits or was answered, which
        asks for all that this one does.

        `number` is the page's own, since two that were asked in the same moment may arrive in any order: an older one
        that comes late would put back what is shown. A question without a number is newer than those before it.
        """
        with self._count:
            mine = int(number) if number and number.isdecimal() and len(number) < 16 else self.asked + 1
            self.asked = max(self.asked, mine)
        with self._line:
            yield mine == self.asked
