"""What touches names which Gradio keeps to itself; all of it is in this folder.

They may change with any release. `check` runs before the page is built and says so in a sentence where another
version is installed; each function here says what it is for and what is lost without it.
"""

import contextlib
import functools
import inspect
import json
import types
from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator
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


# --- events -----------------------------------------------------------------------------------------------


def show_no_progress(page: gr.Blocks) -> None:
    """Have no event show its progress anywhere: the page says itself what is going on.

    Else, at every message of any event, a visitor's page copies all that any output holds, and while it waits a clock
    that nobody sees runs at every frame.
    """
    for event in page.fns.values():
        event.show_progress_on = []


# --- functions for programs -------------------------------------------------------------------------------


def describe(dependency: gr.events.Dependency, arguments: Collection[tuple[str, str]]) -> None:
    """Name and describe each argument on the API page, which else says "1st", "2nd" ..."""
    block = gr.context.Context.root_block.fns[dependency["id"]]
    for component, (name, text) in zip(block.inputs, arguments, strict=True):
        component.label = name
        component._api_info = component._api_info | {"additional_description": text}


def leave_out(page: gr.Blocks, names: Collection[str]) -> None:
    """Leave functions out of what a visitor's page is sent, and their descriptions, which are longer than the rest.

    Programs ask for the whole and find them.
    """
    functions = {number: block for number, block in page.fns.items() if block.api_name in names}
    parts = {part._id for block in functions.values() for part in (*block.inputs, *block.outputs)}
    sent = page.config["page"][""]
    sent["components"] = [number for number in sent["components"] if number not in parts]
    sent["dependencies"] = [number for number in sent["dependencies"] if number not in functions]
    sent["layout"]["children"] = [child for child in sent["layout"]["children"] if child["id"] not in parts]
    for every in (False, True):
        page.app.page_api_info["", every] = {"named_endpoints": {}, "unnamed_endpoints": {}}


def answer_in_json(page: gr.Blocks) -> None:
    """Have the tools of language models answer in JSON, where Gradio would write Python's None and True."""
    server = page.mcp_server_obj
    if server is None:
        return

    def content(data: list, root_url: str) -> list:
        return [server.types.TextContent(type="text", text=json.dumps(each, ensure_ascii=False)) for each in data]

    server.postprocess_output_data = content


def on_stop(page: gr.Blocks) -> Callable[[int, object], None]:
    """A handler of signals: let go of the pages that are open, then end as Ctrl-C does."""

    def stop(number: int, frame: object) -> None:
        let_go(page)
        raise KeyboardInterrupt

    return stop
