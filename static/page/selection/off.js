// Heads that are switched off: one mark for all lists and grids, and the button that switches heads off and on.
import { el, fill } from "../dom.js";
import { onDrawn } from "../mount.js";
import { pageState } from "../state.js";
import { changeBeside } from "./edited.js";
import { onEdits, onSelect, select, selection } from "./selection.js";

const MOST_EDITS = 64;
const same = ([a, b], [c, d]) => a === c && b === d;

export const isOff = (head) =>
  selection.edits.some((edit) => edit.kind === "zero" && same([edit.layer, edit.head], head));

// The heads whose outputs are zero, [[layer, head]].
export const headsOff = () =>
  selection.edits
    .filter(({ kind, head }) => kind === "zero" && head !== undefined)
    .map(({ layer, head }) => [layer, head]);

// Ablate each of these heads, replacing other edits of their outputs.
export function switchedOff(edits, heads, sites) {
  const here = ({ kind, layer, head }) => sites[kind] === "z" && heads.some((each) => same(each, [layer, head]));
  return [...edits.filter((edit) => !here(edit)), ...heads.map(([layer, head]) => ({ kind: "zero", layer, head }))];
}
const switchedOn = (edits, heads) =>
  edits.filter((edit) => edit.kind !== "zero" || !heads.some((each) => same(each, [edit.layer, edit.head])));
// Return the edits with these heads ablated, or without those ablations if all of them are.
export const switched = (heads) =>
  heads.length > 0 && heads.every(isOff)
    ? switchedOn(selection.edits, heads)
    : switchedOff(selection.edits, heads, pageState.editSites ?? {});

export const canSwitch = (heads) => heads.length > 0 && switched(heads).length <= MOST_EDITS;
export const tooMany = () => fill(pageState.words?.heads_many ?? "", { most: MOST_EDITS });

// --- the mark ---

const saidOff = ([layer, head]) => fill(pageState.words?.is_off ?? "", { layer, head });
function paint(node) {
  const head = node.dataset.offOf.split(".").map(Number),
    off = isOff(head);
  node.classList.toggle("pg-off", off);
  if (node.dataset.called !== undefined) {
    node.setAttribute("aria-label", off ? `${node.dataset.called}, ${saidOff(head)}` : node.dataset.called);
    node.title = off ? saidOff(head) : node.dataset.titled;
  } else {
    node.hidden = !off;
    node.title = saidOff(head);
    node.setAttribute("aria-label", saidOff(head));
  }
}
// Return the mark of a head in a list, which is visible while the head is off.
export function offMark(layer, head) {
  const node = el("span", "pg-off-mark", "", { role: "img", "data-off-of": `${layer}.${head}` });
  paint(node);
  return node;
}
// Cross a head's button out while the head is off. The button has an aria-label.
export function crossedOut(button, layer, head) {
  const called = button.getAttribute("aria-label") ?? button.textContent;
  Object.assign(button.dataset, { offOf: `${layer}.${head}`, called, titled: button.title });
  paint(button);
  return button;
}
onEdits(() => document.querySelectorAll("[data-off-of]").forEach(paint));

// --- the button ---

// Build a button that switches all of `heads()` off, or on again if all are off; `beside`: the change is shown beside
// it. `off` and `on` are the names of its words, filled with the number of heads.
export function offButton(heads, { off, on, beside = true }) {
  const root = el("span", "pg-off-action"),
    button = el("button", "pg-button pg-quiet", "", { type: "button" });
  root.append(button, ...(beside ? [changeBeside(button)] : []));
  const allOff = () => heads().length > 0 && heads().every(isOff);
  const show = () => {
    const { words } = pageState,
      n = heads().length;
    if (!words) return;
    button.textContent = fill(words[allOff() ? on : off], { n });
    button.disabled = !canSwitch(heads());
    button.title = button.disabled && n ? tooMany() : words.heads_off_help;
  };
  button.addEventListener("click", () => select({ edits: switched(heads()) }));
  onSelect(show);
  // another language, or a model that cannot be edited
  onDrawn((part, payload) => {
    if (part.dataset.part === "header" && payload) root.hidden = payload.locked;
    if (part.dataset.part === "nav" && payload) show();
  });
  show();
  return { root, show };
}
