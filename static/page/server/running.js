// A prompt that takes long to run: how many layers are done, and how long the rest will take.
import { el, fill } from "../dom.js";

const FIRST = 1000, // milliseconds that an answer may take before anything is told
  NEXT = 500, // between two looks while a prompt runs
  MOST = 8000; // and at most where none does: an answer may be due for minutes, of a job or a stream

// Tell of the run while `waiting()`; `ask` fetches, `words` are those of the connection. `asked` is told of questions.
export function tellOfRuns(waiting, ask, words) {
  let timer = 0,
    pause = NEXT,
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
    const report = waiting() ? await ask("playground/running", { cache: "no-store" }).then(read, Object) : {};
    const slow = waiting() && report.total > 0 && report.seconds * 1000 >= FIRST;
    if (slow) (box ?? build()).show(report);
    if (box) box.hidden = !slow;
    pause = slow ? NEXT : Math.min(2 * pause, MOST);
    if (waiting()) timer ||= setTimeout(look, pause);
  }

  return {
    asked() {
      if (timer && pause <= FIRST) return;
      clearTimeout(timer);
      pause = NEXT;
      timer = setTimeout(look, FIRST);
    },
  };
}

const read = (answer) => (answer.ok ? answer.json().catch(Object) : {});
