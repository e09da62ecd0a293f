"""Calls that Gradio would fail on, and what it writes of those that fail: a page each, with the paths of files."""

import logging
import sys
import traceback
from typing import Any

import gradio.queueing
import gradio.route_utils
import gradio.routes
import gradio.utils

from viz.server.calls import Unreadable

log = logging.getLogger("playground")
MODULES = (gradio.queueing, gradio.routes, gradio.utils, gradio.route_utils)
OURS = ("viz.", "model.", "outside_views.")


def check(app: Any, where: str, call: dict[str, Any]) -> None:
    """Raise Unreadable for a function that there is not, or a number of arguments that it does not take.

    `where` is the path after the prefix of the API: "queue/join", "call/NAME", "run/NAME", "api/NAME".
    """
    if where.startswith("call/v2/"):
        return  # arguments by name
    fns, name = app.get_blocks().fns, where.partition("/")[2].strip("/")
    number, data = call.get("fn_index"), call.get("data")
    if number is not None and (type(number) is not int or number not in fns):
        raise Unreadable("no such function")
    if where.startswith("queue/join") and number is None:
        raise Unreadable("no function")
    fn = fns[number] if number is not None else next((each for each in fns.values() if each.api_name == name), None)
    if fn is None or not isinstance(data, list):
        raise Unreadable("no such function" if fn is None else "no arguments")
    told = sum(not each.skip_api for each in fn.inputs)
    if not fn.cancels and len(data) not in (len(fn.inputs), told):
        raise Unreadable("another number of arguments")


class Short:
    """The module traceback as Gradio uses it, without whole tracebacks of what somebody sent."""

    def __getattr__(self, name: str) -> Any:
        return getattr(traceback, name)

    def print_exc(self, *_: Any, **__: Any) -> None:
        """One line of an error before a function of the page began; the whole of one within."""
        error = sys.exception()
        frames = [frame for frame, _ in traceback.walk_tb(error.__traceback__ if error else None)]
        if any(frame.f_globals.get("__name__", "").startswith(OURS) for frame in frames):
            log.error("a function of the page failed", exc_info=error)
        else:
            log.warning("a call was refused: %s", type(error).__name__)


def shorten() -> None:
    """Have Gradio write its errors by this page's log, which is bounded."""
    for module in MODULES:
        if hasattr(module, "traceback"):
            module.traceback = Short()  # type: ignore[attr-defined]
