// The compare tab: two token rows above each other, next tokens of two runs.
import { exporting } from "../../export/menu.js";
import { el, fill, roving } from "../../page/dom.js";
import { define } from "../../page/mount.js";
import { adding, onSelect, select, selection } from "../../page/selection/selection.js";
import { watchRow } from "../../page/selection/watched.js";
import { rowOf, tableOf } from "../../parts/table.js";
import { titled } from "../../parts/titled.js";

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
  target.select(); // as where one comes by Tab; a click sets the caret all the same
});
document.addEventListener("focusout", ({ target }) => {
  if (target.matches?.("#pg-run_b textarea") && target.value === target.placeholder) target.value = "";
});

// payload.lists: one list of { token, shares, percents, change }, of A and B in this order, or two of one share each.
define("compare_next", (root) => {
  const lists = el("div", "pg-next-lists"),
    show = titled(root, lists);
  const bar = (share, text, side) => {
    const track = el("span", "pg-next-track"),
      fillBar = el("span", "pg-next-bar", "", { "aria-hidden": true });
    fillBar.style.width = `${100 * share}%`;
    track.append(fillBar);
    return { look: `pg-next-share pg-next-${side}`, inside: [track, el("span", "pg-next-number", text)] };
  };
  const line = ({ id, token, shares, percents, change }, sides) => {
    const row = rowOf([
      { look: "pg-next-token", text: token },
      ...shares.map((share, i) => bar(share, percents[i], sides[i])),
      ...(change ? [{ look: "pg-next-change", text: change }] : []),
    ]);
    if (id !== undefined) watchRow(row, row.firstChild, id, token); // of the model that is loaded
    return row;
  };
  const grid = (columns, lines, sides) =>
    tableOf({ look: "pg-next-table", columns, rows: lines.map((each) => line(each, sides)) });
  return (payload) => {
    root.classList.toggle("pg-absent", Boolean(payload.absent));
    if (payload.absent) return;
    const { names } = payload,
      both = payload.lists.length === 1;
    lists.replaceChildren(
      ...(both
        ? [grid([names.token, names.in_a, names.in_b, names.change], payload.lists[0], ["a", "b"])]
        : payload.lists.map((list, i) => grid([names.token, i ? names.in_b : names.in_a], list, i ? ["b"] : ["a"]))),
    );
    show(payload, {
      names: both ? [names.token, names.in_a, names.in_b] : ["", names.token, names.probability],
      lines: payload.lists.flatMap((list, i) =>
        list.map(({ token, shares }) => [...(both ? [] : ["AB"[i]]), token, ...shares]),
      ),
    });
  };
});
