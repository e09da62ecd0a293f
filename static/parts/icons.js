// Icons drawn in the text color, without a font. The label of the button states the meaning.
import { el, svg } from "../page/dom.js";

const PATHS = {
  cross: "M4 4l8 8M12 4l-8 8",
  up: "M8 13.5v-11M4 6.5l4-4 4 4",
  down: "M8 2.5v11M4 9.5l4 4 4-4",
  left: "M13.5 8h-11M6.5 4l-4 4 4 4",
  right: "M2.5 8h11M9.5 4l4 4-4 4",
  back: "M10 3L5 8l5 5",
  on: "M6 3l5 5-5 5",
  swap: "M2 5.2h11M10.2 2.4L13 5.2 10.2 8M14 10.8H3M5.8 8L3 10.8l2.8 2.8",
  plus: "M8 3v10M3 8h10",
  minus: "M3 8h10",
  tick: "M2.8 8.6l3.4 3.4 7-8",
  bang: "M8 2.5v7.2M8 13v.1",
  same: "M3 6h10M3 10.4h10",
  apart: "M3 6h10M3 10.4h10M11 2.6L5 13.8",
  again: "M4.2 4.6A5 5 0 1 1 3 8.6M3.4 1.8l.6 3.2 3.2-.6",
  dots: "M3 8h.1M8 8h.1M13 8h.1",
  gap: "M8 3v.1M8 8v.1M8 13v.1",
  info: "M8 1.7a6.3 6.3 0 1 0 .1 0M8 7.4v3.8M8 4.7v.1",
  theme: "M8 1.7a6.3 6.3 0 1 0 .1 0M8 1.7v12.6M10.2 3v10M12.3 4.6v6.8",
  square: "M4.5 4.5h7v7h-7z",
  open: "M4 5.5h8L8 11z",
  shut: "M4 10.5h8L8 5z",
  play: "M4.5 2.5L13 8l-8.5 5.5z",
  pause: "M4 3h3v10H4zM9 3h3v10H9z",
};
const ROUND = { "stroke-linecap": "round", "stroke-linejoin": "round" };
const SOLID = new Set(["square", "open", "shut", "play", "pause"]);

export function icon(name) {
  const solid = SOLID.has(name),
    pen = solid ? { fill: "currentColor" } : { fill: "none", stroke: "currentColor", "stroke-width": 1.7, ...ROUND };
  const size = { viewBox: "0 0 16 16", width: "1em", height: "1em" };
  return svg("svg", { ...size, ...pen, class: "pg-icon", "aria-hidden": "true" }, svg("path", { d: PATHS[name] }));
}

// Build a button that shows only an icon; its label describes the action.
export function iconButton(name, label, act, { look = "pg-button pg-quiet", title = "", ...attributes } = {}) {
  const node = el("button", look, "", { type: "button", "aria-label": label, ...attributes });
  if (title) node.title = title;
  node.append(icon(name));
  node.onclick = act;
  return node;
}
// Build a cross-shaped button that removes or closes something.
export const cross = (label, act, { look = "", ...more } = {}) =>
  iconButton("cross", label, act, { look: `pg-cross${look && ` ${look}`}`, ...more });

// Put an icon before the content of an element.
export function withIcon(name, node) {
  node.prepend(icon(name), " ");
  return node;
}
export const tickedText = (tag, look, text) => withIcon("tick", el(tag, look, text));
