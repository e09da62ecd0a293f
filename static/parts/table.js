// Tables: cells with marks and bars, row headers, sortable columns, and a sentence that states whether numbers agree.
import { el } from "../page/dom.js";
import { icon } from "./icons.js";

// Build a bar between two fractions of the cell's width; `look`: its class, `hue`: its color if not the default.
function barOf({ from = 0, to, look = "", hue = "" }) {
  const track = el("span", "pg-lab-bar", "", { "aria-hidden": "true" }),
    bar = el("i", look),
    within = (share) => Math.min(Math.max(share, 0), 1);
  bar.style.background = hue;
  bar.style.left = `${100 * within(from)}%`;
  bar.style.width = `${100 * (within(to) - within(from))}%`;
  track.append(bar);
  return track;
}

// Fill a cell with a text, an element, a list of both, or { text, inside, look, bar, help, ... }. Other entries become
// attributes; `bar`: a bar below the text, as a fraction from 0 to 1; `bars`: several, as for barOf.
function fillCell(node, cell) {
  if (cell instanceof Node) node.append(cell);
  else if (Array.isArray(cell)) node.append(...cell);
  else if (typeof cell !== "object" || cell === null) node.textContent = cell ?? "";
  else {
    const {
      text = "",
      inside = [],
      look = "",
      bar,
      bars = bar === undefined ? [] : [{ to: bar }],
      help,
      ...more
    } = cell;
    if (look) node.className = look;
    if (help) node.title = help;
    for (const [name, value] of Object.entries(more)) node.setAttribute(name, value);
    node.append(...(text === "" ? [] : [text]), ...[inside].flat());
    node.append(...bars.map(barOf));
  }
  return node;
}
const isCell = (cell) => cell instanceof Element && /^t[dh]$/.test(cell.localName);

// Build a row of cells. The first one is the row header, unless `named` is another index or -1. Cells may be elements.
export function rowOf(cells, { look = "", named = 0, ...attributes } = {}) {
  const row = el("tr", look, "", attributes);
  row.append(
    ...cells.map((cell, n) => {
      if (isCell(cell)) return cell;
      return fillCell(n === named ? el("th", "", "", { scope: "row" }) : el("td"), cell);
    }),
  );
  return row;
}

// Build a column header. `sort`: the action of its button; `sorted`: "ascending", "descending", "none" or undefined.
function columnOf(column) {
  if (column === null) return el("td"); // the empty header of a column of buttons
  const head = el("th", "", "", { scope: "col" });
  if (!column?.sort) return fillCell(head, column);
  const { text, sort, sortLabel, sortTitle, inside = [], ...more } = column,
    button = el("button", "pg-sort", text, { type: "button" });
  if (sortLabel) button.setAttribute("aria-label", sortLabel);
  if (sortTitle) button.title = sortTitle;
  button.append(...inside);
  button.onclick = sort;
  return fillCell(head, { ...more, inside: button });
}
export const headOf = (columns) => {
  const row = el("tr");
  row.append(...columns.map(columnOf));
  return row;
};

// Mark the column by which the rows are sorted: `is(head)` identifies it; `others`: the aria-sort of the other columns.
export function markSorted(heads, is, down, others = null) {
  for (const head of heads) {
    const said = is(head) ? (down ? "descending" : "ascending") : others;
    if (said) head.setAttribute("aria-sort", said);
    else head.removeAttribute("aria-sort");
  }
}

// Build a table. `columns`: cells as for rowOf, with { sort } if a click on the header sorts; `rows`: lists of cells,
// rows, or complete tbody elements; `named` as for rowOf; further entries become attributes.
export function tableOf({ look = "", columns = null, rows = [], caption = null, named = 0, ...attributes }) {
  const grid = el("table", look, "", attributes),
    body = el("tbody");
  if (caption !== null) grid.append(fillCell(el("caption"), caption));
  if (columns) {
    const top = el("thead");
    top.append(headOf(columns));
    grid.append(top);
  }
  const made = rows.map((row) => (Array.isArray(row) ? rowOf(row, { named }) : row));
  if (made[0]?.localName === "tbody") grid.append(...made);
  else {
    body.append(...made);
    grid.append(body);
  }
  return grid;
}

// Build a sentence that states whether numbers agree, with a check mark if they do. `look`: class of the view; `apart`:
// the icon if they differ.
export function verdictLine(same, inside, look = "pg-lab", apart = "") {
  const line = el("p", `${look}-${same ? "same" : "apart"}`),
    name = same ? "tick" : apart;
  if (name) {
    const sign = el("span");
    sign.append(icon(name), " ");
    line.append(sign);
  }
  line.append(...[inside].flat());
  return line;
}
