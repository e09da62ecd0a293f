"""The lines of an answer, each a JSON object, and the execution of blocking generators in threads."""

from collections.abc import AsyncGenerator, AsyncIterator, Generator
from typing import Any

import anyio
from anyio import to_thread
from starlette.responses import Response, StreamingResponse

from viz.page.parts import packed


def line(**fields: Any) -> str:
    """Format one line of an answer."""
    return f"{packed(fields)}\n"


def sent(lines: AsyncIterator[str]) -> Response:
    """Build the response that streams the lines; a page that closes it cancels the iterator."""
    return StreamingResponse(lines, media_type="application/x-ndjson", headers={"cache-control": "no-store"})


async def in_threads(steps: Generator[Any, None, Any], limiter: anyio.CapacityLimiter) -> AsyncGenerator[Any, None]:
    """Iterate over a blocking generator, running each step in a thread.

    Closing the iterator closes the generator after its current step has ended.
    """
    end = object()
    try:
        while (step := await to_thread.run_sync(next, steps, end, limiter=limiter)) is not end:
            yield step
    finally:
        with anyio.CancelScope(shield=True):
            await to_thread.run_sync(steps.close, limiter=limiter)
