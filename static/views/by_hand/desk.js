// Small tables of numbers to type into: examples, sizes, cells, blocks from a spreadsheet, and what is wrong with a cell.
//
// payload: { example, examples [[key, label]], tables [{ name, symbol, about, rows, columns, usual }], names, named,
//   dimensions [[key, label]], most, problems [[table, row, column, what, hint]], words };
//   rows, columns: the dimension of each, "1" for a single one; usual: the example's cells; named: a dimension
// value: { example, tables: { name: [[text]] }, names: [text] }; without tables and names those of the example
import { el, fill } from "../../page/dom.js";
import { define } from "../../page/mount.js";
import { block } from "./block.js";
import { symbol } from "./symbols.js";

const PAUSE = 150; // milliseconds between two questions while someone types

define("handdesk", (root, props, trigger) => {
  let payload = null,
    timer = null,
    cells = new Map(), // name of a table -> [[text]]
    names = [],
    spare = new Map(); // what was cut off by a smaller size, by table
  const head = el("div", "pg-hand-head"),
    board = el("div", "pg-hand-tables"),
    told = el("p", "pg-hand-told", "", { role: "status" }),
    wrong = el("ul", "pg-hand-wrong");
  root.append(head, board, told, wrong);

  const same = (a, b) => JSON.stringify(a) === JSON.stringify(b);
  const usual = () => new Map(payload.tables.map((table) => [table.name, table.usual]));
  const value = () => {
    const of = { example: payload.example },
      own = Object.fromEntries([...cells].filter(([name, rows]) => !same(rows, usual().get(name))));
    if (Object.keys(own).length) of.tables = own;
    if (!same(names, payload.names)) of.names = names;
    return of;
  };
  const tell = () => trigger("select", { index: 0, value: JSON.stringify(props.value) });
  const keep = (pause = 0) => {
    props.value = value();
    clearTimeout(timer);
    if (pause) timer = setTimeout(tell, pause);
    else tell();
  };
  const size = (dimension) => {
    for (const { name, rows, columns } of payload.tables) {
      const now = cells.get(name);
      if (rows === dimension) return now.length;
      if (columns === dimension) return now[0].length;
    }
    return 0;
  };
  // Other sizes; numbers that do not fit any more come back with the size.
  const resize = (dimension, n) => {
    for (const { name, rows, columns } of payload.tables) {
      if (rows !== dimension && columns !== dimension) continue;
      const now = cells.get(name),
        kept = spare.get(name) ?? [];
      const high = rows === dimension ? n : now.length,
        wide = columns === dimension ? n : now[0].length;
      const all = [...Array(payload.most)].map((_, r) =>
        [...Array(payload.most)].map((_, c) => now[r]?.[c] ?? kept[r]?.[c]),
      );
      spare.set(name, all);
      cells.set(
        name,
        all.slice(0, high).map((row) => row.slice(0, wide).map((text) => text ?? "0")),
      );
    }
  };
  const input = (name, row, column) =>
    board.querySelector(`[data-table="${CSS.escape(name)}"][data-row="${row}"][data-column="${column}"]`);

  const paste = (table, row, column, rows) => {
    const { words: w, most } = payload,
      wide = Math.max(...rows.map((each) => each.length));
    if (rows.some((each) => each.length !== wide)) return say(fill(w.ragged, { n: wide }));
    const high = row + rows.length,
      across = column + wide,
      fits = (n, dimension) => n <= (dimension === "1" ? 1 : most);
    if (!fits(high, table.rows) || !fits(across, table.columns))
      return say(fill(w.too_large, { rows: rows.length, columns: wide, most }));
    if (high > size(table.rows)) resize(table.rows, high);
    if (across > cells.get(table.name)[0].length) resize(table.columns, across);
    const now = cells.get(table.name).map((line) => [...line]);
    for (const [r, line] of rows.entries()) for (const [c, text] of line.entries()) now[row + r][column + c] = text;
    cells.set(table.name, now);
    say(fill(w.pasted, { rows: rows.length, columns: wide }));
    build();
    input(table.name, row, column)?.focus();
    keep();
  };
  const say = (text) => {
    told.textContent = text;
  };

  const cell = (table, row, column, text) => {
    const { words: w } = payload,
      box = el("input", "", "", {
        type: "text",
        inputmode: "text",
        autocomplete: "off",
        spellcheck: "false",
        maxlength: 40,
        "data-table": table.name,
        "data-row": row,
        "data-column": column,
        "aria-label": fill(w.cell, { table: table.symbol, row: row + 1, column: column + 1 }),
      });
    const wide = () => {
      box.style.width = `max(62px, ${box.value.length + 2}ch)`;
    };
    box.value = text;
    wide();
    box.oninput = () => {
      wide();
      const now = cells.get(table.name).map((line) => [...line]);
      now[row][column] = box.value;
      cells.set(table.name, now);
      say("");
      keep(PAUSE);
    };
    box.onfocus = () => box.select();
    box.onpaste = (event) => {
      const rows = block(event.clipboardData.getData("text"));
      if (!rows) return;
      event.preventDefault();
      paste(table, row, column, rows);
    };
    box.onkeydown = (event) => {
      const down = { ArrowDown: 1, Enter: 1, ArrowUp: -1 }[event.key];
      const next = down && input(table.name, row + down, column);
      if (!next) return;
      event.preventDefault();
      next.focus();
    };
    return box;
  };
  const named = (dimension) => dimension === payload.named;
  const label = (at, editable) => {
    if (!editable) return el("span", "", names[at] ?? String(at + 1));
    const box = el("input", "pg-hand-name", "", {
      type: "text",
      maxlength: 24,
      "aria-label": fill(payload.words.name, { n: at + 1 }),
    });
    box.value = names[at] ?? String(at + 1);
    box.oninput = () => {
      names = [...Array(Math.max(names.length, at + 1))].map((_, n) =>
        n === at ? box.value : (names[n] ?? String(n + 1)),
      );
      keep(PAUSE);
    };
    return box;
  };
  const tableOf = (table, first) => {
    const rows = cells.get(table.name),
      grid = el("table", "pg-hand-grid"),
      name = el("caption");
    name.append(symbol(table.symbol), el("span", "", ` ${table.about}`));
    grid.append(name);
    if (named(table.columns)) {
      const line = el("tr");
      if (named(table.rows)) line.append(el("td"));
      rows[0].forEach((_, at) => {
        const th = el("th", "", "", { scope: "col" });
        th.append(label(at, first));
        line.append(th);
      });
      grid.append(line);
    }
    rows.forEach((row, r) => {
      const line = el("tr");
      if (named(table.rows)) {
        const th = el("th", "", "", { scope: "row" });
        th.append(label(r, first));
        line.append(th);
      }
      row.forEach((text, c) => {
        const td = el("td");
        td.append(cell(table, r, c, text));
        line.append(td);
      });
      grid.append(line);
    });
    return grid;
  };
  const stepper = ([dimension, text]) => {
    const { words: w } = payload,
      field = el("span", "pg-hand-size", "", { role: "group", "aria-label": text }),
      n = size(dimension);
    const button = (sign, to, said) => {
      const node = el("button", "pg-button pg-quiet", sign, {
        type: "button",
        "aria-label": fill(said, { name: text }),
        "data-size": `${dimension}${sign}`,
      });
      node.disabled = to < 1 || to > payload.most;
      node.onclick = () => {
        resize(dimension, to);
        build();
        root.querySelector(`[data-size="${CSS.escape(`${dimension}${sign}`)}"]`)?.focus();
        keep();
      };
      return node;
    };
    field.append(
      el("span", "pg-control-label", text),
      button("−", n - 1, w.less),
      el("output", "", String(n)),
      button("+", n + 1, w.more),
    );
    return field;
  };
  const build = () => {
    const { words: w } = payload,
      field = el("label", "pg-control"),
      list = el("select", "", "", { "data-name": "example" });
    for (const [key, text] of payload.examples) list.append(new Option(text, key, false, key === payload.example));
    list.onchange = () => start(list.value);
    field.append(el("span", "pg-control-label", w.example), list);
    const back = el("button", "pg-button pg-quiet", w.reset, { type: "button" });
    back.onclick = () => start(payload.example);
    head.replaceChildren(field, ...payload.dimensions.map(stepper), back);
    const owner = payload.tables.find(({ rows, columns }) => named(rows) || named(columns));
    board.replaceChildren(...payload.tables.map((table) => tableOf(table, table === owner)));
    mark();
  };
  const start = (example) => {
    spare = new Map();
    props.value = { example };
    say("");
    tell();
  };
  const mark = () => {
    for (const box of board.querySelectorAll("[aria-invalid]")) {
      box.removeAttribute("aria-invalid");
      box.removeAttribute("title");
    }
    wrong.replaceChildren(
      ...payload.problems.slice(0, 4).map(([name, row, column, what, hint]) => {
        const box = input(name, row, column),
          line = el("li"),
          go = el("button", "pg-chip", `${name}[${row + 1}, ${column + 1}]`, { type: "button" });
        box?.setAttribute("aria-invalid", "true");
        if (box) box.title = `${what} ${hint}`;
        go.onclick = () => box?.focus();
        line.append(go, ` ${what} ${hint}`);
        return line;
      }),
    );
  };
  // The cells of a value: of a link, or those that are typed here.
  const take = () => {
    const sent = props.value ?? {},
      fits = (rows) =>
        Array.isArray(rows) &&
        rows.length > 0 &&
        rows.every((row) => Array.isArray(row) && row.length > 0 && row.every((text) => typeof text === "string"));
    cells = new Map(
      payload.tables.map(({ name, usual: rows }) => [
        name,
        fits(sent.tables?.[name])
          ? sent.tables[name].slice(0, payload.most).map((row) => row.slice(0, payload.most))
          : rows,
      ]),
    );
    names = Array.isArray(sent.names) ? sent.names.map(String) : payload.names;
  };
  const draw = (next) => {
    const before = payload,
      typing = board.contains(document.activeElement) || head.contains(document.activeElement);
    payload = next;
    const mine = props.value?.example ?? next.examples[0][0];
    if (before && mine !== next.example) return; // an older answer
    if (
      before?.example === next.example &&
      same(value(), { example: next.example, ...props.value }) &&
      before.words.reset === next.words.reset
    )
      return mark();
    take();
    build();
    if (typing) head.querySelector("select")?.focus({ preventScroll: true });
  };
  draw.stateOf = (sent) =>
    sent.tables || sent.names || (payload && sent.example !== payload.examples[0][0]) ? sent : {};
  return draw;
});
