"""Private names of Gradio that have no public replacement; they may change with any release.

They affect only what programs receive: without them, the page and the functions still work, and a test names what is
lost.

* The inputs that `gr.api` makes have no names and no descriptions (`root_block`, `_api_info`). * The configuration in
the page lists every function for programs, half a megabyte (`page_api_info`). * MCP tools answer with Python's repr
instead of JSON (`mcp_server_obj`). * The queue looks for calls every millisecond, which costs an idle server 4% of a
core (`_queue`).
"""

import json
from collections.abc import Collection

import gradio as gr
from starlette.applications import Starlette
from starlette.routing import Mount


def describe(dependency: gr.events.Dependency, arguments: Collection[tuple[str, str]]) -> None:
    """Set the name and description of each argument on the API page, which otherwise shows "1st", "2nd" ..."""
    block = gr.context.Context.root_block.fns[dependency["id"]]
    for component, (name, text) in zip(block.inputs, arguments, strict=True):
        component.label = name
        component._api_info = component._api_info | {"additional_description": text}


def leave_out(page: gr.Blocks, app: Starlette, names: Collection[str]) -> None:
    """Remove functions and their descriptions, which are most of its length, from the config sent to a visitor's page.

    Programs request the full configuration. `app` is the one on which the page is mounted.
    """
    functions = {number: block for number, block in page.fns.items() if block.api_name in names}
    parts = {part._id for block in functions.values() for part in (*block.inputs, *block.outputs)}
    sent = page.config["page"][""]
    sent["components"] = [number for number in sent["components"] if number not in parts]
    sent["dependencies"] = [number for number in sent["dependencies"] if number not in functions]
    sent["layout"]["children"] = [child for child in sent["layout"]["children"] if child["id"] not in parts]
    gradio = next(each.app for each in app.routes if isinstance(each, Mount) and each.path == "")
    described = getattr(gradio, "page_api_info", {})
    for every in (False, True):
        described["", every] = {"named_endpoints": {}, "unnamed_endpoints": {}}


def answer_in_json(page: gr.Blocks) -> None:
    """Make MCP tools answer in JSON; Gradio would write Python's None and True."""
    server = page.mcp_server_obj
    if server is None:
        return

    def content(data: list, root_url: str) -> list:
        return [server.types.TextContent(type="text", text=json.dumps(each, ensure_ascii=False)) for each in data]

    server.postprocess_output_data = content


def look_less_often(page: gr.Blocks) -> None:
    """Make the queue look for calls every 20 ms, and for progress only every second, because no function
    reports any.
    """
    page._queue.sleep_when_free, page._queue.progress_update_sleep_when_free = 0.02, 1.0
