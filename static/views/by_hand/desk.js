// Small editable tables of numbers, with examples, sizes, pasting of blocks from a spreadsheet, and errors in cells.
//
// payload: { example, examples [[key, label]], tables [{ name, symbol, about, rows, columns, usual }], names, named,
//   dimensions [[key, label]], most, problems [[table, row, column, what, hint]], words };
//   rows, columns: the name of the dimension, "1" for a single one; usual: the example's cells; named: a dimension
// value: { example, tables: { name: [[text]] }, names: [text] }; tables and names default to those of the example
import { el, fill } from "../../page/dom.js";
import { define } from "../../page/mount.js";
import { iconButton } from "../../parts/icons.js";
import { newSheet, paste, resize, same, sheetValue, sizeOf, takeValue } from "./sheet.js";
import { fillBoard, inputAt } from "./sheet_tables.js";

const PAUSE = 150; // milliseconds between questions while the user types

// Build two buttons around a size, which call change(dimension, n) to set it.
function stepper(sheet, [dimension, text], change) {
  const { words, most } = sheet.payload,
    field = el("span", "pg-hand-size", "", { role: "group", "aria-label": text }),
    n = sizeOf(sheet, dimension);
  const button = (name, sign, to, said) => {
    const key = `${dimension}${sign}`,
      act = () => change(dimension, to, key),
      node = iconButton(name, fill(said, { name: text }), act, { "data-size": key });
    node.disabled = to < 1 || to > most;
    return node;
  };
  field.append(
    el("span", "pg-control-label", text),
    button("minus", "−", n - 1, words.less),
    el("output", "", String(n)),
    button("plus", "+", n + 1, words.more),
  );
  return field;
}

// Build the list of examples, the sizes, and the reset button.
function deskHead(sheet, start, change) {
  const { words, examples, example, dimensions } = sheet.payload,
    field = el("label", "pg-control"),
    list = el("select", "", "", { "data-name": "example" }),
    back = el("button", "pg-button pg-quiet", words.reset, { type: "button" });
  for (const [key, text] of examples) list.append(new Option(text, key, false, key === example));
  list.onchange = () => start(list.value);
  back.onclick = () => start(example);
  field.append(el("span", "pg-control-label", words.example), list);
  return [field, ...dimensions.map((each) => stepper(sheet, each, change)), back];
}

// Mark invalid cells, and list the errors with a link to each cell.
function markProblems(board, wrong, problems) {
  for (const box of board.querySelectorAll("[aria-invalid]")) {
    box.removeAttribute("aria-invalid");
    box.removeAttribute("title");
  }
  wrong.replaceChildren(
    ...problems.slice(0, 4).map(([name, row, column, what, hint]) => {
      const box = inputAt(board, name, row, column),
        line = el("li"),
        go = el("button", "pg-chip", `${name}[${row + 1}, ${column + 1}]`, { type: "button" });
      box?.setAttribute("aria-invalid", "true");
      if (box) box.title = `${what} ${hint}`;
      go.onclick = () => box?.focus();
      line.append(go, ` ${what} ${hint}`);
      return line;
    }),
  );
}

define("handdesk", (root, props, ask) => {
  const sheet = newSheet(),
    head = el("div", "pg-hand-head"),
    board = el("div", "pg-hand-tables"),
    told = el("p", "pg-hand-told", "", { role: "status" }),
    wrong = el("ul", "pg-hand-wrong");
  let timer = null;
  root.append(head, board, told, wrong);

  const tell = () => ask("select");
  const keep = (pause = 0) => {
    props.value = sheetValue(sheet);
    clearTimeout(timer);
    if (pause) timer = setTimeout(tell, pause);
    else tell();
  };
  const say = (text) => {
    told.textContent = text;
  };
  const acts = {
    typed(quietly = true) {
      if (quietly) say("");
      keep(PAUSE);
    },
    paste(table, row, column, rows) {
      const [what, values] = paste(sheet, table, row, column, rows);
      say(fill(sheet.payload.words[what], values));
      if (what !== "pasted") return;
      build();
      inputAt(board, table.name, row, column)?.focus();
      keep();
    },
  };
  const start = (example) => {
    sheet.spare = new Map();
    props.value = { example };
    say("");
    tell();
  };
  const change = (dimension, n, key) => {
    resize(sheet, dimension, n);
    build();
    root.querySelector(`[data-size="${CSS.escape(key)}"]`)?.focus();
    keep();
  };
  const build = () => {
    head.replaceChildren(...deskHead(sheet, start, change));
    fillBoard(board, sheet, acts);
    markProblems(board, wrong, sheet.payload.problems);
  };
  const draw = (next) => {
    const before = sheet.payload,
      typing = board.contains(document.activeElement) || head.contains(document.activeElement);
    sheet.payload = next;
    const mine = props.value?.example ?? next.examples[0][0];
    if (before && mine !== next.example) return; // the answer is outdated
    if (
      before?.example === next.example &&
      same(sheetValue(sheet), { example: next.example, ...props.value }) &&
      before.words.reset === next.words.reset
    )
      return markProblems(board, wrong, next.problems);
    takeValue(sheet, props.value ?? {});
    build();
    if (typing) head.querySelector("select")?.focus({ preventScroll: true });
  };
  // A link's value is asked about before there is a payload: it stays as it is.
  draw.stateOf = (sent) => (sent.tables || sent.names || sent.example !== sheet.payload?.examples[0][0] ? sent : {});
  return draw;
});
