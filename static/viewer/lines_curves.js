// The curves between the two columns: the weights of a head as sorted links, what of them is in view, and a picture.
//
// `board`: the state of the lines, see lines.js.
import { el } from "../page/dom.js";
import { isDark } from "../page/theme.js";
import { visitLinks } from "../views/attention/lines_links.js";
import { curve, readersOf } from "../views/attention/links.js";
import { properties } from "./looks.js";

export const HIGH = 600; // height in pixels of the box that scrolls
const CURVES = 2000, // maximum number of curves; if there are more, only the strongest are drawn
  FEW = 60, // number of curves up to which all of them can be clearly visible
  WIDE = 900, // size in pixels of a picture, and of the curves in it
  ACROSS = 340,
  LONGEST = 32; // maximum number of characters of a token in a picture

// Sort the weights of a matrix row by row, in the form of views/attention/links.js. A sorted integer holds the weight's
// 16 bits and the key, so that a row of a thousand keys takes microseconds.
export function panelOf({ rows, columns, values }, head, name, index) {
  const starts = new Uint32Array(rows + 1),
    keys = new Uint16Array(rows * columns),
    weights = new Float32Array(rows * columns),
    totals = new Float32Array(rows);
  let next = 0;
  for (let row = 0; row < rows; row++) {
    const packed = new Uint32Array(columns);
    let n = 0;
    for (let key = 0; key < columns; key++) {
      const value = values[row * columns + key];
      if (!(value > 0)) continue;
      packed[n++] = Math.min(65535, Math.round(65535 * value)) * 65536 + (65535 - key);
      totals[row] += value;
    }
    for (const code of packed.subarray(0, n).sort().reverse()) {
      const key = 65535 - (code & 65535);
      keys[next] = key;
      weights[next++] = values[row * columns + key];
    }
    starts[row + 1] = next;
  }
  const own = keys.slice(0, next),
    readers = readersOf(own, starts, columns);
  return { name, head, index, keys: own, starts, weights: weights.slice(0, next), totals, readers };
}

export const sizesOf = ({ sides }) => [sides.query.childElementCount, sides.key.childElementCount];
// Return the visible links' settings, as lines_links.js takes them.
export const settled = (board) => ({
  panels: board.panels,
  tokens: Math.max(...sizesOf(board)),
  share: board.controls.share(),
  hide: board.controls.hides(),
});
// Return the hovered or picked token, in the form of lines_links.js, or null.
export function active({ hovered, look }) {
  const one = hovered ?? look.picked;
  return one ? { left: one.side === "query", tokens: [one.at] } : null;
}
// Return whether a column fits into the box, so that it stays while the other one scrolls.
export const stays = (n, step) => n * step <= HIGH;

// Collect the curves in view by increasing strength, and count them before the weakest were dropped.
export function curvesOf(board, across) {
  const { panels, step, box, look } = board,
    now = active(board),
    high = box.clientHeight,
    shift = sizesOf(board).map((n) => (stays(n, step) ? 0 : box.scrollTop)),
    spread = Math.min(2.5, 12 / panels.length),
    shapes = [];
  visitLinks(settled(board), now, (panel, row, key, _weight, share) => {
    const y = (panel.index - (panels.length - 1) / 2) * spread + step / 2,
      y1 = row * step + y - shift[0],
      y2 = key * step + y - shift[1];
    if ((y1 < 0 && y2 < 0) || (y1 > high && y2 > high)) return;
    shapes.push({ x1: 0, y1, x2: across, y2, share, index: panel.index });
  });
  const of = shapes.length,
    faint = now && of <= FEW ? 0.35 : 0.06,
    dark = isDark(); // thin lines are hard to see on a dark background
  const strongest = shapes
    .sort((a, b) => b.share - a.share)
    .slice(0, CURVES)
    .reverse();
  for (const shape of strongest) {
    shape.width = 1 + (now ? 3 : 2) * shape.share;
    shape.alpha = Math.max(faint, dark ? shape.share ** 0.6 : shape.share);
    shape.color = look.hue(shape.index);
  }
  return { shapes: strongest, of };
}
function stroke(ctx, shapes) {
  for (const shape of shapes) {
    ctx.globalAlpha = shape.alpha;
    ctx.strokeStyle = shape.color;
    curve(ctx, shape);
  }
}

// Draw the curves, and return the number drawn and the total number.
export function paintCurves(board) {
  const { canvas, middle, box } = board,
    ratio = window.devicePixelRatio || 1,
    across = middle.clientWidth,
    high = box.clientHeight,
    ctx = canvas.getContext("2d"),
    { shapes, of } = curvesOf(board, across);
  canvas.width = across * ratio;
  canvas.height = high * ratio;
  Object.assign(canvas.style, { width: `${across}px`, height: `${high}px` });
  ctx.scale(ratio, ratio);
  stroke(ctx, shapes);
  canvas.dataset.curves = shapes.length;
  return { n: shapes.length, of };
}

// Draw what is in view as a picture.
export function pictureOf({ node, ...board }) {
  const { box, sides, step } = board,
    out = el("canvas"),
    color = properties(node),
    high = box.clientHeight,
    from = (WIDE - ACROSS) / 2,
    ctx = out.getContext("2d");
  out.width = WIDE * 2;
  out.height = (high + 30) * 2;
  ctx.scale(2, 2);
  ctx.fillStyle = color("--pg-panel");
  ctx.fillRect(0, 0, WIDE, high + 30);
  ctx.font = "13px ui-monospace, Menlo, Consolas, monospace";
  ctx.fillStyle = color("--pg-text");
  for (const [side, x, align] of [
    ["query", from - 8, "right"],
    ["key", from + ACROSS + 8, "left"],
  ]) {
    const lines = [...sides[side].children],
      scrolled = stays(lines.length, step) ? 0 : box.scrollTop;
    ctx.textAlign = align;
    lines.forEach((line, at) => {
      const y = (at + 0.5) * step - scrolled;
      if (y > 0 && y < high) ctx.fillText(line.firstChild.textContent.slice(0, LONGEST), x, y + 19);
    });
  }
  ctx.translate(from, 15);
  stroke(ctx, curvesOf(board, ACROSS).shapes);
  return new Promise((done) => out.toBlob(done, "image/png"));
}
