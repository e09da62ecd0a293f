// Questions whose answers have not come, and a stream of answers that goes on until they have.
//
// Gradio's server ends the stream once no answer is due. Where a question comes in that very moment, its page still
// takes the stream for open, opens no other, and would wait until somebody asks again.
//
// A question that nobody listened for gives way where the server is full (viz/server/framework/fair_queue.py). Where
// somebody does come for its answer, it is asked again, and answered under the name that it had.

const LAST = /data: ?\{"msg":"close_stream"[^\n]*\n\n$/;
const HEAD = 300; // characters of a message that say what it is: {"msg": ..., "event_id": ...
const PATIENCE = 1000; // milliseconds for questions on their way
const DROPPED =
  /data: ?\{"msg":"process_completed","event_id":"([^"]+)","output":\{"error":"The server is busy\."[^\n]*\n\n/g;

export function pending() {
  const open = new Map(), // ids of questions, each with how it is asked again
    names = new Map(), // of those that were asked again: new id -> the first
    sending = new Set();
  let head = "";
  const message = () => {
    const [, id] = /"msg":"process_completed","event_id":"([^"]+)"/.exec(head) ?? [];
    open.delete(id);
    names.delete(id);
  };
  // The server's response to a question, and the name that it gives it.
  async function sent(send) {
    const got = await send();
    const { event_id: id } = got.ok ? await got.clone().json().catch(Object) : {};
    if (id) open.set(id, send);
    return { got, id };
  }
  async function again(id) {
    const { id: next } = await sent(open.get(id));
    if (next) names.set(next, names.get(id) ?? id);
    return Boolean(next);
  }
  return {
    // Send a question; `send` resolves to the server's response, which names it.
    async ask(send) {
      const answer = sent(send);
      sending.add(answer);
      try {
        return (await answer).got;
      } finally {
        sending.delete(answer);
      }
    },
    // A piece of the stream as who asked is to hear it: without what is asked again, under the first names.
    async told(text) {
      let whole = text;
      for (const [message, id] of text.matchAll(DROPPED))
        if (open.has(id) && (await again(id))) whole = whole.replace(message, "");
      for (const [next, first] of names) whole = whole.replaceAll(`"event_id":"${next}"`, `"event_id":"${first}"`);
      return whole;
    },
    // A piece of the stream came.
    heard(text) {
      const parts = text.split("\n\n");
      for (const [n, part] of parts.entries()) {
        if (head.length < HEAD) head += part.slice(0, HEAD - head.length);
        if (n === parts.length - 1) break;
        message();
        head = "";
      }
    },
    // Whether an answer is due, as far as is known.
    waiting: () => open.size + sending.size > 0,
    // Whether an answer is due, once the questions on their way have arrived.
    async due() {
      const late = new Promise((done) => setTimeout(done, PATIENCE));
      await Promise.race([Promise.allSettled([...sending]), late]);
      return open.size > 0;
    },
  };
}

// The stream of `first`, and of as many as `again` opens after it. `broken` is told of one that is cut off or failed.
export function goingOn(first, again, questions, broken) {
  const read = new TextDecoder(),
    write = new TextEncoder();
  let reader = first.body.getReader();
  return new ReadableStream({
    async pull(controller) {
      try {
        for (;;) {
          const { done, value } = await reader.read();
          if (done) return controller.close();
          const came = read.decode(value, { stream: true });
          if (came.includes('"msg":"unexpected_error"')) break;
          const text = await questions.told(came);
          questions.heard(came);
          const last = LAST.exec(text)?.[0];
          const next = last && (await questions.due()) ? await again() : null;
          if (next?.ok && next.body) reader = next.body.getReader();
          const rest = next?.ok && next.body ? text.slice(0, -last.length) : text;
          if (rest) return controller.enqueue(write.encode(rest));
        }
        await broken();
      } catch (error) {
        await broken(error);
      }
      controller.close();
    },
    cancel: (reason) => reader.cancel(reason),
  });
}
