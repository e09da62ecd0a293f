import { el, fill } from "../../page/dom.js";
import { switcher } from "../../parts/switcher.js";
import { rowOf, tableOf, verdictLine } from "../../parts/table.js";
import { bars, figure, formula, minus, more, say, short, signed, strip } from "./cell_pieces.js";

const length = (values) => Math.sqrt(values.reduce((sum, value) => sum + value ** 2, 0));
export function vectorsStep(payload, walk, paint, choices) {
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
  if (payload.kv_source !== null) more(lines[0], w.vectors_source, { layer: payload.kv_source });
  if (payload.limit !== null) more(lines[0], w.vectors_limit, { limit: short(payload.limit) });
  if (stages.some(({ name }) => name === "normed")) more(lines[0], w.vectors_norm);
  if (payload.factor !== null)
    more(lines[0], w.vectors_factor, {
      factor: figure(payload.factor),
      multiplier: figure(payload.factor / payload.scale),
      width: String(E),
    });
  const turn = payload.adjacent ? w.vectors_turn_adjacent : w.vectors_turn;
  if (half) more(lines[0], turn, { half, distance: query - key });
  if (payload.still) more(lines[0], w.vectors_still, { n: payload.still });
  if (half && 2 * half < E) more(lines[0], w.vectors_part, { n: E - 2 * half });
  const [box, line] = walk.frame(() => [...Array(E).keys()]);
  const numbers = el("span"),
    last = stages.length - 1;
  const show = (n) => {
    choices.stage = stages[n].name;
    walk.show(n);
    numbers.replaceChildren("‖q‖ = ", figure(length(stages[n].q)), ",  ‖k‖ = ", figure(length(stages[n].k)));
    box.replaceChildren(strip("q", stages[n].q, paint), strip("k", stages[n].k, paint));
    walk.mark();
  };
  const before = stages.findIndex(({ name }) => name === choices.stage),
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
  const formulaOf = (vector, matrix, at) => {
    const plain = `${matrix}·x_${at}`,
      scaled = normed ? `norm(${plain})` : plain,
      by = vector === "q" && payload.factor !== null ? "f·" : "";
    return `${vector} = ${half ? `R_${at}·` : ""}${by}${scaled}`;
  };
  return [...lines, box, line, formula(`${formulaOf("q", "W_Q", "i")},  ${formulaOf("k", "W_K", "j")}`, [numbers])];
}

export function productsStep(payload, walk, paint, choices) {
  const { words: w, products, named } = payload;
  const byDimension = products.map((_, d) => d);
  const bySize = [...byDimension].sort((a, b) => Math.abs(products[b]) - Math.abs(products[a]));
  let order = byDimension;
  const [box, line] = walk.frame(() => order);
  const show = (key) => {
    choices.order = key;
    order = key === "size" ? bySize : byDimension;
    box.replaceChildren(bars("q·k", products, order, paint));
    walk.mark();
  };
  show(choices.order);
  const field = el("div", "pg-why-choose");
  field.append(
    el("span", "pg-muted", w.order),
    switcher(
      w.order,
      [
        ["dimension", w.by_dimension],
        ["size", w.by_size],
      ],
      choices.order,
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

// The score in symbols: with the layer's cap c and the head's ALiBi slope m, where there are any.
const scoreFormula = ({ cap, slope, penalty }) =>
  `s = ${cap === null ? "q·k / √d_head" : "c·tanh(q·k / (c·√d_head))"}${slope === null ? "" : penalty === null ? " − m·(i − j)" : " − (bf16(m·i) − bf16(m·j)) / √d_head"}`;

export function scoreStep(payload) {
  const { words: w, dot, scale, scaled, cap, slope, penalty, score, products } = payload,
    [query, key] = payload.cell;
  const line = el("p", "", fill(w.score, { width: products.length }));
  if (cap !== null) more(line, w.score_cap, { cap: figure(cap) });
  if (slope !== null && penalty !== null) more(line, w.score_alibi_rounded, { slope: figure(slope) });
  else if (slope !== null) more(line, w.score_alibi, { slope: figure(slope), distance: String(Math.abs(query - key)) });
  const numbers = ["s = "];
  if (cap !== null) numbers.push(figure(cap), " · tanh(", figure(scaled), " / ", figure(cap), ")");
  else numbers.push(figure(dot), ` / √${products.length} = `, figure(dot), " / ", figure(scale));
  if (slope !== null && penalty !== null) numbers.push(" − ", figure(penalty));
  else if (slope !== null) numbers.push(" − ", figure(slope), ` · ${Math.abs(query - key)}`);
  return [line, formula(scoreFormula(payload), [...numbers, " = ", figure(score)])];
}

export function maskStep({ words: w, hidden, two_way, window, first, last, tokens, cell: [query], names, check }) {
  const text = two_way ? w.mask_two_way : hidden ? w.mask : w.mask_none;
  const line = el("p", "", fill(text, { query: names[0], hidden, n: last + 1 - first }));
  if (two_way) {
    if (window !== null)
      more(line, w.mask_two_way_window, { half: (window - 1) / 2, n: first + tokens.length - 1 - last });
    if (check.state === "cell") more(line, w.mask_blocked, { key: names[1] });
    return window === null ? [line] : [line, formula("s_j = −∞,  |i − j| > W / 2", [])];
  }
  if (window !== null) more(line, w.mask_window, { window: String(window), n: String(first) });
  if (check.state === "cell") more(line, w.mask_blocked, { key: names[1] });
  if (window === null) return [line, formula("s_j = −∞,  j > i", [`j > ${query}:  ${hidden} × −∞`])];
  const numbers = `j > ${query}:  ${hidden} × −∞;  j ≤ ${query} − ${window}:  ${first} × −∞`;
  return [line, formula("s_j = −∞,  j > i,  j ≤ i − W", [numbers])];
}

export function softmaxStep(payload, go) {
  const {
    words: w,
    row,
    cell: [query, key],
    tokens,
  } = payload;
  const line = (name, values, share, look = "") => {
    const tr = rowOf([name, ...values], { look });
    tr.lastChild.style.setProperty("--pg-share", `${100 * share}%`);
    return tr;
  };
  const fixed = (value) => value.toFixed(row.decimals);
  const rows = row.lines.map((each) => {
    const name = `${tokens[each.key]} (${each.key})`,
      here = each.key === key;
    const button = el("button", "pg-chip", name, { type: "button", "aria-label": fill(w.choose, { key: name }) });
    button.onclick = () => go(query, each.key);
    if (here) button.setAttribute("aria-current", "true");
    const numbers = [figure(each.exponential, fixed(each.shown[0])), figure(each.weight, fixed(each.shown[1]))];
    return line(button, [figure(each.score), figure(each.below), ...numbers], each.weight, here ? "pg-here" : "");
  });
  const { others } = row;
  if (others) {
    const numbers = [figure(others.exponential, fixed(others.shown[0])), figure(others.weight, fixed(others.shown[1]))];
    rows.push(line(fill(w.others, { n: others.count }), ["", "", ...numbers], others.weight));
  }
  const { sink } = row;
  if (sink) {
    const numbers = [figure(sink.exponential, fixed(sink.shown[0])), figure(sink.weight, fixed(sink.shown[1]))];
    rows.push(line(w.sink, [figure(sink.score), figure(sink.below), ...numbers], sink.weight, "pg-why-sink"));
  }
  rows.push(line(w.sum, ["", "", figure(row.denominator, fixed(row.shown[0])), fixed(row.shown[1])], 0, "pg-sum"));
  const columns = ["token", "score", "below", "exponential", "weight"].map((name) => w[`column_${name}`]),
    scroll = el("div", "pg-why-scroll"),
    shown = payload.exponentials[key - payload.first];
  scroll.append(tableOf({ look: "pg-why-row", columns, rows }));
  const told = say(w.softmax, { peak: figure(row.peak) });
  if (sink) more(told, w.softmax_sink, { weight: figure(sink.weight) });
  return [
    told,
    scroll,
    formula(`A = e^(s − max) / ${sink ? "(Σ_j e^(s_j − max) + e^(sink − max))" : "Σ_j e^(s_j − max)"}`, [
      "A = e^(",
      figure(payload.score),
      row.peak < 0 ? " + " : " − ",
      figure(row.peak, short(Math.abs(row.peak))),
      ") / ",
      figure(row.denominator),
      " = ",
      figure(shown),
      " / ",
      figure(row.denominator),
      " = ",
      figure(payload.weight),
    ]),
  ];
}

export function valueStep(payload, walk, paint) {
  const { words: w, names } = payload;
  const percent = (share) => figure(share, `${short(100 * share)}%`);
  const lines = [say(w.value, { key: names[1], length: figure(payload.output_length) })];
  if (payload.share === null) lines.push(el("p", "", fill(w.value_none, { query: names[0] })));
  else lines.push(say(w.value_share, { share: percent(payload.share), query: names[0] }));
  if (payload.gate) more(lines[1], w.value_gate);
  if (payload.placed) more(lines[1], w[`value_${payload.placed}`]);
  if (payload.check.output) more(lines[1], w.value_edited);
  const [box, line] = walk.frame(() => payload.value.map((_, d) => d));
  box.append(strip("v", payload.value, paint), strip("A·v", payload.weighted, paint));
  const [v, vj] = payload.gate ? ["(v⊙g)", "(v_j⊙g)"] : ["v", "v_j"];
  if (payload.gate) box.append(strip("g", payload.gate, paint));
  const numbers =
    payload.value_length === null
      ? [`‖A·${v}·W_O‖ = `, figure(payload.output_length)]
      : [
          `‖A·${v}·W_O‖ = `,
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
  return [...lines, box, line, formula(`‖A·${v}·W_O‖ = A · ‖${v}·W_O‖;  ‖A·${v}·W_O‖ / ‖Σ_j A_j·${vj}·W_O‖`, numbers)];
}

export function checkStep(payload) {
  const { words: w, check, score, weight } = payload;
  const text = say(w[`check_${check.state}`], {
    score: figure(check.score),
    weight: figure(check.weight),
    d_score: figure(check.apart[0]),
    d_weight: figure(check.apart[1]),
  });
  const line = verdictLine(check.state === "same", [...text.childNodes], "pg-why", "apart");
  const letters = `${scoreFormula(payload)},  A = softmax(${payload.row.sink ? "s, sink" : "s"})`;
  return [line, formula(letters, ["s = ", figure(score), ",  A = ", figure(weight)])];
}
