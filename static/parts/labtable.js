// Tables of measured or computed numbers, with a sentence that states whether they agree.
//
// payload of "labtable": { title, about, verdict, good, columns, rows, tables, check, same, run, file, source, note, python,
//   names, lines, json } or { absent }
//   verdict: sentences above the table, framed as a warning if `good` is false
//  rows: lists of texts; the first one names the row. A cell may be { text, help, small, head, token, bar, bars, look }:
//    smaller text after it, the [layer, head] that a click on it selects, the id of the token it shows (null for a token of
//    another model), a fraction from 0 to 1, or [{ from, to, look, hue }] as bars
//  tables: [{ caption, columns, rows }] side by side, instead of columns and rows
//  check: a sentence, with a check mark if `same` is true; names, lines: the export if it is not columns and rows;
//    json: facts that the JSON export has beside them
import { el } from "../page/dom.js";
import { define } from "../page/mount.js";
import { adding, pickHead } from "../page/selection/selection.js";
import { watchRow } from "../page/selection/watched.js";
import { rowOf, tableOf, verdictLine } from "./table.js";
import { titled } from "./titled.js";

const PROSE = 24; // minimum length of the longest cell for a column to be formatted as text, not numbers
const cellOf = (cell) => (typeof cell === "object" && cell !== null ? cell : { text: cell ?? "" });
const isProse = (rows, column) => rows.some((row) => String(cellOf(row[column]).text ?? "").length >= PROSE);

// Build the button that selects a head.
function headButton(text, [layer, head]) {
  const button = el("button", "pg-card-head", text, { type: "button" });
  button.onclick = (event) => pickHead(layer, head, adding(event));
  return button;
}

function shown({ token, small, head, ...cell }, prose) {
  const said = { look: prose, ...cell };
  if (head) return { ...said, text: "", inside: headButton(cell.text, head) };
  if (small) said.inside = el("small", "", small);
  if (token === undefined) return said;
  const { text } = cell;
  return {
    ...said,
    text: "",
    inside: el("span", "pg-effect-token", text),
    help: token === null ? text : `${text} (${token})`,
  };
}

function gridOf({ caption, columns, rows }) {
  const prose = columns?.map((_, n) => (n && isProse(rows, n) ? "pg-lab-prose" : "")) ?? [];
  const line = (given) => {
    const cells = given.map(cellOf),
      row = rowOf(cells.map((cell, n) => shown(cell, prose[n]))),
      at = cells.findIndex(({ token }) => Number.isInteger(token));
    if (at >= 0) watchRow(row, row.children[at], cells[at].token, cells[at].text);
    return row;
  };
  const heads = columns?.map((each, n) => shown(cellOf(each), prose[n]));
  return tableOf({ look: "pg-lab-table", caption, columns: heads, rows: rows.map(line) });
}

define("labtable", (root) => {
  const verdict = el("div", "pg-lab-verdict"),
    scroll = el("div", "pg-lab-scroll", "", { tabindex: 0, role: "group" }),
    check = el("div");
  let show = null; // created when first drawn, so that the part takes no space while it waits for its numbers
  return (payload) => {
    root.classList.toggle("pg-absent", Boolean(payload.absent));
    if (payload.absent) return;
    show ??= titled(root, verdict, scroll, check);
    const { title, tables = [payload], verdict: told = [] } = payload;
    verdict.hidden = !told.length;
    verdict.classList.toggle("pg-lab-bad", !payload.good);
    verdict.replaceChildren(...told.map((text, at) => el(at ? "p" : "strong", "", text)));
    scroll.setAttribute("aria-label", title);
    scroll.classList.toggle("pg-lab-beside", tables.length > 1);
    scroll.replaceChildren(...tables.map(gridOf));
    check.replaceChildren(...(payload.check ? [verdictLine(payload.same, payload.check)] : []));
    const names = payload.names ?? payload.columns,
      lines = payload.lines ?? payload.rows.map((row) => row.map((cell) => cellOf(cell).text));
    const facts = payload.json ? { json: { ...payload.json, columns: names, rows: lines } } : {};
    show(payload, { note: payload.note ?? payload.about, names, lines, ...facts });
  };
});
