// A row of buttons; exactly one of them is pressed.
import { el } from "../page/dom.js";

export function switcher(label, options, chosen, change) {
  const group = el("span", "pg-switch", "", { role: "group", "aria-label": label });
  options.forEach(([key, text]) => {
    const button = el("button", "", text, { type: "button", "aria-pressed": key === chosen });
    button.onclick = () => {
      for (const other of group.children) other.setAttribute("aria-pressed", other === button);
      change(key);
    };
    group.append(button);
  });
  return group;
}
