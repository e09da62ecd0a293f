// Validation of the edit form: the resulting edits, or why they are invalid. This module does not depend on the page.
import { fill } from "../../page/dom.js";
import { same } from "./widgets.js";

// Return the largest number of keys that these edits block for a query in any single head.
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

const FIELDS = [
  ...["kind", "layer", "head", "factor", "query", "key", "neuron", "value", "token"],
  ...["site", "vector", "positions", "name"],
];

// Return the edits with one more. There is at most one edit per head output, head pattern, MLP, neuron, direction after
// a layer, link, and embedding of a token. `kinds`: [{ key, site }].
export function withEdit(edits, edit, kinds) {
  const values = (each) => FIELDS.map((name) => each[name] ?? null);
  if (edits.some((other) => same(values(other), values(edit)))) return edits;
  const site = (kind) => kinds.find((each) => each.key === kind)?.site;
  const replaced = (other) =>
    edit.kind !== "block_edge" &&
    other.layer === edit.layer &&
    other.head === edit.head &&
    other.neuron === edit.neuron &&
    other.positions === edit.positions &&
    (other.token === edit.token || site(edit.kind) === "embed") &&
    site(other.kind) === site(edit.kind);
  return [...edits.filter((other) => !replaced(other)), edit];
}

const number = (text) => (text === "" ? NaN : Number(text));

// Return the fields of an edit that does not apply to heads, { place }, or the problem with them, { problem }.
function placeOf({ words, neurons, value: maxValue }, needs, form) {
  const place = needs.includes("layer") ? { layer: form.block } : {};
  if (needs.includes("positions")) place.positions = form.positions;
  if (needs.includes("neuron")) {
    place.neuron = number(form.neuron);
    const there = Number.isInteger(place.neuron) && place.neuron >= 0 && place.neuron < neurons;
    if (!there) return { problem: fill(words.bad_neuron, { last: neurons - 1 }) };
  }
  if (needs.includes("value")) {
    place.value = number(form.value);
    const fits = Math.abs(place.value) <= maxValue;
    if (!fits) return { problem: fill(words.bad_value, { low: -maxValue, high: maxValue }) };
  }
  if (needs.includes("token")) place.token = form.token;
  return { place };
}

// Return the edits after Apply, { next }, or the reason why the edit cannot be applied, { problem } or { note }.
// `limits`: { words, kinds, factor, value, neurons, most, two_way, tokens }; `form`: { kind, factor, everywhere, block, neuron, value,
// token, positions }; `pair`: the link [query, key] to block.
export function wantedEdits(limits, form, [query, key], { heads, edits }) {
  const { words, kinds, factor: maxFactor, most: room, two_way, tokens } = limits,
    { kind } = form,
    { of, needs } = kinds.find((each) => each.key === kind);
  const block = kind === "block_edge",
    scaled = needs.includes("factor");
  if (of === "heads" && !heads.length && !(block && form.everywhere)) return { problem: words.no_heads };
  const factor = number(form.factor);
  if (scaled && !(Math.abs(factor) <= maxFactor)) {
    return { problem: fill(words.bad_factor, { low: -maxFactor, high: maxFactor }) };
  }
  if (block && !two_way && key > query) return { problem: words.key_later };
  if (block && !two_way && query === 0) return { problem: words.query_first };
  const { place, problem } = of === "heads" ? {} : placeOf(limits, needs, form);
  if (problem) return { problem };
  const places = place ? [place] : block && form.everywhere ? [{}] : heads.map(([layer, head]) => ({ layer, head }));
  const more = scaled ? { factor } : block ? { query, key } : {};
  const next = places
    .map((each) => ({ kind, ...each, ...more }))
    .reduce((all, edit) => withEdit(all, edit, kinds), edits);
  if (block && mostBlocked(next, query) > (two_way ? tokens.length - 1 : query)) return { problem: words.row_empty };
  if (next.length > room) return { problem: fill(words.too_many, { most: room }) };
  if (same(next, edits)) return { note: words.nothing_new };
  return { next };
}
