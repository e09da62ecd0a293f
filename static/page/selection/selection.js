// The selection and its listeners.

// heads: the selected heads, with the main one last; pair: a cell [query, key]; edits: changes to the run, as parsed by
// the server; target and distractor: token ids; of: the model to which the edits and ids belong, as most recently named
// by the server.
export const selection = { heads: [], tokens: [], pair: null, edits: [], target: null, distractor: null, of: null };
const listeners = new Set();

// Register a listener that is called after each change: listener(selection).
export const onSelect = (listener) => listeners.add(listener);

export function select(change) {
  const whole = change.tokens && !("pair" in change) ? { ...change, pair: null } : change;
  Object.assign(selection, whole);
  for (const listener of listeners) listener(selection);
}

export const editsText = () => JSON.stringify(selection.edits);
// Register a listener that is called after each change of the edits: listener(now, before), both as text.
export function onEdits(listener) {
  let last = editsText();
  onSelect(() => {
    const now = editsText(),
      before = last;
    last = now;
    if (now !== before) listener(now, before);
  });
}

// Toggle a head in the selection; without `add`, it becomes the only one. There are hues for at most eight heads.
export function pickHead(layer, head, add) {
  const others = selection.heads.filter((each) => each[0] !== layer || each[1] !== head);
  const was = others.length < selection.heads.length;
  const next = !add ? [[layer, head]] : was && others.length ? others : [...others, [layer, head]];
  select({ heads: next.slice(-8) });
}

// Return the selection after a click: the clicked item alone, or nothing if it was the only one; with `add`, the item
// is toggled.
export function toggled(places, at, add) {
  const others = places.filter((place) => place !== at);
  const was = others.length < places.length;
  if (add) return was ? others : [...others, at];
  return was && !others.length ? [] : [at];
}
export const pickToken = (at, add) => select({ tokens: toggled(selection.tokens, at, add) });

// Return whether a click adds to the selection: with a modifier key or, on touch devices, while the switch is on.
let always = false;
export const adds = () => always;
export function alwaysAdd(on) {
  always = on;
  select({});
}
export const adding = (event) => always || event.ctrlKey || event.metaKey || event.shiftKey;
