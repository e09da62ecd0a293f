// Where a visitor can go: the tabs of the page and their views. The framework keeps the tabs; its own row is not shown.
import { el } from "../dom.js";

const listeners = new Set();
let current = null,
  ways = 0; // that were begun or ended

const own = (tab) => document.querySelector(`.tab-container button[data-tab-id="${CSS.escape(tab)}"]`);
export const onTab = (listener) => listeners.add(listener);
export const currentTab = () => current;

// A tab was opened, by whomever. Gradio tells once more of the first one, at any time while the page begins.
export function arrived(tab) {
  if (tab === current) return;
  ways++;
  current = tab;
  for (const listener of listeners) listener(tab);
}

const chooser = (tab, view) => document.querySelector(`#pg-${tab}_view .pg-view[data-key="${CSS.escape(view)}"]`);

// The framework draws its row anew as the page begins, and misses a click of that moment: so it is repeated until the
// tab, or another one, is open.
function open(tab) {
  const mine = ++ways;
  let tries = 20;
  const click = () => {
    if (mine !== ways || !tries--) return;
    own(tab)?.click();
    setTimeout(click, 150);
  };
  click();
}

// Open a tab, and one of its views.
export function go(tab, view = "") {
  if (current !== tab) open(tab);
  if (!view) return;
  const button = chooser(tab, view);
  if (button) return button.click();
  const watch = new MutationObserver(() => {
    const late = chooser(tab, view);
    if (!late) return;
    watch.disconnect();
    late.click();
  });
  watch.observe(document.body, { childList: true, subtree: true });
  setTimeout(() => watch.disconnect(), 10_000); // the tab is not there
}

// A button that leads to a view.
export function wayTo(tab, view, text, more = {}) {
  const button = el("button", "pg-button", text, { type: "button", ...more });
  button.onclick = () => go(tab, view);
  return button;
}
