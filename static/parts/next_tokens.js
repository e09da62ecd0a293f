// A table of the most likely next tokens, facts about a token, and the form of a token in running text.
import { el } from "../page/dom.js";
import { watchRow } from "../page/selection/watched.js";
import { rowOf, tableOf } from "./table.js";
import { fact } from "./titled.js";

export const facts = (root, list) => root.replaceChildren(...list.map(fact));

// Build a table of the most likely next tokens: rows { id, text, rank, share, surprisal, score }, formatted by percent,
// bits and logit. `marks`: { id: word } highlights tokens.
export function chances(root, { rows, words, label, marks }) {
  const largest = Math.max(...rows.map((row) => row.share)) || 1,
    number = (text) => ({ look: "pg-surprise-number", text });
  const line = (row, i) => {
    const token = el("span", "pg-surprise-token", row.text),
      track = el("span", "pg-surprise-track", "", { "aria-hidden": true }),
      bar = el("i"),
      mark = marks[row.id];
    bar.style.width = `${(100 * row.share) / largest}%`;
    track.append(bar);
    const gap = row.rank > (rows[i - 1]?.rank ?? 0) + 1,
      cells = [
        number(row.rank.toLocaleString("en")),
        { inside: [token, ...(mark ? [el("small", "", mark)] : [])], help: `${row.text} (id ${row.id})` },
        { look: "pg-surprise-share", inside: [el("span", "", row.percent), track] },
        number(row.bits),
        number(row.logit),
      ];
    const node = rowOf(cells, {
      look: [gap && "pg-surprise-gap", mark && "pg-surprise-marked"].filter(Boolean).join(" "),
      named: 1,
    });
    watchRow(node, node.children[1], row.id, row.text);
    return node;
  };
  const columns = ["rank", "token", "share", "bits", "logit"].map((name) => ({
    look: name === "token" || name === "share" ? "" : "pg-surprise-number",
    text: words[`column_${name}`],
  }));
  root.replaceChildren(tableOf({ look: "pg-surprise-table", "aria-label": label, columns, rows: rows.map(line) }));
}

export const likely = (rows) => ({
  names: ["rank", "id", "token", "probability", "bits", "logit"],
  lines: rows.map(({ rank, id, text, share, surprisal, score }) => [rank, id, text, share, surprisal, score]),
});

// Format a token for running text, with dimmed spaces and line breaks.
export function piece(node, text) {
  const [, signs, rest] = text.match(/^([·↵⇥]*)([^]*)$/);
  node.append(...(signs ? [el("span", "pg-reading-space", signs)] : []), rest);
  return node;
}
