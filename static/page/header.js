// The page's head: its title, the model that is loaded, and the controls that others put there.
import { addressIn } from "./address.js";
import { el } from "./dom.js";
import { headerItems } from "./header_items.js";
import { define } from "./mount.js";
import { pageState } from "./state.js";

define("header", (root) => (payload) => {
  const title = el("h1", "", payload.title);
  const status = el("p", "pg-status", "", { "aria-live": "polite" });
  for (const part of payload.status) status.append(el("span", "", part));
  const language = el("a", "pg-language", payload.language.text);
  // The state in the address comes along; it may change at any time.
  const aim = () => {
    language.href = addressIn(payload.language.code);
  };
  language.onpointerdown = language.onfocus = language.onclick = aim;
  aim();
  const items = el("div", "pg-header-items");
  items.append(...headerItems(payload.words), language);
  pageState.slow = payload.slow;
  root.replaceChildren(title, el("p", "pg-tagline", payload.tagline), status, items);
});
