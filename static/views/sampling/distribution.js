// The distribution at one position: facts about it, and a table of the complete vocabulary.
import { el, fill } from "../../page/dom.js";
import { define } from "../../page/mount.js";
import { watchRow } from "../../page/selection/watched.js";
import { iconButton } from "../../parts/icons.js";
import { piece } from "../../parts/next_tokens.js";
import { headOf, markSorted, rowOf, tableOf } from "../../parts/table.js";
import { titled } from "../../parts/titled.js";

const PAUSE = 200; // milliseconds between searches while the user types

// Build facts from [name, before, after, meaning], with a single number if both are equal.
const pairs = (list, words) =>
  list.map(([name, before, after, help]) => {
    const item = el("span", "pg-shape-fact", "", { title: help }),
      both = el("b");
    if (before === after) both.append(before);
    else both.append(el("span", "pg-shape-before", before), el("i", "", "→", { "aria-label": words.then }), after);
    item.append(el("span", "pg-muted", name), both);
    return item;
  });

// payload: { title, facts, next { text, facts }, words, run }
define("shapefacts", (root) => {
  const facts = el("div", "pg-shape-facts"),
    next = el("div", "pg-shape-next"),
    show = titled(root, facts, next);
  return (payload) => {
    const { words } = payload,
      text = el("span", "pg-shape-next-text", payload.next.text);
    facts.replaceChildren(...pairs(payload.facts, words));
    next.replaceChildren(text, ...pairs(payload.next.facts, words));
    show(
      { ...payload, about: `${words.before} → ${words.then}`, file: "distribution-facts" },
      {
        note: payload.next.text,
        source: "",
        names: ["what", words.before, words.then],
        lines: [...payload.facts, ...payload.next.facts].map(([name, before, after]) => [name, before, after]),
      },
    );
  };
});

// payload: { title, note, columns [[key, name]], rows [{ id, text, out, rank, numbers, shares }], total, page, pages,
//   by, down, following, source, python, words, run, and, after a request for all rows: all, csv, file }
// value: { query, page, by, down ("yes"/"no"), all }
// Build the search field and page buttons of a long table. ask(change) is called with { query } or { page }.
function searchBar(ask) {
  const node = el("div", "pg-shape-bar"),
    find = el("label", "pg-shape-find"),
    label = el("span", "pg-muted"),
    search = el("input", "", "", { type: "search", spellcheck: "false", autocomplete: "off" }),
    total = el("span", "pg-muted", "", { role: "status" }),
    pager = el("span", "pg-shape-pager"),
    back = iconButton("back", "", () => ask({ page: at - 1 }), { look: "pg-button" }),
    on = iconButton("on", "", () => ask({ page: at + 1 }), { look: "pg-button" }),
    page = el("input", "", "", { type: "number", min: 1 }),
    of = el("span", "pg-muted");
  let timer = null,
    at = 0,
    pages = 1;
  find.append(label, search);
  pager.append(back, page, of, on);
  node.append(find, total, pager);
  search.oninput = () => {
    clearTimeout(timer);
    timer = setTimeout(() => ask({ query: search.value, page: 0 }), PAUSE);
  };
  page.onchange = () => ask({ page: Math.min(Math.max(Math.round(+page.value) || 1, 1), pages) - 1 });
  return {
    node,
    forget: () => clearTimeout(timer),
    show(payload, query) {
      const { words } = payload;
      ({ page: at, pages } = payload);
      if (document.activeElement !== search) search.value = query;
      label.textContent = words.search;
      search.placeholder = words.search_hint;
      search.title = words.search_help;
      total.textContent = payload.total;
      back.setAttribute("aria-label", words.previous);
      on.setAttribute("aria-label", words.following);
      page.setAttribute("aria-label", words.page);
      page.max = pages;
      page.value = at + 1;
      of.textContent = fill(words.of, { pages: pages.toLocaleString("en") });
      back.disabled = at === 0;
      on.disabled = at >= pages - 1;
    },
  };
}

// Build the row of a token: its numbers, the steps that keep it, and its probabilities.
function vocabularyRow(row, { words, following }) {
  const token = piece(el("span", "pg-shape-token", "", { title: row.text }), row.text),
    number = (text) => ({ look: "pg-number", text: text || "–" }),
    comes = row.id === following;
  const line = rowOf(
    [
      number(row.rank),
      [token, ...(comes ? [el("small", "", words.next)] : [])],
      number(String(row.id)),
      ...row.numbers.map(number),
      { look: "pg-number pg-shape-kept", text: row.out ? fill(words.out_by, { n: row.out }) : words.kept },
      ...row.shares.map(number),
    ],
    { look: [row.out && "pg-out", comes && "pg-shape-comes"].filter(Boolean).join(" "), named: 1 },
  );
  watchRow(line, line.children[1], row.id, row.text);
  return line;
}

define("shapetable", (root, props, send) => {
  const bar = searchBar((change) => ask(change)),
    frame = el("div", "pg-shape-scroll pg-shape-rows", "", { tabindex: 0, role: "group" }),
    grid = tableOf({ columns: [] }),
    [top, body] = grid.children,
    show = titled(root, bar.node, frame);
  let payload = null,
    columns = "",
    requested = null;
  frame.append(grid);

  const ask = (change) => {
    bar.forget();
    props.value = { ...props.value, ...change };
    send("select");
  };
  // Request all rows of the vocabulary from the server, because exported files contain them all.
  const everything = () =>
    new Promise((resolve) => {
      requested = { number: Date.now() % 1e9, resolve };
      ask({ all: requested.number });
    });
  // The first click sorts in decreasing order, or in increasing order for names, ranks and ids.
  const upward = new Set(["rank", "token", "id", "out"]);
  const sort = (key) =>
    ask({ by: key, down: (payload.by === key ? !payload.down : !upward.has(key)) ? "yes" : "no", page: 0 });
  const heading = ([key, text]) => ({
    text,
    look: key === "token" ? "" : "pg-number",
    "data-key": key,
    sort: () => sort(key),
    sortTitle: fill(payload.words.sort, { name: text }),
  });
  const draw = (next) => {
    payload = next;
    const { words, rows } = payload,
      names = JSON.stringify(payload.columns);
    bar.show(payload, props.value?.query ?? "");
    if (payload.table) {
      if (payload.all === requested?.number) requested.resolve(payload.table);
      requested = null;
      props.value = { ...props.value, all: 0 };
      delete payload.table;
    }
    if (names !== columns) top.replaceChildren(headOf(payload.columns.map(heading))); // otherwise the focus stays
    columns = names;
    markSorted(top.firstChild.children, (head) => head.dataset.key === payload.by, payload.down);
    frame.setAttribute("aria-label", payload.title);
    const none = [{ look: "pg-muted", text: words.none, colspan: payload.columns.length }];
    body.replaceChildren(
      ...(rows.length ? rows.map((row) => vocabularyRow(row, payload)) : [rowOf(none, { named: -1 })]),
    );
    show(payload, { all: everything });
  };
  draw.stateOf = ({ query, page, by, down }) => JSON.parse(JSON.stringify({ query, page, by, down })); // `all` is a download, never restored
  return draw;
});
