// Why this number: one cell of one head as numbered steps, each with its formula in letters and in live numbers.
//
// payload: see viz/views/attention/cell/figures.py and viz/views/attention/cell/view.py. Every number shown has its full digits as a title.
import { exporting } from "../../export/menu.js";
import { el, fill, rests } from "../../page/dom.js";
import { define } from "../../page/mount.js";
import { select, selection } from "../../page/selection.js";
import { isDark, onTheme } from "../../page/theme.js";
import { lookup } from "../../parts/colours.js";

const minus = (text) => text.replace(/-/g, "−");
// Four significant digits; very small and very large numbers as a power of ten.
function short(value) {
  if (value === null || value === undefined) return "–";
  const size = Math.abs(value);
  if (size === 0) return "0";
  if (size >= 1e-3 && size < 1e5) return minus(value.toPrecision(size >= 1e4 ? 5 : 4));
  const [head, power] = value.toExponential(2).split("e");
  return minus(`${head}·10`) + [...String(+power)].map((c) => "⁰¹²³⁴⁵⁶⁷⁸⁹"[c] ?? "⁻").join("");
}
const signed = (value, decimals) => (value < 0 ? "−" : "+") + Math.abs(value).toFixed(decimals);
const figure = (value, text = short(value)) => el("b", "pg-figure-number", text, { title: String(value) });

// "W_O" with what follows the sign set low.
const math = (text) => text.split(/_(\w+)/).map((piece, i) => (i % 2 ? el("sub", "", piece) : piece));
// A template with its gaps filled by text and elements.
const pieces = (template, values) =>
  template.split(/(\{\w+\})/).flatMap((piece) => {
    const found = piece.startsWith("{") ? values[piece.slice(1, -1)] : undefined;
    return found === undefined ? math(piece) : [found];
  });
const say = (template, values) => {
  const line = el("p");
  line.append(...pieces(template, values));
  return line;
};
// One more sentence; Chinese ones stand without a space between them.
const more = (line, template, values = {}) =>
  line.append(line.textContent.endsWith("。") ? "" : " ", ...pieces(template, values));
const formula = (letters, numbers) => {
  const both = el("div", "pg-why-formula");
  both.append(el("div"), el("div"));
  both.firstChild.append(...math(letters));
  both.lastChild.append(...numbers.flatMap((piece) => (typeof piece === "string" ? math(piece) : [piece])));
  return both;
};
// A few buttons of which one is pressed.
function switcher(label, options, chosen, change) {
  const group = el("span", "pg-switch", "", { role: "group", "aria-label": label });
  options.forEach(([key, text]) => {
    const button = el("button", "", text, { type: "button", "aria-pressed": key === chosen });
    button.onclick = () => {
      for (const other of group.children) other.setAttribute("aria-pressed", other === button);
      change(key);
    };
    group.append(button);
  });
  return group;
}

const largest = (values) => Math.max(...values.map(Math.abs)) || 1;
function painter(payload) {
  const colours = lookup(payload.ramps[isDark() ? "dark" : "light"]);
  return (share) => `rgb(${colours[Math.round((Math.min(Math.max(share, -1), 1) + 1) * 127)]})`;
}

// A strip of small cells, one a dimension.
function strip(name, values, paint) {
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

// Bars from a common zero line, in the order given.
function bars(name, values, order, paint) {
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

// One dimension is looked at in all strips at once, by pointer or with the arrow keys; `say` tells of it.
function dimensions(root, payload) {
  const lines = [],
    boxes = [];
  const half = payload.angles?.length ?? 0,
    E = payload.products.length,
    w = payload.words;
  const partner = (d) => (d < half ? d + half : d < 2 * half ? d - half : null);
  const told = (d, stage) => {
    const parts = [
      fill(w.dimension, { d }),
      `q ${short(payload.stages[stage].q[d])}`,
      `k ${short(payload.stages[stage].k[d])}`,
      `q·k ${short(payload.products[d])}`,
      `v ${short(payload.value[d])}`,
    ];
    if (payload.angles)
      parts.push(
        partner(d) === null ? w.straight : fill(w.pair, { d: partner(d), angle: short(payload.angles[d % half]) }),
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
    const text = d === null ? w.dimension_help : told(d, stage);
    for (const line of lines) line.textContent = text;
    for (const box of boxes) {
      box.setAttribute("aria-valuenow", d ?? 0);
      box.setAttribute("aria-valuetext", text);
    }
  };
  // Strips in a frame that can be walked; `sequence` is the order in which they show the dimensions.
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

const length = (values) => Math.sqrt(values.reduce((sum, value) => sum + value ** 2, 0));
function vectorsStep(payload, walk, paint, kept) {
  const {
      words: w,
      stages,
      names,
      cell: [query, key],
    } = payload,
    E = payload.products.length;
  const half = payload.angles?.length ?? 0;
  const lines = [say(w.vectors, { query: names[0], key: names[1], width: String(E) })];
  if (payload.group > 1) more(lines[0], w.vectors_shared, { n: payload.group });
  if (stages.some(({ name }) => name === "normed")) more(lines[0], w.vectors_norm);
  if (half) more(lines[0], w.vectors_turn, { half, distance: query - key });
  if (half && 2 * half < E) more(lines[0], w.vectors_part, { n: E - 2 * half });
  const [box, line] = walk.frame(() => [...Array(E).keys()]);
  const numbers = el("span"),
    last = stages.length - 1;
  const show = (n) => {
    kept.stage = stages[n].name;
    walk.show(n);
    numbers.replaceChildren("‖q‖ = ", figure(length(stages[n].q)), ",  ‖k‖ = ", figure(length(stages[n].k)));
    box.replaceChildren(strip("q", stages[n].q, paint), strip("k", stages[n].k, paint));
    walk.mark();
  };
  const before = stages.findIndex(({ name }) => name === kept.stage),
    first = before < 0 ? last : before;
  show(first);
  if (last) {
    const field = el("div", "pg-why-choose");
    field.append(
      el("span", "pg-muted", w.stage),
      switcher(
        w.stage,
        payload.stage_names.map((name, n) => [n, name]),
        first,
        show,
      ),
    );
    lines.push(field);
  }
  const normed = stages.some(({ name }) => name === "normed");
  const made = (vector, matrix, at) => {
    const plain = `${matrix}·x_${at}`,
      scaled = normed ? `norm(${plain})` : plain;
    return `${vector} = ${half ? `R_${at}·` : ""}${scaled}`;
  };
  return [...lines, box, line, formula(`${made("q", "W_Q", "i")},  ${made("k", "W_K", "j")}`, [numbers])];
}

function productsStep(payload, walk, paint, kept) {
  const { words: w, products, named } = payload;
  const byDimension = products.map((_, d) => d);
  const bySize = [...byDimension].sort((a, b) => Math.abs(products[b]) - Math.abs(products[a]));
  let order = byDimension;
  const [box, line] = walk.frame(() => order);
  const show = (key) => {
    kept.order = key;
    order = key === "size" ? bySize : byDimension;
    box.replaceChildren(bars("q·k", products, order, paint));
    walk.mark();
  };
  show(kept.order);
  const field = el("div", "pg-why-choose");
  field.append(
    el("span", "pg-muted", w.order),
    switcher(
      w.order,
      [
        ["dimension", w.by_dimension],
        ["size", w.by_size],
      ],
      kept.order,
      show,
    ),
  );
  const list = (items) => {
    const all = el("span");
    items.forEach((item, i) => all.append(...(i ? [", ", item] : [item])));
    return all;
  };
  const shown = (value) => signed(value, named.decimals);
  const parts = list(named.parts.map((part, i) => figure(products[named.dimensions[i]], shown(part))));
  const rest = payload.dot - named.dimensions.reduce((sum, d) => sum + products[d], 0);
  const sentence = say(named.others ? w.products : w.products_all, {
    dimensions: named.dimensions.join(", "),
    parts,
    n: String(named.others),
    rest: figure(rest, shown(named.rest)),
    total: figure(payload.dot, shown(named.total)),
  });
  const sum = named.parts.flatMap((part, i) => [
    i ? ` ${part < 0 ? "−" : "+"} ` : part < 0 ? " −" : " ",
    figure(products[named.dimensions[i]], Math.abs(part).toFixed(named.decimals)),
  ]);
  const tail = named.others
    ? [` ${named.rest < 0 ? "−" : "+"} `, figure(rest, Math.abs(named.rest).toFixed(named.decimals))]
    : [];
  return [
    sentence,
    field,
    box,
    line,
    formula("q·k = Σ_d q_d·k_d", [
      "q·k =",
      ...sum,
      ...tail,
      " = ",
      figure(payload.dot, minus(named.total.toFixed(named.decimals))),
    ]),
  ];
}

function scoreStep({ words: w, dot, scale, score, products }) {
  return [
    el("p", "", fill(w.score, { width: products.length })),
    formula("s = q·k / √d_head", [
      "s = ",
      figure(dot),
      ` / √${products.length} = `,
      figure(dot),
      " / ",
      figure(scale),
      " = ",
      figure(score),
    ]),
  ];
}

function maskStep({ words: w, hidden, cell: [query], names, check }) {
  const line = el("p", "", fill(hidden ? w.mask : w.mask_none, { query: names[0], hidden, n: query + 1 }));
  if (check.state === "cell") more(line, w.mask_blocked, { key: names[1] });
  return [line, formula("s_j = −∞,  j > i", [`j > ${query}:  ${hidden} × −∞`])];
}

function softmaxStep(payload, go) {
  const {
    words: w,
    row,
    cell: [query, key],
    tokens,
  } = payload;
  const grid = el("table", "pg-why-row"),
    head = el("tr"),
    body = el("tbody");
  for (const name of ["token", "score", "below", "exponential", "weight"])
    head.append(el("th", "", w[`column_${name}`], { scope: "col" }));
  const line = (name, values, share, className = "") => {
    const tr = el("tr", className),
      first = el("th", "", "", { scope: "row" });
    first.append(name);
    tr.append(
      first,
      ...values.map((value) => {
        const td = el("td");
        td.append(value);
        return td;
      }),
    );
    tr.lastChild.style.setProperty("--pg-share", `${100 * share}%`);
    body.append(tr);
  };
  const fixed = (value) => value.toFixed(row.decimals);
  for (const each of row.lines) {
    const name = `${tokens[each.key]} (${each.key})`;
    const button = el("button", "pg-chip", name, { type: "button", "aria-label": fill(w.choose, { key: name }) });
    button.onclick = () => go(query, each.key);
    if (each.key === key) button.setAttribute("aria-current", "true");
    line(
      button,
      [
        figure(each.score),
        figure(each.below),
        figure(each.exponential, fixed(each.shown[0])),
        figure(each.weight, fixed(each.shown[1])),
      ],
      each.weight,
      each.key === key ? "pg-here" : "",
    );
  }
  const { others } = row;
  if (others)
    line(
      fill(w.others, { n: others.count }),
      ["", "", figure(others.exponential, fixed(others.shown[0])), figure(others.weight, fixed(others.shown[1]))],
      others.weight,
    );
  line(w.sum, ["", "", figure(row.denominator, fixed(row.shown[0])), fixed(row.shown[1])], 0, "pg-sum");
  const top = el("thead"),
    scroll = el("div", "pg-why-scroll"),
    own = payload.exponentials[key];
  top.append(head);
  grid.append(top, body);
  scroll.append(grid);
  return [
    say(w.softmax, { peak: figure(row.peak) }),
    scroll,
    formula("A = e^(s − max) / Σ_j e^(s_j − max)", [
      "A = e^(",
      figure(payload.score),
      row.peak < 0 ? " + " : " − ",
      figure(row.peak, short(Math.abs(row.peak))),
      ") / ",
      figure(row.denominator),
      " = ",
      figure(own),
      " / ",
      figure(row.denominator),
      " = ",
      figure(payload.weight),
    ]),
  ];
}

function valueStep(payload, walk, paint) {
  const { words: w, names } = payload;
  const percent = (share) => figure(share, `${short(100 * share)} %`);
  const lines = [say(w.value, { key: names[1], length: figure(payload.output_length) })];
  if (payload.share === null) lines.push(el("p", "", fill(w.value_none, { query: names[0] })));
  else lines.push(say(w.value_share, { share: percent(payload.share), query: names[0] }));
  if (payload.post) more(lines[1], w.value_post);
  if (payload.check.output) more(lines[1], w.value_edited);
  const [box, line] = walk.frame(() => payload.value.map((_, d) => d));
  box.append(strip("v", payload.value, paint), strip("A·v", payload.weighted, paint));
  const numbers =
    payload.value_length === null
      ? ["‖A·v·W_O‖ = ", figure(payload.output_length)]
      : [
          "‖A·v·W_O‖ = ",
          figure(payload.weight),
          " · ",
          figure(payload.value_length),
          " = ",
          figure(payload.output_length),
        ];
  if (payload.share !== null)
    numbers.push(
      ";  ",
      figure(payload.output_length),
      " / ",
      figure(payload.row_length),
      " = ",
      percent(payload.share),
    );
  return [...lines, box, line, formula("‖A·v·W_O‖ = A · ‖v·W_O‖;  ‖A·v·W_O‖ / ‖Σ_j A_j·v_j·W_O‖", numbers)];
}

function checkStep({ words: w, check, score, weight }) {
  const fine = check.state === "same";
  const line = say(w[`check_${check.state}`], {
    score: figure(check.score),
    weight: figure(check.weight),
    d_score: figure(check.apart[0]),
    d_weight: figure(check.apart[1]),
  });
  line.className = fine ? "pg-why-same" : "pg-why-apart";
  line.prepend(el("span", "", fine ? "✓ " : "≠ ", { "aria-hidden": "true" }));
  return [line, formula("s = q·k / √d_head,  A = softmax(s)", ["s = ", figure(score), ",  A = ", figure(weight)])];
}

// --- the token pickers ---

function pickers(go) {
  const row = el("div", "pg-why-pickers");
  const fields = ["query", "key"].map((name) => {
    const field = el("div", "pg-why-picker"),
      label = el("label", "pg-control-label"),
      list = el("select");
    const before = el("button", "pg-button pg-quiet", "‹", { type: "button" });
    const after = el("button", "pg-button pg-quiet", "›", { type: "button" });
    list.id = `pg-why-${name}`;
    label.htmlFor = list.id;
    list.dataset.name = name;
    const inside = el("div");
    inside.append(before, list, after);
    field.append(label, inside);
    row.append(field);
    return { name, label, list, before, after };
  });
  const [query, key] = fields;
  let texts = null,
    cell = [0, 0];
  const move = (n, to) => {
    const next = n ? [cell[0], to] : [to, Math.min(cell[1], to)];
    if (to < 0 || to >= texts.length || next[1] > next[0]) return;
    show(next);
    go(...next);
  };
  fields.forEach(({ list, before, after }, n) => {
    list.onchange = () => move(n, +list.value);
    before.onclick = () => move(n, cell[n] - 1);
    after.onclick = () => move(n, cell[n] + 1);
  });
  const show = (next) => {
    cell = next;
    while (key.list.options.length > cell[0] + 1) key.list.remove(key.list.options.length - 1);
    for (let at = key.list.options.length; at <= cell[0]; at++) key.list.append(new Option(`${at} ${texts[at]}`, at));
    fields.forEach(({ list, before, after }, n) => {
      list.value = cell[n];
      before.disabled = cell[n] === 0;
      after.disabled = cell[n] === (n ? cell[0] : texts.length - 1);
    });
  };
  return {
    row,
    draw(payload) {
      const { words: w, tokens } = payload,
        same = texts && JSON.stringify(texts) === JSON.stringify(tokens);
      for (const { name, label, before, after } of fields) {
        label.textContent = w[name];
        before.setAttribute("aria-label", `${w[name]}: ${w.before}`);
        after.setAttribute("aria-label", `${w[name]}: ${w.after}`);
      }
      texts = tokens;
      if (!same) {
        key.list.replaceChildren();
        query.list.replaceChildren(...texts.map((text, at) => new Option(`${at} ${text}`, at)));
      }
      // What was pressed meanwhile stays: its steps are on their way.
      const asked = selection.pair && JSON.stringify(selection.pair) !== JSON.stringify(payload.cell) && same;
      show(asked ? cell : payload.cell);
    },
  };
}

// --- taking the numbers away ---

function vectors(payload) {
  const found = {};
  for (const { name, q, k } of payload.stages) Object.assign(found, { [`q_${name}`]: q, [`k_${name}`]: k });
  return {
    ...found,
    ...(payload.angles ? { angles: payload.angles } : {}),
    products: payload.products,
    value: payload.value,
    weighted: payload.weighted,
  };
}
const row = ({ scores, exponentials, row: { denominator } }) => ({
  row_scores: scores,
  row_exponentials: exponentials,
  row_weights: exponentials.map((e) => e / denominator),
});
const single = (payload) => ({
  dot: payload.dot,
  scale: payload.scale,
  score: payload.score,
  peak: payload.row.peak,
  denominator: payload.row.denominator,
  weight: payload.weight,
  output_length: payload.output_length,
  row_output_length: payload.row_length,
  run_score: payload.check.score ?? NaN,
  run_weight: payload.check.weight ?? NaN,
});

function asLines(payload) {
  const out = [];
  for (const [name, values] of Object.entries(vectors(payload)))
    values.forEach((value, d) => out.push([name, d, "", value]));
  for (const [name, values] of Object.entries(row(payload)))
    values.forEach((value, at) => out.push([name, at, payload.tokens[at], value]));
  for (const [name, value] of Object.entries(single(payload))) out.push([name, "", "", value]);
  return out;
}
function asArrays(payload) {
  const out = {};
  for (const [name, values] of Object.entries({ ...vectors(payload), ...row(payload) }))
    out[name] = { data: Float64Array.from(values), shape: [values.length] };
  for (const [name, value] of Object.entries(single(payload))) out[name] = { data: Float64Array.of(value), shape: [1] };
  return { ...out, tokens: payload.tokens };
}
function byDimension({ title, words: w, stages, products, value, weighted }) {
  const { q, k } = stages.at(-1);
  return {
    names: [w.table_dimension, "q", "k", "q·k", "v", "A·v"],
    note: title,
    lines: q.map((_, d) => [String(d), q[d], k[d], products[d], value[d], weighted[d]]),
  };
}

define("why", (root) => {
  const go = (query, key) => select({ tokens: [...new Set([query, key])], pair: [query, key] });
  const title = el("h2"),
    about = el("p", "pg-about"),
    picking = pickers(go),
    steps = el("ol", "pg-why-steps");
  const foot = el("div");
  root.append(title, about, picking.row, steps, foot);
  const kept = { stage: "", order: "dimension" }; // what was switched stays from cell to cell
  let payload = null;
  const step = (name, content) => {
    const item = el("li");
    item.dataset.step = name;
    item.append(el("h3", "", payload.words[`step_${name}`]), ...content);
    return item;
  };
  const paintSteps = () => {
    const walk = dimensions(steps, payload),
      paint = painter(payload);
    steps.replaceChildren(
      step("vectors", vectorsStep(payload, walk, paint, kept)),
      step("products", productsStep(payload, walk, paint, kept)),
      step("score", scoreStep(payload)),
      step("mask", maskStep(payload)),
      step("softmax", softmaxStep(payload, go)),
      step("value", valueStep(payload, walk, paint)),
      step("check", checkStep(payload)),
    );
  };
  const footer = () => {
    const { words: w, file, source } = payload;
    const names = [w.quantity, w.index, w.column_token, w.number];
    foot.replaceChildren(
      exporting(root, {
        file,
        source,
        python: payload.python,
        title: payload.title,
        note: w.about,
        names,
        lines: () => asLines(payload),
        arrays: () => asArrays(payload),
        table: () => byDimension(payload),
      }),
    );
  };
  onTheme(() => {
    if (payload) paintSteps();
  });
  return (next) => {
    payload = next;
    title.textContent = payload.title;
    about.textContent = payload.words.about;
    picking.draw(payload);
    const chosen = steps.contains(document.activeElement);
    paintSteps();
    if (chosen) steps.querySelector("[aria-current]")?.focus();
    footer();
    root.dataset.run = payload.run;
  };
});
