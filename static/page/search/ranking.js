// Selection and ranking of search results: a pure function of the entries and the query.
//
// entry: { target, kind, name, term, about, where, also: [text] }; term: technical terms, separated by " · " or ",".
// A name, a term and a string in `also` count equally, because each of them names the entry.

const KINDS = ["tab", "view", "strategy", "action", "term", "lesson", "setting", "option"]; // this order breaks ties
const EXACT = 6,
  BEGINS = 5,
  WORD = 4,
  INSIDE = 3,
  WORDS = 2,
  ABOUT = 1;
const NEAREST = 6, // maximum number of similar entries offered if nothing matches
  CLOSE = 0.6; // minimum similarity of these entries
const WIDE = /[\u3040-\u30ff\u3400-\u9fff]/; // characters of scripts without spaces between words
const GAP = /[\s_\-\u2010-\u2015]+/gu;

// Normalize spelling variants: case, width, spaces, hyphens and underscores.
export const plain = (text) => text.normalize("NFKC").toLowerCase().replace(GAP, "");
const wordsOf = (text) =>
  text
    .normalize("NFKC")
    .toLowerCase()
    .split(/[^\p{L}\p{N}]+/u)
    .filter(Boolean);

// Prepare a string for comparison: its normalized form, and the normalized suffixes that start at each later word.
function ready(text) {
  const spaced = text.normalize("NFKC").toLowerCase(),
    ends = [];
  for (const { index } of spaced.matchAll(/(?<![\p{L}\p{N}])[\p{L}\p{N}]/gu))
    if (index) ends.push(plain(spaced.slice(index)));
  return { text, plain: plain(text), ends };
}

const known = new WeakMap(); // entry -> its prepared strings
function textsOf(entry) {
  if (known.has(entry)) return known.get(entry);
  const { name, term = "", about = "", where = "", also = [] } = entry,
    terms = term ? [term, ...term.split(/ · |[,，、]\s*/u)] : [];
  const names = [...new Set([name, ...terms, ...also])].map(ready),
    whole = [name, term, ...also, where].join(" ");
  const texts = { names, about: ready(about), words: wordsOf(whole), all: wordsOf(`${whole} ${about}`) };
  known.set(entry, texts);
  return texts;
}

function tierOf(text, query) {
  if (text.plain === query) return EXACT;
  if (text.plain.startsWith(query)) return BEGINS;
  if (text.ends.some((end) => end.startsWith(query))) return WORD;
  return (query.length > 2 || WIDE.test(query)) && text.plain.includes(query) ? INSIDE : 0;
}

const hasAll = (words, wanted) =>
  wanted.every((each) => words.some((word) => (WIDE.test(each) ? word.includes(each) : word.startsWith(each))));

// Rate an entry: { tier, at, text }, where `text` is the best matching name and `at` its index; null without a match.
function fit(entry, query, words) {
  const { names, about, words: own, all } = textsOf(entry);
  let best = null;
  names.forEach((text, at) => {
    const tier = tierOf(text, query);
    if (tier && (!best || tier > best.tier)) best = { tier, at, text };
  });
  if (best) return best;
  if (words.length > 1 && hasAll(own, words)) return { tier: WORDS, at: 0, text: names[0] };
  const described = tierOf(about, query);
  if (described > INSIDE || (described && WIDE.test(query))) return { tier: ABOUT, at: 0, text: names[0] };
  return words.length > 1 && hasAll(all, words) ? { tier: ABOUT, at: 1, text: names[0] } : null;
}

const order = (a, b) =>
  b.tier - a.tier ||
  KINDS.indexOf(a.entry.kind) - KINDS.indexOf(b.entry.kind) ||
  a.at - b.at ||
  a.text.plain.length - b.text.plain.length;

// --- similar entries ----------------------------------------------------------------------------------

// Compute the edit distance between two strings: insertions, deletions, substitutions and swaps of adjacent letters.
function distance(a, b) {
  let before = [],
    row = Array.from({ length: b.length + 1 }, (_, i) => i);
  for (let i = 1; i <= a.length; i++) {
    const next = [i];
    for (let j = 1; j <= b.length; j++) {
      const same = a[i - 1] === b[j - 1];
      next[j] = Math.min(row[j] + 1, next[j - 1] + 1, row[j - 1] + (same ? 0 : 1));
      if (i > 1 && j > 1 && a[i - 1] === b[j - 2] && a[i - 2] === b[j - 1])
        next[j] = Math.min(next[j], before[j - 2] + 1);
    }
    [before, row] = [row, next];
  }
  return row[b.length];
}

// Compute the fraction of characters that two strings have in common, for scripts whose characters are almost words.
function common(a, b) {
  const left = [...b];
  let n = 0;
  for (const character of a) {
    const at = left.indexOf(character);
    if (at < 0) continue;
    left.splice(at, 1);
    n++;
  }
  return (2 * n) / (a.length + b.length);
}

// Compute a similarity from 0 to 1; a string that merely starts with or contains the query gets a slightly lower value.
function likeness(text, query) {
  const alike = WIDE.test(query) ? common : (a, b) => 1 - distance(a, b) / Math.max(a.length, b.length);
  const begins = (each) => alike(each.slice(0, query.length), query);
  const inside = Math.max(0, ...text.ends.map(begins));
  return Math.max(alike(text.plain, query), 0.95 * begins(text.plain), 0.9 * inside);
}

function nearest(entries, query) {
  const most = entries.map((entry) => {
    const likely = textsOf(entry).names.map((text) => ({ entry, text, like: likeness(text, query) }));
    return likely.reduce((a, b) => (b.like > a.like ? b : a));
  });
  return most
    .filter(({ like }) => like >= CLOSE)
    .sort((a, b) => b.like - a.like || KINDS.indexOf(a.entry.kind) - KINDS.indexOf(b.entry.kind))
    .slice(0, NEAREST);
}

// Return { found: [{ entry, via }], near }, with the best entries first. `via` is the matching name if it is not the
// displayed one; `near` is true if nothing matches and the results are merely similar.
export function search(entries, typed, most) {
  const query = plain(typed),
    words = wordsOf(typed),
    via = ({ entry, text }) => ({ entry, via: (entry.also ?? []).includes(text.text) ? text.text : "" });
  const fitting = query ? entries.map((entry) => ({ entry, ...fit(entry, query, words) })) : [];
  const found = fitting.filter(({ tier }) => tier).sort(order);
  const near = query.length > 0 && !found.length;
  return { found: (near ? nearest(entries, query) : found.slice(0, most)).map(via), near };
}
