// Facts about the available models, and instructions for adding one. A click on a model runs the prompt on it.

import { iconButton } from "../../parts/icons.js";
import { enter, state } from "../address/address.js";
import { el, roving } from "../dom.js";
import { popup } from "../popup.js";

export function modelsButton({ label, title, items, add, families }) {
  const place = el("span", "pg-models"),
    button = iconButton("info", label, null, {
      look: "pg-button pg-models-open",
      title: label,
      "aria-haspopup": "dialog",
    }),
    list = el("div", "pg-examples-list", "", { popover: "auto", role: "dialog", "aria-label": title });
  const close = popup(button, list, { width: 460, opened: () => list.querySelector("button")?.focus() });
  list.append(
    el("p", "pg-muted", title),
    ...items.map(({ id, label: name, line, facts }, n) => {
      const item = el("button", "pg-example", "", { type: "button", "data-index": n });
      item.tabIndex = n ? -1 : 0;
      item.append(el("strong", "", name), el("span", "", line), el("span", "pg-muted", facts.join(" · ")));
      item.onclick = () => {
        close();
        const { heads, tokens, pair, edits, ...rest } = state();
        enter({ ...rest, model: id });
      };
      return item;
    }),
    ...[add, families].filter(Boolean).map((text) => el("p", "pg-muted pg-models-add", text)),
  );
  roving(list, (key, at, n) => ({ ArrowDown: at + 1, ArrowUp: at - 1, Home: 0, End: n - 1 })[key] ?? null);
  place.append(button, list);
  return place;
}
