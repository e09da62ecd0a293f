"""Every view's numbers as named functions for programs: Gradio's API, and tools of a language model (MCP)."""

from viz.tabs.context import Playground


def offer(playground: Playground) -> None:
    """Register every function; called where the page is built."""
