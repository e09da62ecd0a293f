// Is this right? The table of checks: what was compared, how far apart it is against its bound, and the verdict.
//
// payload: { title, verdict [sentences], state, note, rows, groups [[name, keys]], of { model, dtype, device, torch, threads }, seed, source,
//   python, file, words, run }; a row: { key, name, says, formula, state, difference, unit, bound, share, place 0 .. 1,
//   rule, reason, where, at { heads, tokens }, kind, kind_help, seconds, seed, edited, compared, full, random, python }
import { exporting } from "../../export/menu.js";
import { el, fill } from "../../page/dom.js";
import { define } from "../../page/mount.js";
import { select } from "../../page/selection/selection.js";

const SIGNS = { agrees: "✓", differs: "✗", unable: "–", broken: "!", waiting: "…" };
const BOUND = 6 / 7; // where the bound stands on the scale of `place`
const NARROW = matchMedia("(max-width: 760px)"); // as in the styles: a check takes five lines there
const WRONG = new Set(["differs", "broken"]);

define("checktable", (root) => {
  const head = el("div", "pg-check-verdict", "", { role: "status" }),
    note = el("p", "pg-about"),
    box = el("div", "pg-check-box"),
    legend = el("p", "pg-check-legend"),
    foot = el("div");
  root.append(head, note, box, legend, foot);
  let payload = null;
  const opened = new Set(); // rows whose details are shown
  const folded = new Map(); // by a group's first check: whether a person folded it
  let folds = []; // each shows or hides the checks of a group

  const mark = (state, words) => {
    const node = el("span", "pg-check-state");
    node.dataset.state = state;
    node.append(el("b", "", SIGNS[state], { "aria-hidden": true }), words[`state_${state}`]);
    return node;
  };
  const cell = (name, label, ...inside) => {
    const node = el("td", `pg-check-${name}`, "", { "data-label": label });
    node.append(...inside.filter(Boolean));
    return node;
  };
  const scale = ({ share, place, state }) => {
    const both = el("span", "pg-check-scale"),
      track = el("i", "pg-check-track", "", { "aria-hidden": true }),
      dot = el("i");
    track.style.setProperty("--pg-bound", `${100 * BOUND}%`);
    dot.style.left = `${100 * place}%`;
    dot.dataset.state = state;
    track.append(dot);
    both.append(el("span", "", share), track);
    return both;
  };
  const go = ({ at, where }, words) => {
    if (!at) return where;
    const button = el("button", "pg-check-go", where, { type: "button", title: fill(words.pick, { where }) });
    button.onclick = () => select(at);
    return button;
  };
  const details = (row, words) => {
    const node = el("div", "pg-check-details"),
      list = el("dl");
    const fact = (name, text) => {
      if (text) list.append(el("dt", "", name), el("dd", "", text));
    };
    list.append(el("dt", "", words.formula), el("dd", "pg-check-formula", row.formula));
    fact(words.bound, row.rule);
    fact(words.kind, `${row.kind}: ${row.kind_help}`);
    const { model, dtype, device } = payload.of;
    fact(words.csv_model, [model, dtype, device, row.seed, row.edited].filter(Boolean).join(" · "));
    if (row.compared) fact(words.difference, row.compared);
    node.append(list, el("pre", "", row.python, { tabindex: 0, "aria-label": "Python" }));
    return node;
  };
  const line = (row, words) => {
    const tr = el("tr", "pg-check-row"),
      name = el("th", "", "", { scope: "row" }),
      more = el("tr", "pg-check-more"),
      whole = el("td", "", "", { colspan: 7 });
    const button = el("button", "pg-check-name", row.name, { type: "button" });
    tr.dataset.state = row.state;
    tr.dataset.key = row.key;
    const show = () => {
      const open = opened.has(row.key);
      button.setAttribute("aria-expanded", open);
      button.title = fill(words.detail, { name: row.name });
      more.hidden = !open;
      whole.replaceChildren(...(open ? [details(row, words)] : []));
    };
    button.onclick = () => {
      if (!opened.delete(row.key)) opened.add(row.key);
      show();
    };
    name.append(button, el("span", "pg-check-says", row.says));
    if (row.edited && row.edited === words.plain) name.append(el("small", "pg-check-plain", row.edited));
    tr.append(cell("told", words.verdict, mark(row.state, words)), name);
    if (row.reason) {
      const why = cell("reason", "", row.reason);
      why.colSpan = 3;
      tr.append(why);
    } else {
      const number = el("span");
      number.append(el("b", "", row.difference), row.unit && el("small", "", row.unit));
      tr.append(
        cell("number", words.difference, row.difference && number),
        cell(
          "share",
          words.share,
          row.difference && scale(row),
          row.bound && row.bound !== "0" && el("small", "", `${words.bound} ${row.bound}`),
        ),
        cell("where", words.where, go(row, words)),
      );
    }
    const kind = el("span", "", row.kind, { title: row.kind_help });
    tr.append(cell("kind", words.kind, kind), cell("seconds", words.seconds, row.seconds));
    more.append(whole);
    show();
    return [tr, more];
  };
  // How many checks of a group ended how.
  const counts = (rows, words) =>
    Object.keys(SIGNS)
      .map((state) => [words[`state_${state}`], rows.filter((row) => row.state === state).length])
      .filter(([, n]) => n)
      .map(([word, n]) => `${word}: ${n}`)
      .join(" · ");
  // A group folds, on a narrow page at once where nothing in it is wrong.
  const group = (name, rows, words) => {
    const [{ key }] = rows,
      head = el("tbody"),
      tr = el("tr", "pg-check-group"),
      th = el("th", "", "", { colspan: 7, scope: "colgroup" }),
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
    th.append(button, el("span", "pg-check-counts", counts(rows, words)));
    tr.append(th);
    head.append(tr);
    body.append(...rows.flatMap((row) => line(row, words)));
    fold();
    folds.push(fold);
    return [head, body];
  };
  NARROW.addEventListener("change", () => folds.forEach((fold) => fold()));
  const lines = () =>
    payload.rows.map((row) => {
      const [difference, bound, unit, layer, at, position, compared, seconds] = row.full;
      return [
        row.key,
        row.name,
        row.says,
        payload.words[`state_${row.state}`],
        difference ?? "",
        bound ?? "",
        unit ?? "",
        layer ?? "",
        at ?? "",
        position ?? "",
        compared ?? "",
        row.kind,
        seconds ?? "",
        row.random ? payload.seed : payload.words.none,
        payload.of.model,
        payload.of.dtype,
        payload.of.device,
        row.edited,
        row.reason,
      ];
    });
  const names = ({
    csv_key,
    check,
    says,
    verdict,
    difference,
    bound,
    csv_unit,
    csv_layer,
    csv_head,
    csv_position,
    csv_compared,
    kind,
    seconds,
    csv_seed,
    csv_model,
    csv_dtype,
    csv_device,
    run_of,
    csv_reason,
  }) => [
    csv_key,
    check,
    says ?? check,
    verdict,
    difference,
    bound,
    csv_unit,
    csv_layer,
    csv_head,
    csv_position,
    csv_compared,
    kind,
    seconds,
    csv_seed,
    csv_model,
    csv_dtype,
    csv_device,
    run_of,
    csv_reason,
  ];
  return (next) => {
    payload = next;
    const { words, rows, verdict, state } = payload;
    head.dataset.state = state;
    const text = el("p");
    text.append(el("strong", "", verdict[0]), ...verdict.slice(1).map((text) => el("span", "", text)));
    head.replaceChildren(el("b", "pg-check-sign", SIGNS[state], { "aria-hidden": true }), text);
    note.textContent = payload.note;
    note.hidden = !payload.note;
    const grid = el("table", "pg-check-table", "", { "aria-label": words.table }),
      top = el("thead"),
      titles = el("tr");
    for (const name of [
      words.verdict,
      words.check,
      words.difference,
      words.share,
      words.where,
      words.kind,
      words.seconds,
    ])
      titles.append(el("th", "", name, { scope: "col" }));
    top.append(titles);
    const by = new Map(rows.map((row) => [row.key, row]));
    folds = [];
    const bodies = payload.groups.flatMap(([name, keys]) =>
      group(
        name,
        keys.map((key) => by.get(key)),
        words,
      ),
    );
    grid.append(top, ...bodies);
    box.replaceChildren(grid);
    legend.replaceChildren(el("span", "", `${words.share}: ${words.scale}`));
    foot.replaceChildren(
      exporting(root, {
        file: payload.file,
        source: payload.source,
        title: payload.title,
        note: verdict.join(" "),
        names: names(words),
        lines,
        python: payload.python,
      }),
    );
    root.dataset.verdict = state;
    root.dataset.run = payload.run;
  };
});
