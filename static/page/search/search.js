// The search over the whole page: views by name and technical term, settings, strategies, lessons, glossary terms and
// actions. The entries (finder.js) are loaded when the search is first opened.
import { el, fill } from "../dom.js";

const MOST = 40; // maximum number of entries shown
let words = null,
  dialog = null,
  payloadOf = null;

let fetched = null; // promise of the finder module and the server's entries, cached after loading
function fetchAll() {
  const listed = async () => {
    const answer = await fetch(`playground/search${location.search}`);
    if (!answer.ok) throw new Error(`the search: ${answer.status}`);
    return answer.json();
  };
  fetched ??= Promise.all([import("./finder.js"), listed()]).catch((error) => {
    fetched = null; // retry when the search is opened again
    throw error;
  });
  return fetched;
}

function line(entry, via, n) {
  const item = el("li", "pg-search-item", "", {
    role: "option",
    id: `pg-search-${n}`,
    "data-kind": entry.kind,
    "data-target": entry.target,
  });
  const name = el("span", "pg-search-name", entry.name);
  name.append(...[entry.term, via].filter(Boolean).map((text) => el("em", "", text)));
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
  let finder = null,
    found = [],
    at = 0,
    hasty = false; // true if Enter was pressed before the entries were loaded
  const mark = () => {
    [...list.children].forEach((item, n) => item.setAttribute("aria-selected", n === at));
    const item = list.children[at];
    item?.scrollIntoView({ block: "nearest" });
    input.setAttribute("aria-activedescendant", item?.id ?? "");
  };
  const choose = (entry) => {
    box.close();
    if (entry) finder.open(entry);
  };
  const filter = () => {
    if (!finder) return;
    const query = input.value.trim(),
      { found: fitting, near } = query ? finder.find(query, MOST) : { found: finder.views(), near: false };
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
    if (event.isComposing) return; // the key press belongs to an input method
    if (event.key === "Escape") box.close();
    else if (event.key === "Enter") {
      if (finder) choose(found[at]);
      else hasty = true;
    } else if (to !== undefined) {
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
    start() {
      input.focus();
    },
    async take(what) {
      finder = what;
      filter();
      if (hasty) choose(found[at]);
      else if ((await finder.lessons()) && input.value.trim() && at === 0) filter();
    },
    fail() {
      none.hidden = false;
      none.textContent = words.failed;
    },
  });
}

export async function openSearch() {
  if (!payloadOf) return;
  const asked = fetchAll();
  dialog?.remove();
  const box = build();
  dialog = box;
  document.querySelector(".gradio-container").append(box);
  box.showModal();
  box.start();
  try {
    const [{ finderOf }, listed] = await asked;
    if (dialog === box && box.open) await box.take(finderOf(listed, payloadOf.groups, words));
  } catch (error) {
    console.warn(error);
    box.fail();
  }
}

// The search button in the page's header; Ctrl K also opens the search.
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
