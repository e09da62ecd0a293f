// Questions whose answers have not come, and a stream of answers that goes on until they have.
//
// Gradio's server ends the stream once no answer is due. Where a question comes in that very moment, its page still
// takes the stream for open, opens no other, and would wait until somebody asks again.

const LAST = /data: ?\{"msg":"close_stream"[^\n]*\n\n$/;
const HEAD = 300; // characters of a message that say what it is: {"msg": ..., "event_id": ...
const PATIENCE = 1000; // milliseconds for questions on their way

export function pending() {
  const open = new Set(), // ids of questions
    sending = new Set();
  let head = "";
  const message = () => {
    const [, id] = /"msg":"process_completed","event_id":"([^"]+)"/.exec(head) ?? [];
    open.delete(id);
  };
  return {
    // Send a question; `send` resolves to the server's response, which names it.
    async ask(send) {
      const answer = (async () => {
        const got = await send();
        const { event_id: id } = got.ok ? await got.clone().json().catch(Object) : {};
        if (id) open.add(id);
        return got;
      })();
      sending.add(answer);
      try {
        return await answer;
      } finally {
        sending.delete(answer);
      }
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
  const read = new TextDecoder();
  let reader = first.body.getReader();
  return new ReadableStream({
    async pull(controller) {
      try {
        for (;;) {
          const { done, value } = await reader.read();
          if (done) return controller.close();
          const text = read.decode(value, { stream: true });
          if (text.includes('"msg":"unexpected_error"')) break;
          questions.heard(text);
          const last = LAST.exec(text)?.[0];
          if (!last || !(await questions.due())) return controller.enqueue(value);
          const next = await again();
          if (!next.ok || !next.body) return controller.enqueue(value);
          reader = next.body.getReader();
          const before = value.subarray(0, value.length - last.length); // it is plain letters, a byte each
          if (before.length) return controller.enqueue(before);
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
