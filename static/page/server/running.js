// A prompt that takes long to run: how many layers are done, how long the rest will take, and what is drawn already.
import { el, fill } from "../dom.js";
import { caughtUp, showEarly } from "../mount.js";

const FIRST = 1000, // milliseconds that a run may take before anything is told
  SOON = 250, // between two looks before that
  NEXT = 500, // between two looks while it is told of
  MOST = 8000; // and at most where none runs: an answer may be due for minutes, of a job or a stream

// Tell of the run while `waiting()`; `ask` fetches, `words` are those of the connection. `asked` is told of questions:
// { session_hash, question }.
export function tellOfRuns(waiting, ask, words) {
  let timer = 0,
    pause = SOON,
    newest = {},
    box = null;

  function build() {
    const text = el("strong"),
      left = el("span"),
      bar = el("progress", "", "", { max: 1 });
    box = el("div", "pg-connection pg-running", "", { role: "status" });
    box.append(text, left, bar);
    (document.querySelector(".gradio-container") ?? document.body).append(box);
    return Object.assign(box, { show });

    function show({ done, total, seconds }) {
      text.textContent = fill(words.running, { done: done + 1, total });
      const rest = done && Math.round((seconds * (total - done)) / done);
      left.textContent = rest ? fill(words.running_left, { seconds: rest }) : "";
      bar.value = done / total;
      bar.setAttribute("aria-label", text.textContent);
    }
  }

  async function look() {
    timer = 0;
    const of = newest,
      address = `playground/running?${new URLSearchParams(of)}`;
    const report = waiting() ? await ask(address, { cache: "no-store" }).then(read, Object) : {};
    const runs = waiting() && report.total > 0,
      slow = runs && report.seconds * 1000 >= FIRST;
    if (report.parts && of === newest) showEarly(report.parts);
    if (!waiting()) caughtUp(); // an answer that brings nothing
    if (slow) (box ?? build()).show(report);
    if (box) box.hidden = !slow;
    pause = slow ? NEXT : runs ? SOON : Math.min(2 * pause, MOST);
    if (waiting()) timer ||= setTimeout(look, pause);
  }

  return {
    bar: {
      show(report) {
        if (report.seconds * 1000 < FIRST) return;
        (box ?? build()).show(report);
        box.hidden = false;
      },
      hide() {
        if (box) box.hidden = true;
      },
    },
    asked(question) {
      newest = question;
      if (timer && pause <= NEXT) return;
      clearTimeout(timer);
      pause = SOON;
      timer = setTimeout(look, SOON);
    },
  };
}

const read = (answer) => (answer.ok ? answer.json().catch(Object) : {});
