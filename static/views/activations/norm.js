// One norm on one token: its steps as strips of all dimensions, and a table of some whose numbers add up.
//
// payload of "normwalk": see viz/views/activations/one_norm; of "normfacts": { title, about, items [[what, text]] }
import { exporting } from "../../export/menu.js";
import { el, fill, rests } from "../../page/dom.js";
import { define } from "../../page/mount.js";
import { isDark, onTheme } from "../../page/theme.js";

const HIGH = 64; // pixels of a strip

// A strip: a line for each dimension from 0 up or down, as far as its value; what shares a pixel shows its extremes.
function paint(canvas, values, top, colours, at) {
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
  pen.fillStyle = isDark() ? colours.dark : colours.light;
  const bar = (d) => {
    const high = (values[d] / top) * (middle - 2);
    pen.fillRect(d * step, Math.min(middle, middle - high), wide, Math.max(Math.abs(high), 0.5));
  };
  for (let d = 0; d < values.length; d++) bar(d);
  if (at === null) return;
  pen.fillStyle = colours.mark;
  pen.globalAlpha = 0.35;
  pen.fillRect(Math.max(at * step - 1, 0), 0, Math.max(wide, 3), HIGH);
  pen.globalAlpha = 1;
  bar(at);
}

define("normwalk", (root) => {
  const title = el("h2"),
    note = el("p", "pg-about");
  const steps = el("ol", "pg-why-steps pg-norm-steps"),
    side = el("div", "pg-norm-side");
  const foot = el("div");
  root.append(title, note, steps, side, foot);
  let payload = null,
    at = null,
    strips = [],
    lines = [],
    line = null,
    slider = null;

  const size = () => payload.steps[0].values.length;
  const short = (value) => String(+value.toPrecision(4)).replace("-", "−");
  const draw = () => {
    for (const { canvas, values, top } of strips) paint(canvas, values, top, payload.colours, at);
  };
  const mark = (d) => {
    at = d;
    draw();
    for (const { node, dimension } of lines) node.classList.toggle("pg-here", dimension === d);
    const stepsText = () => payload.steps.map(({ sign, values }) => `${sign}: ${short(values[d])}`).join(" → ");
    line.textContent =
      d === null ? payload.words.dimension_help : `${fill(payload.words.dimension, { d })}: ${stepsText()}`;
    slider.setAttribute("aria-valuenow", d ?? 0);
    slider.setAttribute("aria-valuetext", line.textContent);
  };
  const leave = () => {
    if (document.activeElement !== slider) mark(null);
  };
  const frame = (step) => {
    const box = el("div", "pg-norm-strip"),
      canvas = el("canvas", "", "", { "aria-hidden": "true" });
    canvas.style.height = `${HIGH}px`;
    canvas.onmousemove = (event) => {
      if (rests(event)) return;
      const { left, width } = canvas.getBoundingClientRect();
      mark(Math.min(Math.max(Math.floor(((event.clientX - left) / width) * size()), 0), size() - 1));
    };
    canvas.onmouseleave = leave;
    strips.push({ canvas, values: step.values, top: Math.max(...step.values.map(Math.abs)) || 1 });
    box.append(canvas, el("span", "pg-why-top", `±${step.top}`));
    return box;
  };
  const stepOf = (step) => {
    const item = el("li"),
      formula = el("div", "pg-why-formula");
    const letters = el("div");
    letters.append(...step.letters.split(/_(\w)/).map((piece, i) => (i % 2 ? el("sub", "", piece) : piece)));
    formula.append(letters, el("div", "", step.numbers));
    item.append(el("h3", "", step.title), formula, frame(step));
    return item;
  };
  // The arrow keys walk the dimensions, in all strips at once.
  const walker = () => {
    slider = el("div", "pg-norm-told", "", {
      tabindex: 0,
      role: "slider",
      "aria-label": payload.words.dimensions,
      "aria-valuemin": 0,
      "aria-valuemax": size() - 1,
      "aria-valuenow": 0,
    });
    line = el("p", "pg-why-told", payload.words.dimension_help);
    slider.append(line);
    slider.onkeydown = (event) => {
      const to = { ArrowRight: (at ?? -1) + 1, ArrowLeft: (at ?? 1) - 1, Home: 0, End: size() - 1 }[event.key];
      if (to === undefined || to >= size()) return;
      event.preventDefault();
      mark(Math.max(to, 0));
    };
    return slider;
  };
  const grid = () => {
    const { table, words, table_note: tableNote, mean_note: meanNote } = payload;
    const scroll = el("div", "pg-why-scroll", "", { tabindex: 0, role: "group", "aria-label": payload.title });
    const all = el("table", "pg-why-row pg-norm-table"),
      head = el("thead"),
      body = el("tbody"),
      names = el("tr");
    for (const name of [fill(words.dimension, { d: "" }).trim(), ...table.columns, words.model])
      names.append(el("th", "", name, { scope: "col" }));
    head.append(names);
    lines = table.rows.map(({ d, cells }) => {
      const node = el("tr");
      node.append(
        el("th", "", String(d), { scope: "row" }),
        ...cells.map(([text, exact]) => el("td", "", text, { title: String(exact) })),
      );
      node.onmouseenter = () => mark(d);
      return { node, dimension: d };
    });
    body.append(...lines.map(({ node }) => node));
    body.onmouseleave = leave;
    all.append(head, body);
    scroll.append(all);
    const check = el("p", payload.same ? "pg-why-same" : "pg-why-apart");
    if (payload.same) check.append(el("span", "", "✓ "));
    check.append(payload.check);
    side.replaceChildren(walker(), el("p", "pg-muted", [tableNote, meanNote].filter(Boolean).join(" ")), scroll, check);
  };
  const footer = () => {
    const { words, file, table, steps } = payload;
    const columns = steps.map((step) => step.title);
    const rows = () => steps[0].values.map((_, d) => [d, ...steps.map(({ values }) => values[d])]);
    const arrays = () =>
      Object.fromEntries(
        steps.map(({ name, values }) => [name, { data: Float64Array.from(values), shape: [values.length] }]),
      );
    const { source, python, title: named, note } = payload;
    foot.replaceChildren(
      exporting(root, {
        file,
        source,
        python,
        title: named,
        note,
        names: [fill(words.dimension, { d: "" }).trim(), ...columns],
        lines: rows,
        arrays,
      }),
    );
    root.dataset.rows = table.rows.length;
  };
  let width = 0;
  new ResizeObserver(() => {
    if (payload && root.clientWidth !== width) {
      width = root.clientWidth;
      draw();
    }
  }).observe(root);
  onTheme(() => payload && draw());
  return (next) => {
    payload = next;
    strips = [];
    at = null;
    title.textContent = payload.title;
    note.textContent = payload.note;
    steps.setAttribute("aria-label", payload.title);
    grid();
    steps.replaceChildren(...payload.steps.map(stepOf));
    footer();
    draw();
    root.dataset.run = payload.run;
  };
});

define("normfacts", (root) => (payload) => {
  const list = el("dl", "pg-norm-facts");
  for (const [what, text] of payload.items) {
    const item = el("div");
    item.append(el("dt", "", what), el("dd", "", text));
    list.append(item);
  }
  const parts = [el("h2", "", payload.title), list];
  if (payload.about) parts.splice(1, 0, el("p", "pg-about", payload.about));
  root.replaceChildren(
    ...parts,
    exporting(root, {
      file: "facts",
      title: payload.title,
      note: payload.about,
      names: ["what", "value"],
      lines: payload.items,
    }),
  );
  root.dataset.run = payload.run;
});
