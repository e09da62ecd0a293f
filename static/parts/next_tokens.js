// The likeliest next tokens as a table, facts about a token, and a token as running text shows it.
import { el } from "../page/dom.js";
import { watchRow } from "../page/selection/watched.js";

// [name, number, meaning] a fact; the meaning is its tooltip.
export const facts = (root, list) =>
  root.replaceChildren(
    ...list.map(([name, value, help]) => {
      const item = el("span", "pg-surprise-fact", "", { title: help });
      item.append(el("span", "pg-muted", name), el("b", "", value));
      return item;
    }),
  );

// The likeliest next tokens; rows { id, text, rank, share, surprisal, score } and how these are written: percent, bits,
// logit. `marks`: { id: word } stand out.
export function chances(root, { rows, words, label, marks }) {
  const grid = el("table", "pg-surprise-table", "", { "aria-label": label }),
    head = el("tr"),
    body = el("tbody"),
    top = el("thead");
  const columns = [
    ["rank", "number"],
    ["token", ""],
    ["share", ""],
    ["bits", "number"],
    ["logit", "number"],
  ];
  head.append(
    ...columns.map(([name, kind]) =>
      el("th", kind && `pg-surprise-${kind}`, words[`column_${name}`], { scope: "col" }),
    ),
  );
  const largest = Math.max(...rows.map((row) => row.share)) || 1;
  rows.forEach((row, i) => {
    const line = el("tr", row.rank > (rows[i - 1]?.rank ?? 0) + 1 ? "pg-surprise-gap" : "");
    const name = el("th", "", "", { scope: "row", title: `${row.text} (id ${row.id})` });
    name.append(el("span", "pg-surprise-token", row.text));
    if (marks[row.id]) {
      line.classList.add("pg-surprise-marked");
      name.append(el("small", "", marks[row.id]));
    }
    watchRow(line, name, row.id, row.text);
    const share = el("td", "pg-surprise-share"),
      track = el("span", "pg-surprise-track", "", { "aria-hidden": true }),
      bar = el("i");
    bar.style.width = `${(100 * row.share) / largest}%`;
    track.append(bar);
    share.append(el("span", "", row.percent), track);
    line.append(
      el("td", "pg-surprise-number", row.rank.toLocaleString("en")),
      name,
      share,
      el("td", "pg-surprise-number", row.bits),
      el("td", "pg-surprise-number", row.logit),
    );
    body.append(line);
  });
  top.append(head);
  grid.append(top, body);
  root.replaceChildren(grid);
}

export const likely = (rows) => ({
  names: ["rank", "id", "token", "probability", "bits", "logit"],
  lines: rows.map(({ rank, id, text, share, surprisal, score }) => [rank, id, text, share, surprisal, score]),
});

// A token as running text shows it: its spaces and line breaks pale.
export function piece(node, text) {
  const [, signs, rest] = text.match(/^([·↵⇥]*)([^]*)$/);
  node.append(...(signs ? [el("span", "pg-reading-space", signs)] : []), rest);
  return node;
}
