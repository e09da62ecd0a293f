// Small widgets shared by the parts of the effects tab.
import { el } from "../../page/dom.js";

export const labeled = (text, input, name) => {
  const field = el("label", "pg-control");
  if (name) field.dataset.name = name;
  field.append(el("span", "pg-control-label", text), input);
  return field;
};
export const button = (text, action, className = "") => {
  const node = el("button", `pg-button ${className}`.trim(), text, { type: "button" });
  node.onclick = action;
  return node;
};
export const choices = (options, value) => {
  const node = el("select");
  for (const [key, text] of options) node.append(new Option(text, key, false, String(key) === String(value)));
  return node;
};
export const numbered = (n) => Array.from({ length: n }, (_, i) => [i, i]);
export const same = (a, b) => JSON.stringify(a) === JSON.stringify(b);
