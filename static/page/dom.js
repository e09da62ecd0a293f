// Making elements and moving among them. Text that a person or a model wrote only ever goes through textContent.

export function el(tag, className = "", text = "", attributes = {}) {
  const node = document.createElement(tag);
  if (className) node.className = className;
  if (text) node.textContent = text;
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  return node;
}

const SVG = "http://www.w3.org/2000/svg";
// The same for what is drawn.
export function svg(tag, attributes = {}, ...inside) {
  const node = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  node.append(...inside);
  return node;
}

// "{tokens} tokens" with {tokens: 3} -> "3 tokens"
export const fill = (template, values) => template.replace(/\{(\w+)\}/g, (whole, name) => values[name] ?? whole);

// What to do with a mouse and its keys, or where there is none, with a finger: words.help, words.help_touch.
export const touch = () => matchMedia("(hover: none)").matches;
export const hint = (words, name) => (touch() && words[`${name}_touch`]) || words[name];

// Show or hide a part with the room that Gradio leaves around it. (`:has()` with an attribute would do the same in CSS,
// and would have the browser look at all that a figure stands in whenever a label of it is drawn.)
export function showBlock(root, shown) {
  root.hidden = !shown;
  root.closest(".block")?.toggleAttribute("data-gone", !shown);
}

// Arrow keys move the focus among buttons of which one at a time can be reached by Tab.
export function roving(container, step) {
  container.addEventListener("focusin", ({ target }) => {
    if (!target.matches("button[data-index]")) return;
    for (const other of container.querySelectorAll('button[data-index][tabindex="0"]')) other.tabIndex = -1;
    target.tabIndex = 0;
  });
  container.addEventListener("keydown", (event) => {
    const buttons = [...container.querySelectorAll("button[data-index]")];
    const at = buttons.indexOf(document.activeElement);
    if (at < 0) return;
    const to = step(event.key, at, buttons.length);
    if (to === null || !buttons[to]) return;
    event.preventDefault();
    buttons[at].tabIndex = -1;
    buttons[to].tabIndex = 0;
    buttons[to].focus();
  });
}

// The steps of a row and of a column of buttons, for roving.
export const alongRow = (key, at, n) => ({ ArrowRight: at + 1, ArrowLeft: at - 1, Home: 0, End: n - 1 })[key] ?? null;
export const alongColumn = (key, at, n) => ({ ArrowDown: at + 1, ArrowUp: at - 1, Home: 0, End: n - 1 })[key] ?? null;

// Call `over` with a pointer or the focus on something within an element, `out` once it has left.
export function pointed(node, over, out) {
  node.addEventListener("mouseover", over);
  node.addEventListener("focusin", over);
  node.addEventListener("mouseleave", out);
  node.addEventListener("focusout", out);
}

// Call `act` whenever an element has another width, and once it has one.
export function onWidth(node, act) {
  let width = 0;
  new ResizeObserver(() => {
    if (node.clientWidth === width) return;
    width = node.clientWidth;
    act(width);
  }).observe(node);
}

// Scrolling moves elements below a pointer that rests; only a pointer that moves points at something.
let pointer = "";
const where = (event) => `${event.screenX} ${event.screenY}`;
document.addEventListener(
  "mousemove",
  (event) => {
    pointer = where(event);
  },
  { passive: true },
);
export const rests = (event) => event.type === "mouseover" && where(event) === pointer;
