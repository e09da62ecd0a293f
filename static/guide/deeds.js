// Detection of the user actions that complete a step of the tour or of a lesson.
//
// done has one of these entries. typed: true or a string; picks: "heads", "tokens" or "edits", with
//  count: the minimum number; event: "click" or "input", with on:
//   selector; appears: selector; view: "tab.view"; changes: part, with to: { field: value }; finished: part of a job;
//   trained: the form of a run.
// Changes by the server do not count: when the token row or the selection strip is redrawn, its state is only recorded.

import { currentTab } from "../page/address/places.js";
import { mounted, onDrawn } from "../page/mount.js";
import { onSelect, selection } from "../page/selection/selection.js";
import { pageState } from "../page/state.js";

const EVERY = 250; // milliseconds between checks
const watchers = new Set();
let timer = null;

const prompt = () => JSON.stringify((pageState.tokens ?? []).map(({ text }) => text));
const there = ({ appears }) => Boolean(appears && find(appears));
const values = ({ changes }) => JSON.stringify((changes && mounted.get(changes)?.props.value) ?? null);
const ended = ({ finished }) => (finished ? mounted.get(finished)?.payload()?.state === "done" : false);
function find(selector) {
  try {
    return document.querySelector(selector);
  } catch {
    return null; // an invalid selector: a lesson file may contain any string
  }
}

const runs = ({ trained }) =>
  pageState.runs
    .filter(({ part, ended }) => part === trained && ended)
    .map(({ id }) => id)
    .join();
export function viewOpen(name) {
  const [tab, view] = name.split(".");
  if (currentTab() !== tab) return false;
  const button = document.querySelector(`#pg-${tab}_view .pg-view[data-key="${CSS.escape(view)}"]`);
  return button ? button.getAttribute("aria-selected") === "true" : true;
}
const fits = (to, value) =>
  Object.entries(to).every(([name, each]) => JSON.stringify(value?.[name]) === JSON.stringify(each));

// Record the current state; only later differences from it count as an action.
function note(watcher) {
  const { done } = watcher;
  watcher.before = {
    heads: JSON.stringify(selection.heads),
    tokens: JSON.stringify(selection.tokens),
    edits: JSON.stringify(selection.edits),
    prompt: prompt(),
    there: there(done),
    values: values(done),
    runs: runs(done),
  };
}

// Watch for an action and call told() when it happens. Returns a function that stops watching.
export function watchFor(done, told) {
  const watcher = { done, told };
  note(watcher);
  watchers.add(watcher);
  timer ??= setInterval(look, EVERY);
  return () => {
    watchers.delete(watcher);
    if (watchers.size) return;
    clearInterval(timer);
    timer = null;
  };
}

function look() {
  if (pageState.restoring) {
    for (const { done, before } of watchers) Object.assign(before, { values: values(done), prompt: prompt() });
    return;
  }
  for (const { done, before, told } of [...watchers]) {
    const typed = done.typed === true ? prompt() !== before.prompt : pageState.shown?.prompt === done.typed;
    if (done.typed && typed) told();
    else if (done.appears && !before.there && there(done)) told();
    else if (done.view && viewOpen(done.view)) told();
    else if (done.finished && ended(done)) told();
    else if (done.trained && runs(done) !== before.runs) told();
    else if (done.changes) {
      const value = mounted.get(done.changes)?.props.value;
      if (done.to ? fits(done.to, value) : values(done) !== before.values) told();
    }
  }
}

let scheduled = false;
onSelect(() => {
  if (!watchers.size || scheduled) return;
  scheduled = true;
  queueMicrotask(() => {
    if (!scheduled) return;
    scheduled = false;
    for (const { done, before, told } of [...watchers]) {
      const now = done.picks && selection[done.picks],
        count = done.count ?? 1;
      if (now && now.length >= count && JSON.stringify(now) !== before[done.picks]) told();
    }
  });
});
onDrawn((root) => {
  const { part } = root.dataset;
  if (part !== "selection" && part !== "tokens") return;
  scheduled = false;
  for (const watcher of watchers) {
    const { prompt, there, values, runs } = watcher.before;
    note(watcher);
    Object.assign(watcher.before, { prompt, there, values, runs });
  }
});
for (const kind of ["click", "input"]) {
  document.addEventListener(
    kind,
    ({ target: node }) => {
      for (const { done, told } of [...watchers]) if (done.event === kind && node.closest?.(done.on)) told();
    },
    true,
  );
}
