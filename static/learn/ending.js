// The summary of a lesson: its goals, and every prediction beside the model's result, to read, save or print.

import { save } from "../export/files.js";
import { page } from "../export/onefile.js";
import { el, fill } from "../page/dom.js";
import { tickedText } from "../parts/icons.js";
import { tableOf } from "../parts/table.js";
import { plainOf } from "./fields.js";
import { button } from "./panel.js";
import * as progress from "./progress.js";

// Build the summary from text-only elements.
function sheet({ key, title, goals, steps }, words) {
  const box = el("div", "pg-learn-sheet"),
    aims = el("ul", "pg-learn-goals"),
    rows = [],
    kept = progress.of(key).steps;
  aims.append(...goals.map((goal) => tickedText("li", "", goal)));
  let solved = 0,
    all = 0,
    passed = 0;
  for (const { id, check } of steps) {
    const one = kept[id] ?? {};
    if (one.question) rows.push([one.question, one.guess || "–", one.result || "–"]);
    if (!check) continue;
    all += 1;
    if (one.solved) solved += 1;
    else if (one.skipped) passed += 1;
    if (one.solved) {
      const tries = fill(one.tries === 1 ? words.first_try : words.tries, { n: one.tries });
      rows.push([one.check, one.answer || "–", `${one.right ?? ""} (${tries})`]);
    } else if (one.skipped) rows.push([one.check ?? plainOf(check.text), one.answer || "–", words.skipped]);
    else if (one.check) rows.push([one.check, one.answer || "–", "–"]);
  }
  box.append(
    el("h3", "", title),
    aims,
    el(
      "p",
      "pg-muted",
      `${fill(words.score, { n: solved, all })}${passed ? ` · ${fill(words.score_skipped, { n: passed })}` : ""} · ${new Date().toISOString().slice(0, 10)}`,
    ),
    tableOf({
      look: "pg-learn-results",
      caption: { text: words.results, look: "pg-tour-live" },
      columns: [words.question, words.your_guess, words.result],
      rows,
    }),
  );
  return box;
}

export function ending(lesson, words, { back, again, next, startLesson }) {
  const written = sheet(lesson, words),
    acts = el("div", "pg-learn-row");
  const keep = async () => {
    const css = `table { width: 100%; } td, th { border: 1px solid var(--pg-line); padding: 4px 8px; text-align: left; } tr { break-inside: avoid; } ul { list-style: none; padding: 0; } .pg-tour-live { display: none; }`;
    save(`lesson-${lesson.key}.html`, await page({ title: lesson.title, body: [written.outerHTML], figures: [], css }));
  };
  acts.append(
    ...(next
      ? [
          button(
            fill(words.next_lesson, { title: next.title }),
            () => startLesson(next.key),
            "pg-primary pg-learn-next",
          ),
        ]
      : []),
    button(words.save, keep, "pg-learn-save"),
    button(words.print, () => window.print()),
    button(words.again, again),
    ...(back ? [button(words.to_list, back)] : []),
  );
  return [el("p", "pg-learn-right", words.end_title), written, acts];
}
