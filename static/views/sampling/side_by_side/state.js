// The state of several strategies' texts: rows, runs, branches, and the channel to the server.
//
// A record is [id, ln p, rank, entropy (nats), p after the warps, remaining tokens, random number,
// [id, p, p after the warps, ...]], and with a rule also [forbidden p, allowed tokens, whether the text may end, forced
// text, characters that may come, [id, p of forbidden tokens, ...]].

import { feed } from "../../../parts/feed.js";

export const NAT = Math.LN2; // number of nats per bit
export const state = {
  rows: new Map(),
  runs: new Map(),
  texts: new Map(),
  pending: new Map(),
  current: null,
  waiting: null,
  ahead: "",
  error: null,
  color: "probability",
  reference: null,
  pinned: null,
  hovered: null,
  payload: null,
};
const listeners = new Set();
let count = 0;
const send = feed("side_by_side_feed", (piece) => take(piece)); // stopping a run does not affect the pending question
export const tell = (what) => listeners.forEach((listener) => listener(what));

// --- facts about a row ----------------------------------------------------------------------------

export const text = (row, id) => {
  const entry = state.texts.get(`${row.model} ${id}`) ?? `#${id}`;
  return Array.isArray(entry) ? entry[0] : entry;
};
export const breaks = (row, id) => {
  const entry = state.texts.get(`${row.model} ${id}`);
  return Array.isArray(entry) ? entry[1] : 0;
};
export const probability = (record) => Math.exp(record[1]);
export const bits = (record) => -record[1] / NAT + 0;
export const ruleOf = (record) => record[8] ?? null;
export const isForced = (record) => ruleOf(record)?.[1] === 1;
export const ended = (row) => row.ended && row.ended !== "length";
// Return a word for the prompt of a text if it is not the page's current prompt, otherwise "".
export const whose = (row, shown) =>
  row.model !== shown.model ? "other_model" : row.key !== shown.key ? "other_prompt" : "";
export const stale = (row) => whose(row, state.payload) !== "";
export const roots = () => [...state.rows.values()].filter((row) => row.parent === null);
export const childrenOf = (id) => [...state.rows.values()].filter((row) => row.parent === id);
export const inOrder = () => {
  const out = [],
    walk = (row, depth) => {
      row.depth = depth;
      out.push(row);
      childrenOf(row.id).forEach((child) => walk(child, depth + 1));
    };
  roots().forEach((row) => walk(row, 0));
  return out;
};
export const reference = () => state.rows.get(state.reference) ?? roots()[0];
// Return the fork of a row: the first token that differs from another row's, or null.
export const leaves = (row, other) => {
  const n = Math.min(row.records.length, other.records.length);
  for (let at = 0; at < n; at++) if (row.records[at][0] !== other.records[at][0]) return at;
  return null;
};
// Return the interval that selects the token on the bar from 0 to 1: [low, high], or null if it is unknown.
export const share = (row, record) => {
  if (!row.ordered || record[6] === null) return null;
  const [id, , rank, , after] = record,
    top = record[7];
  let low = 0;
  for (let i = 0; i < top.length; i += 3) {
    if (top[i] === id) return [low, low + after];
    low += top[i + 2];
  }
  return rank > top.length / 3 ? null : [low, low + after];
};

// --- pieces ---------------------------------------------------------------------------------------

function open(piece) {
  const { opening } = piece,
    request = state.pending.get(piece.tag) ?? {};
  const run = {
    id: piece.run,
    have: 0,
    state: "running",
    kind: opening.kind,
    limit: opening.limit,
    rows: [],
    seconds: 0,
    tokens: 0,
    opening,
  };
  state.pending.delete(piece.tag);
  const tokens = (id, name) => state.texts.set(`${opening.model} ${id}`, name);
  for (const [id, name] of Object.entries(opening.texts)) tokens(id, name);
  if (opening.kind === "start") {
    state.rows.clear();
    state.runs.clear();
    Object.assign(state, { reference: null, pinned: null, hovered: null });
  } else for (const other of state.runs.values()) if (other.state === "running") other.state = "stopped";
  if (opening.kind === "go") {
    run.rows = request.rows?.map((id) => state.rows.get(id)) ?? [];
    run.rows.forEach((row) => {
      if (row) {
        row.ended = "";
        row.limit = row.records.length + opening.limit;
        row.measured = row.whole = row.own = null;
        row.savedBefore = row.saved;
        row.python.push(opening.python);
      }
    });
  } else {
    const parent = request.parent === undefined ? null : state.rows.get(request.parent);
    if (opening.kind === "branch" && !parent) return null;
    run.rows = opening.rows.map((about, at) => {
      const row = {
        ...about,
        id: `${piece.run} ${at}`,
        parent: parent?.id ?? null,
        at: parent ? request.at : null,
        hue: parent ? parent.hue : at,
        records: parent ? parent.records.slice(0, request.at) : [],
        ended: "",
        others: null,
        measured: null,
        whole: null,
        own: null,
        saved: 0,
        savedBefore: 0,
        turns: parent ? parent.turns : opening.turns,
        shown: true,
        python: [opening.python],
        limit: (parent ? request.at + 1 : 0) + opening.limit,
        key: parent ? parent.key : opening.key,
        model: opening.model,
        prompt: opening.prompt,
        settings: opening.settings,
        source: opening.source,
      };
      if (parent) row.name = parent.name;
      state.rows.set(row.id, row);
      return row;
    });
  }
  state.runs.set(run.id, run);
  state.current = run;
  if (state.stopping) send("stop"); // Stop was pressed before the server had started
  tell("rows");
  return run;
}

// Store the pieces in order; if any were missed, request them.
function take(piece) {
  if (piece.ahead) {
    // the run is queued behind those of other users
    if (piece.tag === state.waiting) state.ahead = piece.ahead;
    return tell("data");
  }
  if (piece.tag && piece.tag === state.waiting) state.waiting = null;
  state.error = piece.error ?? (piece.run ? null : state.error);
  if (!piece.run) return tell("data");
  const run = state.runs.get(piece.run) ?? (piece.opening ? open(piece) : null);
  if (!run) return state.pending.has(piece.tag) ? send("again", { run: piece.run, have: -1 }) : undefined;
  for (const [id, name] of Object.entries(piece.texts)) state.texts.set(`${run.opening.model} ${id}`, name);
  if (piece.from > run.have) return send("again", { run: run.id, have: run.have });
  for (const tick of piece.ticks.slice(run.have - piece.from)) {
    run.have++;
    tick.forEach((change, at) => {
      const row = run.rows[at];
      if (!change || !row) return;
      const [records, drop, why, others] = change;
      if (drop) row.records.length -= drop;
      row.records.push(...records);
      row.ended = why;
      if (others) row.others = others;
    });
  }
  Object.assign(run, { state: piece.state, seconds: piece.seconds, tokens: piece.tokens });
  run.eight = piece.eight ?? "";
  piece.measured?.forEach((numbers, at) => {
    if (run.rows[at])
      Object.assign(run.rows[at], {
        measured: numbers,
        whole: piece.whole[at + 1],
        own: piece.own[at],
        saved: run.rows[at].savedBefore + piece.saved[at],
        asked: piece.whole[0],
      });
  });
  tell(run.state === "running" ? "data" : "over");
}

export const going = () => Boolean(state.waiting) || state.current?.state === "running";
export function ask(kind, more = {}, pending = {}) {
  const tag = `${kind} ${++count}`;
  state.pending.set(tag, pending);
  Object.assign(state, { waiting: tag, ahead: "", error: null, stopping: false });
  send("start", { kind, tag, ...more });
  tell("data");
}
const sent = (row, end) => ({
  strategy: row.strategy,
  number: row.number,
  written: row.records.slice(0, end).map((record) => record.slice(0, 7)),
});
const about = (row) => ({ model: row.model, prompt: row.prompt, settings: row.settings });
export function branch(row, at, choice) {
  ask(
    "branch",
    { ...about(row), rows: [sent(row, at)], limit: Math.max(row.limit, at + 1), ...choice },
    { parent: row.id, at },
  );
}
export const continuable = () =>
  inOrder()
    .filter(
      (row) => row.shown && !ended(row) && row.records.length && row.model === state.payload?.model && !stale(row),
    )
    .slice(0, 8);
export function goOn() {
  const rows = continuable();
  if (rows.length)
    ask("go", { ...about(rows[0]), rows: rows.map((row) => sent(row)) }, { rows: rows.map((row) => row.id) });
}
export function remove(row) {
  childrenOf(row.id).forEach(remove);
  state.rows.delete(row.id);
  for (const name of ["pinned", "hovered"]) if (state[name]?.row === row.id) state[name] = null;
  if (state.reference === row.id) state.reference = null;
}
export const show = (row, on) => {
  row.shown = on;
  tell("rows");
};

// Register a listener: "rows" when rows are added or removed, "data" during generation, "over" at the end.
export const changed = (listener) => listeners.add(listener);
export const stop = () => send("stop");
