// A search over all that the page has: views by question and by the textbook's word, lessons, terms, and what can be done.
import { named, open as openGlossary } from "../guide/glossary.js";
import { allLessons, openLearn } from "../guide/learn_item.js";
import { go } from "./address/places.js";
import { el, fill } from "./dom.js";

const MOST = 40; // entries shown
let entries = [],
  words = null,
  dialog = null;

// How well an entry fits what is looked for, 0 where not at all: every word has to be in it; its name counts most.
export function fit({ name, term = "", about = "" }, query) {
  const wanted = query.toLowerCase().split(/\s+/).filter(Boolean);
  const fields = [
    [name.toLowerCase(), 3],
    [term.toLowerCase(), 3],
    [about.toLowerCase(), 1],
  ];
  let total = 0;
  for (const word of wanted) {
    const score = Math.max(
      ...fields.map(([text, weight]) => {
        const at = text.indexOf(word);
        if (at < 0) return 0;
        const begins = at === 0 || /[^\p{L}\p{N}]/u.test(text[at - 1]);
        return weight * (text === query.toLowerCase().trim() ? 4 : at === 0 ? 2 : begins ? 1.5 : 1);
      }),
    );
    if (!score) return 0;
    total += score;
  }
  return total || 1;
}

// The page's actions: its own controls, by the name they have on the page.
function actions() {
  const controls = document.querySelectorAll(
    ".pg-header-items button:not(.pg-cross), .pg-header-items a, #pg-examples > * button",
  );
  return [...controls]
    .filter((control) => !control.closest("[popover], [hidden]") && control.textContent.trim())
    .map((control) => ({
      kind: "action",
      name: control.textContent.trim(),
      about: control.title,
      act: () => control.click(),
    }));
}

// The lessons by what they are called and what one can do after them; nothing where the server cannot be reached.
async function lessons() {
  const listed = await allLessons().catch(() => null);
  return (listed?.lessons ?? []).map(({ key, title, goals, part }) => ({
    kind: "lesson",
    name: title,
    about: goals.join(" "),
    where: `${listed.words.title} › ${listed.words[`part_${part}`]}`,
    act: () => openLearn(key),
  }));
}

const collect = (payload) => [
  ...payload.views.map(({ tab, view, name, term, about }) => {
    const group = payload.groups.flatMap(({ tabs, label }) => tabs.map((each) => [label, each]));
    const [of, { label, question }] = group.find(([, each]) => each.key === tab);
    const where = of === label ? label : `${of} › ${label}`;
    return { kind: "view", name, term, about: `${about} ${question}`, shown: about, where, act: () => go(tab, view) };
  }),
  ...named().map(({ id, name, about }) => ({ kind: "term", name, about, act: () => openGlossary(id) })),
  ...actions(),
];

function build() {
  const box = el("dialog", "pg-search", "", { "aria-label": words.title, "data-part": "search", "data-drawn": "" });
  const input = el("input", "", "", {
    type: "search",
    placeholder: words.placeholder,
    "aria-label": words.title,
    role: "combobox",
    "aria-expanded": "true",
    "aria-controls": "pg-search-list",
    spellcheck: "false",
    autocomplete: "off",
  });
  const list = el("ul", "pg-search-list", "", { role: "listbox", id: "pg-search-list", "aria-label": words.title }),
    none = el("p", "pg-empty"),
    keys = el("p", "pg-muted", words.keys);
  let found = [],
    at = 0;
  const mark = () => {
    [...list.children].forEach((item, n) => item.setAttribute("aria-selected", n === at));
    const item = list.children[at];
    item?.scrollIntoView({ block: "nearest" });
    input.setAttribute("aria-activedescendant", item?.id ?? "");
  };
  const choose = (entry) => {
    box.close();
    entry?.act();
  };
  const filter = () => {
    found = entries
      .map((entry) => ({ entry, score: fit(entry, input.value) }))
      .filter(({ score, entry }) => score && (input.value.trim() || entry.kind === "view"))
      .sort((a, b) => b.score - a.score)
      .slice(0, input.value.trim() ? MOST : undefined)
      .map(({ entry }) => entry);
    list.replaceChildren(
      ...found.map((entry, n) => {
        const item = el("li", "pg-search-item", "", { role: "option", id: `pg-search-${n}`, "data-kind": entry.kind });
        const line = el("span", "pg-search-name", entry.name);
        if (entry.term) line.append(el("em", "", entry.term));
        item.append(
          line,
          el("small", "", entry.where ?? words[entry.kind]),
          el("span", "pg-search-about", entry.shown ?? entry.about),
        );
        item.onclick = () => choose(entry);
        return item;
      }),
    );
    none.textContent = fill(words.none, { text: input.value.trim() });
    none.hidden = found.length > 0;
    at = 0;
    mark();
  };
  input.oninput = filter;
  box.addEventListener("keydown", (event) => {
    event.stopPropagation();
    const to = { ArrowDown: at + 1, ArrowUp: at - 1 }[event.key];
    if (event.key === "Escape") box.close();
    else if (event.key === "Enter") choose(found[at]);
    else if (to !== undefined) {
      at = Math.max(0, Math.min(found.length - 1, to));
      mark();
    } else return;
    event.preventDefault();
  });
  box.addEventListener("click", (event) => {
    if (event.target === box) box.close();
  });
  box.append(input, list, none, keys);
  return Object.assign(box, {
    start() {
      input.value = "";
      filter();
      input.focus();
    },
    more() {
      if (input.value.trim()) filter();
    },
  });
}

let payloadOf = null;
export async function openSearch() {
  if (!payloadOf) return;
  entries = collect(payloadOf);
  dialog?.remove();
  const box = build();
  dialog = box;
  document.querySelector(".gradio-container").append(box);
  box.showModal();
  box.start();
  const found = await lessons(); // asked for when somebody searches, not with the page
  if (dialog !== box || !found.length) return;
  entries.push(...found);
  box.more();
}

// The button in the page's frame; Ctrl K does the same.
export function searchButton(payload) {
  payloadOf = payload;
  words = payload.search;
  const mac = /Mac|iPhone|iPad/.test(navigator.platform);
  const button = el("button", "pg-button pg-search-open", "", {
    type: "button",
    title: words.title,
    "aria-haspopup": "dialog",
    "aria-keyshortcuts": mac ? "Meta+K" : "Control+K",
  });
  button.append(el("span", "", words.open), el("kbd", "", mac ? "⌘K" : "Ctrl K", { "aria-hidden": "true" }));
  button.onclick = openSearch;
  return button;
}

document.addEventListener("keydown", (event) => {
  if (event.key.toLowerCase() !== "k" || !(event.ctrlKey || event.metaKey) || event.altKey || event.shiftKey) return;
  event.preventDefault();
  openSearch();
});
