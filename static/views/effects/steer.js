// A vector, its effect, and a button that makes it an edit.
//
// payload: { title, told, use, edit }
import { el } from "../../page/dom.js";
import { define } from "../../page/mount.js";
import { changeBeside } from "../../page/selection/edited.js";
import { onSelect, select, selection } from "../../page/selection/selection.js";
import { button, same } from "./widgets.js";

const MOST_EDITS = 64;

define("steer", (root) => {
  const title = el("h2"),
    told = el("p", "pg-about"),
    buttons = el("div", "pg-buttons");
  let edit = null;
  const others = () => selection.edits.filter(({ kind, name }) => kind !== edit.kind || name !== edit.name);
  const go = button("", () => edit && select({ edits: [...others(), edit] }), "pg-primary");
  buttons.append(go, changeBeside(go));
  root.append(title, told, buttons);
  const paint = () => {
    const there = edit && selection.edits.some((each) => same(each, edit));
    go.disabled = !edit || there || others().length >= MOST_EDITS;
  };
  onSelect(paint);
  return (payload) => {
    edit = payload.edit ?? null;
    title.textContent = payload.title;
    told.textContent = payload.told;
    go.textContent = payload.use;
    paint();
  };
});
