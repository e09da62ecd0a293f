// The page's head: its title, the model that is loaded, and the controls that others put there.
import { addressIn } from "./address.js";
import { el } from "./dom.js";
import { headerItems } from "./header_items.js";
import { define } from "./mount.js";
import { pageState } from "./state.js";

// The same page in another language. The state in the address comes along; it may change at any time.
function link({ code, text }) {
  const language = el("a", "pg-language", text, { lang: code, hreflang: code });
  const aim = () => {
    language.href = addressIn(code);
  };
  language.onpointerdown = language.onfocus = language.onclick = aim;
  aim();
  return language;
}

define("header", (root) => (payload) => {
  const title = el("h1", "", payload.title);
  const status = el("p", "pg-status", "", { "aria-live": "polite" });
  for (const part of payload.status) status.append(el("span", "", part));
  const items = el("div", "pg-header-items");
  items.append(...headerItems(payload.words), ...payload.languages.map(link));
  pageState.slow = payload.slow;
  pageState.words = payload.words;
  root.replaceChildren(title, el("p", "pg-tagline", payload.tagline), status, items);
});
