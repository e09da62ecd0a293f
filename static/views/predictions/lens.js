// The lens: a table of blocks passed x positions, each cell the first choice there, and the same of a whole prompt.
//
// lenstable: { layers [K], positions [P], columns [{ text, next }], ids [K P k], names { id: text }, final [P],
//   probabilities [K, P, k], entropy (bits) and kl (nats) [K, P] (arrays as Plotly sends them), ranks [K P], colour, top, curve,
//   ramps, legend, last (the prompt's last position), title, note, source, file, run, python, words }
import { exporting } from "../../export/menu.js";
import { el, fill, rests, roving } from "../../page/dom.js";
import { define } from "../../page/mount.js";
import { onSelect, select, selection } from "../../page/selection/selection.js";
import { isDark, onTheme } from "../../page/theme.js";
import { lookup } from "../../parts/colours.js";
import { mountPlot } from "../../parts/figure.js";
import { decoded, ownFigure } from "../../parts/figure_numbers.js";
import { tools } from "../../parts/tools.js";

const SHORT = 8; // letters that fit into every cell
const percent = (p) => (p < 5e-5 ? "< 0.01 %" : `${(100 * p).toFixed(p < 0.0995 ? 2 : 1)} %`);
const looked = (last) => (selection.tokens.length ? Math.max(...selection.tokens) : last);
// Where on the ramp a number lies, 0 to 1.
const PLACES = {
  sqrt: (value, top) => Math.sqrt(value / top),
  linear: (value, top) => value / top,
  log1p: (value, top) => Math.log1p(value) / Math.log1p(top),
  rank: (value, top) => 1 - Math.log(value) / Math.log(Math.max(top, 2)),
};
// Dark or light text, whichever has more contrast with the ground: relative luminance of WCAG 2.1.
const ink = (rgb) => {
  const [r, g, b] = rgb.map((c) => (c / 255 <= 0.03928 ? c / 255 / 12.92 : ((c / 255 + 0.055) / 1.055) ** 2.4));
  return 0.2126 * r + 0.7152 * g + 0.0722 * b > 0.179 ? "#000000" : "#ffffff";
};

// The payload with what is computed from it: `at(k, p)` is all of one cell.
function read(payload) {
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
const number = (cell, colour) =>
  ({ probability: cell.top[0].p, entropy: cell.entropy, kl: cell.kl, rank: cell.rank })[colour];

// Everything of the table with every digit, a line a cell.
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

define("lenstable", (root) => {
  const title = el("h2"),
    note = el("p", "pg-about"),
    bar = el("div", "pg-lens-bar");
  const box = el("div", "pg-lens-box", "", { role: "region" }),
    readout = el("div", "pg-lens-readout", "", { "aria-live": "polite" });
  const foot = el("div");
  root.append(title, note, bar, box, readout, foot);
  let now = null,
    buttons = [],
    heads = [],
    pinned = null; // pinned: the row that is described while nothing is pointed at

  const place = (index) => [now.K - 1 - Math.floor(index / now.P), index % now.P]; // the last block is on top
  const colours = () => {
    const { colour, curve, top, ramps } = now.payload,
      ramp = lookup(ramps[isDark() ? "dark" : "light"]);
    return (cell) => ramp[Math.round(254 * Math.min(1, Math.max(0, PLACES[curve](number(cell, colour), top))))];
  };
  const paint = () => {
    const colour = colours();
    buttons.forEach((button, index) => {
      const rgb = colour(now.at(...place(index)));
      button.style.background = `rgb(${rgb})`;
      button.style.color = ink(rgb);
    });
  };
  const tell = (index) => {
    const { words, names } = now.payload,
      [row, column] = place(index),
      cell = now.at(row, column);
    const token = now.payload.columns[column].text;
    const first = el("span", "pg-lens-where", fill(words.readout, { ...cell, token }));
    const list = el("span", "pg-lens-top");
    for (const one of cell.top) {
      const item = el("span", "pg-lens-item");
      const text = el("span", "pg-lens-token", one.text);
      if (one.id === cell.final) text.classList.add("pg-lens-final");
      item.append(text, el("b", "", percent(one.p)));
      list.append(item);
    }
    const facts = [
      fill(words.entropy_short, { value: cell.entropy.toFixed(3) }),
      fill(words.kl_short, { value: cell.kl.toFixed(3) }),
      fill(words.rank_short, { token: names[cell.final], rank: cell.rank.toLocaleString("en") }),
    ];
    const details = el("span", "pg-lens-facts");
    details.append(...facts.map((text) => el("span", "", text)));
    readout.replaceChildren(first, list, details);
  };
  const here = () => {
    const column = now.payload.positions.indexOf(looked(now.payload.last));
    return column < 0 ? null : (pinned ?? 0) * now.P + column;
  };
  // The column of the position looked at is framed; what Tab reaches lies in it.
  const mark = () => {
    if (!now) return;
    const index = here(),
      column = index === null ? -1 : index % now.P;
    heads.forEach((head, at) => head.classList.toggle("pg-lens-looked", at === column));
    buttons.forEach((button, at) => {
      button.parentNode.classList.toggle("pg-lens-looked", at % now.P === column);
      button.setAttribute("aria-pressed", at === index);
      if (!box.contains(document.activeElement)) button.tabIndex = at === (index ?? 0) ? 0 : -1;
    });
    tell(index ?? 0);
  };
  const show = () => {
    // what is looked at comes into the box, without moving the page
    const index = here();
    if (index === null) return;
    const head = heads[index % now.P],
      side = box.querySelector("th").offsetWidth;
    const left = head.offsetLeft - side,
      right = head.offsetLeft + head.offsetWidth - box.clientWidth;
    if (box.scrollLeft > left) box.scrollLeft = left;
    else if (box.scrollLeft < right) box.scrollLeft = right;
  };

  const build = () => {
    const { payload, P, K, at } = now,
      { words, columns, positions, layers } = payload;
    const grid = el("table", "", "", { role: "grid", "aria-label": payload.title }),
      head = el("tr"),
      body = el("tbody"),
      top = el("thead");
    grid.style.minWidth = `calc(var(--pg-lens-side) + ${P} * var(--pg-lens-cell))`;
    head.append(el("th", "", words.layers, { scope: "col" }));
    heads = columns.map(({ text, next }, column) => {
      const cell = el("th", "", "", { scope: "col", title: `${positions[column]} ${text}` });
      cell.append(
        el("span", "pg-lens-name", text),
        el("span", "pg-lens-next", next ? `→ ${next}` : "→ ?", {
          title: next ? fill(words.next, { token: next }) : words.no_next,
        }),
      );
      return cell;
    });
    head.append(...heads);
    top.append(head);
    buttons = [];
    for (let row = K - 1; row >= 0; row--) {
      const line = el("tr"),
        layer = layers[row];
      const name = el("th", "", String(layer), { scope: "row" });
      if (layer === 0 || row === K - 1) name.append(el("small", "", layer === 0 ? words.embedding : words.output));
      line.append(name);
      for (let column = 0; column < P; column++) {
        const cell = at(row, column),
          [first] = cell.top,
          td = el("td");
        const same = first.id === cell.final;
        const label = fill(words.cell, { layer, position: positions[column], token: first.text, p: percent(first.p) });
        const button = el("button", same ? "pg-lens-same" : "", first.text, {
          type: "button",
          "data-index": buttons.length,
          "aria-label": same ? `${label}, ${words.mark}` : label,
        });
        if (first.text.length > SHORT) button.title = first.text; // a cell may be too narrow for it
        button.tabIndex = -1;
        buttons.push(button);
        td.append(button);
        line.append(td);
      }
      body.append(line);
    }
    grid.append(top, body);
    return grid;
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
  box.addEventListener("mouseleave", () => {
    if (now) mark();
  });
  box.addEventListener("click", (event) => {
    const index = indexOf(event);
    if (index === undefined) return;
    pinned = Math.floor(index / now.P);
    select({ tokens: [now.payload.positions[index % now.P]] });
  });
  roving(box, (key, at) => {
    const { P, K } = now,
      column = at % P,
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
  });

  const legend = () => {
    const { payload } = now,
      { words, colour, top, curve } = payload,
      ramp = payload.ramps[isDark() ? "dark" : "light"];
    const bar = el("span", "pg-reading-ramp");
    bar.style.background = `linear-gradient(90deg, ${ramp.join(", ")})`;
    const high = { probability: "100 %", rank: "1" }[colour] ?? top.toPrecision(3);
    // What lies in the middle of the ramp, where that is not half of the largest value.
    const middle = {
      sqrt: "25 %",
      log1p: Math.expm1(Math.log1p(top) / 2).toPrecision(2),
      linear: "",
      rank: Math.round(Math.sqrt(top)).toLocaleString("en"),
    }[curve];
    const scale = el("span", "pg-lens-scale");
    scale.append(el("span", "", `${payload.legend}: ${words[`low_${colour}`]}`), bar, el("span", "", high));
    if (middle) bar.append(el("i", "", middle));
    const frame = el("span", "pg-lens-scale");
    frame.append(el("span", "pg-lens-sample"), el("span", "", words.mark));
    return [scale, frame];
  };
  const pages = () => {
    const { words, positions, last } = now.payload,
      [first, end] = [positions[0], positions.at(-1)];
    const step = (text, to) => {
      const node = tools([[text, () => select({ tokens: [to] })]]).firstChild;
      node.disabled = to < 0 || to > last;
      return node;
    };
    if (first === 0 && end === last) return [];
    return [step(`← ${words.earlier}`, first - 1), step(`${words.later} →`, end + 1)];
  };
  const furnish = () => bar.replaceChildren(...legend(), ...pages());

  onSelect(() => {
    if (now && !root.hidden) {
      mark();
      show();
    }
  });
  onTheme(() => {
    if (now) {
      paint();
      furnish();
    }
  });
  new ResizeObserver(() => {
    if (now && root.clientWidth) show();
  }).observe(root);
  return (payload) => {
    const scrolled =
      now?.payload.positions.join() === payload.positions.join() ? [box.scrollLeft, box.scrollTop] : null;
    now = read(payload);
    if (pinned !== null && pinned >= now.K) pinned = null;
    title.textContent = payload.title;
    note.textContent = payload.note;
    box.setAttribute("aria-label", payload.title);
    box.replaceChildren(build());
    furnish();
    paint();
    mark();
    if (scrolled) [box.scrollLeft, box.scrollTop] = scrolled;
    else {
      box.scrollTop = 0;
      show();
    }
    const { file, source, python } = payload;
    foot.replaceChildren(
      exporting(root, {
        file,
        source,
        python,
        title: payload.title,
        note: payload.note,
        names: () => lines(now)[0],
        lines: () => lines(now).slice(1),
        arrays: () => arrays(now),
      }),
    );
    root.dataset.run = payload.run;
  };
});

// The whole prompt: a click looks at the column's position. Where cells are too narrow, their tokens are left out.
define("lensmap", (root) => {
  let last = -1;
  const draw = mountPlot(root, {
    marked: () => (last < 0 ? [] : [looked(last)]),
    pick: (row, position) => select({ tokens: [position] }),
  });
  return (payload) => {
    last = payload.last;
    const figure = ownFigure(payload),
      [heat] = figure.data;
    if (heat.texttemplate && root.clientWidth - 120 < 34 * (payload.last + 1)) delete heat.texttemplate;
    draw({ ...payload, figure });
  };
});
