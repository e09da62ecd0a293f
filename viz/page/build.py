"""The page's components and their events: a head that all tabs share, one screen a tab, one channel for jobs."""

import html
import json
from collections.abc import Mapping
from typing import Any

import gradio as gr
from gradio.blocks import Block

from viz.api import endpoints
from viz.page import address, answer
from viz.page.examples import FIRST
from viz.page.job_channel import job_channel, wire_jobs
from viz.page.loading import cancelled, choose_model, opened
from viz.page.parts import packed, part
from viz.page.pipeline import (
    QUIET as _QUIET,
)
from viz.page.pipeline import (
    PageRequest,
    language_of,
    payloads,
    screen_payload,
    selection_update,
    values_of,
    view,
)
from viz.page.streams import Shared, channels, wire_streams
from viz.page.turns import QUESTION, PageState
from viz.page.wire.streams import channels as channels_of
from viz.seam.layout import plain, slots
from viz.seam.tab import Tab
from viz.views.tabs import TABS
from viz.words import words
from viz.work.playground import Playground


def _inputs(
    playground: Playground, catalogue: Mapping[str, str], offered: dict | None, talk: dict | None
) -> tuple[gr.Dropdown, gr.Textbox, gr.HTML, gr.HTML]:
    """What is asked with: model, prompt or conversation, examples."""
    picker = gr.Dropdown(
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
    prompt = gr.Textbox(
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
    chat = part("chat", talk, value={})
    return picker, prompt, chat, part("examples", offered)


def _translated(request: gr.Request) -> tuple:
    """Labels of Gradio's own components in the reader's language: picker, prompt, tabs."""
    language = language_of(request)
    if language == "en":  # as they were built
        return (gr.skip(),) * (2 + len(TABS))
    catalogue = words(language)
    return (
        gr.Dropdown(label=catalogue["page.model"]),
        gr.Textbox(label=catalogue["page.prompt"], placeholder=catalogue["page.placeholder"]),
        *(gr.Tab(label=catalogue[f"tab.{tab.key}"]) for tab in TABS),
    )


def _wire_models(
    playground: Playground, notice: gr.HTML, linked: gr.HTML, loaded: gr.State, picker: gr.Dropdown, requested: gr.State
) -> None:
    """Choosing a model, trying again, following a link to one, cancelling."""

    def choose(model_id, old, request: gr.Request):
        yield from choose_model(playground, model_id, old, language_of(request))

    def stopped(model_id, old, request: gr.Request):
        return cancelled(model_id, old, language_of(request))

    outputs = [notice, loaded, picker, requested]
    # A model chosen while another one is being loaded is the next one, not lost; one may wait minutes for a download.
    several: dict[str, Any] = {"concurrency_limit": 4, "concurrency_id": "models", **_QUIET}
    picked = picker.input(choose, [picker, loaded], outputs, trigger_mode="always_last", **several)
    again = notice.retry(choose, [requested, loaded], outputs, **several)
    followed = linked.follow(choose, [requested, loaded], outputs, **several)
    notice.cancel(stopped, [requested, loaded], [notice, picker], cancels=[picked, again, followed], **_QUIET)


def screen(tab: Tab, payload: dict | None) -> gr.HTML:
    """The one component of a tab: its parts laid out by static/page/screen.js."""
    initial = {slot.name: slot.value for slot in slots(tab.layout) if slot.value is not None}
    places = html.escape(json.dumps(plain(tab.layout)))
    return gr.HTML(
        value={"values": initial},
        # In the template, not in a property: an update of a tab that was never opened replaces all properties.
        html_template=f'<div data-screen="{tab.key}" data-places="{places}" class="pg-screen"></div>',
        js_on_load="playground.screen(element, props, trigger, watch); /* 'select' */",
        elem_id=f"pg-screen-{tab.key}",
        apply_default_css=False,
        payload=packed(payload),
    )


def _note(wire: bool, name: str, value: object) -> Block:
    """Add a value that the page keeps beside its parts: in the page itself on its own wire, else on the server."""
    return part(name, None, kind="note", value=value) if wire else gr.State(value)


def _wire_part(showing: dict) -> gr.HTML:
    """Add the part that sends questions on the page's own wire (viz/page/wire), before every part that uses it."""
    modes = {
        name: {event: each.trigger for event, each in channel.stream.events.items()}
        for name, channel in channels_of().items()
    }
    return part("wire", {"shown": showing, "modes": modes}, events=("put",))


def _wire(channel: gr.HTML, picker: gr.Dropdown, prompt: gr.Textbox) -> None:
    """Add listeners that are scripts, with no server function behind them."""
    prompt.change(None, None, None, js="() => playground.ask()", **_QUIET)
    picker.input(None, [picker], None, js="(id) => playground.choose(id)", **_QUIET)
    channel.put(None, None, [picker], js="() => playground.picker()", **_QUIET)


def build(playground: Playground) -> gr.Blocks:
    """The whole page; theme, scripts and styles go to launch()."""
    catalogue = words("en")
    first, showing = payloads(playground, PageRequest(playground.options.model, FIRST, None, {}, {}, "en"))
    with gr.Blocks(title=catalogue["page.title"], analytics_enabled=False) as page:
        channel = _wire_part(showing) if playground.options.wire else None
        with gr.Column(elem_id="pg-frame"):
            nav = part("nav", first["nav"], value={"tab": TABS[0].key})  # which tab is open
            picker, prompt, chat, examples = _inputs(playground, catalogue, first.get("examples"), first.get("chat"))
            header = part("header", first["header"])
            tokens = part("tokens", first.get("tokens"))
            selection = part("selection", first["selection"], value={"heads": first["selection"].get("heads", [])})
        guide_of = part("guide", first["guide"])
        answer_of = part("answer", None, value={}, events=("start", "stop"))
        notice = part("notice", first["notice"], events=("cancel", "retry"))
        linked = part("linked", None, events=("follow",))
        address_of = part("address", first["address"], value={}, events=("restore",))
        head = [nav, header, notice, guide_of, address_of, examples, chat, tokens, selection]
        jobs = job_channel()
        labels: list[gr.Tab] = []
        screens: dict[str, gr.HTML] = {}
        streams: dict[str, gr.HTML] = {}
        with gr.Tabs() as tabs:
            for tab in TABS:
                with gr.Tab(catalogue[f"tab.{tab.key}"], id=tab.key) as label:
                    tab_payloads = {name: first[name] for name in tab.parts if name in first}
                    screens[tab.key] = screen(tab, screen_payload(tab_payloads, 0) if tab_payloads else None)
                    streams |= channels(tab)
                note = f"() => playground.opened({tab.key!r})"
                label.select(None, js=note, **_QUIET)
                labels.append(label)
        sent = {tab.key: 1 for tab in TABS if any(name in first for name in tab.parts)}
        loaded = _note(playground.options.wire, "loaded", opened(playground.options.model))
        done = gr.State("")
        page.load(_translated, None, [picker, prompt, *labels], **_QUIET)
        if channel is not None:
            _wire(channel, picker, prompt)
            playground.presence.leaving = playground.leave
            endpoints.offer(playground)
            show_no_progress(page)
            return page
        shown = gr.State(PageState(showing | {"sent": sent}))
        asking = [loaded, prompt, chat, selection, shown, done, nav, address_of, *screens.values()]

        def page_request(
            request: gr.Request, loaded, prompt, chat, selection, shown, done, tab, step, *sent
        ) -> PageRequest:
            values, again = values_of(dict(zip(screens, sent, strict=True)))
            step = address.step_of(step)
            language, visitor = language_of(request), request.session_hash or ""
            key = address.tab_of(tab)
            rest = (key, done, step, again, visitor, chat, request.headers.get(QUESTION) or "")
            return PageRequest(loaded["id"], prompt, selection, values, shown.now, language, *rest)

        state_at, answers = asking.index(shown), [*head, *screens.values()]

        def refresh(request: gr.Request, *values):
            state = values[state_at]
            with state.turn(request.headers.get(QUESTION)) as newest:
                if not newest:
                    return (gr.skip(),) * len(answers)
                *updates, state.now = view(playground, page_request(request, *values))
            return tuple(updates)

        # One dependency for all that changes what is shown: two would start each other again and again.
        triggers = [page.load, prompt.change, chat.select, selection.select, loaded.change, nav.select, done.change]
        triggers += [address_of.select, *(each.select for each in screens.values())]
        once = {"trigger_mode": "always_last", "concurrency_limit": 4}
        gr.on(triggers, refresh, asking, answers, **once, **_QUIET, preprocess=False)
        forget_bars = wire_jobs(playground, jobs, asking, page_request, done)
        requested = gr.State(playground.options.model)
        _wire_models(playground, notice, linked, loaded, picker, requested)
        shared = Shared(playground, picker, prompt, chat, tabs, notice, loaded, requested, language_of, screens)
        parts = {"address": address_of, "linked": linked, "selection": selection, "nav": nav}
        address.wire(shared, parts, (FIRST, TABS[0].key), selection_update)
        answer.wire(shared, answer_of)
        for tab in TABS:
            wire_streams(tab, streams, shared)

        def left(visitor: str) -> None:
            for forget in (playground.leave, forget_bars, *shared.leaving):
                forget(visitor)

        playground.presence.leaving = left
        endpoints.offer(playground)
        show_no_progress(page)
    return page


def show_no_progress(page: gr.Blocks) -> None:
    """Turn off Gradio's progress display for every event; the page shows progress itself.

    Otherwise a visitor's page copies the values of all outputs at every message of any event, and runs a hidden clock
    at every frame while it waits.
    """
    for event in page.fns.values():
        event.show_progress_on = []
