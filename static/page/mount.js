// The parts of the page: their kinds, the mounted instances, and listeners.
//
// A kind is a function (root, props, ask) -> draw(payload). The server reads props.value; ask(event) sends an event,
// and ask("keep") only updates the address. The optional draw.stateOf(value) returns the part of the value that belongs
// to the page's state, or null.

import { wayTo } from "./address/places.js";
import { el } from "./dom.js";
import { foldNow, foldWith } from "./fold.js";

const kinds = {};
const hidden = new Set(); // names of the parts in views that are not selected
const drawnListeners = new Set();
const mountListeners = new Set();
const askListeners = new Set();

export const mounted = new Map(); // part name -> result of mountPart
const unplaced = new Map(); // payloads of parts that are not mounted yet
let tell = () => {}; // tell(name, event, value) sends a part's request
export const onEvent = (listener) => {
  tell = listener;
};

// Drawing replaces elements, and a button replaced between press and release receives no click. So a pressed part is
// redrawn only after the release, or once the press has become a drag. Content of an <input> is not affected.
const DRAG = 500, // milliseconds after which a press counts as a drag
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

// Register a listener that is called after each drawing of a part: listener(root, payload).
export const onDrawn = (listener) => drawnListeners.add(listener);
// Register a listener that is called when a part is mounted, before it is drawn: listener(name, entry).
export const onMount = (listener) => mountListeners.add(listener);
// Register a listener that is called when a part's value has changed: listener(root).
export const onAsk = (listener) => askListeners.add(listener);

// Mount a part in its root, an element with data-part. `props` holds the part's `value`; `send` receives its events.
// entry.show(payload) draws it; entry.redraw() draws it again with the current payload.
export function mountPart(kind, root, props, send = (event) => tell(root.dataset.part, event, props.value)) {
  const name = root.dataset.part;
  const problem = el("div", "pg-problem", "", { role: "status" });
  const ask = (event) => {
    if (event !== "keep") send(event);
    if (event === "select" || event === "keep") for (const listener of askListeners) listener(root);
  };
  let message = null; // an error, or a note that something is not available yet
  let shown = null;
  let held = 0; // timer of a redraw that is delayed until the release
  root.hidden = hidden.has(name);
  problem.hidden = true;
  root.before(problem);
  foldWith(root, problem);
  const draw = kinds[kind](root, props, ask);
  // A link can contain any value for a part; a part that cannot draw it resets to its initial value.
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
    problem.className = message && !payload.problem ? "pg-problem pg-quiet-box" : "pg-problem";
    problem.replaceChildren(...(message ? [el("strong", "", message.text), el("span", "", message.hint)] : []));
    if (message?.way) problem.append(wayTo(message.way.tab, message.way.view, message.way.text)); // a button that leads to the remedy
    root.classList.toggle("pg-failed", Boolean(message));
    // a stored result of another prompt or model, with its label
    if (payload?.stored_example && !message) root.dataset.example = payload.stored_example;
    else delete root.dataset.example;
    if (payload && !message) drawn(payload);
    for (const listener of drawnListeners) listener(root, payload);
  };
  const showProblem = () => {
    problem.hidden = !message || hidden.has(name);
    root.parentElement?.toggleAttribute("data-problem", !problem.hidden);
    root.parentElement?.toggleAttribute("data-quiet", !problem.hidden && !shown?.problem);
    showOneNote(root.closest("[data-screen]"));
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
    take: draw?.take, // applies a value from a link, in parts that keep their own state
    initial,
    foreign: false,
  };
  mounted.set(name, entry);
  for (const listener of mountListeners) listener(name, entry);
  return entry;
}

// Show only the first note of a view about what is not available yet, and an error of several parts once: the others
// would repeat it.
function showOneNote(screen) {
  const said = new Set();
  for (const block of screen?.querySelectorAll(".pg-block[data-repeated]") ?? []) delete block.dataset.repeated;
  for (const block of screen?.querySelectorAll(".pg-block[data-problem]") ?? []) {
    const text = "quiet" in block.dataset ? "" : block.querySelector(".pg-problem")?.textContent;
    block.toggleAttribute("data-repeated", said.has(text));
    said.add(text);
  }
}

// Draw parts; a part that is not mounted yet is drawn when it is mounted.
export function showParts(parts) {
  for (const [name, payload] of Object.entries(parts)) {
    const entry = mounted.get(name);
    if (entry) entry.show(payload);
    else unplaced.set(name, payload);
  }
}
// Draw a newly mounted part with the payload that arrived before it, or else with the page's initial payload.
export function showFirst(entry, payload) {
  const { part: name } = entry.root.dataset,
    newer = unplaced.get(name);
  unplaced.delete(name);
  entry.show(newer ?? payload);
}

// Draw previews that were rendered ahead of their answer, unless the answer has arrived. Content of the previous run is
// dimmed until then.
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

// Called by each gr.HTML part once it is on the page, with its initial value and its payload as JSON. Gradio's own
// properties are read only here, because Gradio may set them again later.
export function mount(kind, element, props, trigger) {
  const root = element.querySelector("[data-part]"),
    held = { value: structuredClone(props.value) };
  if (kind === "wire") held.trigger = trigger;
  showFirst(mountPart(kind, root, held), props.payload ? JSON.parse(props.payload) : null);
}

// Show the given parts among several alternative ones.
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
