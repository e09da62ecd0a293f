// One check as two table rows: its verdict and its numbers compared with the bound, and an expandable row with its
// explanation and code.
import { el, fill } from "../../page/dom.js";
import { select } from "../../page/selection/selection.js";
import { icon } from "../../parts/icons.js";
import { rowOf } from "../../parts/table.js";

export const SIGNS = { agrees: "tick", differs: "cross", unable: "minus", broken: "bang", waiting: "dots" };
const BOUND = 6 / 7; // position of the bound on the scale of `place`
export const WIDE = 7; // number of columns

export function sign(state, look = "") {
  const node = el("b", look, "", { "aria-hidden": "true" });
  node.append(icon(SIGNS[state]));
  return node;
}
function mark(state, words) {
  const node = el("span", "pg-check-state");
  node.dataset.state = state;
  node.append(sign(state), words[`state_${state}`]);
  return node;
}
const cell = (name, label, ...inside) => ({
  look: `pg-check-${name}`,
  "data-label": label,
  inside: inside.filter(Boolean),
});
function scale({ share, place, state }) {
  const both = el("span", "pg-check-scale"),
    track = el("i", "pg-check-track", "", { "aria-hidden": "true" }),
    dot = el("i");
  track.style.setProperty("--pg-bound", `${100 * BOUND}%`);
  dot.style.left = `${100 * place}%`;
  dot.dataset.state = state;
  track.append(dot);
  both.append(el("span", "", share), track);
  return both;
}
// Build a button that names the location of the largest difference and selects it.
function whereOf({ at, where }, words) {
  if (!at) return where;
  const button = el("button", "pg-check-go", where, { type: "button", title: fill(words.pick, { where }) });
  button.onclick = () => select(at);
  return button;
}
function details(row, { words, of: { model, dtype, device } }) {
  const node = el("div", "pg-check-details"),
    list = el("dl");
  const fact = (name, text) => {
    if (text) list.append(el("dt", "", name), el("dd", "", text));
  };
  list.append(el("dt", "", words.formula), el("dd", "pg-check-formula", row.formula));
  fact(words.bound, row.rule);
  fact(words.kind, `${row.kind}: ${row.kind_help}`);
  fact(words.csv_model, [model, dtype, device, row.seed, row.edited].filter(Boolean).join(" · "));
  fact(words.difference, row.compared);
  node.append(list, el("pre", "", row.python, { tabindex: 0, "aria-label": "Python" }));
  return node;
}
function numbers(row, words) {
  if (row.reason) return [{ ...cell("reason", "", row.reason), colspan: 3 }];
  const number = el("span"),
    bound = row.bound && row.bound !== "0" && el("small", "", `${words.bound} ${row.bound}`);
  number.append(el("b", "", row.difference), row.unit && el("small", "", row.unit));
  return [
    cell("number", words.difference, row.difference && number),
    cell("share", words.share, row.difference && scale(row), bound),
    cell("where", words.where, whereOf(row, words)),
  ];
}

// `opened`: keys of the checks with expanded details.
export function checkRows(row, payload, opened) {
  const { words } = payload,
    button = el("button", "pg-check-name", row.name, { type: "button" }),
    whole = el("td", "", "", { colspan: WIDE }),
    more = rowOf([whole], { look: "pg-check-more" }),
    plain = row.edited && row.edited === words.plain;
  const show = () => {
    const open = opened.has(row.key);
    button.setAttribute("aria-expanded", open);
    button.title = fill(words.detail, { name: row.name });
    more.hidden = !open;
    whole.replaceChildren(...(open ? [details(row, payload)] : []));
  };
  button.onclick = () => {
    if (!opened.delete(row.key)) opened.add(row.key);
    show();
  };
  show();
  const cells = [
    cell("told", words.verdict, mark(row.state, words)),
    [button, el("span", "pg-check-says", row.says), ...(plain ? [el("small", "pg-check-plain", row.edited)] : [])],
    ...numbers(row, words),
    cell("kind", words.kind, el("span", "", row.kind, { title: row.kind_help })),
    cell("seconds", words.seconds, row.seconds),
  ];
  return [rowOf(cells, { look: "pg-check-row", named: 1, "data-state": row.state, "data-key": row.key }), more];
}
