// The view "Is this right?": a table of checks with the compared quantities, their difference, its bound, a verdict.
//
// payload: { title, verdict [sentences], state, note, rows, groups [[name, keys]], of { model, dtype, device, torch, threads }, seed, source,
//   python, file, words, run }; a row: { key, name, says, formula, state, difference, unit, bound, share, place 0 .. 1,
//   rule, reason, where, at { heads, tokens }, kind, kind_help, seconds, seed, edited, compared, full, random, python }

import { exporting } from "../../export/menu.js";
import { el } from "../../page/dom.js";
import { define } from "../../page/mount.js";
import { tableOf } from "../../parts/table.js";
import { checkRows, SIGNS, sign, WIDE } from "./check_row.js";

const NARROW = matchMedia("(max-width: 760px)"); // as in the style sheet: a check takes five lines on narrow screens
const WRONG = new Set(["differs", "broken"]);

// Count the checks of a group by result.
const counts = (rows, words) =>
  Object.keys(SIGNS)
    .map((state) => [words[`state_${state}`], rows.filter((row) => row.state === state).length])
    .filter(([, n]) => n)
    .map(([word, n]) => `${word}: ${n}`)
    .join(" · ");

// Build a collapsible group; on narrow screens, it is collapsed if no check in it failed. `folded`: the user's choices.
function groupOf(name, rows, { payload, opened, folded }) {
  const [{ key }] = rows,
    head = el("tbody"),
    line = el("tr", "pg-check-group"),
    title = el("th", "", "", { colspan: WIDE, scope: "colgroup" }),
    button = el("button", "pg-check-fold", name, { type: "button" }),
    body = el("tbody");
  const fold = () => {
    body.hidden = folded.get(key) ?? (NARROW.matches && !rows.some(({ state }) => WRONG.has(state)));
    button.setAttribute("aria-expanded", !body.hidden);
  };
  button.onclick = () => {
    folded.set(key, !body.hidden);
    fold();
  };
  title.append(button, el("span", "pg-check-counts", counts(rows, payload.words)));
  line.append(title);
  head.append(line);
  body.append(...rows.flatMap((row) => checkRows(row, payload, opened)));
  fold();
  return { parts: [head, body], fold };
}

// Return the export: one row per check, as [column, value].
function record(row, { words, seed, of }) {
  const [difference, bound, unit, layer, at, position, compared, seconds] = row.full.map((value) => value ?? "");
  return [
    [words.csv_key, row.key],
    [words.check, row.name],
    [words.says ?? words.check, row.says],
    [words.verdict, words[`state_${row.state}`]],
    [words.difference, difference],
    [words.bound, bound],
    [words.csv_unit, unit],
    [words.csv_layer, layer],
    [words.csv_head, at],
    [words.csv_position, position],
    [words.csv_compared, compared],
    [words.kind, row.kind],
    [words.seconds, seconds],
    [words.csv_seed, row.random ? seed : words.none],
    [words.csv_model, of.model],
    [words.csv_dtype, of.dtype],
    [words.csv_device, of.device],
    [words.run_of, row.edited],
    [words.csv_reason, row.reason],
  ];
}

define("checktable", (root) => {
  const head = el("div", "pg-check-verdict", "", { role: "status" }),
    note = el("p", "pg-about"),
    box = el("div", "pg-check-box"),
    legend = el("p", "pg-check-legend"),
    foot = el("div");
  root.append(head, note, legend, box, foot);
  const kept = { payload: null, opened: new Set(), folded: new Map() };
  let groups = [];
  NARROW.addEventListener("change", () => groups.forEach(({ fold }) => fold()));
  return (payload) => {
    kept.payload = payload;
    const { words, rows, verdict, state } = payload,
      [first, ...others] = verdict,
      text = el("p"),
      by = new Map(rows.map((row) => [row.key, row]));
    head.dataset.state = state;
    text.append(el("strong", "", first), ...others.map((each) => el("span", "", each)));
    head.replaceChildren(sign(state, "pg-check-sign"), text);
    note.textContent = payload.note;
    note.hidden = !payload.note;
    const names = ["verdict", "check", "difference", "share", "where", "kind", "seconds"];
    groups = payload.groups.map(([name, keys]) =>
      groupOf(
        name,
        keys.map((key) => by.get(key)),
        kept,
      ),
    );
    box.replaceChildren(
      tableOf({
        look: "pg-check-table",
        "aria-label": words.table,
        columns: names.map((name) => words[name]),
        rows: groups.flatMap(({ parts }) => parts),
      }),
    );
    legend.replaceChildren(el("span", "", `${words.share}: ${words.scale}`));
    const records = rows.map((row) => record(row, payload));
    foot.replaceChildren(
      exporting(root, {
        file: payload.file,
        source: payload.source,
        title: payload.title,
        note: verdict.join(" "),
        names: records[0].map(([name]) => name),
        lines: records.map((line) => line.map(([, value]) => value)),
        python: payload.python,
      }),
    );
    root.dataset.verdict = state;
    root.dataset.run = payload.run;
  };
});
