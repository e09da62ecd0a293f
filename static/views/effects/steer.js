// A vector: its effect, a button that makes it an edit, one that opens it as a steering vector, and files.
//
// payload: { title, told: [sentence], use, edit, open: { text, tab, view, form }, files: [{ text, file, data }] }; `edit`, `open`
//  and `files` may be missing; data: base64
import { save } from "../../export/files.js";
import { enter, state } from "../../page/address/address.js";
import { el } from "../../page/dom.js";
import { define } from "../../page/mount.js";
import { changeBeside } from "../../page/selection/edited.js";
import { onSelect, select, selection } from "../../page/selection/selection.js";
import { button, same } from "./widgets.js";

const MOST_EDITS = 64;

// Open a view with settings of its form; everything else stays unchanged.
function openWith({ tab, view, form }) {
  const { values, ...rest } = state();
  enter({ ...rest, tab, values: { ...values, [`${tab}_view`]: { view }, [`${view}_form`]: form } });
}
const bytes = (data) => Uint8Array.from(atob(data), (each) => each.charCodeAt(0));

define("steer", (root) => {
  const title = el("h2"),
    told = el("div"),
    buttons = el("div", "pg-buttons"),
    more = el("span", "pg-buttons");
  let edit = null;
  const others = () => selection.edits.filter(({ kind, name }) => kind !== edit.kind || name !== edit.name);
  const go = button("", () => edit && select({ edits: [...others(), edit] }), "pg-primary");
  buttons.append(go, changeBeside(go), more);
  root.append(title, told, buttons);
  const paint = () => {
    const there = edit && selection.edits.some((each) => same(each, edit));
    go.disabled = !edit || there || others().length >= MOST_EDITS;
  };
  onSelect(paint);
  return (payload) => {
    edit = payload.edit ?? null;
    title.textContent = payload.title;
    told.replaceChildren(...payload.told.map((text) => el("p", "pg-about", text)));
    go.textContent = payload.use ?? "";
    go.hidden = !edit;
    const { open, files = [] } = payload;
    more.replaceChildren(
      ...(open ? [button(open.text, () => openWith(open))] : []),
      ...files.map(({ text, file, data }) => button(text, () => save(file, new Blob([bytes(data)])))),
    );
    paint();
  };
});
