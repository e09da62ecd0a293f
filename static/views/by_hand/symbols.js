// Symbols and formulas as elements: W_Q and Q^1 with sub- and superscripts, and cells as symbols with row and column.
import { el } from "../../page/dom.js";

// "W_Q" -> W with subscript Q; "Q^1" -> Q with superscript (1)
export function symbol(text, ...indices) {
  const node = el("i", "pg-hand-symbol");
  const [whole, up] = text.split("^"),
    [base, down] = whole.split("_");
  node.append(base);
  const small = [down, indices.join("")].filter(Boolean).join(",");
  if (small) node.append(el("sub", "", small));
  if (up) node.append(el("sup", "", `(${up})`));
  return node;
}

// Format "S_ij = e^(S_ij − m_i)" with sub- and superscripts.
export function formula(text, node = el("div", "pg-hand-formula")) {
  for (const part of text.split(/(_[\p{L}\d]+|\^\([^()]*\)|\^[A-Z\d])/u)) {
    if (/^_./.test(part)) node.append(el("sub", "", part.slice(1)));
    else if (/^\^./.test(part))
      node.append(formula(/^\^\(\d+\)$/.test(part) ? part.slice(1) : part.slice(1).replace(/^\(|\)$/g, ""), el("sup")));
    else node.append(part);
  }
  return node;
}

const negative = (text) => text.startsWith("−");

// Format a cell's formula in symbols and in numbers: [elements of the symbols, elements of the numbers, source cells].
export function formulaOf(made, steps) {
  const signs = [],
    numbers = [],
    sources = [];
  for (const [n, piece] of made.entries()) {
    if (typeof piece === "string") {
      signs.push(piece);
      numbers.push(piece);
      continue;
    }
    if (!Array.isArray(piece)) {
      signs.push(piece.sign || piece.number);
      numbers.push(piece.number);
      continue;
    }
    const [at, row, column] = piece,
      step = steps[at],
      [text] = step.cells[row][column];
    const [high, wide] = [step.cells.length, step.cells[0].length];
    signs.push(symbol(step.symbol, ...(high > 1 ? [row + 1] : []), ...(wide > 1 ? [column + 1] : [])));
    const joined = n > 0 || ["²", "^("].includes(made[n + 1]);
    const number = el("b", "", negative(text) && joined ? `(${text})` : text);
    numbers.push(number);
    sources.push({ at, row, column });
  }
  return { signs, numbers, sources };
}
