// One position's distribution in numbers, step by step, and as a table of the whole vocabulary.
import { exporting } from "../../export/menu.js";
import { el, fill } from "../../page/dom.js";
import { define } from "../../page/mount.js";
import { watchRow } from "../../page/selection/watched.js";
import { piece } from "../../parts/next_tokens.js";

const PAUSE = 200; // milliseconds between two searches while someone types

// Facts [name, before, after, what it means]: one number where both are the same.
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
  const title = el("h2"),
    facts = el("div", "pg-shape-facts"),
    next = el("div", "pg-shape-next"),
    legend = el("p", "pg-muted"),
    foot = el("div");
  root.append(title, legend, facts, next, foot);
  return (payload) => {
    const { words } = payload,
      text = el("span", "pg-shape-next-text", payload.next.text);
    title.textContent = payload.title;
    legend.textContent = `${words.before} → ${words.then}`;
    facts.replaceChildren(...pairs(payload.facts, words));
    next.replaceChildren(text, ...pairs(payload.next.facts, words));
    foot.replaceChildren(
      exporting(root, {
        file: "distribution-facts",
        title: payload.title,
        note: payload.next.text,
        names: ["what", words.before, words.then],
        lines: [...payload.facts, ...payload.next.facts].map(([name, before, after]) => [name, before, after]),
      }),
    );
    root.dataset.run = payload.run;
  };
});

// payload: { title, note, rows [{ name, kind, kept, share, removed, entropy, choices }], words, run }
define("shapesteps", (root) => {
  const title = el("h2"),
    note = el("p", "pg-about"),
    frame = el("div", "pg-shape-scroll", "", { tabindex: 0, role: "group" }),
    foot = el("div");
  root.append(title, note, frame, foot);
  return (payload) => {
    const { words, rows } = payload,
      grid = el("table", "pg-shape-steps"),
      top = el("thead"),
      head = el("tr"),
      body = el("tbody");
    const columns = ["step", "left", "removed", "entropy", "choices"];
    head.append(...columns.map((name, n) => el("th", n ? "pg-number" : "", words[`column_${name}`], { scope: "col" })));
    for (const row of rows) {
      const line = el("tr", `pg-shape-${row.kind}`),
        left = el("td", "pg-number pg-shape-left"),
        bar = el("i", "", "", { "aria-hidden": "true" });
      bar.style.width = `${100 * row.share}%`;
      left.append(bar, el("span", "", row.kept));
      line.append(
        el("th", "", row.name, { scope: "row" }),
        left,
        ...[row.removed, row.entropy, row.choices].map((text) => el("td", "pg-number", text)),
      );
      body.append(line);
    }
    top.append(head);
    grid.append(top, body);
    title.textContent = payload.title;
    note.textContent = payload.note;
    frame.setAttribute("aria-label", payload.title);
    frame.replaceChildren(grid);
    foot.replaceChildren(
      exporting(root, {
        file: "distribution-steps",
        title: payload.title,
        note: payload.note,
        names: columns.map((name) => words[`column_${name}`]),
        lines: rows.map((row) => [row.name, row.kept, row.removed, row.entropy, row.choices]),
      }),
    );
    root.dataset.run = payload.run;
  };
});

// payload: { title, note, columns [[key, name]], rows [{ id, text, out, rank, numbers, shares }], total, page, pages,
//   by, down, following, source, python, words, run, and after a request for all rows all, csv, file }
// value: { query, page, by, down ("yes"/"no"), all }
define("shapetable", (root, props, trigger) => {
  const title = el("h2"),
    note = el("p", "pg-about"),
    bar = el("div", "pg-shape-bar");
  const search = el("input", "", "", { type: "search", spellcheck: "false", autocomplete: "off" }),
    total = el("span", "pg-muted", "", { role: "status" });
  const find = el("label", "pg-shape-find"),
    label = el("span", "pg-muted"),
    pager = el("span", "pg-shape-pager");
  const back = el("button", "pg-button", "‹", { type: "button" }),
    on = el("button", "pg-button", "›", { type: "button" });
  const page = el("input", "", "", { type: "number", min: 1 }),
    of = el("span", "pg-muted");
  const frame = el("div", "pg-shape-scroll pg-shape-rows", "", { tabindex: 0, role: "group" }),
    grid = el("table"),
    top = el("thead"),
    head = el("tr"),
    body = el("tbody");
  const foot = el("div");
  let payload = null,
    columns = "",
    timer = null,
    requested = null;
  top.append(head);
  grid.append(top, body);
  frame.append(grid);
  find.append(label, search);
  pager.append(back, page, of, on);
  bar.append(find, total, pager);
  root.append(title, note, bar, frame, foot);

  const ask = (change) => {
    clearTimeout(timer);
    props.value = { ...props.value, ...change };
    trigger("select", { index: 0, value: JSON.stringify(props.value) });
  };
  search.oninput = () => {
    clearTimeout(timer);
    timer = setTimeout(() => ask({ query: search.value, page: 0 }), PAUSE);
  };
  back.onclick = () => ask({ page: payload.page - 1 });
  on.onclick = () => ask({ page: payload.page + 1 });
  page.onchange = () => ask({ page: Math.min(Math.max(Math.round(+page.value) || 1, 1), payload.pages) - 1 });
  // Every row of the vocabulary, requested from the server; a file has all of them.
  const everything = () =>
    new Promise((resolve) => {
      requested = { number: Date.now() % 1e9, resolve };
      ask({ all: requested.number });
    });
  // A first click sorts so that most comes first; names, ranks and ids begin at their start.
  const upward = new Set(["rank", "token", "id", "out"]);
  const sort = (key) =>
    ask({ by: key, down: (payload.by === key ? !payload.down : !upward.has(key)) ? "yes" : "no", page: 0 });

  const heading = () => {
    const { words } = payload;
    head.replaceChildren(
      ...payload.columns.map(([key, name]) => {
        const cell = el("th", key === "token" ? "" : "pg-number", "", { scope: "col", "data-key": key });
        const button = el("button", "pg-shape-sort", name, { type: "button", title: fill(words.sort, { name }) });
        button.onclick = () => sort(key);
        cell.append(button);
        return cell;
      }),
    );
  };
  const lineOf = (row) => {
    const { words } = payload,
      line = el("tr", row.out ? "pg-out" : "");
    const name = el("th", "", "", { scope: "row" }),
      token = piece(el("span", "pg-shape-token", "", { title: row.text }), row.text);
    name.append(token);
    if (row.id === payload.following) {
      line.classList.add("pg-shape-comes");
      name.append(el("small", "", words.next));
    }
    watchRow(line, name, row.id, row.text);
    const cells = row.numbers.map((text) => el("td", "pg-number", text || "–"));
    const count = el("td", "pg-number pg-shape-kept", row.out ? fill(words.out_by, { n: row.out }) : words.kept);
    const shares = row.shares.map((text) => el("td", "pg-number", text || "–"));
    line.append(
      el("td", "pg-number", row.rank),
      name,
      el("td", "pg-number", String(row.id)),
      ...cells,
      count,
      ...shares,
    );
    return line;
  };
  const draw = (next) => {
    payload = next;
    if (document.activeElement !== search) search.value = props.value?.query ?? "";
    const { words } = payload,
      names = JSON.stringify(payload.columns);
    if (payload.table) {
      if (payload.all === requested?.number) requested.resolve(payload.table);
      requested = null;
      props.value = { ...props.value, all: 0 };
      delete payload.table;
    }
    title.textContent = payload.title;
    note.textContent = payload.note;
    label.textContent = words.search;
    search.placeholder = words.search_hint;
    search.title = words.search_help;
    total.textContent = payload.total;
    back.setAttribute("aria-label", words.previous);
    on.setAttribute("aria-label", words.following);
    page.setAttribute("aria-label", words.page);
    page.max = payload.pages;
    page.value = payload.page + 1;
    of.textContent = fill(words.of, { pages: payload.pages.toLocaleString("en") });
    back.disabled = payload.page === 0;
    on.disabled = payload.page >= payload.pages - 1;
    if (names !== columns) {
      columns = names;
      heading();
    } // else the focus stays
    for (const cell of head.children) {
      const here = cell.dataset.key === payload.by;
      if (here) cell.setAttribute("aria-sort", payload.down ? "descending" : "ascending");
      else cell.removeAttribute("aria-sort");
    }
    frame.setAttribute("aria-label", payload.title);
    const none = el("tr");
    none.append(el("td", "pg-muted", words.none, { colspan: payload.columns.length }));
    body.replaceChildren(...(payload.rows.length ? payload.rows.map(lineOf) : [none]));
    const { file, source, python } = payload;
    foot.replaceChildren(
      exporting(root, { file, source, python, title: payload.title, note: payload.note, all: everything }),
    );
    root.dataset.run = payload.run;
  };
  draw.stateOf = ({ query, page, by, down }) => JSON.parse(JSON.stringify({ query, page, by, down })); // all rows are a download: by a click only
  return draw;
});
