"""What the server keeps of a visitor whose page was closed."""

import copy

import gradio as gr


def forget_pictures(page: gr.Blocks, visitor: str) -> None:
    """Keep only the states of a session: Gradio holds the last payload of every part, megabytes a visitor.

    A page that comes back (a lost connection, the browser's back button) goes on from its states.
    """
    holder = getattr(page, "state_holder", None)  # there once the page is served
    session = holder.session_data.get(visitor) if holder else None
    if session is not None:
        session.blocks_config = copy.copy(page.default_config)
        session.config_values = {}
