// A table of what was measured or worked out, with a sentence on whether the numbers agree.
//
// payload of "labtable": { title, about, columns, rows, check, same, run, file, source, note, python, lines }
//   rows: lists of texts, the first one names the row; a cell may be { text, help } or { text, bar } (a share from 0 to 1)
//   check: a sentence, with a tick where `same` is true; lines: the numbers for the exports where they differ from rows
import { exporting } from "../export/menu.js";
import { el } from "../page/dom.js";
import { define } from "../page/mount.js";

const PROSE = 24; // characters of the longest cell from which on a column is read as text, not compared as numbers
const textOf = (cell) => (typeof cell === "object" && cell !== null ? cell.text : cell);
const isProse = (rows, column) => rows.some((row) => String(textOf(row[column]) ?? "").length >= PROSE);

function fillCell(node, cell) {
  node.textContent = textOf(cell);
  if (cell?.help) node.title = cell.help;
  if (cell?.bar === undefined) return node;
  const bar = el("span", "pg-lab-bar", "", { "aria-hidden": "true" });
  bar.style.setProperty("--share", Math.min(Math.max(cell.bar, 0), 1));
  node.append(bar);
  return node;
}

define("labtable", (root) => (payload) => {
  const scroll = el("div", "pg-lab-scroll", "", { tabindex: 0, role: "group", "aria-label": payload.title });
  const grid = el("table", "pg-lab-table"),
    head = el("thead"),
    names = el("tr"),
    body = el("tbody");
  const looks = payload.columns.map((_, n) => (n && isProse(payload.rows, n) ? "pg-lab-prose" : ""));
  payload.columns.forEach((name, n) => {
    names.append(el("th", looks[n], name, { scope: "col" }));
  });
  head.append(names);
  for (const [first, ...rest] of payload.rows) {
    const line = el("tr");
    line.append(
      fillCell(el("th", "", "", { scope: "row" }), first),
      ...rest.map((cell, n) => fillCell(el("td", looks[n + 1]), cell)),
    );
    body.append(line);
  }
  grid.append(head, body);
  scroll.append(grid);
  const parts = [el("h2", "", payload.title), scroll];
  if (payload.about) parts.splice(1, 0, el("p", "pg-about", payload.about));
  if (payload.check) {
    const line = el("p", payload.same ? "pg-lab-same" : "pg-lab-apart");
    if (payload.same) line.append(el("span", "", "✓ ", { "aria-hidden": "true" }));
    line.append(payload.check);
    parts.push(line);
  }
  parts.push(
    exporting(root, {
      file: payload.file,
      title: payload.title,
      note: payload.note ?? payload.about,
      source: payload.source,
      python: payload.python,
      names: payload.columns,
      lines: payload.lines ?? payload.rows.map((row) => row.map(textOf)),
    }),
  );
  root.replaceChildren(...parts);
  root.dataset.run = payload.run;
});
