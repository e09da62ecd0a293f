// The parts of a lesson's panel that only show what they are given.
import { el, fill } from "../page/dom.js";
import { tickedText, withIcon } from "../parts/icons.js";
import { plainOf, sentence } from "./fields.js";
import { button } from "./panel.js";
import * as progress from "./progress.js";

// The difficulty of a lesson: as many filled dots as its level, and words for screen readers.
export function levelMark(level, words) {
  const said = words[`level_${level}`],
    mark = el("span", "pg-learn-level", "", { title: said });
  for (let n = 1; n <= 3; n += 1) mark.append(el("i", n <= level ? "pg-on" : "", "", { "aria-hidden": "true" }));
  mark.append(el("span", "pg-tour-live", said));
  return mark;
}

// The line above a step: the way back, the difficulty, and the steps.
export function top({ key, level, steps }, at, words, back) {
  const line = el("div", "pg-learn-top"),
    marks = el("ol", "pg-tour-marks", "", { "aria-label": words.progress }),
    kept = progress.of(key).steps;
  steps.forEach(({ id }, n) => {
    const solved = kept[id]?.solved && n < at,
      text = fill(solved ? words.mark_done : words.mark, { n: n + 1 }),
      mark = el("li", solved ? "pg-tour-ticked" : "", "", { title: text });
    if (n === at) mark.setAttribute("aria-current", "step");
    mark.append(el("span", "pg-tour-live", text));
    marks.append(mark);
  });
  if (back) line.append(withIcon("back", button(words.to_list, back, "pg-quiet")));
  const place = el("span", "pg-muted");
  place.append(levelMark(level, words), ` ${fill(words.step, { n: at + 1, all: steps.length })}`);
  line.append(place, marks);
  return line;
}
export const opening = ({ opens }) => el("p", "pg-learn-opens", opens);

export function action(now, done, words) {
  const box = el("div", `pg-learn-part pg-learn-do${done ? " pg-learn-done" : ""}`, "", { tabindex: -1 });
  box.append(
    sentence("p", "", now.do),
    done ? tickedText("p", "pg-learn-state", words.done) : el("p", "pg-learn-state", words.waiting),
  );
  if (!done) box.append(el("p", "pg-learn-state pg-learn-keys", words.keys));
  return box;
}

// What the guess was worth, as the server judged it: "hit", "near" or "beside".
export function guessed({ guess: grade, result }, guess, words) {
  const text = fill(words[grade] ?? words.beside, { guess, result });
  return grade === "hit" || grade === "near"
    ? tickedText("p", `pg-learn-guessed pg-learn-${grade}`, text)
    : el("p", "pg-muted pg-learn-guessed", text);
}

// The explanation at the end of a step. `verdict.right` is false if the answer was only shown.
export function told({ check }, verdict, on, words, next) {
  const box = el("div", "pg-learn-part pg-learn-told"),
    row = el("div", "pg-learn-row");
  if (check) {
    box.append(sentence("p", "pg-learn-question", check.text));
    box.append(
      verdict.right
        ? tickedText("p", "pg-learn-right", `${plainOf(verdict.text)} ${verdict.result}`)
        : el("p", "pg-learn-state", fill(words.answer_is, { result: verdict.result })),
    );
  }
  row.append(button(on, next, "pg-primary pg-learn-next"));
  box.append(sentence("p", "pg-learn-why", verdict.why), row);
  return box;
}
