"""What Gradio leaves to do once a page with functions for programs is launched."""

import json
from collections.abc import Collection

import gradio as gr


def leave_out(page: gr.Blocks, names: Collection[str]) -> None:
    """Leave functions out of what a visitor's page is sent: a fifth of it. Programs ask for the whole and find them."""
    functions = {number: block for number, block in page.fns.items() if block.api_name in names}
    parts = {part._id for block in functions.values() for part in (*block.inputs, *block.outputs)}
    sent = page.config["page"][""]
    sent["components"] = [number for number in sent["components"] if number not in parts]
    sent["dependencies"] = [number for number in sent["dependencies"] if number not in functions]
    sent["layout"]["children"] = [child for child in sent["layout"]["children"] if child["id"] not in parts]


def answer_in_json(page: gr.Blocks) -> None:
    """Have the tools of language models answer in JSON, where Gradio would write Python's None and True."""
    server = page.mcp_server_obj
    if server is None:
        return

    def content(data: list, root_url: str) -> list:
        return [server.types.TextContent(type="text", text=json.dumps(each, ensure_ascii=False)) for each in data]

    server.postprocess_output_data = content
