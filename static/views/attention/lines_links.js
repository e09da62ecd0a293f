// Selection of the links drawn as lines and of the tokens that they connect. This module does not depend on the page.
//
// `settled`: { panels, tokens, share, hide }: the visible heads, the number of tokens, the fraction of each row's total
// to reach, and whether the first token is excluded. `now`: the hovered or pinned { left, tokens }, or
// null. A panel has the form decoded by links.js.
import { eachLink } from "./links.js";

// Count for each row of every panel the links needed to reach the given fraction of the row's total.
export function sift(panels, { tokens, share, hide }) {
  for (const panel of panels) {
    const { starts, keys, weights, totals } = panel;
    panel.most = new Uint32Array(tokens); // the index of the first hidden link of each row
    panel.base = Float32Array.from(totals);
    for (let row = 0; row < tokens; row++) {
      if (hide)
        for (let link = starts[row]; link < starts[row + 1]; link++)
          if (keys[link] === 0) panel.base[row] -= weights[link];
      const goal = share < 1 ? share * panel.base[row] : Infinity;
      let link = starts[row];
      for (let sum = 0; link < starts[row + 1] && sum < goal; link++) if (!hide || keys[link]) sum += weights[link];
      panel.most[row] = link;
    }
  }
}

export const shows = (panel, row, key, weight, link, hide) =>
  link < panel.most[row] && weight > 0 && !(hide && key === 0);

// Visit all visible links of the isolated tokens, or of the tokens from `from` to `to`:
// take(panel, row, key, weight, share).
export function visitLinks({ panels, tokens, hide }, now, take, from = 0, to = tokens) {
  for (const panel of panels) {
    const each = (row, key, weight, link) => {
      if (shows(panel, row, key, weight, link, hide))
        take(panel, row, key, weight, Math.min(1, weight / panel.base[row]));
    };
    if (now) for (const token of now.tokens) eachLink(panel, token, now.left, each);
    else {
      for (let row = from; row < to; row++) eachLink(panel, row, true, each);
      if (from === 0 && to === tokens) continue;
      const rest = (row, key, weight, link) => {
        if (row < from || row >= to) each(row, key, weight, link);
      };
      for (let key = from; key < to; key++) eachLink(panel, key, false, rest);
    }
  }
}

// Return the partners of the isolated tokens in decreasing order, with one number per head, summed over these tokens.
export const partnersOf = ({ panels, hide }, now) =>
  panels
    .flatMap((panel) => {
      const sums = new Map(),
        seen = new Set();
      for (const token of now.tokens)
        eachLink(panel, token, now.left, (row, key, weight, link) => {
          const other = now.left ? key : row;
          sums.set(other, (sums.get(other) ?? 0) + weight);
          if (shows(panel, row, key, weight, link, hide)) seen.add(other);
        });
      return [...seen].map((other) => ({ panel, other, value: sums.get(other) }));
    })
    .sort((a, b) => b.value - a.value || a.other - b.other);

// Group items as [[other, [item]]], in order of first appearance.
export function grouped(items) {
  const groups = new Map();
  for (const item of items)
    if (groups.has(item.other)) groups.get(item.other).push(item);
    else groups.set(item.other, [item]);
  return [...groups];
}

// --- export: lists of [panel, row, key, weight] ---

export const namesOf = ({ words, measure }) => [
  words.head,
  words.query_position,
  words.attending,
  words.key_position,
  words.attended,
  measure,
];

// Positions are those of tokens: text for a word of several.
export const asLines = (links, { tokens, positions }) => {
  const place = (at) => positions?.[at] ?? at;
  return links.map(([panel, row, key, weight]) => [
    panel.name,
    place(row),
    tokens[row],
    place(key),
    tokens[key],
    weight,
  ]);
};

export function asArrays(links, panels, tokens) {
  const column = (at, Type) => ({ data: Type.from(links, (link) => link[at]), shape: [links.length] });
  return {
    head: { data: Int32Array.from(links, ([panel]) => panel.index), shape: [links.length] },
    query: column(1, Int32Array),
    key: column(2, Int32Array),
    weight: column(3, Float32Array),
    head_names: panels.map((panel) => panel.name),
    tokens,
  };
}
