// DOM helpers for creating elements and moving the focus. Text from users and models is only set via `textContent`.

export function el(tag, className = "", text = "", attributes = {}) {
  const node = document.createElement(tag);
  if (className) node.className = className;
  if (text) node.textContent = text;
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  return node;
}

const SVG = "http://www.w3.org/2000/svg";
// Create an SVG element.
export function svg(tag, attributes = {}, ...inside) {
  const node = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  node.append(...inside);
  return node;
}

// "{tokens} tokens" with {tokens: 3} -> "3 tokens"
export const fill = (template, values) => template.replace(/\{(\w+)\}/g, (whole, name) => values[name] ?? whole);

// Return the help text: words.help for a mouse and a keyboard, words.help_touch for touch.
export const touch = () => matchMedia("(hover: none)").matches;
export const hint = (words, name) => (touch() && words[`${name}_touch`]) || words[name];

// Show or hide a part together with the padding that Gradio adds around it. (CSS could do this with `:has()` and an
// attribute selector, but the browser would then check all ancestors of a figure whenever one of its labels is drawn.)
export function showBlock(root, shown) {
  root.hidden = !shown;
  root.closest(".block")?.toggleAttribute("data-gone", !shown);
}

// Move the focus with arrow keys among buttons; one button at a time is in the Tab order.
export function roving(container, step) {
  container.addEventListener("focusin", ({ target }) => {
    if (!target.matches("button[data-index]")) return;
    for (const other of container.querySelectorAll('button[data-index][tabindex="0"]')) other.tabIndex = -1;
    target.tabIndex = 0;
  });
  container.addEventListener("keydown", (event) => {
    const buttons = [...container.querySelectorAll("button[data-index]:not([hidden])")];
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

// The steps of the arrow keys in a row and in a column of buttons, for a roving focus.
export const alongRow = (key, at, n) => ({ ArrowRight: at + 1, ArrowLeft: at - 1, Home: 0, End: n - 1 })[key] ?? null;
export const alongColumn = (key, at, n) => ({ ArrowDown: at + 1, ArrowUp: at - 1, Home: 0, End: n - 1 })[key] ?? null;

// Call `over` when the pointer or focus enters an element, `out` when it leaves.
export function pointed(node, over, out) {
  node.addEventListener("mouseover", over);
  node.addEventListener("focusin", over);
  node.addEventListener("mouseleave", out);
  node.addEventListener("focusout", out);
}

// Call `act` whenever the width of an element changes, including the first measurement.
export function onWidth(node, act) {
  let width = 0;
  new ResizeObserver(() => {
    if (node.clientWidth === width) return;
    width = node.clientWidth;
    act(width);
  }).observe(node);
}

const TEXT = "textarea, select, [contenteditable], input:not([type=range], [type=checkbox], [type=radio])";
// Whether keys are text at the moment, rather than the page's shortcuts.
export const isTyping = () => Boolean(document.activeElement?.matches(TEXT));

// Scrolling moves elements under a resting pointer, so only a movement of the pointer counts as hovering.
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
