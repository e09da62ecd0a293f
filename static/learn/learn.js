// The list of lessons, and the lesson panel, which is at the side or, in a narrow window, at the bottom.
//
// GET playground/lessons: { lessons: [{ key, title, goals, minutes, part, level, needs, steps, reviews }], words }.
// GET playground/lessons/KEY: one lesson, see lesson.js.
import { el, fill } from "../page/dom.js";
import { tickedText } from "../parts/icons.js";
import { levelMark } from "./boxes.js";
import { begin, leave } from "./lesson.js";
import * as panel from "./panel.js";
import * as progress from "./progress.js";
import * as reviews from "./reviews.js";
import { alone } from "./workshop.js";

const PARTS = ["text", "block", "whole", "writing", "learning", "assistant", "own"];
let listed = null,
  workshop = "",
  remember = () => {}; // stores the open lesson, "" for the list, null for none, to restore it after a reload

// `again`: true if the page was reloaded and already shows the lesson's state.
export async function open({ key = "", again = false, workshop: only = "", remember: keep }) {
  workshop = only;
  remember = keep;
  listed = await panel.listing();
  document.querySelector(".pg-tour .pg-cross")?.click(); // only one guide at a time
  panel.open(listed.words, workshop ? null : shut);
  const one = workshop && workshop !== "all" && !workshop.includes(",") ? workshop : "",
    wanted = key || one;
  if (offered().some((each) => each.key === wanted)) await startLesson(wanted, again);
  else list(wanted);
  panel.focus();
}
function shut() {
  leave();
  remember(null);
  panel.close();
}

// --- the list ---

const offered = () => {
  const keys = workshop && workshop !== "all" ? workshop.split(",").map((key) => key.trim()) : null;
  return keys ? listed.lessons.filter(({ key }) => keys.includes(key)) : listed.lessons;
};
const following = (key) => {
  const rows = offered(),
    at = rows.findIndex((each) => each.key === key);
  return rows[at + 1] ?? null;
};

function list(missing = "") {
  leave();
  remember("");
  alone(workshop, null);
  const { words } = listed,
    rows = offered(),
    named = new Map(listed.lessons.map((each) => [each.key, each.title]));
  const finished = rows.filter(({ key }) => progress.of(key).finished).length;
  const nodes = [
    ...(missing ? [el("p", "pg-learn-wrong", words.gone)] : []),
    el("p", "pg-muted", words.about),
    el("p", "pg-learn-count", fill(words.count, { done: finished, all: rows.length })),
  ];
  for (const part of PARTS) {
    const of = rows.filter((each) => each.part === part);
    if (!of.length) continue;
    const items = el("ol", "pg-learn-path");
    items.append(...of.map((each) => entry(each, words, named)));
    nodes.push(el("h3", "", words[`part_${part}`]), items);
  }
  panel.show(words.title, ...nodes);
  panel.focus();
}
function entry({ key, title: name, goals, minutes, level, needs, steps }, words, named) {
  const { at, finished } = progress.of(key),
    item = el("li", finished ? "pg-learn-finished" : ""),
    facts = [fill(words.minutes, { n: minutes })];
  const lacking = needs.filter((each) => !progress.of(each).finished).map((each) => named.get(each) ?? each);
  if (finished) facts.unshift(words.finished);
  else if (at) facts.unshift(fill(words.so_far, { n: at, all: steps }));
  if (lacking.length) facts.push(fill(words.needs, { titles: lacking.join(", ") }));
  const start = panel.button(name, () => startLesson(key), "pg-learn-start");
  start.dataset.lesson = key;
  const aims = el("ul", "pg-learn-goals");
  aims.append(...goals.map((goal) => el("li", "", goal)));
  const told = facts.join(" · "),
    line = finished ? tickedText("p", "pg-muted", told) : el("p", "pg-muted", told);
  line.prepend(levelMark(level, words), " ");
  item.append(start, line, aims);
  return item;
}

async function startLesson(key, again = false) {
  const { words } = listed;
  remember(key);
  panel.say(words.loading);
  try {
    const lesson = await panel.fetched(`/${encodeURIComponent(key)}`);
    alone(workshop, lesson);
    const back = workshop && offered().length < 2 ? null : () => list(),
      go = () => begin(lesson, words, { again, back, next: following(key), startLesson }),
      { reviews: names } = listed.lessons.find((each) => each.key === key);
    lesson.reviews = names;
    const review = again ? null : reviews.due(key, offered());
    if (review) {
      leave();
      await reviews.askReview(review, words, lesson.title, go);
    } else await go();
    panel.say("");
  } catch (error) {
    panel.show(
      words.title,
      el("p", "pg-learn-wrong", error.text ?? words.unreachable),
      panel.button(words.to_list, () => list()),
    );
  }
}
