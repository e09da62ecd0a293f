// The selection and its listeners.

// heads: the last one is the main one; pair: one cell [query, key]; edits: changes to the run, as the server reads them;
// target and distractor: ids of tokens; of: the model whose edits and ids these are, as the
// server named it last.
export const selection = { heads: [], tokens: [], pair: null, edits: [], target: null, distractor: null, of: null };
const listeners = new Set();

// Told after each change: listener(selection).
export const onSelect = (listener) => listeners.add(listener);

export function select(change) {
  const whole = change.tokens && !("pair" in change) ? { ...change, pair: null } : change;
  Object.assign(selection, whole);
  for (const listener of listeners) listener(selection);
}

// A head joins or leaves those that are picked; without `add` it is the only one. Eight hues, so eight heads.
export function pickHead(layer, head, add) {
  const others = selection.heads.filter((each) => each[0] !== layer || each[1] !== head);
  const was = others.length < selection.heads.length;
  const next = !add ? [[layer, head]] : was && others.length ? others : [...others, [layer, head]];
  select({ heads: next.slice(-8) });
}

// What a click on a place makes of those that are chosen: it alone, or none where it was the only one; with `add` it
// joins or leaves the others.
export function toggled(places, at, add) {
  const others = places.filter((place) => place !== at);
  const was = others.length < places.length;
  if (add) return was ? others : [...others, at];
  return was && !others.length ? [] : [at];
}
export const pickToken = (at, add) => select({ tokens: toggled(selection.tokens, at, add) });

// Whether a click adds to what is picked: with a key, or, where there is no keyboard, while the switch beside it is on.
let always = false;
export const adds = () => always;
export function alwaysAdd(on) {
  always = on;
  select({});
}
export const adding = (event) => always || event.ctrlKey || event.metaKey || event.shiftKey;
