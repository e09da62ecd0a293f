import { el, fill, rests } from "../../page/dom.js";
import { isDark } from "../../page/theme.js";
import { lookup } from "../../parts/colors.js";

export const minus = (text) => text.replace(/-/g, "−");
// Format a number with four significant digits, in scientific notation if it is very small or very large.
export function short(value) {
  if (value === null || value === undefined) return "–";
  const size = Math.abs(value);
  if (size === 0) return "0";
  if (size >= 1e-3 && size < 1e5) return minus(value.toPrecision(size >= 1e4 ? 5 : 4));
  const [head, power] = value.toExponential(2).split("e");
  return minus(`${head}·10`) + [...String(+power)].map((c) => "⁰¹²³⁴⁵⁶⁷⁸⁹"[c] ?? "⁻").join("");
}
export const signed = (value, decimals) => (value < 0 ? "−" : "+") + Math.abs(value).toFixed(decimals);
export const figure = (value, text = short(value)) => el("b", "pg-figure-number", text, { title: String(value) });

// Format a symbol such as "W_O" with a subscript.
export const math = (text) => text.split(/_(\w+)/).map((piece, i) => (i % 2 ? el("sub", "", piece) : piece));
// Fill the placeholders of a template with text and elements; an element that occurs again is copied.
export const pieces = (template, values) => {
  const used = new Set();
  return template.split(/(\{\w+\})/).flatMap((piece) => {
    const value = piece.startsWith("{") ? values[piece.slice(1, -1)] : undefined;
    if (value === undefined) return math(piece);
    if (used.has(value) && typeof value === "object") return [value.cloneNode(true)];
    used.add(value);
    return [value];
  });
};
export const say = (template, values) => {
  const line = el("p");
  line.append(...pieces(template, values));
  return line;
};
// Append a sentence; Chinese sentences have no space between them.
export const more = (line, template, values = {}) =>
  line.append(line.textContent.endsWith("。") ? "" : " ", ...pieces(template, values));
export const formula = (letters, numbers) => {
  const both = el("div", "pg-why-formula");
  both.append(el("div"), el("div"));
  both.firstChild.append(...math(letters));
  both.lastChild.append(...numbers.flatMap((piece) => (typeof piece === "string" ? math(piece) : [piece])));
  return both;
};

export const largest = (values) => Math.max(...values.map(Math.abs)) || 1;
export function painter(payload) {
  const colors = lookup(payload.ramps[isDark() ? "dark" : "light"]);
  return (share) => `rgb(${colors[Math.round((Math.min(Math.max(share, -1), 1) + 1) * 127)]})`;
}

// Build a strip of small cells, one per dimension.
export function strip(name, values, paint) {
  const row = el("div", "pg-why-strip"),
    cells = el("div", "pg-why-cells"),
    top = largest(values);
  values.forEach((value, d) => {
    const cell = el("i", "", "", { "data-d": d });
    cell.style.background = paint(value / top);
    cells.append(cell);
  });
  row.append(
    el("span", "pg-why-name", name),
    cells,
    el("span", "pg-why-top", `±${short(top)}`, { title: String(top) }),
  );
  return row;
}

// Build bars from a common zero line, in the given order.
export function bars(name, values, order, paint) {
  const row = el("div", "pg-why-strip"),
    area = el("div", "pg-why-cells pg-why-bars");
  const high = Math.max(0, ...values),
    low = Math.min(0, ...values),
    span = high - low || 1;
  const zero = el("span", "pg-why-zero");
  zero.style.top = `${(high / span) * 100}%`;
  order.forEach((d) => {
    const cell = el("i", "", "", { "data-d": d }),
      bar = el("span"),
      value = values[d];
    bar.style.top = `${((high - Math.max(value, 0)) / span) * 100}%`;
    bar.style.height = `${(Math.abs(value) / span) * 100}%`;
    bar.style.background = paint(Math.sign(value) * 0.75);
    cell.append(bar);
    area.append(cell);
  });
  area.append(zero);
  row.append(el("span", "pg-why-name", name), area, el("span", "pg-why-top", `±${short(largest(values))}`));
  return row;
}

// Highlight a dimension in all strips, selected by the pointer or the arrow keys; `say` receives its description.
export function dimensions(root, payload) {
  const lines = [],
    boxes = [];
  const half = payload.angles?.length ?? 0,
    E = payload.products.length,
    w = payload.words;
  const partner = (d) => {
    if (d >= 2 * half) return null;
    if (payload.adjacent) return d % 2 ? d - 1 : d + 1;
    return d < half ? d + half : d - half;
  };
  const pair = (d) => (payload.adjacent ? Math.floor(d / 2) : d % half);
  const description = (d, stage) => {
    const parts = [
      fill(w.dimension, { d }),
      `q ${short(payload.stages[stage].q[d])}`,
      `k ${short(payload.stages[stage].k[d])}`,
      `q·k ${short(payload.products[d])}`,
      `v ${short(payload.value[d])}`,
    ];
    if (payload.angles)
      parts.push(
        partner(d) === null ? w.straight : fill(w.pair, { d: partner(d), angle: short(payload.angles[pair(d)]) }),
      );
    return parts.join(" · ");
  };
  let at = null,
    stage = payload.stages.length - 1;
  const mark = (d) => {
    at = d;
    for (const cell of root.querySelectorAll("[data-d]")) {
      cell.classList.toggle("pg-at", +cell.dataset.d === d);
      cell.classList.toggle("pg-with", d !== null && +cell.dataset.d === partner(d));
    }
    const text = d === null ? w.dimension_help : description(d, stage);
    for (const line of lines) line.textContent = text;
    for (const box of boxes) {
      box.setAttribute("aria-valuenow", d ?? 0);
      box.setAttribute("aria-valuetext", text);
    }
  };
  // Build a frame of strips with keyboard navigation; `sequence` is the displayed order of the dimensions.
  const frame = (sequence) => {
    const box = el("div", "pg-why-strips", "", {
      tabindex: 0,
      role: "slider",
      "aria-label": w.dimensions,
      "aria-valuemin": 0,
      "aria-valuemax": E - 1,
      "aria-valuenow": 0,
    });
    box.onmouseover = (event) => {
      if (rests(event)) return;
      const d = event.target.closest("[data-d]")?.dataset.d;
      if (d !== undefined) mark(+d);
    };
    box.onmouseleave = () => {
      if (document.activeElement !== box) mark(null);
    };
    box.onkeydown = (event) => {
      const order = sequence(),
        place = at === null ? -1 : order.indexOf(at);
      const to = { ArrowRight: place + 1, ArrowLeft: place - 1, Home: 0, End: E - 1 }[event.key];
      if (to === undefined || to >= E) return;
      event.preventDefault();
      mark(order[Math.max(to, 0)]);
    };
    const line = el("p", payload.angles ? "pg-why-told pg-why-long" : "pg-why-told", w.dimension_help);
    boxes.push(box);
    lines.push(line);
    return [box, line];
  };
  return {
    frame,
    mark: () => mark(at),
    show: (n) => {
      stage = n;
    },
  };
}
