// Questions of finished lessons come back when other lessons are begun: first two lessons or one day later, then, after
// each right answer, twice as far apart. Stored only in this browser.
//
// { begun, last, asked: { lesson: { review: { gap, begun, time } } } }: `begun` counts begun lessons.
import { el, fill } from "../page/dom.js";
import { tickedText } from "../parts/icons.js";
import { plainOf, question, sentence } from "./fields.js";
import { button, fetched, say, show } from "./panel.js";
import * as progress from "./progress.js";

const KEY = "playground-lesson-reviews";
const LESSONS = 2;
const DAY = 86_400_000;
const isRecord = (value) => typeof value === "object" && value !== null && !Array.isArray(value);

function recall() {
  try {
    const stored = JSON.parse(localStorage.getItem(KEY));
    if (isRecord(stored)) return { begun: stored.begun || 0, last: stored.last, asked: stored.asked ?? {} };
  } catch {
    /* private browsing, or storage that is full or blocked */
  }
  return { begun: 0, last: "", asked: {} };
}
function keep(held) {
  try {
    localStorage.setItem(KEY, JSON.stringify(held));
  } catch {
    /* as above */
  }
}
const now = (held, gap = 1) => ({ gap, begun: held.begun, time: Date.now() });

// A lesson was finished: its questions are due after two lessons or a day.
export function finished(lesson) {
  const held = recall();
  held.asked[lesson.key] ??= {};
  for (const name of lesson.reviews) held.asked[lesson.key][name] ??= now(held);
  keep(held);
}

// A lesson is begun: return the question that is due for longest, or null.
export function due(key, lessons) {
  const held = recall();
  if (held.last !== key) keep({ ...held, begun: ++held.begun, last: key });
  const late = lessons
    .filter((each) => each.key !== key && progress.of(each.key).finished)
    .flatMap(({ key: of, reviews }) => reviews.map((name) => ({ of, name, kept: held.asked[of]?.[name] })))
    .filter(({ kept }) => kept)
    .map((each) => ({
      ...each,
      late: Math.max((held.begun - each.kept.begun) / LESSONS, (Date.now() - each.kept.time) / DAY) / each.kept.gap,
    }))
    .filter(({ late }) => late >= 1);
  return late.sort((one, other) => other.late - one.late)[0] ?? null;
}
function rate({ of, name }, right) {
  const held = recall(),
    { gap = 1 } = held.asked[of]?.[name] ?? {};
  held.asked[of] = { ...held.asked[of], [name]: now(held, right === null ? gap : right ? gap * 2 : 1) };
  keep(held);
}

// Ask a question, then call `go`, whatever was answered.
export async function askReview(review, words, title, go) {
  let asked;
  const ask = (want, more = {}) => fetched(`/${encodeURIComponent(review.of)}`, { want, review: review.name, ...more });
  try {
    asked = await ask("review");
  } catch {
    return go(); // the lesson is what was wanted
  }
  const head = el("p", "pg-learn-review", fill(words.review, { title: asked.title })),
    on = button(words.review_on, go, "pg-primary pg-learn-next");
  const judge = async (given) => {
    if (!given) {
      rate(review, null);
      return go();
    }
    try {
      const found = await ask("review_check", { given });
      const text = found.right || found.understood === false ? plainOf(found.text) : words.review_wrong;
      if (found.understood === false) return draw(given, el("p", "pg-learn-wrong", text, { role: "status" }));
      rate(review, found.right);
      const told = fill(words.answer_is, { result: found.result });
      const nodes = found.right
        ? [tickedText("p", "pg-learn-right", `${text} ${found.result}`)]
        : [el("p", "pg-learn-wrong", text), el("p", "pg-learn-state", told)];
      const box = el("div", "pg-learn-part"),
        row = el("div", "pg-learn-row");
      row.append(on);
      box.append(sentence("p", "pg-learn-question", asked.text), ...nodes, row);
      show(title, head, box);
      say(`${text} ${found.right ? found.result : told}`);
      on.focus();
    } catch (error) {
      say(error.text ?? words.unreachable);
    }
  };
  const draw = (given, ...more) => {
    const box = el("div", "pg-learn-part pg-learn-check"),
      form = question(asked, words, { send: words.check, pass: words.review_pass }, judge),
      input = form.querySelector("input[type=text]");
    if (input) input.value = given;
    box.append(form, ...more);
    show(title, head, box);
    form.querySelector("input")?.focus();
  };
  draw("");
}
