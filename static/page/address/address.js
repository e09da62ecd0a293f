// The state of the page as one value, in its address, in a file, and in the browser history.
//
// state: { v, model, prompt, tab, heads, tokens, pair, edits, target, distractor, values: { part: value } }. It is stored
//  after the #, which browsers do not send to servers. This module validates the format of links and files, the
//  server their meaning. A state never triggers a download or a long job.
// payload of "address": { words, usual: { model, prompt, tab }, held: [part] }.

import { el, showBlock } from "../dom.js";
import { define, mounted, onAsk, onDrawn, onMount } from "../mount.js";
import { promptText } from "../prompt/prompt.js";
import { onSelect, selection } from "../selection/selection.js";
import { onReopen } from "../server/connection.js";
import { pageState } from "../state.js";
import { followLink } from "../wire/link.js";
import { again } from "../wire/models.js";
import { ask } from "../wire/view.js";
import { checked, fragment, isRecord, parse, same } from "./address_format.js";
import { arrived as arrivedAt } from "./places.js";

export const LONGEST = 8000; // maximum number of characters of a link
const PAUSE = 300,
  TYPING = 1500,
  PATIENCE = 20000; // milliseconds to wait for the server when restoring a link

// A state too long for an address is stored in the tab's history entry: it cannot be shared, but survives a reload.
const arrived = () => (history.state?.playground ? checked(history.state.playground).state : parse(location.hash));

// --- the current state ---

let usual = null,
  tab = null,
  held = null;
let goal = arrived(); // the state of the link being restored
let waits = null; // a model that is not available here: { model, was }
const late = new Map(Object.entries(goal?.values ?? {})); // values of parts that are not mounted yet

// Fields that are missing take the values of an unchanged page.
function complete(partial) {
  const { model, prompt, tab } = usual ?? {};
  const nothing = { tokens: [], pair: null, edits: [], target: null, distractor: null, values: {} };
  const first = { model, prompt, tab, ...nothing, ...partial };
  const untouched = first.model === model && first.prompt === prompt && !first.values.chat?.on;
  return { v: 1, heads: untouched ? (pageState.firstHeads ?? []) : [], ...first };
}
const spelled = (of) => fragment(of, complete({}));

const plain = (value) => JSON.parse(JSON.stringify(value ?? null));
export function state() {
  const values = Object.fromEntries(late);
  for (const [name, { stateOf, props, initial }] of mounted) {
    const value = stateOf && isRecord(props.value) ? stateOf(plain(props.value)) : null;
    if (value && Object.keys(value).length && JSON.stringify(value) !== initial) values[name] = value;
  }
  const { model, prompt } = pageState.shown ?? usual ?? {};
  const picked = plain({
    heads: selection.heads,
    tokens: selection.tokens,
    pair: selection.pair,
    edits: selection.edits,
    target: selection.target,
    distractor: selection.distractor,
  });
  return {
    v: 1,
    model,
    prompt,
    tab: tab ?? usual?.tab,
    ...picked,
    values: Object.fromEntries(Object.entries(values).sort(([a], [b]) => (a < b ? -1 : 1))),
  };
}
const bare = () => `${location.pathname}${location.search}`;
// Return the link, or null if the state is too long for a link.
export function linkTo(of = state()) {
  const whole = `${location.origin}${bare()}${spelled(of)}`;
  return { text: whole.length > LONGEST ? null : whole, length: whole.length };
}

// --- writing ---

let written = () => {}; // called after each change of the address
export const onWritten = (listener) => {
  written = listener;
};
let acted = false; // true after a user action since the last link
let timer = null,
  typed = 0;
let last = { text: "", state: null }; // the state in the address
for (const name of ["pointerdown", "keydown", "input", "click"])
  document.addEventListener(
    name,
    () => {
      acted = true;
    },
    true,
  );

const views = ({ values }) =>
  Object.entries(values).flatMap(([name, value]) => (name.endsWith("_view") ? [[name, value.view]] : []));
const kinds = ({ edits }) => edits.map(({ factor, value, ...edit }) => edit);
const asked = ({ prompt, values }) => [prompt, values.chat ?? null];
// Return whether an action adds a history entry; moving a slider and typing do not.
function isStep(before, now) {
  if (!same(asked(now), asked(before))) {
    const more = Date.now() - typed < TYPING && now.model === before.model && now.tab === before.tab;
    typed = Date.now();
    return !more;
  }
  return (
    ["model", "tab", "heads", "target", "distractor"].some((name) => !same(before[name], now[name])) ||
    !same(views(before), views(now)) ||
    !same(kinds(before), kinds(now))
  );
}
export function write() {
  clearTimeout(timer);
  if (!usual || goal || waits || pageState.restoring) return;
  const now = state(),
    text = spelled(now);
  if (text === last.text) return;
  const step = acted && isStep(last.state ?? complete({}), now),
    { playground: old, ...rest } = history.state ?? {};
  const long = !linkTo(now).text;
  history[step ? "pushState" : "replaceState"](
    long ? { ...rest, playground: now } : rest,
    "",
    long ? bare() : bare() + text,
  );
  last = { text, state: now };
  written();
}
const soon = () => {
  clearTimeout(timer);
  timer = setTimeout(write, PAUSE);
};

// --- restoring ---

let way = 0, // number of the most recent restoration
  watchdog = null,
  settled = [];
function settle() {
  clearTimeout(watchdog);
  pageState.restoring = false;
  settled.forEach((done) => done());
  settled = [];
  soon();
}
// Keep the address unchanged until the restored values are drawn.
function hold() {
  pageState.restoring = true;
  clearTimeout(watchdog);
  watchdog = setTimeout(settle, PATIENCE); // if the server is unreachable, do not block the page
}
// Draw all parts whose values were restored, in a single update.
let drawing = null;
function redrawSoon() {
  hold();
  clearTimeout(drawing);
  drawing = setTimeout(async () => {
    const mine = way;
    await ask();
    if (mine === way && (!goal || waits)) settle();
  });
}

async function followGoal() {
  if (!usual || !goal) return;
  way += 1;
  const mine = way,
    { values, v, ...rest } = complete(goal);
  hold();
  const linked = await followLink({ ...rest, chat: values.chat }, () => mine === way);
  if (mine !== way) return;
  mounted.get("linked").show(linked);
  if (linked.model) waits = { model: linked.model, was: pageState.shown?.model };
  else goal = null;
  await ask();
  if (mine === way) settle();
}
function give(name, value) {
  const entry = mounted.get(name);
  entry.props.value = value;
  entry.take?.(value);
  entry.foreign = true;
}
function setValues(values) {
  late.clear();
  for (const [name, value] of Object.entries(values)) if (!held || held.includes(name)) late.set(name, value);
  for (const [name, entry] of mounted) {
    if (!entry.stateOf) continue;
    const next = late.has(name) ? late.get(name) : JSON.parse(entry.initial);
    late.delete(name);
    if (same(next, plain(entry.props.value))) continue;
    give(name, next);
    entry.redraw();
  }
}
// Restore a state. Resolves once the server has answered and the state is drawn.
export function restore(sent) {
  clearTimeout(timer);
  goal = checked(sent).state;
  waits = null;
  acted = false;
  pageState.restoring = true;
  if (usual) last = { text: spelled(complete(goal)), state: complete(goal) };
  setValues(goal.values ?? {});
  return new Promise((done) => {
    settled.push(done);
    followGoal();
  });
}
function follow() {
  const next = arrived() ?? {};
  if (usual && spelled(complete(next)) === last.text) return;
  restore(next);
}
window.addEventListener("popstate", follow);
window.addEventListener("hashchange", follow);

onMount((name, entry) => {
  if (!entry.stateOf || !late.has(name)) return;
  give(name, entry.stateOf(late.get(name)) ?? late.get(name));
  late.delete(name);
  redrawSoon();
});
onDrawn((root) => {
  const { model } = pageState.shown ?? {};
  if (waits && root.dataset.part === "tokens" && model !== waits.was) {
    // the model is loaded, or another one was selected
    const there = model === waits.model;
    stay();
    if (there) followGoal();
    else goal = null;
  }
  if (root.dataset.part !== "address") soon();
});
onSelect(soon);
onAsk((root) => {
  if (root.dataset.part !== "address") soon();
});

define("address", (root) => {
  root.hidden = true;
  return (payload) => {
    const first = !usual;
    ({ usual, held } = payload);
    for (const name of late.keys()) if (!held.includes(name)) late.delete(name); // the page has no part of this name
    if (!first) return;
    last = { text: goal ? spelled(complete(goal)) : "", state: complete(goal ?? {}) };
    followGoal();
  };
});

let stay = () => {};
// Show a notice that the link's model is not available, with the possible actions.
define("linked", (root) => {
  root.className = "pg-linked pg-notice";
  root.setAttribute("role", "status");
  stay = () => {
    showBlock(root, false);
    waits = null;
  };
  return ({ model, text, hint, load, close }) => {
    showBlock(root, Boolean(model));
    if (!model) return;
    const said = el("div", "pg-notice-text"),
      fetch = el("button", "pg-button pg-primary", load, { type: "button" }),
      leave = el("button", "pg-button", close, { type: "button" });
    said.append(el("strong", "", text), el("span", "", hint));
    fetch.onclick = again;
    leave.onclick = () => {
      stay();
      goal = null;
      soon();
    };
    root.replaceChildren(said, fetch, leave);
  };
});

// Restore a state that did not come from a link, as a new history entry. Resolves once it is drawn.
export function enter(partial) {
  write();
  const whole = complete(partial),
    text = spelled(whole),
    fits = linkTo(whole).text;
  const { playground: old, ...rest } = history.state ?? {};
  if (text !== last.text)
    history.pushState(fits ? rest : { ...rest, playground: whole }, "", fits ? bare() + text : bare());
  return restore(partial);
}

export const link = () => linkTo().text;

// Called from Python when a tab is opened.
export function opened(key) {
  tab = key;
  arrivedAt(key);
  soon();
}

// Build the address of the page in another language, with its state.
export function addressIn(language) {
  write();
  const query = new URLSearchParams(location.search);
  query.set("lang", language);
  return `?${query}${location.hash}`;
}

// Text typed before the server's answer was never drawn, so the address does not contain it yet.
onReopen(() => {
  const typed = promptText();
  if (typed === undefined || !pageState.shown || typed === pageState.shown.prompt) return;
  pageState.shown = { ...pageState.shown, prompt: typed };
  const address = link();
  const here = address ? history.state : { ...history.state, playground: state() };
  history.replaceState(here, "", address ?? location.pathname + location.search);
});

pageState.restoring = Boolean(goal); // a link is being restored
