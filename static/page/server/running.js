// A prompt that takes long to run: how many layers are done, and how long the rest will take.
import { el, fill } from "../dom.js";
import { words } from "./identity.js";

const FIRST = 1; // seconds that a run may take before anything is told
let box = null;

function build() {
  const text = el("strong"),
    left = el("span"),
    bar = el("progress", "", "", { max: 1 }),
    node = el("div", "pg-connection pg-running", "", { role: "status" });
  node.append(text, left, bar);
  (document.querySelector(".gradio-container") ?? document.body).append(node);
  return { node, text, left, bar };
}

export const runBar = {
  // report: { done, total, seconds }, layers and the seconds that they took
  show({ done, total, seconds }) {
    if (seconds < FIRST) return;
    box ??= build();
    const { node, text, left, bar } = box,
      rest = done && Math.round((seconds * (total - done)) / done);
    text.textContent = fill(words.running, { done: done + 1, total });
    left.textContent = rest ? fill(words.running_left, { seconds: rest }) : "";
    bar.value = done / total;
    bar.setAttribute("aria-label", text.textContent);
    node.hidden = false;
  },
  hide() {
    if (box) box.node.hidden = true;
  },
};
