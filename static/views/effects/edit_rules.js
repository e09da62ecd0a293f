// The edits that would be in force with a form, or why it is not valid; without any access to the page.
import { fill } from "../../page/dom.js";
import { same } from "./widgets.js";

// Keys that a query may not read in the head with the most of them, with these edits in force.
export function mostBlocked(edits, query) {
  const blocks = edits.filter((edit) => edit.kind === "block_edge" && edit.query === query);
  const heads = blocks.filter((edit) => edit.layer !== undefined).map((edit) => `${edit.layer} ${edit.head}`);
  const keys = (head) =>
    new Set(
      blocks
        .filter((edit) => edit.layer === undefined || `${edit.layer} ${edit.head}` === head)
        .map((edit) => edit.key),
    );
  return Math.max(...[null, ...heads].map((head) => keys(head).size));
}

// A head has one edit of its output and one of its pattern; links are each for themselves. `kinds`: [{ key, site }].
export function withEdit(edits, edit, kinds) {
  const key = ({ kind, layer, head, factor, query, key }) => `${kind} ${layer} ${head} ${factor} ${query} ${key}`;
  if (edits.some((other) => key(other) === key(edit))) return edits;
  const site = (kind) => kinds.find((each) => each.key === kind)?.site;
  const replaced = (other) =>
    edit.kind !== "block_edge" &&
    other.layer === edit.layer &&
    other.head === edit.head &&
    site(other.kind) === site(edit.kind);
  return [...edits.filter((other) => !replaced(other)), edit];
}

// The edits that Apply would put in force: { next }, or why it cannot: { problem } or { note }.
// `limits`: { words, kinds, factor, most }; `form`: { kind, factor, everywhere }; `pair`: the link [query, key] to block.
export function wantedEdits({ words, kinds, factor: maxFactor, most: room }, form, [query, key], { heads, edits }) {
  const { kind } = form;
  const block = kind === "block_edge";
  if (!heads.length && !(block && form.everywhere)) return { problem: words.no_heads };
  const factor = form.factor === "" ? NaN : Number(form.factor);
  if (kind === "scale" && !(Math.abs(factor) <= maxFactor)) {
    return { problem: fill(words.bad_factor, { low: -maxFactor, high: maxFactor }) };
  }
  if (block && key > query) return { problem: words.key_later };
  if (block && query === 0) return { problem: words.query_first };
  const places = block && form.everywhere ? [{}] : heads.map(([layer, head]) => ({ layer, head }));
  const more = kind === "scale" ? { factor } : block ? { query, key } : {};
  const next = places
    .map((place) => ({ kind, ...place, ...more }))
    .reduce((all, edit) => withEdit(all, edit, kinds), edits);
  if (block && mostBlocked(next, query) > query) return { problem: words.row_empty };
  if (next.length > room) return { problem: fill(words.too_many, { most: room }) };
  if (same(next, edits)) return { note: words.nothing_new };
  return { next };
}
