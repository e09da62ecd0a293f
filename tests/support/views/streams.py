"""Streams of views without a browser: a view's channels, of which only the handlers of their events are kept."""

import types

from viz.page.loading import opened
from viz.page.streams import wire_streams
from viz.seam.tab import Tab
from viz.seam.view import View
from viz.work.playground import Playground


class Component:
    """Of a component only the handlers of its events, with what they read, fill and keep to."""

    def __init__(self) -> None:
        self.handlers, self.inputs, self.outputs, self.settings = {}, {}, {}, {}

    def __getattr__(self, name: str):
        def listen(handler, inputs, outputs=None, **settings) -> None:
            for kept, value in zip(
                (self.handlers, self.inputs, self.outputs, self.settings),
                (handler, inputs, outputs, settings),
                strict=True,
            ):
                kept[name] = value

        return listen


def wired(playground: Playground, view: View) -> tuple[Component, types.SimpleNamespace]:
    """The channel of a view with one stream, and what the page shares with it."""
    names = ("picker", "prompt", "chat", "tabs", "notice", "loaded", "requested")
    shared = types.SimpleNamespace(
        playground=playground,
        language_of=lambda request: "en",
        leaving=[],
        screens={"sampling": None},
        **dict.fromkeys(names),
    )
    (stream,) = view.streams
    channel = Component()
    wire_streams(Tab("sampling", (view,)), {view.part_name(stream.name): channel}, shared)
    return channel, shared


def trigger(
    channel: Component,
    name: str,
    sent: object = None,
    prompt: str = "abc",
    values: object = None,
    owner: str = "me",
    chat: object = None,
):
    """An event of a visitor's page: what it says step by step, or None where it only does something."""
    visitor = types.SimpleNamespace(session_hash=owner)
    return channel.handlers[name](visitor, sent, opened("tiny"), prompt, chat, {"values": values or {}})


def ask(channel: Component, name: str, *given: object, **named: object) -> list | None:
    """All that it says."""
    steps = trigger(channel, name, *given, **named)
    return None if steps is None else list(steps)
