// The logit lens: a table of blocks x positions with the top token in each cell, and a map for the complete prompt.
//
// lenstable: { layers [K], positions [P], columns [{ text, next }], ids [K P k], names { id: text }, final [P],
//   probabilities [K, P, k], entropy (bits) and kl (nats) [K, P] (arrays as Plotly sends them), ranks [K P], color, top, curve,
//   ramps, legend, last (the prompt's last position), title, note, source, file, run, python, words }
import { el, fill, rests, roving } from "../../page/dom.js";
import { define } from "../../page/mount.js";
import { onSelect, select, selection } from "../../page/selection/selection.js";
import { isDark, onTheme } from "../../page/theme.js";
import { lookup } from "../../parts/colors.js";
import { decoded } from "../../parts/figure/figure_numbers.js";
import { icon } from "../../parts/icons.js";
import { percent } from "../../parts/percent.js";
import { tableOf } from "../../parts/table.js";
import { titled } from "../../parts/titled.js";

const SHORT = 6; // number of characters that fit into every cell
const looked = (last) => (selection.tokens.length ? Math.max(...selection.tokens) : last);
// Return the position of a number on the ramp, from 0 to 1.
export const PLACES = {
  sqrt: (value, top) => Math.sqrt(value / top),
  linear: (value, top) => value / top,
  log1p: (value, top) => Math.log1p(value) / Math.log1p(top),
  rank: (value, top) => 1 - Math.log(value) / Math.log(Math.max(top, 2)),
};
// Choose dark or light text, whichever has more contrast with the background, by the relative luminance of WCAG 2.1.
export const ink = (rgb) => {
  const [r, g, b] = rgb.map((c) => (c / 255 <= 0.03928 ? c / 255 / 12.92 : ((c / 255 + 0.055) / 1.055) ** 2.4));
  return 0.2126 * r + 0.7152 * g + 0.0722 * b > 0.179 ? "#000000" : "#ffffff";
};

// Add derived values to the payload: `at(k, p)` returns all numbers of one cell.
export function read(payload) {
  const { positions, layers, ids, final, names, ranks } = payload;
  const P = positions.length,
    K = layers.length,
    k = ids.length / (K * P);
  const [shares, entropy, kl] = [payload.probabilities, payload.entropy, payload.kl].map(
    (array) => decoded(array).data,
  );
  const at = (row, column) => {
    const here = row * P + column;
    const top = Array.from({ length: k }, (_, n) => ({
      id: ids[here * k + n],
      text: names[ids[here * k + n]],
      p: shares[here * k + n],
    }));
    return {
      layer: layers[row],
      position: positions[column],
      top,
      entropy: entropy[here],
      kl: kl[here],
      rank: ranks[here],
      final: final[column],
    };
  };
  return { payload, P, K, k, at, shares, entropy, kl };
}
const number = (cell, color) =>
  ({ probability: cell.top[0].p, entropy: cell.entropy, kl: cell.kl, rank: cell.rank })[color];

// Return the export of the table at full precision, one row per cell.
function lines({ payload, P, K, k, at }) {
  const { words, columns } = payload,
    each = Array.from({ length: k }, (_, n) => n + 1);
  const head = [
    words.column_layer,
    words.column_position,
    words.column_token,
    words.column_next,
    ...each.flatMap((n) => [fill(words.column_likeliest, { n }), fill(words.column_p, { n })]),
    words.column_entropy,
    words.column_kl,
    words.column_rank,
  ];
  const body = [];
  for (let row = 0; row < K; row++)
    for (let column = 0; column < P; column++) {
      const cell = at(row, column),
        { text, next } = columns[column];
      body.push([
        cell.layer,
        cell.position,
        text,
        next,
        ...cell.top.flatMap((one) => [one.text, one.p]),
        cell.entropy,
        cell.kl,
        cell.rank,
      ]);
    }
  return [head, ...body];
}
function arrays({ payload, P, K, k, shares, entropy, kl }) {
  const whole = (list, shape) => ({ data: Int32Array.from(list), shape });
  return {
    layers: whole(payload.layers, [K]),
    positions: whole(payload.positions, [P]),
    ids: whole(payload.ids, [K, P, k]),
    probabilities: { data: shares, shape: [K, P, k] },
    entropy_bits: { data: entropy, shape: [K, P] },
    kl: { data: kl, shape: [K, P] },
    rank_of_final: whole(payload.ranks, [K, P]),
    final: whole(payload.final, [P]),
    tokens: payload.columns.map(({ text }) => text),
  };
}

// Convert a cell number, counted from the embedding down, to [row of the payload, column].
export const placeOf = (now, index) => [Math.floor(index / now.P), index % now.P];

// Describe one cell: its most likely tokens, and three numbers.
export function readoutOf(now, index) {
  const { words, names, columns } = now.payload,
    [row, column] = placeOf(now, index),
    cell = now.at(row, column);
  const list = el("span", "pg-lens-top");
  for (const one of cell.top) {
    const item = el("span", "pg-lens-item"),
      text = el("span", "pg-lens-token", one.text);
    if (one.id === cell.final) text.classList.add("pg-lens-final");
    item.append(text, el("b", "", percent(one.p)));
    list.append(item);
  }
  const details = el("span", "pg-lens-facts"),
    rank = { token: names[cell.final], rank: cell.rank.toLocaleString("en") };
  details.append(
    el("span", "", fill(words.entropy_short, { value: cell.entropy.toFixed(3) })),
    el("span", "", fill(words.kl_short, { value: cell.kl.toFixed(3) })),
    el("span", "", fill(words.rank_short, rank)),
  );
  return [el("span", "pg-lens-where", fill(words.readout, { ...cell, token: columns[column].text })), list, details];
}

// Build the table, with a button in each cell.
export function lensGrid({ payload, P, K, at }) {
  const { words, columns, positions, layers } = payload;
  const heads = columns.map(({ text, next }, column) => {
    const name = el("span", "pg-lens-name", text),
      help = next ? fill(words.next, { token: next }) : words.no_next,
      follows = el("span", "pg-lens-next", next ? `→ ${next}` : "→ ?", { title: help });
    return { inside: [name, follows], help: `${positions[column]} ${text}` };
  });
  const cellOf = (row, column) => {
    const cell = at(row, column),
      [{ id, text, p }] = cell.top,
      same = id === cell.final,
      values = { layer: layers[row], position: positions[column], token: text, p: percent(p) },
      label = fill(words.cell, values);
    const button = el("button", same ? "pg-lens-same" : "", text, {
      type: "button",
      "data-index": row * P + column,
      "aria-label": same ? `${label}, ${words.mark}` : label,
      tabindex: -1,
    });
    if (text.length > SHORT) button.title = text; // a cell may be too narrow for it
    return button;
  };
  const line = (_, row) => {
    const layer = layers[row],
      end = layer === 0 ? words.embedding : row === K - 1 ? words.output : "";
    const name = { text: String(layer), inside: end ? el("small", "", end) : [] };
    return [name, ...Array.from({ length: P }, (_, column) => cellOf(row, column))];
  };
  return tableOf({
    role: "grid",
    "aria-label": payload.title,
    style: `min-width: calc(var(--pg-lens-side) + ${P} * var(--pg-lens-cell))`,
    columns: [words.layers, ...heads],
    rows: Array.from({ length: K }, line),
  });
}

// Build the ramp with the values at its ends and, if that is not half of the largest value, in its middle.
function legendOf({ words, color, top, curve, ramps, legend }) {
  const bar = el("span", "pg-reading-ramp");
  bar.style.background = `linear-gradient(90deg, ${ramps[isDark() ? "dark" : "light"].join(", ")})`;
  const high = { probability: "100%", rank: "1" }[color] ?? top.toPrecision(3);
  const middle = {
    sqrt: "25%",
    log1p: Math.expm1(Math.log1p(top) / 2).toPrecision(2),
    linear: "",
    rank: Math.round(Math.sqrt(top)).toLocaleString("en"),
  }[curve];
  const scale = el("span", "pg-lens-scale"),
    frame = el("span", "pg-lens-scale");
  scale.append(el("span", "", `${legend}: ${words[`low_${color}`]}`), bar, el("span", "", high));
  if (middle) bar.append(el("i", "", middle));
  frame.append(el("span", "pg-lens-sample"), el("span", "", words.mark));
  return [scale, frame];
}
// Build the buttons that show the tokens before and after those of the table.
function pagesOf({ words, positions, last }) {
  const [first, end] = [positions[0], positions.at(-1)];
  if (first === 0 && end === last) return [];
  const step = (inside, to) => {
    const node = el("button", "pg-button pg-quiet", "", { type: "button" });
    node.append(...inside);
    node.onclick = () => select({ tokens: [to] });
    node.disabled = to < 0 || to > last;
    return node;
  };
  return [step([icon("left"), ` ${words.earlier}`], first - 1), step([`${words.later} `, icon("right")], end + 1)];
}

// Return the target of an arrow key among P columns and K rows.
export const walk = ({ P, K }, key, at) => {
  const column = at % P,
    row = Math.floor(at / P);
  const to = {
    ArrowLeft: [row, column - 1],
    ArrowRight: [row, column + 1],
    ArrowUp: [row - 1, column],
    ArrowDown: [row + 1, column],
    Home: [row, 0],
    End: [row, P - 1],
    PageUp: [0, column],
    PageDown: [K - 1, column],
  }[key];
  return to && to[0] >= 0 && to[0] < K && to[1] >= 0 && to[1] < P ? to[0] * P + to[1] : null;
};

define("lenstable", (root) => {
  const bar = el("div", "pg-lens-bar"),
    box = el("div", "pg-lens-box", "", { role: "region" }),
    readout = el("div", "pg-lens-readout", "", { "aria-live": "polite" }),
    frame = titled(root, bar, box, readout);
  let now = null,
    buttons = [],
    heads = [],
    pinned = null; // the row that is described while the pointer is outside the table

  const paint = () => {
    const { color, curve, top, ramps } = now.payload,
      ramp = lookup(ramps[isDark() ? "dark" : "light"]);
    buttons.forEach((button, index) => {
      const value = number(now.at(...placeOf(now, index)), color),
        rgb = ramp[Math.round(254 * Math.min(1, Math.max(0, PLACES[curve](value, top))))];
      button.style.background = `rgb(${rgb})`;
      button.style.color = ink(rgb);
    });
    bar.replaceChildren(...legendOf(now.payload), ...pagesOf(now.payload));
  };
  const tell = (index) => readout.replaceChildren(...readoutOf(now, index));
  const here = () => {
    const column = now.payload.positions.indexOf(looked(now.payload.last));
    return column < 0 ? null : (pinned ?? now.K - 1) * now.P + column;
  };
  // Frame the column of the selected position; it contains the only cell in the Tab order.
  const mark = () => {
    if (!now) return;
    const index = here(),
      first = (now.K - 1) * now.P, // the first token's prediction
      column = index === null ? -1 : index % now.P;
    heads.forEach((head, at) => head.classList.toggle("pg-lens-looked", at === column));
    buttons.forEach((button, at) => {
      button.parentNode.classList.toggle("pg-lens-looked", at % now.P === column);
      button.setAttribute("aria-pressed", at === index);
      if (!box.contains(document.activeElement)) button.tabIndex = at === (index ?? first) ? 0 : -1;
    });
    tell(index ?? first);
  };
  // Scroll the selected cell into view within the box, without moving the page.
  const show = () => {
    const index = here();
    if (index === null) return;
    const head = heads[index % now.P],
      left = head.offsetLeft - box.querySelector("th").offsetWidth,
      right = head.offsetLeft + head.offsetWidth - box.clientWidth;
    if (box.scrollLeft > left) box.scrollLeft = left;
    else if (box.scrollLeft < right) box.scrollLeft = right;
  };

  const indexOf = (event) => event.target.closest?.("button[data-index]")?.dataset.index;
  const point = (event) => {
    const index = indexOf(event);
    if (index !== undefined) tell(+index);
  };
  box.addEventListener("mouseover", (event) => {
    if (!rests(event)) point(event);
  });
  box.addEventListener("focusin", point);
  box.addEventListener("mouseleave", mark);
  box.addEventListener("click", (event) => {
    const index = indexOf(event);
    if (index === undefined) return;
    pinned = Math.floor(index / now.P);
    select({ tokens: [now.payload.positions[index % now.P]] });
  });
  roving(box, (key, at) => walk(now, key, at));
  onSelect(() => {
    if (!now || root.hidden) return;
    mark();
    show();
  });
  onTheme(() => now && paint());
  new ResizeObserver(() => {
    if (now && root.clientWidth) show();
  }).observe(root);
  return (payload) => {
    const again = now?.payload.positions.join() === payload.positions.join(),
      scrolled = again ? [box.scrollLeft, box.scrollTop] : null;
    now = read(payload);
    if (pinned !== null && pinned >= now.K) pinned = null;
    box.setAttribute("aria-label", payload.title);
    box.replaceChildren(lensGrid(now));
    heads = [...box.querySelectorAll("thead th")].slice(1);
    buttons = [...box.querySelectorAll("tbody button")];
    paint();
    mark();
    if (scrolled) [box.scrollLeft, box.scrollTop] = scrolled;
    else {
      box.scrollTop = box.scrollHeight; // at the last layers, where the prediction is made
      show();
    }
    frame(payload, { names: () => lines(now)[0], lines: () => lines(now).slice(1), arrays: () => arrays(now) });
  };
});
