// Decoding of the server's attention links, and export of pictures of them, for the lines and the running text.
//
// payload: { tokens, frames, parts: [[token, note]], breaks, kept, panels: [{ name, head, counts, keys, weights, totals }],
//   sink (whether the rest of a row is that of a learned sink), title, measure, note, source, run, words }; see links_payload in viz/views/attention/links.py. Within a row, links
//   are in decreasing order of weight.
import { el } from "../../page/dom.js";
import { pageState } from "../../page/state.js";

export const MONO = "ui-monospace, Menlo, Consolas, monospace";
export const SANS = "ui-sans-serif, system-ui, sans-serif";

function typed(base64, Type) {
  const text = atob(base64),
    bytes = new Uint8Array(text.length);
  for (let i = 0; i < text.length; i++) bytes[i] = text.charCodeAt(i);
  return new Type(bytes.buffer);
}

// Build the index of links by key, of S keys; see `decode`.
export function readersOf(keys, starts, S) {
  const ends = new Uint32Array(S + 1),
    links = new Uint32Array(keys.length),
    rows = new Uint16Array(keys.length);
  for (const key of keys) ends[key + 1]++;
  for (let key = 0; key < S; key++) ends[key + 1] += ends[key];
  const next = ends.slice(0, S);
  for (let row = 0; row < starts.length - 1; row++)
    for (let link = starts[row]; link < starts[row + 1]; link++) {
      const at = next[keys[link]]++;
      links[at] = link;
      rows[at] = row;
    }
  return { starts: ends, links, rows };
}

// starts[row] .. starts[row + 1] - 1 index a row's links in keys and weights; totals are the sums of complete rows.
// `readers` is the same index by key: its starts, the indices of the key's links, and the rows of these links.
export function decode(payload) {
  const T = payload.tokens.length;
  return payload.panels.map(({ name, head, ...coded }, index) => {
    const keys = typed(coded.keys, Uint16Array),
      starts = new Uint32Array(T + 1);
    typed(coded.counts, Uint16Array).forEach((n, row) => {
      starts[row + 1] = starts[row] + n;
    });
    const readers = readersOf(keys, starts, T);
    return {
      name,
      head,
      index,
      keys,
      starts,
      readers,
      weights: typed(coded.weights, Float32Array),
      totals: typed(coded.totals, Float32Array),
    };
  });
}

// Visit every link of a token as (row, key, weight, link): those of its row if `left`, otherwise those of the rows that
// attend to it.
export function eachLink(panel, token, left, visit) {
  const { starts, keys, weights, readers } = panel;
  if (left)
    for (let link = starts[token]; link < starts[token + 1]; link++) visit(token, keys[link], weights[link], link);
  else
    for (let at = readers.starts[token]; at < readers.starts[token + 1]; at++) {
      visit(readers.rows[at], token, weights[readers.links[at]], readers.links[at]);
    }
}

export const digits = (value) =>
  value >= 100
    ? value.toFixed(0)
    : value >= 10
      ? value.toFixed(1)
      : value >= 0.0005 || value === 0
        ? value.toFixed(3)
        : value.toPrecision(1);
export const hue = (index) => (pageState.hues ?? ["#0072b2"])[index % (pageState.hues?.length ?? 1)];
export const swatch = (index) => {
  const mark = el("i", "pg-swatch", "", { "aria-hidden": "true" });
  mark.style.background = hue(index);
  return mark;
};
export const slug = (payload) => payload.run.replace(/[^\w]+/g, "-").replace(/^-|-$/g, "") || "head";

// --- pictures for export: the same list of shapes on a canvas and as SVG ---

export function onCanvas({ width, height, ground, clip, shapes }) {
  const canvas = el("canvas"),
    ratio = 2;
  canvas.width = width * ratio;
  canvas.height = height * ratio;
  const ctx = canvas.getContext("2d");
  ctx.scale(ratio, ratio);
  ctx.fillStyle = ground;
  ctx.fillRect(0, 0, width, height);
  for (const s of shapes) {
    ctx.save();
    ctx.globalAlpha = s.alpha ?? 1;
    ctx.fillStyle = ctx.strokeStyle = s.color;
    if (s.text !== undefined) {
      ctx.font = `${s.bold ? "600 " : ""}${s.size}px ${s.mono ? MONO : SANS}`;
      ctx.textAlign = s.anchor ?? "start";
      ctx.fillText(s.text, s.x, s.y);
    } else if (s.side) ctx.fillRect(s.x, s.y, s.side, s.side);
    else {
      ctx.beginPath();
      ctx.rect(clip.x, clip.y, clip.width, clip.height);
      ctx.clip();
      curve(ctx, s);
    }
    ctx.restore();
  }
  return canvas;
}
export function curve(ctx, { x1, y1, x2, y2, width }) {
  const bend = (x2 - x1) * 0.45;
  ctx.lineWidth = width;
  ctx.beginPath();
  ctx.moveTo(x1, y1);
  ctx.bezierCurveTo(x1 + bend, y1, x2 - bend, y2, x2, y2);
  ctx.stroke();
}
export function asSvg({ width, height, ground, clip, shapes }) {
  const safe = (text) =>
    String(text)
      .replace(/[&<>"']/g, (c) => `&#${c.charCodeAt(0)};`)
      .replace(/[\x00-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff]/g, "\ufffd");
  const r = (x) => Math.round(x * 100) / 100;
  const body = shapes.map((s) => {
    if (s.text !== undefined)
      return `<text x="${r(s.x)}" y="${r(s.y)}" fill="${s.color}" font-size="${s.size}"${s.bold ? ' font-weight="600"' : ""} font-family="${s.mono ? MONO : SANS}" text-anchor="${s.anchor ?? "start"}" xml:space="preserve">${safe(s.text)}</text>`;
    if (s.side) return `<rect x="${r(s.x)}" y="${r(s.y)}" width="${s.side}" height="${s.side}" fill="${s.color}"/>`;
    const bend = (s.x2 - s.x1) * 0.45;
    return `<path clip-path="url(#view)" d="M${r(s.x1)} ${r(s.y1)}C${r(s.x1 + bend)} ${r(s.y1)} ${r(s.x2 - bend)} ${r(s.y2)} ${r(s.x2)} ${r(s.y2)}" fill="none" stroke="${s.color}" stroke-width="${r(s.width)}" stroke-opacity="${r(s.alpha)}"/>`;
  });
  return `<svg xmlns="http://www.w3.org/2000/svg" width="${width}" height="${height}" viewBox="0 0 ${width} ${height}"><clipPath id="view"><rect x="${clip.x}" y="${clip.y}" width="${clip.width}" height="${clip.height}"/></clipPath><rect width="100%" height="100%" fill="${ground}"/>${body.join("")}</svg>`;
}
