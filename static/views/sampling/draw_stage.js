// The bar of a draw: parts as wide as their probabilities, a line at the random number, and marks at many others.
import { el, fill } from "../../page/dom.js";
import { percent } from "../../parts/percent.js";

const HIGH = 30; // height of the rug plot in pixels
export const digits = (value) => value.toFixed(6);

// Draw a rug plot: a line at each of many random numbers.
function paintRug(rug, counts) {
  const width = rug.clientWidth,
    ratio = window.devicePixelRatio || 1,
    pen = rug.getContext("2d");
  if (!width) return;
  rug.width = width * ratio;
  rug.height = HIGH * ratio;
  pen.scale(ratio, ratio);
  pen.fillStyle = getComputedStyle(rug).getPropertyValue("--pg-soft").trim();
  const top = Math.max(...counts),
    step = width / counts.length;
  counts.forEach((count, at) => {
    const high = (count / top) * (HIGH - 2);
    pen.fillRect(at * step, HIGH - high, Math.max(step - 0.5, 0.5), high);
  });
}

// Return the parts of the bar as { text, share, from, label, rank }; the last one, of rank 0, combines all parts that
// are too narrow to see.
function partsOf({ texts, shares, edges, ids, total, count, words }) {
  const parts = texts.map((text, at) => {
    const from = at ? edges[at - 1] : 0,
      values = { token: text, id: ids[at], rank: at + 1, share: percent(shares[at]) };
    const label = fill(words.part, { ...values, from: digits(from), to: digits(edges[at]) });
    return { rank: at + 1, text, share: shares[at], from, label };
  });
  if (edges.length < count) {
    const from = edges.at(-1),
      share = total - from,
      n = (count - edges.length).toLocaleString("en"),
      label = fill(words.rest, { n, share: percent(share), from: digits(from) });
    parts.push({ rank: 0, text: fill(words.more, { n }), share, from, label });
  }
  return parts;
}

// Return the index of the part that contains u, the first that ends beyond it; undefined if only the server knows it.
export function placed(u, { edges, texts, shares, ids, total, count, found }) {
  let at = edges.findIndex((edge) => edge > u * total);
  if (at < 0 && edges.length === count) at = count - 1; // rounding may leave u beyond the last edge
  if (at < 0) return found.find((each) => each.u === u);
  return { rank: at + 1, text: texts[at], id: ids[at], share: shares[at], from: at ? edges[at - 1] : 0, to: edges[at] };
}

// choose(u) is called on a press of the bar, slide(u) while the slider moves, point(label) while a part is hovered.
export function drawStage({ choose, slide, point }) {
  const node = el("div", "pg-draw-stage"),
    flag = el("span", "pg-draw-flag", "", { "aria-hidden": "true" }),
    bar = el("div", "pg-draw-bar", "", { role: "img" }),
    line = el("span", "pg-draw-line", "", { "aria-hidden": "true" }),
    slider = el("input", "", "", { type: "range", min: 0, max: 0.999, step: 0.001 }),
    rug = el("canvas", "pg-draw-rug", "", { "aria-hidden": "true" }),
    axis = el("div", "pg-draw-axis", "", { "aria-hidden": "true" });
  let payload = null,
    parts = [];
  for (const text of ["0", "0.25", "0.5", "0.75", "1"]) axis.append(el("span", "", text));
  node.append(flag, bar, slider, rug, axis, line);
  slider.oninput = () => slide(+slider.value);
  bar.onpointerdown = (event) => {
    const { left, width } = bar.getBoundingClientRect();
    choose(Math.min(Math.max(+((event.clientX - left) / width).toFixed(6), 0), 0.999999));
    slider.focus({ preventScroll: true });
    event.preventDefault();
  };
  bar.onpointerleave = () => point(null);

  const cell = ({ rank, share, from, label }) => {
    const part = el("div", rank ? "pg-draw-part" : "pg-draw-part pg-draw-rest");
    part.style.left = `${(from / payload.total) * 100}%`;
    part.style.width = `${(share / payload.total) * 100}%`;
    if (rank) part.style.setProperty("--pg-tint", `${Math.round(14 + 34 / Math.sqrt(rank))}%`);
    part.onpointerenter = () => point(label);
    return part;
  };
  const paint = () => payload && paintRug(rug, payload.rug.counts);
  // Show a label only if it fits.
  const fit = () => {
    const wide = bar.clientWidth;
    if (!wide || !payload) return;
    for (const { node: part, rank, text, share } of parts) {
      const room = (share / payload.total) * wide - 8,
        label = percent(share),
        labels = [];
      if (text.length * 7.9 <= room) {
        labels.push(el("span", rank ? "pg-draw-text" : "pg-draw-more", text));
        if (label.length * 6.6 <= room) labels.push(el("span", "pg-draw-share", label));
      }
      part.style.borderRightWidth = room > -4 ? "" : 0; // no border for parts that are hardly wider than it
      part.replaceChildren(...labels);
    }
    paint();
  };
  return {
    node,
    paint,
    fit,
    cut(next) {
      payload = next;
      parts = partsOf(payload).map((part) => ({ ...part, node: cell(part) }));
      bar.replaceChildren(...parts.map((part) => part.node));
      bar.setAttribute("aria-label", fill(payload.words.bar, { n: payload.count.toLocaleString("en") }));
      slider.setAttribute("aria-label", payload.words.slider);
      fit();
    },
    // Draw the line at u and highlight its part; either may be unknown.
    mark(u, place) {
      if (u !== undefined) {
        line.style.left = flag.style.left = `${Math.min(u, 1) * 100}%`;
        flag.style.transform = `translateX(${-u * 100}%)`;
        flag.textContent = `u = ${digits(u)}`;
        slider.value = u;
      }
      const beyond = place && place.rank > payload.edges.length;
      for (const { node: part, rank } of parts)
        part.classList.toggle("pg-here", Boolean(place) && (rank === place.rank || (rank === 0 && beyond)));
    },
    say: (text) => slider.setAttribute("aria-valuetext", text),
  };
}
