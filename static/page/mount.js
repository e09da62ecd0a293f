// Parts of the page: what draws each kind, which are on the page, and their listeners.
//
// A kind is a function (root, props, ask) -> draw(payload). props.value is what the server reads; ask(event) tells it,
// and ask("keep") the address alone. draw.stateOf(value), where there is one, is the part of the value that belongs to
// the page's state, or null.

import { wayTo } from "./address/places.js";
import { el } from "./dom.js";
import { foldNow, foldWith } from "./fold.js";

const kinds = {};
const hidden = new Set(); // names of parts of views that are not chosen
const drawnListeners = new Set();
const mountListeners = new Set();
const askListeners = new Set();

export const mounted = new Map(); // name of a part -> what mountPart returns
const unplaced = new Map(); // payloads of parts that are not on the page yet
let tell = () => {}; // what parts ask for: tell(name, event, value)
export const onEvent = (listener) => {
  tell = listener;
};

// A drawing replaces what it draws: a button that goes between the press and the release is never clicked. So a part
// that is pressed is drawn once it is let go, or once the press has become a drag; what an <input> holds is no button.
const DRAG = 500, // milliseconds
  LOOK = 30;
let pressedAt = Number.NEGATIVE_INFINITY;
document.addEventListener(
  "pointerdown",
  () => {
    pressedAt = performance.now();
  },
  { capture: true, passive: true },
);
const pressed = (root) =>
  performance.now() - pressedAt < DRAG && root.matches(":active") && !root.querySelector("input:active");

export function define(kind, make) {
  kinds[kind] = make;
}

// Called after each drawing of a part: listener(root, payload).
export const onDrawn = (listener) => drawnListeners.add(listener);
// Called when a part comes onto the page, before it is drawn: listener(name, entry).
export const onMount = (listener) => mountListeners.add(listener);
// Called when a part's value has changed: listener(root).
export const onAsk = (listener) => askListeners.add(listener);

// Put a part into its root, an element with data-part. `props` holds the part's `value`; `send` takes its events.
// Draw it with entry.show(payload), and once more, with what it shows, by entry.redraw().
export function mountPart(kind, root, props, send = (event) => tell(root.dataset.part, event, props.value)) {
  const name = root.dataset.part;
  const problem = el("div", "pg-problem", "", { role: "status" });
  const ask = (event) => {
    if (event !== "keep") send(event);
    if (event === "select" || event === "keep") for (const listener of askListeners) listener(root);
  };
  let message = null; // what is wrong, or what is not there yet
  let shown = null;
  let held = 0; // the timer of a drawing that waits for the release
  root.hidden = hidden.has(name);
  problem.hidden = true;
  root.before(problem);
  foldWith(root, problem);
  const draw = kinds[kind](root, props, ask);
  // What a link says of a part may be anything; a part that cannot draw it goes back to where it started.
  const drawn = (payload) => {
    try {
      draw(payload);
    } catch (error) {
      if (!entry.foreign) throw error;
      entry.foreign = false;
      props.value = JSON.parse(entry.initial);
      draw(payload);
    }
  };
  const show = (payload) => {
    shown = payload;
    clearTimeout(held);
    if (pressed(root)) held = setTimeout(() => show(shown), LOOK);
    else paint(payload);
  };
  const paint = (payload) => {
    message = payload?.problem ?? payload?.empty;
    showProblem();
    problem.className = payload?.problem ? "pg-problem" : "pg-problem pg-quiet-box";
    problem.replaceChildren(...(message ? [el("strong", "", message.text), el("span", "", message.hint)] : []));
    if (message?.way) problem.append(wayTo(message.way.tab, message.way.view, message.way.text)); // where it can be mended
    root.classList.toggle("pg-failed", Boolean(message));
    if (payload && !message) drawn(payload);
    for (const listener of drawnListeners) listener(root, payload);
  };
  const showProblem = () => {
    problem.hidden = !message || hidden.has(name);
    root.parentElement?.toggleAttribute("data-problem", !problem.hidden);
  };
  const initial = JSON.stringify(props.value ?? null);
  const entry = {
    kind,
    root,
    props,
    show,
    redraw: () => show(shown),
    payload: () => shown,
    showProblem,
    stateOf: draw?.stateOf,
    take: draw?.take, // told of a value that a link gives, by a part that holds its own
    initial,
    foreign: false,
  };
  mounted.set(name, entry);
  for (const listener of mountListeners) listener(name, entry);
  return entry;
}

// Draw parts; one that is not on the page yet is drawn once it is.
export function showParts(parts) {
  for (const [name, payload] of Object.entries(parts)) {
    const entry = mounted.get(name);
    if (entry) entry.show(payload);
    else unplaced.set(name, payload);
  }
}
// The same for a part that has come onto the page: what came for it before, else what the page came with.
export function showFirst(entry, payload) {
  const { part: name } = entry.root.dataset,
    newer = unplaced.get(name);
  unplaced.delete(name);
  entry.show(newer ?? payload);
}

// Pictures that were drawn before the answer that they belong to, unless that has come meanwhile. What is of the run
// before is pale beside them, until the answer comes.
export function showEarly(parts) {
  for (const [name, payload] of Object.entries(parts)) {
    const entry = mounted.get(name);
    if (!entry || entry.payload()?.run === payload.run) continue;
    entry.show(payload);
    for (const [other, { root, payload: of }] of mounted) {
      const told = ["header", "tokens"].includes(other) || (of()?.scene && root.closest("[data-screen]"));
      if (told && of()?.scene !== payload.scene) root.dataset.behind = "";
    }
  }
}
export function caughtUp() {
  for (const root of document.querySelectorAll("[data-behind]")) delete root.dataset.behind;
}

// Called by each gr.HTML part once it is on the page, with what the page came with: its value, and its payload as JSON.
// Gradio's own properties are read here and nowhere else: it may set them once more later.
export function mount(kind, element, props, trigger) {
  const root = element.querySelector("[data-part]"),
    held = { value: structuredClone(props.value) };
  if (kind === "wire") held.trigger = trigger;
  showFirst(mountPart(kind, root, held), props.payload ? JSON.parse(props.payload) : null);
}

// Show some of several parts that take turns.
export function choose(shown, all) {
  for (const name of all) {
    if (shown.includes(name)) hidden.delete(name);
    else hidden.add(name);
    const root = document.querySelector(`[data-part="${CSS.escape(name)}"]`);
    if (root) root.hidden = hidden.has(name);
    mounted.get(name)?.showProblem();
  }
  foldNow();
}
