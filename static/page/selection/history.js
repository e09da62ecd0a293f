// The history of the edits: a button or Ctrl Z undoes the last change, on every tab.
import { isTyping } from "../dom.js";
import { onEdits, select, selection } from "./selection.js";

const before = []; // earlier edits as text, the latest last
let of = selection.of,
  undoing = false;

onEdits((now, was) => {
  if (selection.of !== of && of !== null)
    before.length = 0; // edits of another model cannot be undone
  else if (!undoing) before.push(was);
  of = selection.of;
});

export const canUndo = () => before.length > 0;
export function undo() {
  if (!before.length) return;
  undoing = true; // the undo itself is not recorded
  select({ edits: JSON.parse(before.pop()) });
  undoing = false;
}

document.addEventListener("keydown", (event) => {
  if (event.key !== "z" || !(event.ctrlKey || event.metaKey) || event.shiftKey || event.altKey) return;
  if (!before.length || isTyping()) return;
  event.preventDefault();
  undo();
});
