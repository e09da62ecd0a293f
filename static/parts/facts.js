// What is to be known, as terms with their texts.
//
// payload of "normfacts": { title, about, items [[what, text]] }
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
  const box = el("div");
  let show = null; // made at the first drawing: what waits for its numbers has no room on the page
  return (payload) => {
    show ??= titled(root, box);
    box.replaceChildren(factList(payload.items));
    show({ ...payload, source: "", python: "" }, { file: "facts", names: ["what", "value"], lines: payload.items });
  };
});
