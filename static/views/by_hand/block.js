// Parsing of text pasted from a spreadsheet. This module does not depend on the page.

// Parse pasted text into rows of cells; null for a single number.
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
