// The list of the page's keys: a dialog, opened by "?" and from the page's menu.
import { cross } from "../../parts/icons.js";
import { el, isTyping } from "../dom.js";

const KEYS = [
  ["/", "prompt"],
  ["Ctrl K", "search"],
  ["?", "keys"],
  ["Tab", "tab"],
  ["← → ↑ ↓", "arrows"],
  ["Home End", "ends"],
  ["Enter", "enter"],
  ["Shift Enter", "more"],
  ["Ctrl Z", "undo"],
  ["Esc", "escape"],
];
let words = null,
  dialog = null;

function build() {
  const box = el("dialog", "pg-keys", "", { "aria-label": words.keys, "data-part": "keys", "data-drawn": "" }),
    head = el("div", "pg-keys-head"),
    list = el("dl");
  head.append(
    el("h2", "", words.keys),
    cross(words.keys_close, () => box.close()),
  );
  for (const [keys, name] of KEYS) {
    const key = el("dt");
    for (const each of keys.split(" ")) key.append(el("kbd", "", each));
    list.append(key, el("dd", "", words[`keys_${name}`]));
  }
  box.append(head, list);
  box.addEventListener("click", ({ target }) => target === box && box.close());
  document.querySelector(".gradio-container").append(box);
  return box;
}
export function openKeys() {
  dialog ??= build();
  if (!dialog.open) dialog.showModal();
}

document.addEventListener("keydown", (event) => {
  if (event.key !== "?" || isTyping() || event.ctrlKey || event.metaKey || !words) return;
  event.preventDefault();
  openKeys();
});

export const nameKeys = (given) => {
  words = given;
};
