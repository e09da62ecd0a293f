// Parsing of text pasted from a spreadsheet. Independent of the page.

// Parse a block from a spreadsheet or text into rows of cells; null for a single number.
export function block(text) {
  const rows = text
    .replace(/\r\n?/g, "\n")
    .replace(/\n+$/, "")
    .split("\n")
    .map((line) => line.replace(/^\s*\[+|\]+\s*[,;]?\s*$/g, ""));
  const between = rows.some((row) => row.includes("\t")) ? "\t" : rows.some((row) => /[,;]/.test(row)) ? /[,;]/ : /\s+/;
  const cells = rows.map((row) => (between === "\t" ? row : row.trim()).split(between).map((cell) => cell.trim()));
  return cells.length === 1 && cells[0].length === 1 ? null : cells;
}
