// The page's navigation: title, groups, the tabs of the open group, and controls on the right.
//
// payload: { title, groups: [{ key, label, tabs: [{ key, label, question }] }], languages, words, search,
//   models: { label, title, items: [{ id, label, line, facts }], add } }.

import { iconButton } from "../parts/icons.js";
import { addressIn } from "./address/address.js";
import { arrived, currentTab, go, onTab } from "./address/places.js";
import { el } from "./dom.js";
import { groupItems, headerItems } from "./header_items.js";
import { define } from "./mount.js";
import { modelsButton } from "./prompt/models.js";
import { searchButton } from "./search/search.js";
import { pageState } from "./state.js";

// Build the link to the page in another language. It includes the address's state, which can change at any time.
function link({ code, text }) {
  const language = el("a", "pg-language", text, { lang: code, hreflang: code });
  const aim = () => {
    language.href = addressIn(code);
  };
  language.onpointerdown = language.onfocus = language.onclick = aim;
  aim();
  return language;
}

define("nav", (root, props, ask) => {
  const title = el("h1", "pg-title"),
    row = el("nav", "pg-nav"),
    items = el("div", "pg-header-items"),
    open = () => more.setAttribute("aria-expanded", items.classList.toggle("pg-open")),
    more = iconButton("dots", "", open, { look: "pg-button pg-more", "aria-expanded": "false" });
  const search = el("span", "pg-search-place"),
    models = el("span", "pg-models-place");
  root.append(title, models, search, more, row, items);
  root.classList.add("pg-nav-root");
  let groups = [];
  const visited = new Map(); // group -> its most recently opened tab
  const paint = (tab) => {
    const open = groups.find(({ tabs }) => tabs.some(({ key }) => key === tab)) ?? groups[0];
    if (!open) return;
    visited.set(open.key, tab);
    for (const button of row.children) {
      const { group, tab: of } = button.dataset;
      if (button.matches(".pg-group")) button.setAttribute("aria-expanded", group === open.key);
      else button.hidden = group !== open.key;
      if (!of) continue;
      if (of === tab) button.setAttribute("aria-current", "page");
      else button.removeAttribute("aria-current");
    }
    row.querySelector("[aria-current]")?.scrollIntoView({ block: "nearest", inline: "nearest" });
  };
  // Every question sends the open tab in this value, so that no answer belongs to a previous tab.
  let asked = props.value?.tab;
  onTab((tab) => {
    paint(tab);
    props.value = { tab };
    if (tab === asked) return;
    asked = tab;
    ask("select");
  });
  // A group with a single tab opens that tab directly.
  const buttons = ({ key, label, tabs }) => {
    const only = tabs.length === 1 && tabs[0].key === key;
    const name = el("button", "pg-group", label, { type: "button", "data-group": key, title: tabs[0].question });
    if (only) {
      Object.assign(name.dataset, { tab: key });
      name.onclick = () => go(key);
      return [name];
    }
    name.title = tabs.map((tab) => `${tab.label}: ${tab.question}`).join("\n");
    name.onclick = () => go(visited.get(key) ?? tabs[0].key);
    const items = groupItems(key, pageState.words);
    for (const item of items) item.dataset.group = key;
    return [
      name,
      ...items,
      ...tabs.map((tab) => {
        const button = el("button", "pg-tab", tab.label, {
          type: "button",
          "data-group": key,
          "data-tab": tab.key,
          title: tab.question,
        });
        button.onclick = () => go(tab.key);
        return button;
      }),
    ];
  };
  return (payload) => {
    ({ groups } = payload);
    title.textContent = payload.title;
    pageState.words = payload.words;
    more.setAttribute("aria-label", payload.words.more);
    row.setAttribute("aria-label", payload.words.places);
    row.replaceChildren(...groups.flatMap(buttons));
    search.replaceChildren(searchButton(payload));
    models.replaceChildren(modelsButton(payload.models));
    items.replaceChildren(...headerItems(payload.words), ...payload.languages.map(link));
    requestAnimationFrame(() => document.getElementById("pg-first")?.remove());
    if (currentTab()) paint(currentTab());
    else arrived(groups[0].tabs[0].key);
  };
});
