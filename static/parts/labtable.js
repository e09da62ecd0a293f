// A table of what was measured or worked out, with a sentence on whether the numbers agree.
//
// payload of "labtable": { title, about, columns, rows, check, same, run, file, source, note, python, lines }
//   rows: lists of texts, the first one names the row; a cell may be { text, help } or { text, bar } (a share from 0 to 1)
//   check: a sentence, with a tick where `same` is true; lines: the numbers for the exports where they differ from rows
import { el } from "../page/dom.js";
import { define } from "../page/mount.js";
import { tableOf, verdictLine } from "./table.js";
import { titled } from "./titled.js";

const PROSE = 24; // characters of the longest cell from which on a column is read as text, not compared as numbers
const cellOf = (cell) => (typeof cell === "object" && cell !== null ? cell : { text: cell ?? "" });
const isProse = (rows, column) => rows.some((row) => String(cellOf(row[column]).text ?? "").length >= PROSE);

define("labtable", (root) => {
  const scroll = el("div", "pg-lab-scroll", "", { tabindex: 0, role: "group" }),
    check = el("div");
  let show = null; // made at the first drawing: a table that waits for its numbers has no room on the page
  return (payload) => {
    show ??= titled(root, scroll, check);
    const { columns, rows } = payload,
      looks = columns.map((_, n) => (n && isProse(rows, n) ? "pg-lab-prose" : "")),
      styled = (cell, n) => ({ ...cellOf(cell), look: looks[n] });
    scroll.setAttribute("aria-label", payload.title);
    scroll.replaceChildren(
      tableOf({ look: "pg-lab-table", columns: columns.map(styled), rows: rows.map((row) => row.map(styled)) }),
    );
    check.replaceChildren(...(payload.check ? [verdictLine(payload.same, payload.check)] : []));
    show(payload, {
      note: payload.note ?? payload.about,
      names: columns,
      lines: payload.lines ?? rows.map((row) => row.map((cell) => cellOf(cell).text)),
    });
  };
});
