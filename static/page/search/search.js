// A search over all that the page has: views by name and by the textbook's word, settings, strategies, lessons, terms,
// and what can be done. What it finds and how it ranks that (entries.js, ranking.js), is fetched when it is first opened.
import { named, open as openGlossary } from "../../guide/glossary.js";
import { allLessons, openLearn } from "../../guide/learn_item.js";
import { go } from "../address/places.js";
import { el, fill } from "../dom.js";
import { act, actions, openSetting, openStrategy } from "./ways.js";

const MOST = 40; // entries shown
let words = null,
  dialog = null,
  payloadOf = null;

// --- the entries ------------------------------------------------------------------------------------

const OPEN = {
  tab: go,
  view: go,
  strategy: openStrategy,
  action: act,
  term: openGlossary,
  lesson: openLearn,
  setting: openSetting,
  option: openSetting,
};

let fetched = null; // the two modules and what the server lists, kept once they are there
function fetchAll() {
  const listed = async () => {
    const answer = await fetch(`playground/search${location.search}`);
    if (!answer.ok) throw new Error(`the search: ${answer.status}`);
    return answer.json();
  };
  fetched ??= Promise.all([import("./ranking.js"), import("./entries.js"), listed()]).catch((error) => {
    fetched = null; // asked for again when the search is opened again
    throw error;
  });
  return fetched;
}

// --- the dialog -------------------------------------------------------------------------------------

function line(entry, via, n) {
  const item = el("li", "pg-search-item", "", { role: "option", id: `pg-search-${n}`, "data-kind": entry.kind });
  const name = el("span", "pg-search-name", entry.name),
    beside = [entry.term, via].filter(Boolean);
  name.append(...beside.map((text) => el("em", "", text)));
  item.dataset.target = entry.target;
  item.append(name, el("small", "", entry.where), el("span", "pg-search-about", entry.shown ?? entry.about ?? ""));
  return item;
}

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
    none = el("p", "pg-empty", "", { role: "status" }),
    keys = el("p", "pg-muted", words.keys);
  let entries = null,
    search = null,
    found = [],
    at = 0,
    hasty = false; // Enter was pressed before anything could be found
  const mark = () => {
    [...list.children].forEach((item, n) => item.setAttribute("aria-selected", n === at));
    const item = list.children[at];
    item?.scrollIntoView({ block: "nearest" });
    input.setAttribute("aria-activedescendant", item?.id ?? "");
  };
  const choose = (entry) => {
    box.close();
    if (entry) OPEN[entry.kind](...entry.way);
  };
  const filter = () => {
    if (!entries) return;
    const query = input.value.trim(),
      views = () => entries.filter(({ kind }) => kind === "view").map((entry) => ({ entry, via: "" })),
      { found: fitting, near } = query ? search(entries, query, MOST) : { found: views(), near: false };
    found = fitting.map(({ entry }) => entry);
    list.replaceChildren(
      ...fitting.map(({ entry, via }, n) => {
        const item = line(entry, via, n);
        item.onclick = () => choose(entry);
        return item;
      }),
    );
    none.hidden = !near;
    none.textContent = near ? fill(found.length ? words.nearest : words.none, { query }) : "";
    at = 0;
    mark();
  };
  input.oninput = filter;
  box.addEventListener("keydown", (event) => {
    event.stopPropagation();
    const to = { ArrowDown: at + 1, ArrowUp: at - 1 }[event.key];
    if (event.key === "Escape") box.close();
    else if (event.key === "Enter" && !event.isComposing) {
      if (entries) choose(found[at]);
      else hasty = true;
    } else if (to !== undefined && !event.isComposing) {
      at = Math.max(0, Math.min(found.length - 1, to));
      mark();
    } else return;
    event.preventDefault();
  });
  box.addEventListener("click", (event) => {
    if (event.target === box) box.close();
  });
  none.hidden = true;
  box.append(input, none, list, keys);
  return Object.assign(box, {
    fill(all, how) {
      entries = all;
      search = how;
      filter();
      if (hasty) choose(found[at]);
    },
    fail() {
      none.hidden = false;
      none.textContent = words.failed;
    },
    more(late) {
      entries.push(...late);
      if (input.value.trim()) filter();
    },
    input,
  });
}

export async function openSearch() {
  if (!payloadOf) return;
  const all = fetchAll(), // when somebody searches, not with the page
    lessons = allLessons().catch(() => null); // where the server cannot be reached
  dialog?.remove();
  const box = build();
  dialog = box;
  document.querySelector(".gradio-container").append(box);
  box.showModal();
  box.input.focus();
  try {
    const [{ search }, { entriesOf, lessonEntries }, listed] = await all;
    if (dialog !== box) return;
    const { groups } = payloadOf;
    box.fill(entriesOf({ groups, listed, terms: named(), actions: actions(words), words }), search);
    const path = await lessons;
    if (dialog === box && path) box.more(lessonEntries(path, listed));
  } catch (error) {
    console.warn(error);
    box.fail();
  }
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
