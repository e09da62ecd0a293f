// Navigation to the tabs of the page and their views. Gradio manages the tabs; its own tab row is hidden.
import { el } from "../dom.js";

const listeners = new Set();
let current = null,
  ways = 0; // number of navigations so far

const own = (tab) => document.querySelector(`.tab-container button[data-tab-id="${CSS.escape(tab)}"]`);
export const onTab = (listener) => listeners.add(listener);
export const currentTab = () => current;

// Handle the opening of a tab. During startup, Gradio may report the first tab again at any time.
export function arrived(tab) {
  if (tab === current) return;
  ways++;
  current = tab;
  for (const listener of listeners) listener(tab);
}

const chooser = (tab, view) => document.querySelector(`#pg-${tab}_view .pg-view[data-key="${CSS.escape(view)}"]`);

// Gradio redraws its tab row during startup and may lose a click, so the click is repeated until this or another tab is
// open.
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
  setTimeout(() => watch.disconnect(), 10_000); // give up if the tab does not exist
}

// Build a button that opens a view.
export function wayTo(tab, view, text, more = {}) {
  const button = el("button", "pg-button", text, { type: "button", ...more });
  button.onclick = () => go(tab, view);
  return button;
}
