"""A stream of answers that ends in the moment in which a question comes is followed by another one."""

import orjson
import pytest
from gradio.server_messages import ProcessCompletedMessage

from viz.server.framework import fair_queue

pytestmark = pytest.mark.browser

# Two questions; the server answers the first, says that it is done, and knows of the second from then on.
SCENE = """async (module, pieces, more, late) => {
  const questions = module.pending();
  const enc = new TextEncoder();
  const stream = (texts) => new Response(new ReadableStream({
    start(to) {
      for (const text of texts) to.enqueue(typeof text === "string" ? enc.encode(text) : new Uint8Array(text));
      to.close();
    },
  }));
  const named = (id, wait = 0) => questions.ask(async () => {
    await new Promise((done) => setTimeout(done, wait));
    return new Response(JSON.stringify({ event_id: id }));
  });
  await named("a");
  const second = late === null ? null : named("b", late);
  if (late === 0) await second;
  const opened = [];
  const again = async () => { opened.push(1); return stream(more); };
  const failed = [];
  const broken = async () => { failed.push(1); };
  const text = await new Response(module.goingOn(stream(pieces), again, questions, broken)).text();
  return [text, opened.length, failed.length];
}"""


def done(name: str, text: str = "") -> str:
    return f'data: {{"msg":"process_completed","event_id":"{name}","output":"{text}"}}\n\n'


CLOSE = 'data: {"msg":"close_stream","event_id":null}\n\n'
LONG = "é" * 5000  # characters of two bytes


@pytest.mark.parametrize(
    ("pieces", "late", "expected", "opened"),
    [
        ([done("a"), CLOSE], None, done("a") + CLOSE, 0),  # nothing is due: the end is the end
        ([done("a"), CLOSE], 0, done("a") + done("b") + CLOSE, 1),
        ([done("a") + CLOSE], 0, done("a") + done("b") + CLOSE, 1),  # both in one piece
        ([done("a"), CLOSE], 60, done("a") + done("b") + CLOSE, 1),  # the question is still on its way
        ([done("a"), done("b"), CLOSE], 0, done("a") + done("b") + CLOSE, 0),
        ([done("a", LONG)[:3001], done("a", LONG)[3001:] + CLOSE], 0, done("a", LONG) + done("b") + CLOSE, 1),
    ],
)
def test_an_end_with_an_answer_due_is_no_end(call, pieces, late, expected, opened):
    found = call("page/server/pending.js", f"({SCENE}).bind(null, module)", pieces, [done("b"), CLOSE], late)
    assert found == [expected, opened, 0]


def test_a_character_cut_in_two_stays_whole(call):
    sent = (done("a", LONG) + CLOSE).encode()
    pieces = [list(sent[:2001]), list(sent[2001:])]
    assert sent[2001] & 0b11000000 == 0b10000000  # within a character
    found = call("page/server/pending.js", f"({SCENE}).bind(null, module)", pieces, [done("b"), CLOSE], 0)
    assert found == [done("a", LONG) + done("b") + CLOSE, 1, 0]


def test_a_failure_is_told(call):
    pieces = ['data: {"msg":"unexpected_error","message":"x"}\n\n']
    assert call("page/server/pending.js", f"({SCENE}).bind(null, module)", pieces, [], None)[2] >= 1


# A question that is dropped and asked again: the server gives it another name the second time.
DROPPED = """async (module, pieces, more) => {
  const questions = module.pending(), names = ["a", "b"];
  const stream = (texts) => new Response(new ReadableStream({
    start(to) {
      for (const text of texts) to.enqueue(new TextEncoder().encode(text));
      to.close();
    },
  }));
  await questions.ask(async () => new Response(JSON.stringify({ event_id: names.shift() })));
  const opened = [];
  const again = async () => { opened.push(1); return stream(more); };
  const text = await new Response(module.goingOn(stream(pieces), again, questions, () => {})).text();
  return [text, opened.length, names.length];
}"""
BUSY = ProcessCompletedMessage(output={"error": fair_queue.BUSY}, success=False)


@pytest.mark.parametrize("apart", [False, True])
def test_a_dropped_question_is_asked_again_and_answered_under_its_first_name(call, apart):
    dropped = f"data: {orjson.dumps(BUSY.model_dump() | {'event_id': 'a'}).decode()}\n\n"
    pieces = [dropped, CLOSE] if apart else [dropped + CLOSE]
    found = call("page/server/pending.js", f"({DROPPED}).bind(null, module)", pieces, [done("b", "é"), CLOSE])
    assert found == [done("a", "é") + CLOSE, 1, 0]


def test_another_s_dropped_question_is_none_of_ours(call):
    dropped = f"data: {orjson.dumps(BUSY.model_dump() | {'event_id': 'z'}).decode()}\n\n"
    found = call("page/server/pending.js", f"({DROPPED}).bind(null, module)", [dropped, done("a"), CLOSE], [])
    assert found == [dropped + done("a") + CLOSE, 0, 1]
