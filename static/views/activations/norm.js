// One norm applied to one token: its steps as strips over all dimensions, and a table of selected dimensions.
//
// payload of "normwalk": see viz/views/activations/one_norm
import { el, fill, onWidth, rests } from "../../page/dom.js";
import { define } from "../../page/mount.js";
import { isDark, onTheme } from "../../page/theme.js";
import { rowOf, tableOf, verdictLine } from "../../parts/table.js";
import { titled } from "../../parts/titled.js";

const HIGH = 64; // height of a strip in pixels

// Draw a strip with a line from 0 to the value of each dimension; dimensions that share a pixel show their extremes.
function paint(canvas, values, top, colors, at) {
  const width = canvas.clientWidth,
    ratio = window.devicePixelRatio || 1,
    pen = canvas.getContext("2d");
  if (!width) return;
  canvas.width = width * ratio;
  canvas.height = HIGH * ratio;
  pen.scale(ratio, ratio);
  const step = width / values.length,
    wide = Math.max(step * 0.8, 1 / ratio),
    middle = HIGH / 2;
  pen.fillStyle = getComputedStyle(canvas).getPropertyValue("--pg-line");
  pen.fillRect(0, middle - 0.5, width, 1);
  pen.fillStyle = isDark() ? colors.dark : colors.light;
  const bar = (d) => {
    const high = (values[d] / top) * (middle - 2);
    pen.fillRect(d * step, Math.min(middle, middle - high), wide, Math.max(Math.abs(high), 0.5));
  };
  for (let d = 0; d < values.length; d++) bar(d);
  if (at === null) return;
  pen.fillStyle = colors.mark;
  pen.globalAlpha = 0.35;
  pen.fillRect(Math.max(at * step - 1, 0), 0, Math.max(wide, 3), HIGH);
  pen.globalAlpha = 1;
  bar(at);
}

// Build one step: its formula in symbols and in numbers, and its strip. acts: point(dimension), leave().
function normStep(step, acts) {
  const item = el("li"),
    formula = el("div", "pg-why-formula"),
    letters = el("div"),
    box = el("div", "pg-norm-strip"),
    canvas = el("canvas", "", "", { "aria-hidden": "true" }),
    { values } = step;
  letters.append(...step.letters.split(/_(\w)/).map((piece, i) => (i % 2 ? el("sub", "", piece) : piece)));
  formula.append(letters, el("div", "", step.numbers));
  canvas.style.height = `${HIGH}px`;
  canvas.onmousemove = (event) => {
    if (rests(event)) return;
    const { left, width } = canvas.getBoundingClientRect(),
      d = Math.floor(((event.clientX - left) / width) * values.length);
    acts.point(Math.min(Math.max(d, 0), values.length - 1));
  };
  canvas.onmouseleave = acts.leave;
  box.append(canvas, el("span", "pg-why-top", `±${step.top}`));
  item.append(el("h3", "", step.title), box, formula);
  return { item, canvas, values, top: Math.max(...values.map(Math.abs)) || 1 };
}

// Mark the selected dimension with a line in all strips; the arrow keys move it.
function dimensionWalker({ words, steps }, point) {
  const size = steps[0].values.length,
    line = el("p", "pg-why-told", words.dimension_help),
    node = el("div", "pg-norm-told", "", {
      tabindex: 0,
      role: "slider",
      "aria-label": words.dimensions,
      "aria-valuemin": 0,
      "aria-valuemax": size - 1,
      "aria-valuenow": 0,
    });
  let at = null;
  node.append(line);
  node.onkeydown = (event) => {
    const to = { ArrowRight: (at ?? -1) + 1, ArrowLeft: (at ?? 1) - 1, Home: 0, End: size - 1 }[event.key];
    if (to === undefined || to >= size) return;
    event.preventDefault();
    point(Math.max(to, 0));
  };
  const short = (value) => String(+value.toPrecision(4)).replace("-", "−");
  const show = (d) => {
    at = d;
    const numbers = () => steps.map(({ sign, values }) => `${sign}: ${short(values[d])}`).join(" → ");
    line.textContent = d === null ? words.dimension_help : `${fill(words.dimension, { d })}: ${numbers()}`;
    node.setAttribute("aria-valuenow", d ?? 0);
    node.setAttribute("aria-valuetext", line.textContent);
  };
  return { node, show };
}

// Build the table of the given dimensions, with the value after every step.
function dimensionTable({ table, words }, acts) {
  const grid = tableOf({
    look: "pg-why-row pg-norm-table",
    columns: [fill(words.dimension, { d: "" }).trim(), ...table.columns, words.model],
    rows: table.rows.map(({ d, cells }) => {
      const row = rowOf([String(d), ...cells.map(([text, exact]) => ({ text, help: String(exact) }))]);
      row.onmouseenter = () => acts.point(d);
      return row;
    }),
  });
  const body = grid.tBodies[0];
  body.onmouseleave = acts.leave;
  const mark = (d) => table.rows.forEach((row, n) => body.rows[n].classList.toggle("pg-here", row.d === d));
  return { grid, mark };
}

define("normwalk", (root) => {
  const list = el("ol", "pg-why-steps pg-norm-steps"),
    side = el("div", "pg-norm-side"),
    show = titled(root, list, side);
  let payload = null,
    at = null, // index of the selected dimension
    steps = [],
    walker = null,
    table = null;
  const draw = () => {
    for (const { canvas, values, top } of steps) paint(canvas, values, top, payload.colors, at);
  };
  const point = (d) => {
    at = d;
    draw();
    table.mark(d);
    walker.show(d);
  };
  const acts = {
    point,
    leave() {
      if (document.activeElement !== walker.node) point(null);
    },
  };
  onWidth(root, () => payload && draw());
  onTheme(() => payload && draw());
  return (next) => {
    payload = next;
    at = null;
    const { words, title, table: numbers, table_note: tableNote, mean_note: meanNote } = payload,
      scroll = el("div", "pg-why-scroll", "", { tabindex: 0, role: "group", "aria-label": title });
    list.setAttribute("aria-label", title);
    walker = dimensionWalker(payload, point);
    table = dimensionTable(payload, acts);
    steps = payload.steps.map((step) => normStep(step, acts));
    scroll.append(table.grid);
    side.replaceChildren(
      walker.node,
      el("p", "pg-muted", [tableNote, meanNote].filter(Boolean).join(" ")),
      scroll,
      verdictLine(payload.same, payload.check, "pg-why"),
    );
    list.replaceChildren(...steps.map(({ item }) => item));
    show(payload, {
      names: [fill(words.dimension, { d: "" }).trim(), ...payload.steps.map((step) => step.title)],
      lines: () => steps[0].values.map((_, d) => [d, ...steps.map(({ values }) => values[d])]),
      arrays: () =>
        Object.fromEntries(
          payload.steps.map(({ name, values }) => [name, { data: Float64Array.from(values), shape: [values.length] }]),
        ),
    });
    root.dataset.rows = numbers.rows.length;
    draw();
  };
});
