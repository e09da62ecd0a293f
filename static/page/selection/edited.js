// The line of edits: what is edited, the watched probability before and after, undo. The change is shown beside the
// button that made it, too.
//
// payload: { words, change: { text, help } or null }
import { cross, icon } from "../../parts/icons.js";
import { el, fill, showBlock } from "../dom.js";
import { define } from "../mount.js";
import { popup } from "../popup.js";
import { pageState } from "../state.js";
import { canUndo, undo } from "./history.js";
import { editsText, onEdits, onSelect, select, selection } from "./selection.js";

const MOST_CHIPS = 3; // more edits are folded into a list
let change = null, // the change of the present edits, null while it is computed
  latest = { edits: "[]", change: null },
  acting = null, // the button that is being clicked
  touched = null, // what was clicked or typed into last
  acted = null; // the button that made the latest change
const buttons = new WeakMap(); // element that shows the change beside a button -> the button

// Return the element beside a button that shows the change after a click on the button.
export function changeBeside(button) {
  const node = el("span", "pg-change", "", { role: "status" });
  button.addEventListener(
    "click",
    () => {
      acting = button;
      setTimeout(() => {
        acting = null;
      });
    },
    true,
  );
  buttons.set(node, button);
  return node;
}
function showChange() {
  for (const node of document.querySelectorAll(".pg-change")) {
    if (!buttons.has(node)) continue; // that of the line of edits
    const text = acted === buttons.get(node) && selection.edits.length ? change : null;
    node.textContent = text?.text ?? "";
    node.title = text?.help ?? "";
  }
}
onEdits((now) => {
  acted = acting;
  change = now === latest.edits ? latest.change : null;
  showChange();
});

// Keep what was clicked where it is while the line appears or grows: the page then scrolls by as much. Once the page is
// scrolled, the browser itself does that; in the frame, which holds the line, nothing moves.
for (const event of ["pointerdown", "keydown"])
  document.addEventListener(
    event,
    ({ target }) => {
      touched = target;
    },
    true,
  );
function keptInPlace(line) {
  let height = 0;
  new ResizeObserver(() => {
    const now = line.getBoundingClientRect().height,
      grown = now - height;
    height = now;
    if (grown > 0 && scrollY === 0 && touched && !touched.closest("#pg-frame"))
      scrollBy({ top: grown, behavior: "instant" });
  }).observe(line);
}

// Name all edits together: their number and, if they are alike, their kind.
function together(edits, words) {
  const alike = edits.every(({ kind, factor, key }) => kind === edits[0].kind && factor === edits[0].factor && !key),
    many = alike && pageState.editMany?.[edits[0].kind];
  return fill(many || words.several, { ...edits[0], n: edits.length });
}

define("edited", (root) => {
  const label = el("span", "pg-label"),
    chips = el("span", "pg-edits-chips"),
    several = el("button", "pg-button pg-edit pg-edits-open", "", { type: "button", "aria-haspopup": "dialog" }),
    list = el("ul", "pg-edits-list", "", { popover: "auto" }),
    told = el("span", "pg-change", "", { role: "status" }),
    back = el("button", "pg-button pg-quiet", "", { type: "button" }),
    remove = el("button", "pg-button pg-quiet", "", { type: "button" }),
    everywhere = el("span", "pg-muted pg-edits-everywhere");
  root.setAttribute("role", "group");
  root.append(label, chips, list, told, back, remove, everywhere);
  popup(several, list, { width: 280, opened: () => list.querySelector("button")?.focus() });
  back.onclick = undo;
  remove.onclick = () => select({ edits: [] });
  keptInPlace(document.getElementById("pg-edited"));
  let words = null,
    left = false, // true from the removal of the last edit until something else is selected
    place = "";

  const drop = (edit) => () => select({ edits: selection.edits.filter((other) => other !== edit) });
  const item = (edit, tag, look = "") => {
    const name = pageState.editName?.(edit) ?? edit.kind,
      node = el(tag, look, name);
    node.append(cross(`${words.remove}: ${name}`, drop(edit)));
    return node;
  };
  const paint = () => {
    if (!words) return;
    const { edits } = selection,
      n = edits.length;
    showBlock(root, n > 0 || left);
    remove.hidden = everywhere.hidden = n === 0;
    back.hidden = !canUndo();
    const folds = n > MOST_CHIPS;
    if (folds) {
      several.replaceChildren(together(edits, words), " ", icon("open"));
      list.replaceChildren(...edits.map((edit) => item(edit, "li")));
    } else if (list.matches(":popover-open")) list.hidePopover();
    chips.replaceChildren(...(folds ? [several] : edits.map((edit) => item(edit, "span", "pg-selected pg-edit"))));
    told.textContent = n ? (change?.text ?? "") : words.removed;
    told.title = change?.help ?? "";
  };
  const where = () => JSON.stringify([selection.heads, selection.tokens, selection.pair, selection.target]);
  onEdits((now) => {
    left = now === "[]";
    place = where();
  });
  onSelect(() => {
    if (left && where() !== place) left = false;
    paint();
  });
  return (payload) => {
    words = payload.words;
    change = payload.change;
    latest = { edits: editsText(), change };
    label.textContent = words.label;
    root.setAttribute("aria-label", words.label);
    back.textContent = words.undo;
    back.title = words.undo_help;
    remove.textContent = words.remove_all;
    everywhere.textContent = words.everywhere;
    paint();
    showChange();
  };
});
