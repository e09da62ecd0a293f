"""The page's own components: each is a gr.HTML with a fixed template that the scripts of static/ fill from `payload`.

Text from users or models never becomes part of a template; the scripts set it via `textContent`.
"""

import json

import gradio as gr
import numpy as np
import plotly.graph_objects as go


def part(
    name: str, payload: dict | None, *, kind: str = "", value: object = None, events: tuple[str, ...] = ()
) -> gr.HTML:
    """Build a component of a kind (`name` by default). `events` are the Gradio events that it triggers."""
    kind = kind or name
    # Gradio provides an event only if its name appears in quotes in the script.
    quoted = " ".join(f"'{event}'" for event in events)
    return gr.HTML(
        value=value,
        html_template=f'<div data-part="{name}" class="pg-{kind}"></div>',
        js_on_load=f"playground.mount('{kind}', element, props, trigger); /* {quoted} */",
        elem_id=f"pg-{name}",
        apply_default_css=False,
        payload=packed(payload),
    )


def packed(payload: dict | None) -> str | None:
    """Encode a payload as a JSON string, because Gradio would copy and watch every entry of an object."""
    return None if payload is None else json.dumps(payload, ensure_ascii=False, allow_nan=False, default=_plain)


def _plain(value: object) -> object:
    """Convert a figure or a NumPy number for JSON; the arrays of a figure are encoded as base64."""
    if isinstance(value, go.Figure):
        return value.to_dict()
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, np.ndarray):
        return value.tolist()
    raise TypeError(f"{type(value).__name__} is not JSON")
