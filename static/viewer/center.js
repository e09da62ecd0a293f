// The token that the text and the picture are about, its weights, and the switch of the heads that they show.
import { el, fill } from "../page/dom.js";
import { swatch } from "./looks.js";

// Return the picked token, or else a usual one: the last that attends to others, or the first with two-way attention.
export function centerOf({ picked, data, unit }) {
  if (picked) return picked;
  const n = data.labels(unit).queries.length;
  return { side: "query", at: data.causal ? n - 1 : 0 };
}
export const otherSide = (side) => (side === "query" ? "key" : "query");
export const textsOf = ({ data, unit }, side) => data.labels(unit)[side === "query" ? "queries" : "keys"];
export const named = (look, { side, at }) => `${textsOf(look, side)[at]} (${at})`;

const chosen = ({ heads, only }) => (only === null || only >= heads.length ? [...heads.keys()] : [only]);
// Return the weights between a token and all on the other side, the mean of the shown heads; NaN where it is masked.
export function weightsOf(look, { side, at }, unit = look.unit) {
  const all = chosen(look).map((i) => {
    const { rows, columns, values } = look.data.matrix(unit, look.heads[i]);
    return side === "query"
      ? Float64Array.from(values.subarray(at * columns, (at + 1) * columns))
      : Float64Array.from({ length: rows }, (_, row) => values[row * columns + at]);
  });
  return all[0].map((_, i) => all.reduce((sum, values) => sum + values[i], 0) / all.length);
}
// Return the color of the shown head; the mean of several has one of its own.
export const colorOf = (look, property) => {
  const of = chosen(look);
  return of.length === 1 ? look.hue(of[0]) : property("--pg-focus");
};

// Build the switch between the mean of the selected heads and each of them; it is hidden for a single head.
export function headSwitch(look, set) {
  const node = el("span", "pg-tools", "", { role: "group", "aria-label": look.words.which });
  const button = (only, ...inside) => {
    const one = el("button", "pg-button pg-quiet pg-links-head", "", {
      type: "button",
      "aria-pressed": look.only === only,
    });
    one.append(...inside);
    one.onclick = () => {
      set({ only });
      node.children[only === null ? 0 : only + 1]?.focus();
    };
    return one;
  };
  return {
    node,
    draw() {
      node.hidden = look.heads.length < 2;
      node.replaceChildren(
        button(null, look.words.mean),
        ...look.heads.map((head, i) => button(i, swatch(look.hue(i)), look.data.name(head))),
      );
    },
  };
}

// Say the weight between the center and another token.
export function pairText(look, center, other, weight, digits) {
  const pair = { query: named(look, center), key: named(look, other) };
  if (center.side === "key") [pair.query, pair.key] = [pair.key, pair.query];
  return Number.isNaN(weight)
    ? fill(look.words.masked, pair)
    : fill(look.words.attends, { ...pair, weight: digits(weight) });
}
