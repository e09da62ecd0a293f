// Facts as a list of terms and their descriptions.
//
// payload of "normfacts": { title, about, items [[what, text]], below, exported }
//  title: optional; below: a sentence; exported: content and name of the exported file, if not "facts"
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
  let show = null; // created when first drawn, so that the part takes no space while it waits for its numbers
  return (payload) => {
    show ??= titled(root, box, note);
    box.replaceChildren(factList(payload.items));
    note.textContent = payload.below ?? "";
    note.hidden = !payload.below;
    const taken = { file: "facts", names: ["what", "value"], lines: payload.items, ...payload.exported };
    show({ ...payload, source: "", python: "" }, taken);
  };
});
