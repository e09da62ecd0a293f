"""The numbers of every view as named functions for programs: Gradio's API, and MCP tools for language models."""

import inspect
import re
from collections import Counter
from pathlib import Path

import gradio as gr
from starlette.applications import Starlette

from model.errors import InputError
from viz.api import page
from viz.api.private_names import answer_in_json, leave_out, look_less_often
from viz.api.programs import register
from viz.api.registry import Endpoint, arguments, table
from viz.views.tabs import TABS
from viz.work.playground import Playground


def unique(endpoints: tuple[Endpoint, ...]) -> tuple[Endpoint, ...]:
    """Return the endpoints unchanged. Raises InputError if two share a name, as those of external views may."""
    name, count = Counter(each.name for each in endpoints).most_common(1)[0]
    if count > 1:
        raise InputError("The name of an endpoint is taken.", name, "Give its function another name.")
    return endpoints


ENDPOINTS = unique(
    (
        Endpoint(page.models, reads="server", kind="listed"),
        Endpoint(page.model_info, reads="model", kind="listed", long=True),
        Endpoint(page.tokenize, reads="plain run"),
        *(each for tab in TABS for each in tab.api),
    )
)
# Views without an endpoint, each with the reason.
WITHOUT = {
    "start": "Its numbers are those of distribution, pattern, lens_at and logit_parts.",
    "assistant.reward_model": "A reward model belongs to the visitor who trained it: only its page reads it.",
}


def offer(playground: Playground) -> None:
    """Register all functions while the page is being built."""
    register(playground, ENDPOINTS)


def needed() -> dict[str, dict[str, bool]]:
    """Return {function: {argument: whether it is required}}."""
    empty = inspect.Parameter.empty
    return {each.name: {one.name: one.default is empty for one in arguments(each)} for each in ENDPOINTS}


def finish(page: gr.Blocks, app: Starlette) -> None:
    """Complete the registration after the page has been mounted on an app."""
    leave_out(page, app, {each.name for each in ENDPOINTS})
    answer_in_json(page)
    look_less_often(page)


def documented(text: str) -> str:
    """Return the text of docs/endpoints.md with an up-to-date table."""
    return re.sub(r"(?<=table -->\n)(\|.*\n)*", lambda _: f"{table(ENDPOINTS)}\n", text)


if __name__ == "__main__":
    path = Path(__file__).parents[2] / "docs" / "endpoints.md"
    path.write_text(documented(path.read_text(encoding="utf-8")), encoding="utf-8")
