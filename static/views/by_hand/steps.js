// A calculation in steps: each step is a small table, each cell has its formula, and the effect of the last edit is
// highlighted.
//
// payload: { title, steps [{ name, symbol, title, formula, rows, columns, fresh, cells [[[text, exact, made]]] }], example,
//   words, source, file, python, latex, run }; made: texts, [step, row, column] and { sign, number }, see viz/views/by_hand/desk.py
import { el, fill } from "../../page/dom.js";
import { define } from "../../page/mount.js";
import { rowOf, tableOf } from "../../parts/table.js";
import { titled } from "../../parts/titled.js";
import { formula, formulaOf, symbol } from "./symbols.js";

const copyTo = async (text, status, words) => {
  try {
    await navigator.clipboard.writeText(text);
    status.textContent = words.copied;
  } catch {
    status.textContent = words.not_copied; // the clipboard requires https and permission
  }
};
// Format all steps for a spreadsheet, each below its symbol.
const asTable = ({ steps }) =>
  steps
    .map(({ symbol: sign, cells }) =>
      [sign, ...cells.map((row) => row.map(([text]) => text.replaceAll("−", "-")).join("\t"))].join("\n"),
    )
    .join("\n\n");

// Return the step before the last change if any of its cells had another number.
const wasIn = (before, step, row, column) => {
  const old = before?.find(({ name }) => name === step.name)?.cells[row]?.[column];
  return old && old[1] !== step.cells[row][column][1] ? old : null;
};

// Build a step's table. acts: was(step, row, column), choose(at, row, column, focus), move(event, at, row, column),
// current().
function stepTable(step, at, words, acts) {
  const cell = ([text], r, c) => {
    const old = acts.was(step, r, c),
      td = el("td", old ? "pg-hand-changed" : "", text, {
        role: "gridcell",
        tabindex: r || c ? -1 : 0,
        "data-at": `${at} ${r} ${c}`,
        "aria-selected": "false",
      });
    if (old) {
      td.title = fill(words.was, { old: old[0], text });
      td.setAttribute("aria-description", td.title);
    }
    td.onclick = () => acts.choose(at, r, c, true);
    td.onfocus = () => acts.current()?.join(" ") !== `${at} ${r} ${c}` && acts.choose(at, r, c, false);
    td.onkeydown = (event) => acts.move(event, at, r, c);
    return td;
  };
  const rows = step.cells.map((row, r) => {
    const fresh = step.fresh.includes(r);
    return rowOf(
      [
        ...(step.rows.length ? [step.rows[r]] : []),
        ...row.map((each, c) => cell(each, r, c)),
        ...(fresh ? [{ look: "pg-hand-new", text: words.fresh }] : []),
      ],
      { look: fresh ? "pg-hand-fresh" : "", role: "row" },
    );
  });
  const columns = step.columns.length ? [...(step.rows.length ? [null] : []), ...step.columns] : null,
    grid = tableOf({ look: "pg-hand-grid", role: "grid", "aria-label": `${step.symbol} ${step.title}`, columns, rows });
  grid.tHead?.rows[0].setAttribute("role", "row");
  return grid;
}
function stepCard(step, at, words, acts) {
  const item = el("li", "", "", { "data-step": step.name }),
    top = el("h3"),
    scroll = el("div", "pg-hand-scroll"),
    [high, wide] = [step.cells.length, step.cells[0].length];
  top.append(symbol(step.symbol), ` ${step.title}`, el("small", "pg-muted", `${high} × ${wide}`));
  scroll.append(stepTable(step, at, words, acts));
  item.append(top, formula(step.formula), scroll);
  return item;
}

// Build the export of the calculation, and buttons that copy it.
function takenOf(payload) {
  const { words: w, python, steps, latex } = payload,
    status = el("span", "pg-muted", "", { role: "status" }),
    plain = (text) => text.replaceAll("−", "-");
  const copying = [
    ["latex", () => latex],
    ["numpy", () => python],
    ["tsv", () => asTable(payload)],
  ].map(([name, text]) => {
    const node = el("button", "pg-button pg-quiet", w[name], { type: "button", "data-copy": name });
    node.onclick = () => copyTo(text(), status, w);
    return node;
  });
  const rows = ({ name, cells }) =>
    cells.flatMap((row, r) => row.map(([text, exact], c) => [name, r + 1, c + 1, plain(text), plain(exact)]));
  return {
    note: payload.title,
    names: [w.step, w.row, w.column, w.number, w.exact],
    lines: () => steps.flatMap(rows),
    extra: [...copying, status],
  };
}

// Keep the steps before the last change; consecutive edits of one cell count as one change.
function changeKeeper() {
  let before = null,
    typedIn = ""; // the cell whose edit made the last change
  // Another number of digits does not change the numbers, so earlier changes stay highlighted.
  const exact = (of) =>
    JSON.stringify(of?.steps.map(({ name, cells }) => [name, cells.map((row) => row.map((cell) => cell[1]))]));
  return {
    steps: () => before,
    // Process the payload that follows `payload`; returns false for another example.
    take(payload, next) {
      if (payload && payload.example !== next.example) {
        before = null;
        return false;
      }
      if (!payload || exact(payload) === exact(next)) return true;
      const { table, row, column } = document.activeElement?.dataset ?? {},
        here = table ? `${table} ${row} ${column}` : "";
      if (!here || here !== typedIn) before = payload.steps;
      if (here && here !== typedIn)
        document.activeElement.addEventListener("blur", () => {
          typedIn = "";
        });
      typedIn = here;
      return true;
    },
  };
}

define("handsteps", (root) => {
  const changes = el("p", "pg-hand-changes pg-muted", "", { role: "status" }),
    list = el("ol", "pg-hand-steps"),
    madeOf = el("div", "pg-hand-made", "", { "aria-live": "polite" }),
    keeper = changeKeeper(),
    show = titled(root, changes, list, madeOf);
  let payload = null,
    current = null; // [step, row, column] of the explained cell

  const cellAt = (step, row, column) => list.querySelector(`[data-at="${step} ${row} ${column}"]`);
  const was = (step, row, column) => wasIn(keeper.steps(), step, row, column);
  const typedAt = (name, row, column) =>
    root
      .closest("[data-screen]")
      ?.querySelector(`[data-table="${CSS.escape(name)}"][data-row="${row}"][data-column="${column}"]`);
  const explain = (at, row, column) => {
    const { steps, words: w } = payload,
      step = steps[at],
      [text, exact, made] = step.cells[row][column],
      old = was(step, row, column);
    for (const each of document.querySelectorAll(".pg-hand-from")) each.classList.remove("pg-hand-from");
    const [high, wide] = [step.cells.length, step.cells[0].length];
    const name = symbol(step.symbol, ...(high > 1 ? [row + 1] : []), ...(wide > 1 ? [column + 1] : []));
    const lines = [el("div"), el("div")];
    if (made.length) {
      const { signs, numbers, sources } = formulaOf(made, steps);
      lines[0].append(name, " = ", ...signs);
      lines[1].append("= ", ...numbers, " = ", el("b", "", text));
      for (const from of sources)
        (cellAt(from.at, from.row, from.column) ?? typedAt(steps[from.at].name, from.row, from.column))?.classList.add(
          "pg-hand-from",
        );
    } else lines[0].append(name, " = ", el("b", "", text), ` ${w.given}`);
    if (exact !== text) lines.push(el("div", "pg-muted", `${w.exactly} ${exact}`));
    if (old) lines.push(el("div", "pg-hand-was", fill(w.was, { old: old[0], text })));
    madeOf.replaceChildren(...lines);
  };
  const choose = (at, row, column, focus) => {
    const node = cellAt(at, row, column);
    if (!node) return;
    for (const each of list.querySelectorAll('[aria-selected="true"]')) each.setAttribute("aria-selected", "false");
    for (const each of node.closest("li").querySelectorAll('td[tabindex="0"]')) each.tabIndex = -1;
    node.tabIndex = 0;
    node.setAttribute("aria-selected", "true");
    current = [at, row, column];
    explain(at, row, column);
    if (focus) node.focus();
  };
  const move = (event, at, row, column) => {
    const { cells } = payload.steps[at];
    const to = {
      ArrowRight: [row, column + 1],
      ArrowLeft: [row, column - 1],
      ArrowDown: [row + 1, column],
      ArrowUp: [row - 1, column],
      Home: [row, 0],
      End: [row, cells[0].length - 1],
    }[event.key];
    if (!to || cells[to[0]]?.[to[1]] === undefined) return;
    event.preventDefault();
    choose(at, ...to, true);
  };
  const acts = { was, choose, move, current: () => current };
  return (next) => {
    if (!keeper.take(payload, next)) current = null;
    const held = list.contains(document.activeElement);
    payload = next;
    const { words: w } = payload,
      shown = payload.steps.map((step, at) => [step, at]).filter(([step]) => step.formula);
    list.replaceChildren(...shown.map(([step, at]) => stepCard(step, at, w, acts)));
    const n = list.querySelectorAll(".pg-hand-changed").length,
      all = list.querySelectorAll("td[data-at]").length;
    changes.textContent = keeper.steps() ? fill(w.changed, { n, all }) : w.hint;
    if (current && cellAt(...current)) choose(...current, held);
    else if (shown.length) choose(shown[0][1], 0, 0, false);
    show(payload, takenOf(payload));
  };
});
