"""Code in a thread of its own: one that drives a browser has an event loop in the main thread."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any


def in_thread(function: Callable, *arguments: Any) -> Any:
    """Return what a function returns in another thread."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(function, *arguments).result()
