"""The page's own components: each is a gr.HTML with a fixed template that the scripts of static/ fill from `payload`.

Nothing a person or a model wrote goes into a template; the scripts set it by textContent.
"""

import json

import gradio as gr
import numpy as np
import plotly.graph_objects as go


def part(
    name: str, payload: dict | None, *, kind: str = "", value: object = None, events: tuple[str, ...] = ()
) -> gr.HTML:
    """Return a component of the kind `kind` (`name` by default). `events` are those of Gradio that it triggers."""
    kind = kind or name
    # Gradio offers an event where its name stands in quotes in the script.
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
    """Return a payload as JSON text: Gradio copies and watches every entry of an object, but not of a text."""
    return None if payload is None else json.dumps(payload, ensure_ascii=False, allow_nan=False, default=_plain)


def _plain(value: object) -> object:
    """Return a figure or a number of numpy as JSON holds it; the arrays of a figure travel as base64."""
    if isinstance(value, go.Figure):
        return value.to_dict()
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, np.ndarray):
        return value.tolist()
    raise TypeError(f"{type(value).__name__} is not JSON")
