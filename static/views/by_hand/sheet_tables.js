// The small tables as input fields, with typing, pasting of blocks, arrow keys, and names of rows or columns.
import { el, fill } from "../../page/dom.js";
import { tableOf } from "../../parts/table.js";
import { block } from "./block.js";
import { setCell, setName } from "./sheet.js";
import { symbol } from "./symbols.js";

export const inputAt = (board, name, row, column) =>
  board.querySelector(`[data-table="${CSS.escape(name)}"][data-row="${row}"][data-column="${column}"]`);

// acts: typed() after an edit of a cell or name, paste(table, row, column, texts).
function cellInput(sheet, table, row, column, board, acts) {
  const label = { table: table.symbol, row: row + 1, column: column + 1 };
  const box = el("input", "", "", {
    type: "text",
    inputmode: "text",
    autocomplete: "off",
    spellcheck: "false",
    maxlength: 40,
    "data-table": table.name,
    "data-row": row,
    "data-column": column,
    "aria-label": fill(sheet.payload.words.cell, label),
  });
  const widen = () => {
    box.style.width = `max(62px, ${box.value.length + 2}ch)`;
  };
  box.value = sheet.cells.get(table.name)[row][column];
  widen();
  box.oninput = () => {
    widen();
    setCell(sheet, table.name, row, column, box.value);
    acts.typed();
  };
  box.onfocus = () => box.select();
  box.onpaste = (event) => {
    const rows = block(event.clipboardData.getData("text"));
    if (!rows) return;
    event.preventDefault();
    acts.paste(table, row, column, rows);
  };
  box.onkeydown = (event) => {
    const down = { ArrowDown: 1, Enter: 1, ArrowUp: -1 }[event.key],
      next = down && inputAt(board, table.name, row + down, column);
    if (!next) return;
    event.preventDefault();
    next.focus();
  };
  return box;
}

// Build the name of a row or column, which is editable in one of the tables.
function nameOf(sheet, at, editable, acts) {
  const text = sheet.names[at] ?? String(at + 1);
  if (!editable) return el("span", "", text);
  const box = el("input", "pg-hand-name", "", {
    type: "text",
    maxlength: 24,
    "aria-label": fill(sheet.payload.words.name, { n: at + 1 }),
  });
  box.value = text;
  box.oninput = () => {
    setName(sheet, at, box.value);
    acts.typed(false);
  };
  return box;
}

export function fillBoard(board, sheet, acts) {
  const { tables, named } = sheet.payload,
    owner = tables.find(({ rows, columns }) => rows === named || columns === named);
  board.replaceChildren(
    ...tables.map((table) => {
      const cells = sheet.cells.get(table.name),
        name = (at) => nameOf(sheet, at, table === owner, acts),
        leads = table.rows === named;
      return tableOf({
        look: "pg-hand-grid",
        caption: [symbol(table.symbol), el("span", "", ` ${table.about}`)],
        columns: table.columns === named ? [...(leads ? [null] : []), ...cells[0].map((_, at) => name(at))] : null,
        rows: cells.map((row, r) => [
          ...(leads ? [name(r)] : []),
          ...row.map((_, c) => cellInput(sheet, table, r, c, board, acts)),
        ]),
        named: leads ? 0 : -1,
      });
    }),
  );
}
