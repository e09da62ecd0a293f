// Example prompts for the loaded model, each with its text and a description of what it shows. A click makes an example
// the prompt; a second button also opens the view and settings that show the effect.
//
// payload: { label, title, show, items: [{ name, shows, text, place }] }; place: a state as in a link, or null.
import { enter, state } from "../address/address.js";
import { el, roving } from "../dom.js";
import { define } from "../mount.js";
import { popup } from "../popup.js";
import { focusPrompt, setPrompt } from "./prompt.js";

// Open an example in its view; settings that its state does not specify stay unchanged.
function showAt(text, { values = {}, ...place }) {
  const { values: held, ...now } = state(),
    { chat, ...kept } = held;
  const unpicked = { tokens: [], pair: null, edits: [], target: null, distractor: null };
  enter({ ...now, ...unpicked, ...place, prompt: text, values: { ...kept, ...values } });
}

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
  return ({ label, title, show, items }) => {
    button.textContent = label;
    list.setAttribute("aria-label", title);
    list.replaceChildren(
      el("p", "pg-muted", title),
      ...items.map(({ name, shows, text, place }, n) => {
        const item = el("button", "pg-example", "", { type: "button", "data-index": n });
        item.tabIndex = n ? -1 : 0;
        item.append(el("strong", "", name), el("span", "", shows), el("code", "", text));
        item.onclick = () => {
          close();
          setPrompt(text);
          focusPrompt();
        };
        if (!place) return item;
        const row = el("div", "pg-example-row"),
          way = el("button", "pg-button", show, { type: "button", "data-index": n, "aria-label": `${show}: ${name}` });
        way.tabIndex = -1;
        way.onclick = () => {
          close();
          showAt(text, place);
        };
        row.append(item, way);
        return row;
      }),
    );
  };
});
