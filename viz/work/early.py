"""Pictures of runs that still go on, until their pages fetch them: layers that are done can be looked at already."""

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

Asked = tuple[str, str]  # whose page it is, and the page's number of its question


@dataclass(eq=False)
class Early:
    """What was drawn for the questions that are being answered, by part; each picture is taken once."""

    _drawn: dict[Asked, dict[str, Mapping[str, Any]]] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @contextmanager
    def answering(self, asked: Asked) -> Iterator[None]:
        """While a question is answered: what is left then is no longer early."""
        with self._lock:
            self._drawn[asked] = {}
        try:
            yield
        finally:
            with self._lock:
                self._drawn.pop(asked, None)

    def put(self, asked: Asked, part: str, payload: Mapping[str, Any]) -> None:
        """Leave a picture for who asked; nothing happens where the question has been answered."""
        with self._lock:
            if asked in self._drawn:
                self._drawn[asked][part] = payload

    def take(self, asked: Asked) -> dict[str, Mapping[str, Any]]:
        """What was drawn since it was asked last, by part."""
        with self._lock:
            drawn = self._drawn.get(asked)
            if not drawn:
                return {}
            self._drawn[asked] = {}
            return drawn
