// The numbers typed into the small tables, and the tables' sizes. This module does not depend on the page's elements.
//
// `sheet`: { payload, cells: Map of [[text]] by table, names: [text], spare: cells that a smaller size has cut off, by
// table }
export const newSheet = () => ({ payload: null, cells: new Map(), names: [], spare: new Map() });

export const same = (a, b) => JSON.stringify(a) === JSON.stringify(b);
const usual = ({ tables }) => new Map(tables.map((table) => [table.name, table.usual]));

// Return the value for the server: the example, and the differences from it.
export function sheetValue({ payload, cells, names }) {
  const of = { example: payload.example },
    own = Object.fromEntries([...cells].filter(([name, rows]) => !same(rows, usual(payload).get(name))));
  if (Object.keys(own).length) of.tables = own;
  if (!same(names, payload.names)) of.names = names;
  return of;
}

// Return the cells of a value, from a link or as typed.
export function takeValue(sheet, sent) {
  const { tables, most, names } = sheet.payload,
    fits = (rows) =>
      Array.isArray(rows) &&
      rows.length > 0 &&
      rows.every((row) => Array.isArray(row) && row.length > 0 && row.every((text) => typeof text === "string"));
  sheet.cells = new Map(
    tables.map(({ name, usual: rows }) => {
      const own = sent.tables?.[name];
      return [name, fits(own) ? own.slice(0, most).map((row) => row.slice(0, most)) : rows];
    }),
  );
  sheet.names = Array.isArray(sent.names) ? sent.names.map(String) : names;
}

export function sizeOf({ payload, cells }, dimension) {
  for (const { name, rows, columns } of payload.tables) {
    if (rows === dimension) return cells.get(name).length;
    if (columns === dimension) return cells.get(name)[0].length;
  }
  return 0;
}

// Change the sizes; numbers that no longer fit are kept, and restored when the size grows again.
export function resize({ payload, cells, spare }, dimension, n) {
  const { tables, most } = payload;
  for (const { name, rows, columns } of tables) {
    if (rows !== dimension && columns !== dimension) continue;
    const now = cells.get(name),
      kept = spare.get(name) ?? [],
      high = rows === dimension ? n : now.length,
      wide = columns === dimension ? n : now[0].length;
    const all = [...Array(most)].map((_, r) => [...Array(most)].map((_, c) => now[r]?.[c] ?? kept[r]?.[c]));
    spare.set(name, all);
    cells.set(
      name,
      all.slice(0, high).map((row) => row.slice(0, wide).map((text) => text ?? "0")),
    );
  }
}

// Paste texts into a table starting at a cell, enlarging it if necessary. Returns the name and values of the message to
// show; "ragged" and "too_large" mean that nothing was pasted.
export function paste(sheet, table, row, column, rows) {
  const { most } = sheet.payload,
    wide = Math.max(...rows.map((each) => each.length)),
    high = row + rows.length,
    across = column + wide,
    fits = (n, dimension) => n <= (dimension === "1" ? 1 : most);
  if (rows.some((each) => each.length !== wide)) return ["ragged", { n: wide }];
  const size = { rows: rows.length, columns: wide };
  if (!fits(high, table.rows) || !fits(across, table.columns)) return ["too_large", { ...size, most }];
  if (high > sizeOf(sheet, table.rows)) resize(sheet, table.rows, high);
  if (across > sheet.cells.get(table.name)[0].length) resize(sheet, table.columns, across);
  rows.forEach((line, r) => {
    line.forEach((text, c) => {
      setCell(sheet, table.name, row + r, column + c, text);
    });
  });
  return ["pasted", size];
}

export function setCell({ cells }, name, row, column, text) {
  const now = cells.get(name).map((line) => [...line]);
  now[row][column] = text;
  cells.set(name, now);
}

export function setName(sheet, at, text) {
  const n = Math.max(sheet.names.length, at + 1);
  sheet.names = [...Array(n)].map((_, i) => (i === at ? text : (sheet.names[i] ?? String(i + 1))));
}
