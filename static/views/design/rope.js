// A query and a key as pairs of dimensions that RoPE rotates: a circle for each pair, rotated by the two positions.
//
// payload of "ropepairs": { title, note, derived, q, k, q_angle, k_angle, theta, wavelength, rest, root, query, key, first,
//   shown, farthest, most, words, source, file, python, run }
//  q, k: norms of the pairs; angles in radians before rotation; rest: contribution of the unrotated dimensions; root:
//  the square root of d_head; first: the pairs shown initially; farthest: the largest distance; most: the largest shift
// Moving a slider sends no request: the page computes the rotation itself.
import { el, fill, svg } from "../../page/dom.js";
import { define } from "../../page/mount.js";
import { titled } from "../../parts/titled.js";

const R = 42,
  HALF = 50; // half the width of a circle's picture
const STEPS = 400; // number of steps of the logarithmic slider of shifts

const minus = (text) => String(text).replace("-", "−");
const signed = (value) =>
  (value < 0 ? "−" : "+") + Math.abs(value).toFixed(Math.abs(value) >= 10 ? 1 : Math.abs(value) >= 0.0005 ? 3 : 1);
const short = (value) => minus(+value.toPrecision(3));
const long = (value) => value.toLocaleString("en", { maximumSignificantDigits: 3 });
const degrees = (angle) => Math.round(((((angle * 180) / Math.PI) % 360) + 360) % 360) % 360;
const gap = (value) => (value ? minus(value.toExponential(1)) : "0");

// Draw an arrow from the center as a path. y grows downward, angles grow counterclockwise.
function hand(length, angle, head) {
  const x = length * Math.cos(angle),
    y = -length * Math.sin(angle);
  const at = (back, side) => {
    const far = Math.max(length - back, 0);
    return `${(far * Math.cos(angle) - side * Math.sin(angle)).toFixed(2)} ${(-far * Math.sin(angle) - side * Math.cos(angle)).toFixed(2)}`;
  };
  const tip = `${x.toFixed(2)} ${y.toFixed(2)}`;
  return head ? `M 0 0 L ${at(head, 0)} M ${tip} L ${at(head, head / 2)} L ${at(head, -head / 2)} Z` : `M 0 0 L ${tip}`;
}

// --- computation ---

const positionsOf = ({ payload, shift, distance }) => {
  const m = Math.max(payload.query + shift, distance); // no key precedes the text, so both positions move up
  return { m, n: m - distance };
};
// Compute the angle of each arrow and the pair's contribution from the positions.
const turned = ({ theta, q_angle, k_angle, q, k, root }, { m, n }) =>
  theta.map((step, i) => {
    const a = q_angle[i] + m * step,
      b = k_angle[i] + n * step;
    return { q: a, k: b, adds: (q[i] * k[i] * Math.cos(a - b)) / root };
  });
const total = (pairs, rest) => pairs.reduce((sum, { adds }) => sum + adds, rest);
// Map a slider step to a shift from 0 to the largest one; the increments are 1 at first, then grow.
const shiftOf = (step, most) => Math.round((most + 1) ** (step / STEPS) - 1);
const stepOf = (shift, most) => Math.round((STEPS * Math.log(shift + 1)) / Math.log(most + 1));

// --- display ---

// Build a slider with its displayed value; read() returns the value, change(value) sets it.
function slider(name, max, value, read, change) {
  const label = el("label", "pg-control pg-control-range"),
    both = el("span", "pg-slider"),
    input = el("input", "", "", { type: "range", min: 0, max, step: 1 }),
    shown = el("output");
  input.value = value;
  const tell = () => {
    shown.textContent = read().toLocaleString("en");
  };
  input.oninput = () => {
    change(+input.value);
    tell();
  };
  tell();
  both.append(input, shown);
  label.append(el("span", "pg-control-label", name), both);
  return label;
}

// Build the circle of one pair, with its contribution below. Returns { i, box, draw(pair, largest) }.
function pairCircle({ words, q, k, q_angle, k_angle, wavelength }, i) {
  const longest = { q: Math.max(...q) || 1, k: Math.max(...k) || 1 },
    size = { q: R * Math.sqrt(q[i] / longest.q), k: R * Math.sqrt(k[i] / longest.k) }; // square roots keep small pairs visible
  const line = (who, part, d) => svg("path", { class: `pg-rope-${who} pg-rope-${part}`, ...(d && { d }) }),
    begin = [line("q", "start", hand(size.q, q_angle[i], 0)), line("k", "start", hand(size.k, k_angle[i], 0))],
    hands = { k: line("k", "hand"), q: line("q", "hand") },
    circle = svg("circle", { r: R, class: "pg-rope-circle" }),
    view = { viewBox: `${-HALF} ${-HALF} ${2 * HALF} ${2 * HALF}`, role: "img" },
    picture = svg("svg", view, circle, ...begin, hands.k, hands.q);
  const box = el("figure", "pg-rope-pair"),
    bar = el("span", "pg-rope-bar", "", { "aria-hidden": "true" }),
    filling = el("span"),
    adds = el("b"),
    caption = el("figcaption");
  bar.append(filling);
  caption.append(
    el("span", "", fill(words.pair, { i })),
    el("span", "pg-muted", fill(words.wave, { length: long(wavelength[i]) })),
    adds,
    bar,
  );
  box.append(picture, caption);
  const draw = (pair, largest) => {
    hands.q.setAttribute("d", hand(size.q, pair.q, Math.min(9, size.q)));
    hands.k.setAttribute("d", hand(size.k, pair.k, Math.min(9, size.k)));
    adds.textContent = signed(pair.adds);
    const share = (50 * Math.abs(pair.adds)) / largest;
    filling.style.width = `${share}%`;
    filling.style.left = `${pair.adds < 0 ? 50 - share : 50}%`;
    filling.className = pair.adds < 0 ? "pg-rope-less" : "pg-rope-more";
    const text = fill(words.pair_text, {
      i,
      length: long(wavelength[i]),
      q: short(q[i]),
      k: short(k[i]),
      q_angle: degrees(pair.q),
      k_angle: degrees(pair.k),
      value: signed(pair.adds),
    });
    picture.setAttribute("aria-label", text);
    box.title = text;
  };
  return { i, box, draw };
}

function legendOf({ words, first, theta, rest }, whole) {
  const mark = (who, text) => {
    const node = el("span");
    node.append(el("i", `pg-rope-mark-${who}`, "", { "aria-hidden": "true" }), text);
    return node;
  };
  const few = !whole && first.length < theta.length;
  return [
    mark("q", words.query),
    mark("k", words.key),
    ...(few ? [el("span", "", fill(words.few_note, { n: first.length, all: theta.length }))] : []),
    ...(rest ? [el("span", "", fill(words.rest, { value: signed(rest) }))] : []),
  ];
}

// Describe the score at these positions, and its difference from the prompt's.
function sentence({ payload, distance }, { m, n }, score) {
  const { words, query, key, rest } = payload,
    texts = [
      fill(words.now, {
        m: m.toLocaleString("en"),
        n: n.toLocaleString("en"),
        d: distance.toLocaleString("en"),
        score: minus(score.toFixed(4)),
      }),
    ];
  if (m !== query || n !== key) {
    const here = total(turned(payload, { m: query, n: key }), rest);
    texts.push(fill(words.moved, { score: minus(here.toFixed(4)), gap: gap(score - here) }));
  }
  return texts.join(" ");
}

define("ropepairs", (root) => {
  const form = el("div", "pg-controls pg-rope-form"),
    status = el("p", "pg-rope-status", "", { role: "status" }),
    legend = el("p", "pg-rope-legend pg-muted"),
    grid = el("div", "pg-rope-grid"),
    frame = titled(root, form, status, legend, grid),
    turn = { payload: null, shift: 0, distance: 0 };
  let cells = [],
    whole = false,
    waiting = 0;

  const show = () => {
    const { payload } = turn,
      { q, k, root: scale, rest } = payload,
      at = positionsOf(turn),
      pairs = turned(payload, at),
      largest = Math.max(...q.map((size, i) => (size * k[i]) / scale)) || 1,
      score = total(pairs, rest);
    for (const { i, draw } of cells) draw(pairs[i], largest);
    status.textContent = sentence(turn, at, score);
    Object.assign(root.dataset, { score, query: at.m, key: at.n });
  };
  const soon = () => {
    if (!waiting)
      waiting = requestAnimationFrame(() => {
        waiting = 0;
        show();
      });
  };
  const lay = () => {
    const { payload } = turn;
    cells = (whole ? payload.theta.map((_, i) => i) : payload.first).map((i) => pairCircle(payload, i));
    grid.replaceChildren(...cells.map(({ box }) => box));
    legend.replaceChildren(...legendOf(payload, whole));
  };
  const controls = () => {
    const { words, theta, first, farthest, most, query, key } = turn.payload;
    const back = el("button", "pg-button", words.reset, { type: "button" });
    back.onclick = () => {
      Object.assign(turn, { shift: 0, distance: query - key });
      controls();
      show();
    };
    const set = (name, read) => (value) => {
      turn[name] = read(value);
      soon();
    };
    const shifts = set("shift", (step) => shiftOf(step, most)),
      parts = [
        slider(words.shift, STEPS, stepOf(turn.shift, most), () => turn.shift, shifts),
        slider(words.distance, farthest, turn.distance, () => turn.distance, set("distance", Number)),
        back,
      ];
    if (first.length < theta.length) {
      const all = el("button", "pg-button", fill(words.all, { n: theta.length }), {
        type: "button",
        "aria-pressed": whole,
      });
      all.onclick = () => {
        whole = !whole;
        all.setAttribute("aria-pressed", whole);
        lay();
        show();
      };
      parts.push(all);
    }
    form.replaceChildren(...parts);
  };

  return (payload) => {
    const { words, wavelength, q, k, query, key } = payload;
    if (turn.payload?.run !== payload.run) Object.assign(turn, { shift: 0, distance: query - key });
    turn.payload = payload;
    root.classList.toggle("pg-rope-derived", payload.derived);
    controls();
    lay();
    show();
    frame(payload, {
      names: ["pair", "wave", "q", "k", "q_angle", "k_angle", "adds"].map((name) => words[`column_${name}`]),
      lines: () =>
        turned(payload, positionsOf(turn)).map((pair, i) => [
          i,
          wavelength[i],
          q[i],
          k[i],
          degrees(pair.q),
          degrees(pair.k),
          pair.adds,
        ]),
      table: true,
    });
  };
});
