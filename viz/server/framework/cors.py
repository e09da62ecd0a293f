"""Gradio lets other websites' scripts read its answers; this page lets none.

Gradio puts its layer around everything else, where it answers preflights by itself, uncounted and without the page's
own headers. Its name may change with any release: `close` says so.
"""

from typing import Any

import gradio.routes
from starlette.types import ASGIApp, Receive, Scope, Send

NAME = "CustomCORSMiddleware"


class Through:
    """A layer in the place of Gradio's that does nothing."""

    def __init__(self, app: ASGIApp, **_: Any) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self.app(scope, receive, send)


def close() -> None:
    """Leave Gradio's layer out of the apps made from now on. Raises RuntimeError where there is none of that name."""
    if not hasattr(gradio.routes, NAME):
        raise RuntimeError(f"gradio.routes.{NAME} is gone: see what lets other websites read the answers now.")
    setattr(gradio.routes, NAME, Through)
