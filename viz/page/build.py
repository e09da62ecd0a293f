"""The page's Gradio components: a head that all tabs share, and one screen per tab. viz.page.wire answers its
requests.
"""

import html
import json
from collections.abc import Mapping
from typing import Any

import gradio as gr

from viz.api import endpoints
from viz.page.examples import FIRST
from viz.page.parts import packed, part
from viz.page.pipeline import PageRequest, payloads
from viz.page.wire.streams import channels
from viz.seam.layout import plain, slots
from viz.seam.tab import Tab
from viz.views.tabs import TABS
from viz.words import words
from viz.work.playground import Playground

# listeners in JavaScript, without a function on the server
_SCRIPT: dict[str, Any] = {"fn": None, "show_progress": "hidden", "api_visibility": "private"}


def build(playground: Playground) -> gr.Blocks:
    """Build the complete page; the server adds theme, scripts and styles."""
    catalogue, model_id = words("en"), playground.options.model
    first, shown = payloads(playground, PageRequest(model_id, FIRST, None, {}, {}, "en"))
    with gr.Blocks(title=catalogue["page.title"], analytics_enabled=False) as page:
        wire = _wire({"shown": shown, "model": model_id})
        with gr.Column(elem_id="pg-frame"):
            picker, prompt = _picker(playground, catalogue), _prompt(catalogue)  # first in the order of the Tab key
            part("nav", first["nav"], value={"tab": TABS[0].key})  # the open tab
            part("chat", first.get("chat"), value={})
            part("examples", first.get("examples"))
            part("header", first["header"])
            part("tokens", first.get("tokens"))
            part("selection", first["selection"], value={"heads": first["selection"].get("heads", [])})
            part("edited", first["edited"])
        part("guide", first["guide"])
        part("answer", None, value={})
        part("notice", first["notice"])
        part("linked", {})
        part("shortfall", first.get("shortfall"))
        part("address", first["address"], value={})
        with gr.Tabs():
            for tab in TABS:
                with gr.Tab(catalogue[f"tab.{tab.key}"], id=tab.key) as label:
                    _screen(tab, {name: first[name] for name in tab.parts if name in first})
                    _streams(tab)
                label.select(js=f"() => playground.opened({tab.key!r})", **_SCRIPT)
        part("programs", first["programs"])
        prompt.change(js="() => playground.ask()", **_SCRIPT)
        picker.input(js="(id) => playground.choose(id)", inputs=[picker], **_SCRIPT)
        wire.put(js="() => playground.put()", outputs=[picker, prompt], **_SCRIPT)
        endpoints.offer(playground)
    return page


def _wire(payload: dict) -> gr.HTML:
    """Add the part that sends requests and sets the values of Gradio's own components; it precedes all parts that need
    it.

    Its payload is the page's initial state, its model, and how each event behaves while another one is in progress.
    """
    modes = {
        name: {event: each.trigger for event, each in channel.stream.events.items()}
        for name, channel in channels().items()
    }
    return part("wire", payload | {"modes": modes}, events=("put",))


def _picker(playground: Playground, catalogue: Mapping[str, str]) -> gr.Dropdown:
    return gr.Dropdown(
        playground.choices(),
        value=playground.options.model,
        label=catalogue["page.model"],
        show_label=False,
        container=False,
        allow_custom_value=not playground.options.allowed.models,
        min_width=150,
        interactive=True,
        elem_id="model",
    )


def _prompt(catalogue: Mapping[str, str]) -> gr.Textbox:
    return gr.Textbox(
        FIRST,
        label=catalogue["page.prompt"],
        show_label=False,
        container=False,
        placeholder=catalogue["page.placeholder"],
        lines=1,
        max_lines=6,
        min_width=240,
        interactive=True,
        elem_id="prompt",
    )


def _screen(tab: Tab, parts: Mapping[str, dict]) -> None:
    """Add the single component of a tab; static/page/screen.js lays out its parts."""
    values = {slot.name: slot.value for slot in slots(tab.layout) if slot.value is not None}
    places = html.escape(json.dumps(plain(tab.layout)))
    gr.HTML(
        html_template=f'<div data-screen="{tab.key}" data-places="{places}" class="pg-screen"></div>',
        js_on_load="playground.screen(element, props);",
        elem_id=f"pg-screen-{tab.key}",
        apply_default_css=False,
        payload=packed({"values": values, "parts": dict(parts)}),
    )


def _streams(tab: Tab) -> None:
    """Add a part for each stream of a tab."""
    for view in tab.all_views:
        for each in view.streams:
            part(view.part_name(each.name), None, kind=each.kind, value={})
