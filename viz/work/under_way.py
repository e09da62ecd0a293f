"""Counts of the requests or calls in progress, by client."""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager


class UnderWay(Counter[str]):
    """Counts by client; a client without requests in progress has no entry."""

    @contextmanager
    def one_more(self, client: str) -> Iterator[None]:
        """Count one request or call for a client until the end of the block."""
        self[client] += 1
        try:
            yield
        finally:
            self[client] -= 1
            if not self[client]:
                del self[client]
