// Prompts that show something on the model that is loaded: what each shows, and its text; a click makes it the prompt.
import { el, roving } from "./dom.js";
import { define } from "./mount.js";
import { popup } from "./popup.js";
import { focusPrompt, setPrompt } from "./prompt.js";

define("examples", (root) => {
  const button = el("button", "pg-button", "", { type: "button", "aria-haspopup": "dialog" });
  const list = el("div", "pg-examples-list", "", { popover: "auto", role: "dialog" });
  root.append(button, list);
  const close = popup(button, list, {
    width: 520,
    right: true,
    opened: () => list.querySelector("button")?.focus(),
  });
  roving(list, (key, at, n) => ({ ArrowDown: at + 1, ArrowUp: at - 1, Home: 0, End: n - 1 })[key] ?? null);
  return ({ label, title, items }) => {
    button.textContent = label;
    list.setAttribute("aria-label", title);
    list.replaceChildren(
      el("p", "pg-muted", title),
      ...items.map(({ name, shows, text }, n) => {
        const item = el("button", "pg-example", "", { type: "button", "data-index": n });
        item.tabIndex = n ? -1 : 0;
        item.append(el("strong", "", name), el("span", "", shows), el("code", "", text));
        item.onclick = () => {
          close();
          setPrompt(text);
          focusPrompt();
        };
        return item;
      }),
    );
  };
});
