"""The lines of an answer, each a JSON object, and running generators of them in threads."""

from collections.abc import AsyncIterator, Iterator
from typing import Any

import anyio
from anyio import to_thread
from starlette.responses import Response, StreamingResponse

from viz.page.parts import packed


def line(**fields: Any) -> str:
    """Return one line of an answer."""
    return f"{packed(fields)}\n"


def sent(lines: AsyncIterator[str]) -> Response:
    """Return the response that sends lines as they are made; a page that closes it cancels the iterator."""
    return StreamingResponse(lines, media_type="application/x-ndjson", headers={"cache-control": "no-store"})


async def in_threads(steps: Iterator[Any], limiter: anyio.CapacityLimiter) -> AsyncIterator[Any]:
    """Yield what a blocking iterator yields, each step in a thread."""
    end = object()
    while (step := await to_thread.run_sync(next, steps, end, limiter=limiter)) is not end:
        yield step
