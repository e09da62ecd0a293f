// The orders of a pipeline's steps: what each gives at this position, and the default orders of four tools. A click puts
// the steps into that order in the editor.
//
// payload of "shapeorders": { title, note, lines [sentences], steps [names], columns { left, order, entropy, top, distance },
//   results [{ set, orders [[index of a step]], cells }], most, tools [{ name, source, order, off [indices], cells }],
//   file, source, python, words, run } or { absent }; cells: { left, entropy, top, share, distance }
import { el, fill } from "../../page/dom.js";
import { define } from "../../page/mount.js";
import { rowOf, tableOf } from "../../parts/table.js";
import { titled } from "../../parts/titled.js";
import { shared } from "./pipeline.js";

const MOST_ORDERS = 24; // maximum number of orders below a result

// Put the active steps of an editor into an order of their indices. Those that are switched off keep their places; those
// in `off` are switched off and come last.
export function reordered(steps, order, off = []) {
  const active = steps.filter((step) => !step.off),
    next = [...order.map((n) => active[n]), ...off.map((n) => ({ ...active[n], off: true }))];
  let at = 0;
  return steps.map((step) => (step.off ? step : next[at++]));
}

function take(order, off) {
  const steps = shared.steps();
  if (steps.filter((step) => !step.off).length !== order.length + off.length) return; // edited since it was drawn
  shared.use(reordered(steps, order, off));
}

// Build an order as a button that takes it; the present one is only marked.
function orderOf({ steps, words }, order, off = []) {
  const text = order.map((n) => steps[n]).join(" → ") || words.nothing;
  if (!off.length && order.every((n, at) => n === at)) {
    const mark = el("span", "pg-order-present");
    mark.append(el("b", "", text), " ", el("small", "", words.present));
    return mark;
  }
  const button = el("button", "pg-order-take", text, { type: "button", title: words.take });
  button.setAttribute("aria-label", `${words.take}: ${text}`);
  button.onclick = () => take(order, off);
  return button;
}

// Build the orders of a result: the first one, and the others in a fold.
function ordersOf(payload, orders) {
  const [first, ...others] = orders;
  if (!others.length) return [orderOf(payload, first)];
  const fold = el("details", "pg-order-more"),
    list = el("ul"),
    rest = others.length - MOST_ORDERS;
  const lines = others.slice(0, MOST_ORDERS).map((order) => orderOf(payload, order));
  if (rest > 0) lines.push(el("span", "pg-muted", fill(payload.words.rest, { n: rest })));
  for (const each of lines) {
    const line = el("li");
    line.append(each);
    list.append(line);
  }
  fold.append(el("summary", "", fill(payload.words.more, { n: others.length })), list);
  return [orderOf(payload, first), fold];
}

const numbersOf = ({ entropy, top, share, distance }) => [
  { look: "pg-number", text: entropy },
  { text: top, inside: el("small", "pg-number", share) },
  { look: "pg-number", text: distance },
];
const headsOf = ({ columns, words }) => [
  { look: "pg-number", text: columns.entropy },
  columns.top,
  { look: "pg-number", text: columns.distance, help: words.distance_help },
];

// Build a table with one body per set of tokens, whose number of tokens is said once.
function resultsTable(payload) {
  const { columns, results, most } = payload,
    sets = new Map();
  for (const result of results.slice(0, most)) sets.set(result.set, [...(sets.get(result.set) ?? []), result]);
  const rows = [...sets.values()].map((inside) => {
    const body = el("tbody");
    body.append(
      ...inside.map(({ orders, cells }, at) => {
        const left = at ? [] : [{ look: "pg-number", text: cells.left, rowspan: inside.length }],
          cell = { look: "pg-order-cell", inside: ordersOf(payload, orders) };
        return rowOf([...left, cell, ...numbersOf(cells)], { named: left.length });
      }),
    );
    return body;
  });
  const heads = [{ look: "pg-number", text: columns.left }, columns.order, ...headsOf(payload)];
  return tableOf({ look: "pg-lab-table pg-order-results", columns: heads, rows });
}

function toolsTable(payload) {
  const { steps, columns, tools, words } = payload;
  const rows = tools.map(({ name, source, order, off, cells }) => [
    { text: name, help: source },
    { look: "pg-order-cell", inside: orderOf(payload, order, off) },
    { look: "pg-order-lacks", text: off.map((n) => steps[n]).join(", ") || words.nothing },
    { look: "pg-number", text: cells.left },
    ...numbersOf(cells),
  ]);
  const heads = [
    words.tool,
    columns.order,
    words.lacks,
    { look: "pg-number", text: columns.left },
    ...headsOf(payload),
  ];
  return tableOf({ look: "pg-lab-table pg-order-tools", columns: heads, rows });
}

// Build the rows of the export: every order, then the tools.
function linesOf({ steps, results, tools }) {
  const named = (order) => order.map((n) => steps[n]).join(" → "),
    numbers = ({ left, entropy, top, share, distance }) => [left, entropy, top, share, distance];
  return [
    ...results.flatMap(({ orders, cells }, at) => orders.map((order) => [at + 1, named(order), "", ...numbers(cells)])),
    ...tools.map(({ name, order, off, cells }) => [name, named(order), named(off), ...numbers(cells)]),
  ];
}

const scrolled = (label, table) => {
  const scroll = el("div", "pg-lab-scroll", "", { tabindex: 0, role: "group", "aria-label": label });
  scroll.append(table);
  return scroll;
};

define("shapeorders", (root) => {
  const inside = el("div", "pg-order");
  let show = null; // created when first drawn, as in labtable
  return (payload) => {
    root.classList.toggle("pg-absent", Boolean(payload.absent));
    if (payload.absent) return;
    show ??= titled(root, inside);
    const { title, lines, results, most, words, columns } = payload,
      hidden = results.length - most,
      told = hidden > 0 ? [...lines, fill(words.results, { n: hidden })] : lines;
    inside.replaceChildren(
      ...told.map((line) => el("p", "pg-muted", line)),
      ...(results.length > 1 ? [scrolled(title, resultsTable(payload))] : []),
      el("h3", "", words.tools),
      scrolled(words.tools, toolsTable(payload)),
      el("p", "pg-muted", words.tools_note),
    );
    const names = [words.tool, columns.order, words.lacks, columns.left, columns.entropy, columns.top, "p"];
    show(payload, { names: [...names, columns.distance], lines: linesOf(payload) });
  };
});
