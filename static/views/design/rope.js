// A query and a key as rotating pairs: a circle for each pair of dimensions, turned by the two positions.
//
// payload of "ropepairs": { title, note, derived, q, k, q_angle, k_angle, theta, wavelength, rest, root, query, key, first,
//   shown, farthest, most, words, source, file, python, run }
//   q, k: lengths of the pairs; angles in radians before turning; rest: what dimensions that are not turned add; root: the
//   square root of d_head; first: the pairs that are shown at first; farthest: the longest distance; most: the largest shift
// Moving a slider sends no request: the page turns the payload itself.
import { exporting } from "../../export/menu.js";
import { el, fill } from "../../page/dom.js";
import { define } from "../../page/mount.js";

const SVG = "http://www.w3.org/2000/svg",
  R = 42,
  HALF = 50; // of a circle, and half of its picture
const STEPS = 400; // of the slider of shifts, which is logarithmic

const drawn = (name, attributes) => {
  const node = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
  return node;
};
const minus = (text) => String(text).replace("-", "−");
const signed = (value) =>
  (value < 0 ? "−" : "+") + Math.abs(value).toFixed(Math.abs(value) >= 10 ? 1 : Math.abs(value) >= 0.0005 ? 3 : 1);
const short = (value) => minus(+value.toPrecision(3));
const long = (value) => value.toLocaleString("en", { maximumSignificantDigits: 3 });
const degrees = (angle) => Math.round(((((angle * 180) / Math.PI) % 360) + 360) % 360) % 360;
const gap = (value) => (value ? minus(value.toExponential(1)) : "0");

// A hand from the centre with a head, as a path. y grows downwards, angles grow against the clock.
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

define("ropepairs", (root) => {
  const title = el("h2"),
    note = el("p", "pg-about"),
    form = el("div", "pg-controls pg-rope-form");
  const status = el("p", "pg-rope-status", "", { role: "status" }),
    legend = el("p", "pg-rope-legend pg-muted");
  const grid = el("div", "pg-rope-grid"),
    foot = el("div");
  root.append(title, note, form, status, legend, grid, foot);
  let payload = null,
    cells = [],
    whole = false,
    shift = 0,
    distance = 0,
    waiting = 0;

  const positions = () => {
    const m = Math.max(payload.query + shift, distance); // a key before the text does not exist: both move up
    return { m, n: m - distance };
  };
  // Angle of each hand and what the pair adds, from the positions themselves.
  const turned = (m, n) =>
    payload.theta.map((theta, i) => {
      const q = payload.q_angle[i] + m * theta,
        k = payload.k_angle[i] + n * theta;
      return { q, k, adds: (payload.q[i] * payload.k[i] * Math.cos(q - k)) / payload.root };
    });
  const total = (pairs) => pairs.reduce((sum, { adds }) => sum + adds, payload.rest);

  const slider = (name, max, step, value, read, change) => {
    const label = el("label", "pg-control pg-control-range"),
      both = el("span", "pg-slider");
    const input = el("input", "", "", { type: "range", min: 0, max, step }),
      shown = el("output");
    input.value = value;
    const tell = () => {
      shown.textContent = read().toLocaleString("en");
    };
    input.oninput = () => {
      change(+input.value);
      tell();
      if (!waiting)
        waiting = requestAnimationFrame(() => {
          waiting = 0;
          show();
        });
    };
    tell();
    both.append(input, shown);
    label.append(el("span", "pg-control-label", name), both);
    return label;
  };
  // 0 to the largest shift: the first steps one by one, then growing.
  const shiftOf = (step) => Math.round((payload.most + 1) ** (step / STEPS) - 1);
  const controls = () => {
    const { words, theta, farthest } = payload;
    const back = el("button", "pg-button", words.reset, { type: "button" });
    back.onclick = () => {
      shift = 0;
      distance = payload.query - payload.key;
      controls();
      show();
    };
    const parts = [
      slider(
        words.shift,
        STEPS,
        1,
        Math.round((STEPS * Math.log(shift + 1)) / Math.log(payload.most + 1)),
        () => shift,
        (step) => {
          shift = shiftOf(step);
        },
      ),
      slider(
        words.distance,
        farthest,
        1,
        distance,
        () => distance,
        (value) => {
          distance = value;
        },
      ),
      back,
    ];
    if (payload.first.length < theta.length) {
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

  const cell = (i) => {
    const { words, q, k, q_angle, k_angle, wavelength } = payload,
      box = el("figure", "pg-rope-pair");
    const longest = { q: Math.max(...q) || 1, k: Math.max(...k) || 1 };
    const size = { q: R * Math.sqrt(q[i] / longest.q), k: R * Math.sqrt(k[i] / longest.k) }; // small pairs can be seen, too
    const svg = drawn("svg", { viewBox: `${-HALF} ${-HALF} ${2 * HALF} ${2 * HALF}`, role: "img" });
    const line = (who, start) => drawn("path", { class: `pg-rope-${who} pg-rope-${start ? "start" : "hand"}` });
    const begin = [line("q", true), line("k", true)],
      hands = { k: line("k"), q: line("q") };
    begin[0].setAttribute("d", hand(size.q, q_angle[i], 0));
    begin[1].setAttribute("d", hand(size.k, k_angle[i], 0));
    svg.append(drawn("circle", { r: R, class: "pg-rope-circle" }), ...begin, hands.k, hands.q);
    const bar = el("span", "pg-rope-bar", "", { "aria-hidden": "true" }),
      fillings = el("span");
    bar.append(fillings);
    const adds = el("b"),
      caption = el("figcaption");
    caption.append(
      el("span", "", fill(words.pair, { i })),
      el("span", "pg-muted", fill(words.wave, { length: long(wavelength[i]) })),
      adds,
      bar,
    );
    box.append(svg, caption);
    const draw = (pair, largest) => {
      hands.q.setAttribute("d", hand(size.q, pair.q, Math.min(9, size.q)));
      hands.k.setAttribute("d", hand(size.k, pair.k, Math.min(9, size.k)));
      adds.textContent = signed(pair.adds);
      const share = (50 * Math.abs(pair.adds)) / largest;
      fillings.style.width = `${share}%`;
      fillings.style.left = `${pair.adds < 0 ? 50 - share : 50}%`;
      fillings.className = pair.adds < 0 ? "pg-rope-less" : "pg-rope-more";
      const text = fill(words.pair_text, {
        i,
        length: long(wavelength[i]),
        q: short(q[i]),
        k: short(k[i]),
        q_angle: degrees(pair.q),
        k_angle: degrees(pair.k),
        value: signed(pair.adds),
      });
      svg.setAttribute("aria-label", text);
      box.title = text;
    };
    return { i, box, draw };
  };
  const lay = () => {
    const { words, theta, first } = payload,
      count = theta.length;
    cells = (whole ? theta.map((_, i) => i) : first).map(cell);
    grid.replaceChildren(...cells.map(({ box }) => box));
    const mark = (who, text) => {
      const node = el("span");
      node.append(el("i", `pg-rope-mark-${who}`, "", { "aria-hidden": "true" }), text);
      return node;
    };
    legend.replaceChildren(mark("q", words.query), mark("k", words.key));
    if (!whole && first.length < count)
      legend.append(el("span", "", fill(words.few_note, { n: first.length, all: count })));
    if (payload.rest) legend.append(el("span", "", fill(words.rest, { value: signed(payload.rest) })));
  };
  const show = () => {
    const { words, q, k, root: scale } = payload,
      { m, n } = positions(),
      pairs = turned(m, n);
    const largest = Math.max(...q.map((size, i) => (size * k[i]) / scale)) || 1;
    for (const { i, draw } of cells) draw(pairs[i], largest);
    const score = total(pairs),
      here = total(turned(payload.query, payload.key));
    const values = {
      m: m.toLocaleString("en"),
      n: n.toLocaleString("en"),
      d: distance.toLocaleString("en"),
      score: minus(score.toFixed(4)),
    };
    const texts = [fill(words.now, values)];
    if (m !== payload.query || n !== payload.key)
      texts.push(fill(words.moved, { score: minus(here.toFixed(4)), gap: gap(score - here) }));
    status.textContent = texts.join(" ");
    Object.assign(root.dataset, { score, query: m, key: n });
  };
  const footer = () => {
    const { words, file, source, python, wavelength, q, k } = payload;
    const lines = () => {
      const { m, n } = positions();
      return turned(m, n).map((pair, i) => [i, wavelength[i], q[i], k[i], degrees(pair.q), degrees(pair.k), pair.adds]);
    };
    const names = ["pair", "wave", "q", "k", "q_angle", "k_angle", "adds"].map((name) => words[`column_${name}`]);
    foot.replaceChildren(
      exporting(root, { file, source, python, title: payload.title, note: payload.note, names, lines, table: true }),
    );
  };

  return (next) => {
    const same = payload?.run === next.run;
    payload = next;
    if (!same) {
      shift = 0;
      distance = payload.query - payload.key;
    }
    title.textContent = payload.title;
    note.textContent = payload.note;
    root.classList.toggle("pg-rope-derived", payload.derived);
    controls();
    lay();
    show();
    footer();
    root.dataset.run = payload.run;
  };
});
