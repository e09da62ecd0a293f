// One lesson: a prediction, an action that is detected automatically, an observation, a check, and an explanation.
//
// lesson: { key, title, goals, model, state, own_prompt, steps: [{ id, at, ask, do, done, state, show, hints, check }] };
//   own_prompt: true if it is about a prompt of the visitor's; ask and check: { text: [[kind, text]], kind,
//   choices: [[key, text]], percent, hidden } or null. The right answers are not in it: the model computes them when an
//   answer is sent (POST playground/lessons/KEY). The text of a hidden check comes with the observation, after the
//   action and a guess.

import { viewOpen, watchFor } from "../guide/deeds.js";
import { first, target } from "../guide/tour_places.js";
import { enter } from "../page/address/address.js";
import { el, fill } from "../page/dom.js";
import { mounted } from "../page/mount.js";
import { selection } from "../page/selection/selection.js";
import { pageState } from "../page/state.js";
import { astrayNote, showAstray } from "./astray.js";
import { action, guessed, opening, told, top } from "./boxes.js";
import { ending } from "./ending.js";
import { answered, labelOf, plainOf, question, refill, sentence } from "./fields.js";
import { switching } from "./keys.js";
import { button, fetched, say, show } from "./panel.js";
import { pointAt, pointedAt } from "./pointing.js";
import * as progress from "./progress.js";
import { finished } from "./reviews.js";

const EVERY = 400; // milliseconds between checks of the controls' positions
const PATIENCE = 15_000; // milliseconds to wait for a control
let lesson = null,
  words = null,
  ways = null; // { back, next, startLesson }
let at = 0,
  stage = "ask", // then "do", "check" or "told"
  hints = 0,
  wrongs = 0, // wrong answers to the check of this step
  said = {}, // the server's answers in this step
  shownState = null, // the most recently restored state
  hold = () => {}, // a function that stops watching for the action
  timer = null,
  ready = false, // true once the step's state is restored: actions count from then on
  turn = 0; // number of started steps, by which late answers are recognized and dropped

const step = () => lesson.steps[at];
const kept = () => progress.of(lesson.key).steps[step().id] ?? {};
const page = () => ({
  ...pageState.shown,
  heads: selection.heads,
  tokens: selection.tokens,
  runs: pageState.runs.map(({ id }) => id),
});
const ask = (want, more = {}) =>
  fetched(`/${encodeURIComponent(lesson.key)}`, { step: step().id, want, page: page(), ...more });

// --- the page ---

const until = async (there, patience = PATIENCE) => {
  for (let waited = 0; waited < patience; waited += 100) {
    const found = there();
    if (found) return found;
    await new Promise((next) => setTimeout(next, 100));
  }
  return null;
};
function merged(...states) {
  const whole = { values: {} };
  for (const { press, values = {}, ...each } of states.filter(Boolean)) {
    Object.assign(whole, each);
    for (const [part, value] of Object.entries(values)) whole.values[part] = { ...whole.values[part], ...value };
  }
  return whole;
}
async function put(...states) {
  shownState = { model: lesson.model, ...merged(lesson.state, ...states) };
  await until(() => pageState.shown);
  await enter(shownState);
}

// Return the tab and view that earlier steps have opened: a step without a tab continues in the open view.
function place(to = at) {
  const steps = lesson.steps.slice(0, to).flatMap(({ state, done }) => {
    const [tab, view] = done.view?.split(".") ?? [];
    return [state, tab && { tab, values: { [`${tab}_view`]: { view } } }];
  });
  const { tab, values = {} } = steps.findLast((each) => each?.tab) ?? {};
  return tab && { tab, values: { [`${tab}_view`]: values[`${tab}_view`] ?? {} } };
}

// Return the control to use or, on the way to its view, the tab or the view's name.
function toDo() {
  const { done, at: places } = step(),
    [tab, view] = done.view?.split(".") ?? [];
  return (tab && !viewOpen(done.view) && target({ tab, view: [`${tab}_view`, view], at: [] })) || pick(places);
}
function look() {
  const { at: places, check } = step() ?? {};
  let node = null;
  if (stage === "do" && ready) node = toDo();
  if (stage === "check") node = pick(check?.at.length ? check.at : places);
  pointAt(node);
  showAstray(strayed());
}
function pick(selectors) {
  try {
    return first(selectors);
  } catch {
    return null; // an invalid selector: a lesson file may contain any string
  }
}
// Return what the page shows differently than the step needs: its "model", its "prompt", or "".
function strayed() {
  const { model, prompt } = pageState.shown ?? {};
  if (!step() || !shownState || !model || pageState.restoring || step().done.typed) return "";
  if (model !== shownState.model) return "model";
  return !lesson.own_prompt && shownState.prompt !== undefined && prompt !== shownState.prompt ? "prompt" : "";
}

// --- start and end ---

export async function begin(given, texts, { again, ...more }) {
  leave();
  [lesson, words, ways] = [given, texts, more];
  const { at: reached, finished } = progress.of(lesson.key);
  const now = turn;
  const last = lesson.steps.length - (finished ? 0 : 1); // a finished lesson has its end to come back to
  at = finished && !again ? 0 : Math.min(reached, last);
  timer = setInterval(look, EVERY);
  switching(pointedAt);
  if (at === lesson.steps.length) return go(at);
  const state = before();
  if (again && location.hash) {
    await until(() => pageState.shown);
    shownState = { model: lesson.model, ...merged(lesson.state, place(), state) };
  } else {
    show(lesson.title, el("p", "pg-muted", words.loading));
    await put(place(), state);
    scrollTo({ top: 0, behavior: "instant" });
  }
  if (now === turn) go(at);
}
// Return the page state that results from the steps before the current one.
const before = (to = at) => lesson.steps.slice(0, to).findLast((each) => each.state)?.state;
export function leave() {
  hold();
  clearInterval(timer);
  pointAt(null);
  shownState = null;
  turn += 1;
}

async function go(to) {
  hold();
  at = to;
  turn += 1;
  const now = turn;
  [hints, wrongs, said, ready] = [0, 0, {}, false];
  if (at >= lesson.steps.length) {
    progress.keep(lesson.key, { at: lesson.steps.length, finished: true });
    finished(lesson);
    stage = "told";
    show(lesson.title, ...ending(lesson, words, { ...ways, again: restart }));
    say(words.end_title);
    return;
  }
  progress.keep(lesson.key, { at });
  stage = step().ask ? "ask" : "do";
  draw();
  if (step().live) await fillIn(now);
  if (now === turn && stage === "do") act();
}
// Show the numbers of the question before any action.
async function fillIn(now) {
  try {
    const texts = await ask("texts");
    if (now !== turn) return;
    const whole = step();
    whole.do = texts.do;
    for (const name of ["ask", "check"]) if (whole[name]) whole[name].text = texts[name];
    const given = answered();
    draw();
    refill(given);
  } catch (error) {
    say(error.text ?? words.unreachable);
  }
}
// Start the action: the step's state is restored only now, because it may reveal the answer to the question.
async function act() {
  const now = turn;
  if (step().state) await put(place(), step().state);
  if (step().run) await fillForm(step().run);
  if (now === turn && stage === "do") watch();
}
// Fill in a form that manages its own fields, once it is mounted.
async function fillForm({ part, values }) {
  const entry = await until(() => mounted.get(part));
  if (entry && !entry.stateOf) entry.take?.(values);
}
async function restart() {
  progress.keep(lesson.key, { at: 0 });
  show(lesson.title, el("p", "pg-muted", words.loading));
  const now = turn;
  await put();
  if (now === turn) go(0);
}

function watch() {
  hold();
  ready = true;
  look(); // mark the control to use without delay
  hold = watchFor(step().done, ticked);
}
async function ticked() {
  hold();
  if (stage !== "do") return;
  stage = "check";
  const now = turn;
  if (step().done.typed) shownState.prompt = pageState.shown?.prompt; // typing the prompt was the task
  say(words.done);
  try {
    said.see = await ask("see", { guess: kept().given ?? "" });
    if (said.see.check) step().check = { hidden: true, ...said.see.check };
  } catch (error) {
    said.see = { see: [["", error.text ?? words.unreachable]], result: "" };
  }
  if (now !== turn) return;
  progress.note(lesson.key, step().id, { result: said.see.result });
  hints = 0;
  said.hints = [];
  if (!step().check?.text.length) await judge("");
  else draw();
  say(plainOf(said.see.see));
}

// --- input in the panel ---

function commit(given) {
  const { ask: asked } = step();
  progress.note(lesson.key, step().id, { question: plainOf(asked.text), guess: labelOf(asked, given), given });
  stage = "do";
  draw();
  focus(".pg-learn-do");
  act();
}

async function judge(given) {
  const now = turn,
    { check, id } = step();
  try {
    const found = await ask("check", { given, tries: wrongs });
    if (now !== turn) return;
    said.verdict = found;
    if (found.understood !== false) {
      const { tries = 0 } = kept();
      if (!found.right) wrongs += 1;
      const more = check
        ? { check: plainOf(check.text), answer: labelOf(check, given), right: found.result, tries: tries + 1 }
        : {};
      progress.note(lesson.key, id, { ...more, solved: found.right, skipped: false, hints });
    }
    if (found.right) stage = "told";
    draw(given);
    say(plainOf(found.text));
    if (found.right) focus(".pg-learn-next");
    else focus(".pg-learn-check input");
  } catch (error) {
    say(error.text ?? words.unreachable);
  }
}

// Before the action, hints are about the action, and the last one does it. After it, they are about the question.
const hintsHere = () => (stage === "do" ? step().hints : Math.max(1, step().check_hints));
async function hint() {
  const now = turn,
    of = stage,
    n = Math.min(hints, hintsHere() - 1),
    last = of === "do" && n === hintsHere() - 1;
  try {
    const found = await ask("hint", { n, of });
    if (now !== turn) return;
    said.hints = [...(said.hints ?? []).slice(0, n), found.hint];
    hints = n + 1;
    draw();
    say(plainOf(found.hint));
    if (last) await doIt(now);
  } catch (error) {
    say(error.text ?? words.unreachable);
  }
}
// The last hint performs the action: restore the state, then press the control.
async function doIt(now) {
  const { show: shows, state, done } = step(),
    { press = [], ...rest } = shows;
  if (Object.keys(rest).length) await put(place(), state, rest);
  const free = (node) => (node && !node.disabled ? node : null); // a press on a disabled button would be lost
  for (const selector of press) (await until(() => now === turn && free(pick([selector]))))?.click();
  if (now === turn && stage === "do" && !done.finished && !done.appears && !done.trained) ticked();
}

// Skip a step, or only its question; the sheet at the end says so.
function skip() {
  const { ask: asked, check } = step(),
    question = check?.text.length ? { check: plainOf(check.text) } : {};
  progress.note(lesson.key, step().id, {
    ...(asked ? { question: plainOf(asked.text) } : {}),
    ...question,
    solved: false,
    skipped: true,
  });
  say(words.skipped);
  go(at + 1);
}
async function answer() {
  const now = turn;
  try {
    const found = await ask("answer");
    if (now !== turn) return;
    const { check, id } = step();
    progress.note(lesson.key, id, { check: plainOf(check.text), right: found.result, solved: false, skipped: true });
    said.verdict = found;
    stage = "told";
    draw();
    say(found.result);
    focus(".pg-learn-next");
  } catch (error) {
    say(error.text ?? words.unreachable);
  }
}

// --- drawing ---

const focus = (selector) => document.querySelector(`.pg-learn ${selector}`)?.focus({ preventScroll: false });

function draw(given = "") {
  const now = step(),
    { guess } = kept(),
    nodes = [top(lesson, at, words, ways.back)];
  nodes.push(...astrayNote(words, lesson.model, () => put(place(), before(stage === "ask" ? at : at + 1))));
  if (at === 0 && stage === (now.ask ? "ask" : "do") && lesson.opens) nodes.push(opening(lesson));
  if (now.ask) {
    const box = el("div", "pg-learn-part");
    const pass = now.check?.hidden ? "" : words.no_guess; // a hidden question is shown for a guess
    if (stage === "ask") box.append(question(now.ask, words, { send: words.commit, pass }, commit));
    else {
      box.append(sentence("p", "pg-learn-question", now.ask.text));
      if (guess) box.append(el("p", "pg-learn-guess", fill(words.you_said, { guess })));
    }
    nodes.push(box);
  }
  if (stage !== "ask") nodes.push(action(now, stage !== "do", words));
  if (said.see) {
    const box = el("div", "pg-learn-part pg-learn-see");
    box.append(sentence("p", "", said.see.see));
    if (guess && said.see.result) box.append(guessed(said.see, guess, words));
    nodes.push(box);
  }
  if (stage === "check" && said.see && now.check) nodes.push(checking(now, given));
  if (stage === "told")
    nodes.push(
      told(now, said.verdict, at === lesson.steps.length - 1 ? words.finish : words.next, words, () => go(at + 1)),
    );
  if (stage === "do" || (stage === "check" && said.see)) nodes.push(helping(now));
  show(lesson.title, ...nodes);
  (
    nodes.at(-1).querySelector?.(".pg-learn-next") ?? nodes.find((node) => node.matches(".pg-learn-check"))
  )?.scrollIntoView({ block: "nearest" });
  look(); // last: scrolling in the panel would stop the page's
}
function checking(now, given) {
  const box = el("div", "pg-learn-part pg-learn-check"),
    form = question(now.check, words, { send: words.check }, judge);
  const input = form.querySelector("input[type=text]");
  if (input && given) input.value = given;
  const chosen = given && [...form.querySelectorAll("input[type=radio]")].find(({ value }) => value === given);
  if (chosen) chosen.checked = true;
  box.append(form);
  if (said.verdict) box.append(sentence("p", "pg-learn-wrong", said.verdict.text, { role: "status" }));
  return box;
}
function helping(now) {
  const box = el("div", "pg-learn-part pg-learn-help"),
    row = el("div", "pg-learn-row");
  for (const each of said.hints ?? []) box.append(sentence("p", "pg-learn-hint", each));
  const all = hintsHere(),
    here = { n: Math.min(hints + 1, all), all },
    help = "pg-learn-hint-open";
  if (stage === "do") row.append(button(fill(hints >= all - 1 ? words.show_me : words.hint, here), hint, help));
  else if (hints < all) row.append(button(fill(words.hint, here), hint, help));
  else row.append(button(words.show_answer, answer, help));
  row.append(button(stage === "do" ? words.skip : words.skip_question, skip, "pg-quiet pg-learn-skip"));
  box.append(row);
  return box;
}
