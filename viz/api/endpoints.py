"""Every view's numbers as named functions for programs: Gradio's API, and tools of a language model (MCP)."""

import gradio as gr

from viz.api import page
from viz.api.registry import Endpoint, register
from viz.seam.playground import Playground
from viz.server.gradio_patches import answer_in_json, leave_out
from viz.views.tabs import TABS

ENDPOINTS = (
    Endpoint(page.models, reads="server", kind="listed"),
    Endpoint(page.model_info, reads="model", kind="listed", long=True),
    Endpoint(page.tokenize, reads="plain run"),
    *(each for tab in TABS for each in tab.api),
)
# What has none, and why.
WITHOUT = {
    "training": "A run takes minutes and belongs to the visitor who started it: only its page can watch and stop it.",
}


def offer(playground: Playground) -> None:
    """Register every function; called where the page is built."""
    register(playground, ENDPOINTS)


def finish(page: gr.Blocks) -> None:
    """The work that is left once the page is launched."""
    leave_out(page, {each.name for each in ENDPOINTS})
    answer_in_json(page)
