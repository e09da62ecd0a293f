// Serialization of the page's state as text after the # of an address. The format of links and files is validated.
// This module does not depend on the page.
//
// state: { v, model, prompt, tab, heads, tokens, pair, edits, target, distractor, values: { part: value } }
const DEEPEST = 12; // maximum nesting depth of a part's value
export const MOST_ENTRIES = 20000; // maximum total number of list and object entries; normally a few hundred

export const isRecord = (value) => typeof value === "object" && value !== null && !Array.isArray(value);
const isPair = (value) =>
  Array.isArray(value) && value.length === 2 && value.every((n) => Number.isSafeInteger(n) && n >= 0);
const isId = (value) => value === null || (Number.isSafeInteger(value) && value >= 0);
const shallow = (value, left = DEEPEST) =>
  typeof value !== "object" ||
  value === null ||
  (left > 0 && Object.values(value).every((each) => shallow(each, left - 1)));
// Return whether a value has few enough entries and levels for a page; counting stops at the limit.
export function isSmall(value) {
  const open = [value];
  let left = MOST_ENTRIES;
  while (open.length) {
    const next = open.pop();
    if (typeof next !== "object" || next === null) continue;
    const entries = Array.isArray(next) ? next : Object.values(next);
    left -= entries.length;
    if (left < 0) return false;
    for (const each of entries) open.push(each);
  }
  return true;
}
const WATCHED = ["target", "distractor"];
export const FORMS = {
  model: (value) => typeof value === "string" && value.length > 0 && value.length <= 200,
  prompt: (value) => typeof value === "string" && value.length <= 200000,
  tab: (value) => typeof value === "string" && /^\w{1,40}$/.test(value),
  heads: (value) => Array.isArray(value) && value.length <= 8 && value.every(isPair),
  tokens: (value) => Array.isArray(value) && value.every((n) => Number.isSafeInteger(n) && n >= 0),
  pair: (value) => value === null || isPair(value),
  target: isId,
  distractor: isId,
  edits: (value) =>
    Array.isArray(value) && value.length <= 64 && value.every((each) => isRecord(each) && shallow(each, 1)),
  values: (value) =>
    isRecord(value) &&
    Object.entries(value).every(([name, each]) => /^\w{1,60}$/.test(name) && isRecord(each) && shallow(each)),
};
// Return a state's valid entries and the names of the invalid ones; a state that is too large has no valid entries.
export function checked(sent) {
  const state = {},
    wrong = [];
  if (!isSmall(sent)) return { state, wrong: Object.keys(FORMS) };
  for (const [name, fits] of Object.entries(FORMS)) {
    if (sent?.[name] === undefined) continue;
    if (fits(sent[name])) state[name] = sent[name];
    else wrong.push(name);
  }
  return { state, wrong };
}

const spell = (lists) => lists.map((list) => (Array.isArray(list) ? list.join(".") : list)).join(",");
const read = (text, at) =>
  text === "" ? [] : text.split(",").map((each) => (at ? each.split(at).map(whole) : whole(each)));
const whole = (text) => (/^\d{1,9}$/.test(text) ? +text : NaN);
function parsed(text) {
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
}
export const same = (a, b) => JSON.stringify(a) === JSON.stringify(b);

// If the state differs from an unchanged page, include the model and the heads, because another server may have other
// defaults. `first` is the state of the unchanged page.
export function fragment(state, first) {
  const query = new URLSearchParams();
  if (Object.keys(FORMS).every((name) => same(state[name], first[name]))) return "";
  query.set("model", state.model);
  for (const name of ["prompt", "tab"]) if (state[name] !== first[name]) query.set(name, state[name]);
  if (state.heads.length) query.set("heads", spell(state.heads));
  if (state.tokens.length) query.set("tokens", spell(state.tokens));
  if (state.pair) query.set("pair", spell(state.pair));
  for (const name of WATCHED) if (Number.isSafeInteger(state[name])) query.set(name, state[name]);
  if (state.edits.length) query.set("edits", JSON.stringify(state.edits));
  if (Object.keys(state.values).length) query.set("values", JSON.stringify(state.values));
  return `#${String(query).replaceAll("%2C", ",").replaceAll("%3A", ":")}`;
}
// Parse the state in a URL fragment; null if it is invalid.
export function parse(hash) {
  const query = new URLSearchParams(hash.replace(/^#/, ""));
  if (![...query.keys()].some((name) => name in FORMS)) return null;
  const values = Object.fromEntries([...query].filter(([name]) => name in FORMS));
  for (const name of ["edits", "values"]) if (name in values) values[name] = parsed(values[name]);
  if ("heads" in values) values.heads = read(values.heads, ".").filter(isPair).slice(-8);
  if ("tokens" in values) values.tokens = read(values.tokens).filter(Number.isInteger);
  if ("pair" in values) values.pair = read(values.pair);
  for (const name of WATCHED) if (name in values) values[name] = whole(values[name]);
  return checked(values).state;
}
