"""What touches names which Gradio keeps to itself; all of it is in this folder.

They may change with any release. `check` runs before the page is built and says so in a sentence where another
version is installed; each function here says what it is for and what is lost without it.
"""

import contextlib
import functools
import inspect
import types
from collections.abc import Awaitable, Callable, Iterable, Iterator
from typing import Any

import gradio as gr
from gradio import blocks, component_meta
from gradio.routes import App

VERSION = "6.31.0"  # the one whose source these functions were written and tested against


def check(installed: str = gr.__version__) -> None:
    """Raise RuntimeError where another version of Gradio is installed than the one this page was written for."""
    if installed != VERSION:
        raise RuntimeError(
            f"This page was written for gradio {VERSION}, and {installed} is installed. "
            f"Install the versions that were tested: pip install -r requirements.txt"
        )


# --- the start --------------------------------------------------------------------------------------------


def remember_arguments() -> None:
    """Have Gradio look up the arguments of a component's constructor, and the folder of what is sent to it, once.

    It does so for every component each time that the page is described, and the arguments for every update.
    """
    component_meta.inspect = _looked_up_once("getfullargspec")
    blocks.inspect = _looked_up_once("signature")
    blocks.get_upload_folder = functools.cache(blocks.get_upload_folder)


def _looked_up_once(name: str) -> types.SimpleNamespace:
    """The module `inspect`, of which one function remembers its answers."""
    return types.SimpleNamespace(**vars(inspect) | {name: functools.cache(getattr(inspect, name))})


@contextlib.contextmanager
def blocks_only() -> Iterator[None]:
    """Here Gradio makes a page's blocks, and neither describes the page nor makes a web application of it.

    It does so three times, each anew, and serves what launch() made.
    """
    make, describe_page = App.create_app, gr.Blocks.get_config_file
    App.create_app = staticmethod(lambda *_, **__: None)
    gr.Blocks.get_config_file = lambda _: {}
    try:
        yield
    finally:
        App.create_app = staticmethod(make)
        gr.Blocks.get_config_file = describe_page


# --- the server -------------------------------------------------------------------------------------------


def rest(page: gr.Blocks) -> None:
    """Have the queue look for work every 5 ms instead of every one: an idle page else costs 5 % of a core.

    Gradio's own progress bars, for which it looks as often, are not used.
    """
    page._queue.sleep_when_free, page._queue.progress_update_sleep_when_free = 0.005, 1.0


def look_at_once(page: gr.Blocks) -> None:
    """Have each request's login looked at where it arrives: Gradio hands that to a thread, a tenth of a click's cost.

    The look waits for nothing: it compares two values.
    """
    for each in _needs(page.app.routes):
        if getattr(each.call, "__name__", "") == "login_check" and not inspect.iscoroutinefunction(each.call):
            each.call = _in_place(each.call)


def _in_place(look: Callable[[object], None]) -> Callable[[object], Awaitable[None]]:
    """The same as a coroutine, which needs no thread."""

    @functools.wraps(look)
    async def looked(user: object) -> None:
        look(user)

    del looked.__wrapped__  # by which FastAPI would see a function that may block
    return looked


def _needs(routes: Iterable[object]) -> Iterator[Any]:
    """What the routes, and those of the routers among them, ask for before they answer: FastAPI's Dependants."""
    for route in routes:
        if hasattr(route, "effective_candidates"):  # a router that was included: it answers by routes of its own
            yield from _needs(route.effective_candidates())
        yield from getattr(getattr(route, "dependant", None), "dependencies", ())


def let_go(page: gr.Blocks) -> None:
    """End the streams that open pages hold, without which a server waits for them when it stops."""
    page._end_streaming_responses()


def stop_soon(page: gr.Blocks, seconds: int) -> None:
    """How long a server that stops waits for connections that do not end."""
    page.server.config.timeout_graceful_shutdown = seconds


def on_stop(page: gr.Blocks) -> Callable[[int, object], None]:
    """A handler of signals: let go of the pages that are open, then end as Ctrl-C does."""

    def stop(number: int, frame: object) -> None:
        let_go(page)
        raise KeyboardInterrupt

    return stop
