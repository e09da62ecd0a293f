// Static copies of figures, without interactive elements.
import { el } from "../page/dom.js";

const GONE =
  ".pg-export, .pg-no-export, .pg-button:not([aria-pressed]), [hidden], [popover], script, style, link, iframe, object, embed, template, datalist, noscript, base, meta";
const KEPT =
  /^(class|style|title|alt|src|width|height|dir|lang|open|scope|colspan|rowspan|role|start|value|max|min|data-[\w-]+|aria-(hidden|pressed|sort|current|label))$/;

const renamed = (node, tag) => {
  const replacement = document.createElement(tag);
  for (const { name, value } of [...node.attributes]) replacement.setAttribute(name, value);
  replacement.append(...node.childNodes);
  node.replaceWith(replacement);
  return replacement;
};
const isSvg = (node) => node.namespaceURI === "http://www.w3.org/2000/svg";
// Keep only presentational attributes: no event handlers and no addresses.
function strip(node) {
  for (const { name, value } of [...node.attributes]) {
    const address = /^(href|xlink:href|src|srcset|action|formaction|poster|ping)$/i.test(name);
    const fine = isSvg(node)
      ? !/^on/i.test(name) && (!address || /^(#|data:image\/)/.test(value))
      : KEPT.test(name) && (!address || value.startsWith("data:image/"));
    if (!fine) node.removeAttribute(name);
  }
}
const textOf = (field) => {
  if (field.type === "checkbox" || field.type === "radio") return field.checked ? "☑" : "☐";
  return field.matches("select") ? (field.selectedOptions[0]?.textContent ?? "") : field.value;
};

// Copy an element. `chart(node)` returns the replacement of a Plotly figure. If `dead`, buttons become <pg-button>
// elements, which look the same but cannot be pressed.
export function still(root, { chart, dead }) {
  const copy = root.cloneNode(true),
    originals = [...root.querySelectorAll("*")],
    copies = [...copy.querySelectorAll("*")];
  const later = [];
  originals.forEach((node, i) => {
    const twin = copies[i];
    const gone = node.closest(GONE);
    if (gone && gone !== root && root.contains(gone)) {
      if (gone === node) later.push(() => twin.remove());
      return;
    }
    if (node.parentElement?.closest(".pg-chart")) return;
    if (node.matches(".pg-chart")) later.push(() => twin.replaceWith(chart(node) ?? ""));
    else if (node.matches("canvas"))
      later.push(() => {
        if (!node.width || !node.height) return twin.remove();
        const image = el("img", node.className, "", {
          src: node.toDataURL(),
          alt: "",
          style: node.getAttribute("style") ?? "",
        });
        if (!image.style.width && node.clientWidth) image.style.width = `${node.clientWidth}px`;
        twin.replaceWith(image);
      });
    else if (node.matches("input, select, textarea"))
      later.push(() => twin.replaceWith(el("span", "pg-said", node.type === "range" ? "" : textOf(node))));
    else if (dead && node.matches("button"))
      later.push(() => {
        const text = twin.textContent
          ? twin.getAttribute("title")
          : (twin.getAttribute("title") ?? twin.getAttribute("aria-label"));
        const button = renamed(twin, "pg-button");
        button.removeAttribute("aria-label");
        if (text) button.title = text;
      });
    else if (node.matches("a, form, label")) later.push(() => renamed(twin, node.matches("form") ? "div" : "span"));
  });
  for (const step of later) step();
  for (const node of [copy, ...copy.querySelectorAll("*")]) strip(node);
  return copy;
}
