"""Listeners: which sessions have a reader, and that one login name cannot read the answers of another."""

import json

import pytest

from tests.support.guard import ask
from viz.server.listeners import Listeners
from viz.work.presence import Presence

DATA = b'data: {"msg":"process_completed","event_id":"e1","output":{"data":[1]}}\n\n'


def layered(answer=b"", name=None):
    """The layer before an app, what presence knows while it answers, and the presence."""
    presence, seen = Presence(), []
    presence.belongs("anns", "ann")

    async def inner(scope, receive, send):
        seen.append(presence.is_heard("anns"))
        for _ in range(2):
            presence.owe("anns")
        message = await receive()
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": answer or message["body"], "more_body": True})
        seen.append(presence.unread("ann"))
        await send({"type": "http.response.body", "body": b""})

    return Listeners(inner, presence), presence, seen


def asked_by(client, name=None, **more):
    return more | {"playground.client": client, "playground.name": name}


def test_who_reads_is_heard_and_what_was_sent_is_read():
    for answer, left in ((DATA, 1), (b"event: complete\ndata: [1]\n\n", 1), (b"event: error\ndata: x\n\n", 1)):
        layer, presence, seen = layered(answer)
        sent = asked_by("ann", query_string=b"session_hash=anns")
        assert ask(layer, "/gradio_api/queue/data", **sent).status == 200
        assert seen == [True, left] and not presence.is_heard("anns") and presence.unread("ann") == 0
    for other in (b'data: {"msg":"process_starts"}', b'data: {"x":"\\"msg\\":\\"process_completed\\""}'):
        layer, presence, seen = layered(other)
        ask(layer, "/gradio_api/queue/data", **asked_by("ann", query_string=b"session_hash=anns"))
        assert seen == [True, 2]


def test_the_answer_to_a_call_is_read_by_its_event():
    layer, _, seen = layered(b'{"event_id":"e1"}')
    more = asked_by("ann") | {"playground.session": "anns"}
    ask(layer, "/gradio_api/call/tokenize", "POST", body=(b"{}",), **more)
    assert seen[0] is False  # asking is not reading
    ask(layer, "/gradio_api/call/tokenize/e1", **asked_by("ann"))
    assert seen[2] is True
    layer, _, seen = layered()
    ask(layer, "/gradio_api/call/tokenize/anns", **asked_by("ann"))  # a call that named no session has its event's
    assert seen[0] is True


READING = [("/gradio_api/queue/data", b"session_hash=anns"), ("/gradio_api/call/tokenize/anns", b"")]


@pytest.mark.parametrize(("path", "query"), READING)
def test_answers_are_read_by_whose_they_are(path, query):
    layer, _, seen = layered()
    assert ask(layer, path, **asked_by("ann", "ann", query_string=query)).status == 200
    assert ask(layer, path, **asked_by("bob", "bob", query_string=query)).status == 404 and len(seen) == 2
    # Without names a visit's own is the secret.
    assert ask(layer, path, **asked_by("10.0.0.9", query_string=query)).status == 200


@pytest.mark.parametrize("names", [{"session_hash": "anns", "event_id": "x"}, {"session_hash": "b", "event_id": "e1"}])
def test_work_is_cancelled_by_whose_it_is(names):
    layer, _, seen = layered(b'{"event_id":"e1"}')
    ask(layer, "/gradio_api/call/tokenize", "POST", body=(b"{}",), **asked_by("ann") | {"playground.session": "anns"})
    sent, many = json.dumps(names | {"fn_index": 1}).encode(), len(seen)
    assert ask(layer, "/gradio_api/cancel", "POST", body=(sent,), **asked_by("bob", "bob")).status == 404
    assert len(seen) == many
    assert ask(layer, "/gradio_api/cancel", "POST", body=(sent,), **asked_by("ann", "ann")).status == 200
    assert len(seen) > many
    layer, *_ = layered()
    assert ask(layer, "/gradio_api/cancel", "POST", body=(sent,), **asked_by("ann", "ann")).text.encode() == sent


def test_other_requests_pass():
    layer, _, seen = layered()
    assert ask(layer, "/config", **asked_by("ann")).status == 200 and seen[0] is False
