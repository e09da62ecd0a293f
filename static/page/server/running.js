// Progress of a slow prompt run: the number of finished layers and the estimated remaining time.
import { el, fill } from "../dom.js";
import { words } from "./identity.js";

const FIRST = 1; // seconds until progress is shown
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
  // report: { done, total, seconds }, where `done` and `total` count layers
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
