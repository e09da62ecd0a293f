"""From the streams that a view declares to the page's events: one component a stream, one event a handler."""

import contextlib
import inspect
import logging
from collections.abc import Callable, Generator, Iterator, Mapping
from dataclasses import dataclass, field
from typing import cast

import gradio as gr
from gradio.blocks import Block

from model.errors import PlaygroundError
from viz.page.loading import choose_model
from viz.page.parts import part, update
from viz.seam.notices import broken, notice
from viz.seam.panels import asks_of
from viz.seam.tab import Tab
from viz.seam.view import Event, Models, Open, Payload, Stream, View, Visit
from viz.work.playground import Playground
from viz.work.prompt import prompt_of

log = logging.getLogger("playground")
_QUIET = {"show_progress": "hidden", "api_visibility": "private"}
_SKIP = gr.skip()


@dataclass(frozen=True, eq=False)
class Shared:
    """The components that the streams share with the page."""

    playground: Playground
    picker: gr.Dropdown
    prompt: gr.Textbox
    chat: gr.HTML
    tabs: gr.Tabs
    notice: gr.HTML
    loaded: gr.State
    requested: gr.State  # the id of the model that was chosen last
    language_of: Callable[[gr.Request], str]
    screens: Mapping[str, gr.HTML]  # by tab
    leaving: list[Callable[[str], None]] = field(default_factory=list)  # called with a visitor whose page was closed


def channels(tab: Tab) -> dict[str, gr.HTML]:
    """The components of a tab's streams by their names on the page."""
    return {
        view.part_name(each.name): part(
            view.part_name(each.name), None, kind=each.kind, value={}, events=tuple(each.events)
        )
        for view in tab.all_views
        for each in view.streams
    }


def wire_streams(tab: Tab, components: Mapping[str, gr.HTML], shared: Shared) -> None:
    """The events of a tab's streams. `components`: theirs, by name on the page."""
    for view in tab.all_views:
        for stream in view.streams:
            place = _Place(tab, view, components[view.part_name(stream.name)], stream.state(), shared)
            for name, event in stream.events.items():
                _wire(place, name, event)
            shared.leaving.append(_leaving(stream, place.state))


def _leaving(stream: Stream, state: object):
    return lambda session: stream.leave(state, session)


@dataclass(frozen=True, eq=False)
class _Place:
    """The context of the events of one stream."""

    tab: Tab
    view: View
    channel: gr.HTML
    state: object
    shared: Shared


def _wire(place: _Place, name: str, event: Event) -> None:
    """One event of a channel."""
    shared = place.shared

    def act(request: gr.Request, sent, loaded, *more):
        event.handle(_visit(place, request, loaded, *more), sent)

    def answer(request: gr.Request, sent, loaded, *more):
        with contextlib.closing(answers(event, _visit(place, request, loaded, *more), sent)) as steps:
            for each in steps:
                yield update(cast(Payload, each))  # without `models` and `page`, an event yields nothing else

    def change(request: gr.Request, sent, loaded, *more):
        visit = _visit(place, request, loaded, *more)
        with contextlib.closing(answers(event, visit, sent)) as steps:
            for each in steps:
                for changes in _changes(visit, each, loaded):
                    yield changes if event.page else (changes[0], changes[3])

    outputs: list[Block] | None = [place.channel]
    if event.page:
        outputs = [place.channel, shared.notice, shared.loaded, shared.picker, shared.requested]
        outputs += [shared.prompt, shared.tabs]
    elif event.models:
        outputs = [place.channel, shared.picker]
    function = change if event.page or event.models else answer
    if not inspect.isgeneratorfunction(event.handle):
        function, outputs = act, None
    inputs = [place.channel, shared.loaded, shared.prompt, shared.chat, shared.screens[place.tab.key]]
    limits = {"concurrency_limit": event.concurrency, "trigger_mode": event.trigger}
    getattr(place.channel, name)(function, inputs, outputs, **limits, **_QUIET)


def _visit(place: _Place, request: gr.Request, loaded: dict, prompt: str, chat: object, screen: object) -> Visit:
    shared = place.shared
    sent = screen.get("values") if isinstance(screen, Mapping) else None
    values = {name: sent[name] for name in asks_of(place.view) if isinstance(sent, Mapping) and name in sent}
    language = shared.language_of(request)
    asked = prompt_of(prompt, chat)
    return Visit(shared.playground, request.session_hash or "", language, loaded["id"], asked, values, place.state)


def answers(event: Event, visit: Visit, sent: object) -> Generator[Payload | Open | Models, None, None]:
    """The payloads of an event; an error carries the page's own name for its question, {"tag": ...}."""
    try:
        yield from event.handle(visit, sent) or ()
    except PlaygroundError as error:
        yield _failed(notice(error, visit.language), sent)
    except Exception:
        log.exception("an event of a stream failed")
        yield _failed(broken(visit.language), sent)


def _failed(why: Payload, sent: object) -> Payload:
    tag = {"tag": sent["tag"]} if isinstance(sent, Mapping) and isinstance(sent.get("tag"), str) else {}
    return {**tag, "error": {"text": why["text"], "hint": why["hint"]}}


def _changes(visit: Visit, wish: Payload | Open | Models, loaded: dict) -> Iterator[tuple]:
    """(channel, notice, loaded, picker, requested, prompt, tabs) for what an event yields."""
    if isinstance(wish, Models):
        choices = visit.playground.choices(visit.session)
        yield _SKIP, _SKIP, _SKIP, gr.Dropdown(choices=choices), _SKIP, _SKIP, _SKIP
    elif isinstance(wish, Open):
        for message, now, picked, requested in choose_model(visit.playground, wish.model_id, loaded, visit.language):
            if "opened" not in now:  # not there yet, or never
                yield _SKIP, message, now, picked, requested, _SKIP, _SKIP
                continue
            picker = gr.Dropdown(choices=visit.playground.choices(visit.session), value=wish.model_id)
            yield _SKIP, message, now, picker, requested, wish.prompt, gr.Tabs(selected=wish.tab)
    else:
        yield update(wish), *[_SKIP] * 6
