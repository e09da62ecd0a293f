// The Compare tab: two token rows, one above the other.
import { exporting } from "../../export/menu.js";
import { el, fill, roving } from "../../page/dom.js";
import { define } from "../../page/mount.js";
import { adding, onSelect, select, selection } from "../../page/selection/selection.js";

const SIGNS = { same: "=", replaced: "≠", only_a: "−", only_b: "+" };
const sign = (kind) => el("b", "", SIGNS[kind], { "aria-hidden": "true" });

define("alignment", (root) => {
  const title = el("h2"),
    note = el("p", "pg-about"),
    legend = el("p", "pg-align-legend");
  const strip = el("div", "pg-align", "", { role: "group" }),
    foot = el("div");
  root.append(title, legend, strip, note, foot);
  const paint = () => {
    for (const step of strip.querySelectorAll("button"))
      step.setAttribute("aria-pressed", selection.tokens.includes(+step.dataset.at));
  };
  strip.addEventListener("click", (event) => {
    const at = event.target.closest("button")?.dataset.at;
    if (at === undefined) return;
    const was = selection.tokens.includes(+at),
      others = selection.tokens.filter((token) => token !== +at);
    select({ tokens: adding(event) ? (was ? others : [...others, +at]) : was && !others.length ? [] : [+at] });
  });
  roving(strip, (key, at, n) => ({ ArrowRight: at + 1, ArrowLeft: at - 1, Home: 0, End: n - 1 })[key] ?? null);
  onSelect(paint);
  return ({ steps, counts, words, note: noteText, run }) => {
    title.textContent = words.title;
    strip.setAttribute("aria-label", words.title);
    legend.replaceChildren(
      el("span", "pg-align-sides", words.sides),
      ...Object.keys(counts ? SIGNS : {}).map((kind) => {
        const item = el("span", `pg-align-key pg-align-${kind}`);
        item.append(sign(kind), el("span", "", `${words[kind]}: ${counts[kind]}`));
        return item;
      }),
    );
    let index = 0;
    strip.replaceChildren(
      ...steps.map(([kind, a, textA, b, textB]) => {
        const step =
          a === null ? el("span") : el("button", "", "", { type: "button", "data-at": a, "data-index": index });
        if (a !== null) step.tabIndex = index++ ? -1 : 0;
        step.className = `pg-align-step pg-align-${kind}`;
        step.setAttribute("aria-label", fill(words.step, { a: textA ?? "–", b: textB ?? "–", kind: words[kind] }));
        if (a === null) step.setAttribute("role", "img");
        step.append(el("span", "pg-align-token", textA ?? " "), sign(kind), el("span", "pg-align-token", textB ?? " "));
        return step;
      }),
    );
    note.textContent = noteText;
    note.hidden = !noteText;
    foot.replaceChildren(
      exporting(root, {
        file: "alignment",
        title: words.title,
        note: noteText,
        names: ["kind", "position A", "token A", "position B", "token B"],
        lines: steps.map(([kind, ...rest]) => [words[kind], ...rest]),
      }),
    );
    root.dataset.run = run;
    paint();
  };
});

// An empty field shows a suggestion, which becomes its text on focus.
document.addEventListener("focusin", ({ target }) => {
  if (!target.matches?.("#pg-run_b textarea") || target.value !== "") return;
  target.value = target.placeholder;
  target.select(); // the same as when the field is reached by Tab; a click still sets the caret
});
document.addEventListener("focusout", ({ target }) => {
  if (target.matches?.("#pg-run_b textarea") && target.value === target.placeholder) target.value = "";
});
