// A fold: everything beyond the three numbers and two texts is hidden until it is opened, except on a tall screen.
//
// payload of "folded": { label, parts: names of the parts that it shows and hides }
import { el } from "../../page/dom.js";
import { define } from "../../page/mount.js";
import { icon } from "../../parts/icons.js";

const roomy = () => innerHeight > 930; // pixels

// Build a fold around elements of one part.
export function fold(label, ...inside) {
  const node = el("details", "pg-more-fold");
  node.open = roomy();
  node.append(el("summary", "", label), ...inside);
  return node;
}

define("folded", (root) => {
  const button = el("button", "pg-more-button", "", { type: "button", "aria-expanded": `${roomy()}` });
  let parts = [],
    label = "";
  // The block of a part, or the row of columns that contains it.
  const blockOf = (name) => {
    const block = document.getElementById(`pg-${name}`);
    return block?.closest(".pg-columns") ?? block;
  };
  const show = () => {
    const open = button.getAttribute("aria-expanded") === "true";
    button.replaceChildren(icon(open ? "shut" : "open"), " ", label);
    for (const name of parts) blockOf(name)?.classList.toggle("pg-more-shut", !open);
  };
  button.onclick = () => {
    button.setAttribute("aria-expanded", button.getAttribute("aria-expanded") !== "true");
    show();
  };
  root.append(button);
  return (payload) => {
    ({ parts, label } = payload);
    show();
  };
});
