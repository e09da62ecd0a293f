// Controls shared by all lists of heads: names from a probe run, the mark of heads that are off, and buttons to select or
// ablate all heads of a list.
import { el, fill } from "../dom.js";
import { onDrawn } from "../mount.js";
import { pageState } from "../state.js";
import { offButton, offMark } from "./off.js";
import { onSelect, select } from "./selection.js";

const MOST_PICKED = 8; // maximum number of selected heads, each with its own hue

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

// Return what a list tells about a head: the mark of one that is off, and the name that a probe run gave to it, if any.
export function headNames(layer, head) {
  const node = el("span", "pg-head-told"),
    names = el("span", "pg-head-names", "", { "data-head-names": `${layer}.${head}` });
  fillNames(names);
  node.append(offMark(layer, head), names);
  return node;
}

onDrawn((root, payload) => {
  if (root.dataset.part !== "header" || !payload?.head_names) return;
  pageState.headNames = payload.head_names;
  document.body.classList.toggle("pg-heads-named", Object.keys(payload.head_names).length > 0);
  document.querySelectorAll("[data-head-names]").forEach(fillNames);
});

// --- all heads of a list ---

// Build two buttons for the heads of a list; show(heads) sets the list.
export function headActions() {
  const root = el("div", "pg-head-actions"),
    pick = el("button", "pg-button pg-quiet", "", { type: "button" });
  let heads = [];
  const off = offButton(() => heads, { off: "heads_off", on: "heads_on" });
  root.append(pick, off.root);
  const paint = () => {
    const words = pageState.words,
      n = heads.length;
    root.hidden = !n || !words;
    if (root.hidden) return;
    const some = n > MOST_PICKED ? words.pick_some : words.pick_all;
    pick.textContent = fill(some, { n, most: MOST_PICKED });
    off.show();
  };
  pick.onclick = () => select({ heads: heads.slice(0, MOST_PICKED).reverse() }); // the last head is the main one
  onSelect(paint);
  return {
    root,
    show(next) {
      heads = next;
      paint();
    },
  };
}
