// What is to be known, as terms with their texts.
//
// payload of "normfacts": { title, about, items [[what, text]], below, exported }
//   title: may be missing; below: a sentence; exported: what a file says and is called, where it is not "facts"
import { el } from "../page/dom.js";
import { define } from "../page/mount.js";
import { titled } from "./titled.js";

export function factList(items, look = "") {
  const list = el("dl", `pg-norm-facts${look && ` ${look}`}`);
  for (const [what, text] of items) {
    const item = el("div");
    item.append(el("dt", "", what), el("dd", "", text));
    list.append(item);
  }
  return list;
}

define("normfacts", (root) => {
  const box = el("div"),
    note = el("p", "pg-about");
  let show = null; // made at the first drawing: what waits for its numbers has no room on the page
  return (payload) => {
    show ??= titled(root, box, note);
    box.replaceChildren(factList(payload.items));
    note.textContent = payload.below ?? "";
    note.hidden = !payload.below;
    const taken = { file: "facts", names: ["what", "value"], lines: payload.items, ...payload.exported };
    show({ ...payload, source: "", python: "" }, taken);
  };
});
