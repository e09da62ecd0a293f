"""Streams of views without a browser: their events, as the page's wire calls them."""

from collections.abc import Iterator

from viz.page.pipeline import PageRequest
from viz.page.wire.streams import Channel, answers
from viz.seam.view import ModelsChanged, Open, Payload, View
from viz.work.playground import Playground


def channel_of(view: View) -> Channel:
    """The channel of a view with one stream."""
    (stream,) = view.streams
    return Channel(stream, view, stream.state())


def trigger(
    playground: Playground,
    channel: Channel,
    name: str,
    sent: object = None,
    prompt: str = "abc",
    values: object = None,
    owner: str = "me",
    chat: object = None,
) -> Iterator[Payload | Open | ModelsChanged]:
    """An event of a visitor's page: what it yields, nothing where it only does something."""
    question = PageRequest("tiny", prompt, None, values or {}, {}, "en", visitor=owner, chat=chat)
    return answers(channel.stream.events[name], channel.visit(playground, question), sent)


def ask(playground: Playground, channel: Channel, name: str, *given: object, **named: object) -> list:
    """All that it yields."""
    return list(trigger(playground, channel, name, *given, **named))
