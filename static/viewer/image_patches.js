// The patches over the picture: their buttons, and their weights as light or as color.
import { el, fill } from "../page/dom.js";
import { properties } from "./looks.js";

const DARKEST = 0.8, // opacity of the dark over a patch without weight
  STRONGEST = 0.85; // opacity of the color over the patch with the largest weight

// Build a button over each patch; one at a time is in the Tab order, and the arrow keys move.
export function patchButtons({ rows, columns }, words) {
  const node = el("div", "pg-viewer-patches", "", { role: "group", "aria-label": words.patches });
  node.style.gridTemplate = `repeat(${rows}, 1fr) / repeat(${columns}, 1fr)`;
  node.append(
    ...Array.from({ length: rows * columns }, (_, i) =>
      el("button", "", "", {
        type: "button",
        "data-index": i,
        "aria-label": fill(words.patch, { row: Math.floor(i / columns) + 1, column: (i % columns) + 1 }),
        tabindex: i ? -1 : 0,
      }),
    ),
  );
  node.addEventListener("keydown", (event) => {
    const at = +(event.target.dataset?.index ?? -1),
      to = { ArrowRight: at + 1, ArrowLeft: at - 1, ArrowDown: at + columns, ArrowUp: at - columns }[event.key];
    if (at < 0 || to === undefined || !node.children[to]) return;
    event.preventDefault();
    event.target.tabIndex = -1;
    node.children[to].tabIndex = 0;
    node.children[to].focus();
  });
  return node;
}

// Return the colors of the legend.
export const stopsOf = (way, rgb) =>
  way === "light"
    ? ["#222222", "#ffffff"]
    : Array.from({ length: 9 }, (_, i) => `rgb(${rgb.join(" ")} / ${STRONGEST * Math.sqrt(i / 8)})`);

// Darken the patches without weight, or color those with weight. Both by the square root of a fraction of the largest.
export function paintPatches(canvas, { rows, columns }, { values, largest, way, rgb }) {
  const { clientWidth: wide, clientHeight: high } = canvas,
    ratio = window.devicePixelRatio || 1,
    ctx = canvas.getContext("2d"),
    edge = (i, size, n) => Math.round((i * size * ratio) / n);
  canvas.width = wide * ratio;
  canvas.height = high * ratio;
  values.forEach((value, i) => {
    const share = value > 0 ? Math.sqrt(value / largest) : 0,
      [left, right] = [i % columns, (i % columns) + 1].map((x) => edge(x, wide, columns)),
      [top, bottom] = [Math.floor(i / columns), Math.floor(i / columns) + 1].map((y) => edge(y, high, rows));
    ctx.fillStyle =
      way === "light" ? `rgb(0 0 0 / ${DARKEST * (1 - share)})` : `rgb(${rgb.join(" ")} / ${STRONGEST * share})`;
    ctx.fillRect(left, top, right - left, bottom - top);
  });
}

// Draw the picture with its patches as an image of its own.
export function pictureOf(picture, canvas, node) {
  const out = el("canvas"),
    wide = 900,
    high = Math.round((wide * picture.clientHeight) / picture.clientWidth),
    ctx = out.getContext("2d");
  out.width = wide;
  out.height = high;
  ctx.fillStyle = properties(node)("--pg-panel");
  ctx.fillRect(0, 0, wide, high);
  ctx.drawImage(picture, 0, 0, wide, high);
  ctx.imageSmoothingEnabled = false;
  ctx.drawImage(canvas, 0, 0, wide, high);
  return new Promise((done) => out.toBlob(done, "image/png"));
}
