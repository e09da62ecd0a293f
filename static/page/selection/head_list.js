// Controls shared by all lists of heads: names from a probe run, and buttons to select or ablate all heads of a list.
import { el, fill } from "../dom.js";
import { onDrawn } from "../mount.js";
import { pageState } from "../state.js";
import { onSelect, select, selection } from "./selection.js";

const MOST_PICKED = 8, // maximum number of selected heads, each with its own hue
  MOST_EDITS = 64;
const same = ([a, b], [c, d]) => a === c && b === d;

// --- names ---

const fillNames = (node) => {
  const names = pageState.headNames?.[node.dataset.headNames] ?? [];
  node.replaceChildren(
    ...names.map(([text, score, hue]) => {
      const chip = el("span", "pg-name", text, { title: `${text} ${score}` });
      chip.style.setProperty("--pg-hue", hue);
      return chip;
    }),
  );
  node.hidden = !names.length;
};

// Return the name that a probe run gave to a head, if any.
export function headNames(layer, head) {
  const node = el("span", "pg-head-names", "", { "data-head-names": `${layer}.${head}` });
  fillNames(node);
  return node;
}

onDrawn((root, payload) => {
  if (root.dataset.part !== "header" || !payload?.head_names) return;
  pageState.headNames = payload.head_names;
  document.body.classList.toggle("pg-heads-named", Object.keys(payload.head_names).length > 0);
  document.querySelectorAll("[data-head-names]").forEach(fillNames);
});

// --- all heads of a list ---

// Ablate each of these heads, replacing other edits of their outputs.
export function switchedOff(edits, heads, sites) {
  const here = ({ kind, layer, head }) => sites[kind] === "z" && heads.some((each) => same(each, [layer, head]));
  return [...edits.filter((edit) => !here(edit)), ...heads.map(([layer, head]) => ({ kind: "zero", layer, head }))];
}
export const isOff = ([layer, head]) =>
  selection.edits.some((edit) => edit.kind === "zero" && same([edit.layer, edit.head], [layer, head]));

// Return the edits with these heads ablated, or without those ablations if all of them are.
export const switched = (edits, heads, sites) =>
  heads.every(isOff)
    ? edits.filter((edit) => edit.kind !== "zero" || !heads.some((each) => same(each, [edit.layer, edit.head])))
    : switchedOff(edits, heads, sites);

// Build two buttons for the heads of a list; show(heads) sets the list.
export function headActions() {
  const root = el("div", "pg-head-actions"),
    pick = el("button", "pg-button pg-quiet", "", { type: "button" }),
    off = el("button", "pg-button pg-quiet", "", { type: "button" });
  root.append(pick, off);
  let heads = [];
  const allOff = () => heads.length > 0 && heads.every(isOff);
  const paint = () => {
    const words = pageState.words,
      n = heads.length;
    root.hidden = !n || !words;
    if (root.hidden) return;
    const some = n > MOST_PICKED ? words.pick_some : words.pick_all;
    pick.textContent = fill(some, { n, most: MOST_PICKED });
    off.textContent = fill(allOff() ? words.heads_on : words.heads_off, { n });
    const next = allOff() ? [] : switchedOff(selection.edits, heads, pageState.editSites ?? {});
    off.disabled = next.length > MOST_EDITS;
    off.title = off.disabled ? fill(words.heads_many, { most: MOST_EDITS }) : words.heads_off_help;
  };
  pick.onclick = () => select({ heads: heads.slice(0, MOST_PICKED).reverse() }); // the last head is the main one
  off.onclick = () => select({ edits: switched(selection.edits, heads, pageState.editSites ?? {}) });
  onSelect(paint);
  return {
    root,
    show(next) {
      heads = next;
      paint();
    },
  };
}
