// The lines between two columns of tokens as a list of shapes, for export as a picture.
import { el } from "../../page/dom.js";
import { digits, hue, MONO, SANS } from "./links.js";

export const ACROSS = 284; // distance between the columns in pixels
const TOP = 92; // y coordinate of the top of the columns

function legend(panels, color) {
  const pen = el("canvas").getContext("2d"),
    shapes = [];
  pen.font = `12px ${SANS}`;
  let x = 24;
  for (const panel of panels) {
    shapes.push(
      { side: 10, x, y: 45, color: hue(panel.index) },
      { text: panel.name, x: x + 15, y: 54, size: 12, color },
    );
    x += pen.measureText(panel.name).width + 32;
  }
  return shapes;
}

// Draw the numbers beside a token, in the color of each head.
function numbersBeside(items, { isLeft, y, from }, pen, color) {
  const shapes = [];
  let beside = from;
  for (const { panel, value } of items.slice(0, 3)) {
    const number = digits(value),
      anchor = isLeft ? "end" : "start";
    shapes.push(
      { side: 8, x: isLeft ? 300 - beside - 8 : 600 + beside, y: y - 8, color: hue(panel.index) },
      { text: number, x: isLeft ? 300 - beside - 12 : 612 + beside, y, size: 13, mono: true, anchor, color },
    );
    beside += pen.measureText(number).width + 26;
  }
  return shapes;
}

// `shown`: { panels, shapes (curves from x = 0), tokens [{ at, isLeft, text, y, strong }], numbered (Map: at -> items),
//  now (the isolated tokens, or null), high }.
export function linesPicture({ title, source, words }, { panels, shapes: curves, tokens, numbered, now, high }, root) {
  const style = getComputedStyle(root),
    color = style.getPropertyValue("--pg-text").trim(),
    soft = style.getPropertyValue("--pg-soft").trim(),
    pen = el("canvas").getContext("2d");
  const shapes = [
    { text: title, x: 24, y: 30, size: 16, bold: true, color },
    ...legend(panels, color),
    { text: words.attending, x: 300, y: 80, size: 12, anchor: "end", color: soft },
    { text: words.attended, x: 600, y: 80, size: 12, color: soft },
    ...curves.map((shape) => ({ ...shape, x1: 308, x2: 308 + ACROSS, y1: shape.y1 + TOP, y2: shape.y2 + TOP })),
  ];
  pen.font = `13px ${MONO}`;
  for (const { at, isLeft, text, y: within, strong } of tokens) {
    const y = TOP + within,
      pale = now && !strong;
    shapes.push({
      text,
      x: isLeft ? 300 : 600,
      y,
      size: 13,
      mono: true,
      anchor: isLeft ? "end" : "start",
      color: pale ? soft : color,
      bold: Boolean(now && strong),
      alpha: pale ? 0.5 : 1,
    });
    if (!now || now.left === isLeft) continue;
    const from = pen.measureText(text).width + 18;
    shapes.push(...numbersBeside(numbered.get(at) ?? [], { isLeft, y, from }, pen, color));
  }
  shapes.push({ text: source, x: 24, y: TOP + high + 28, size: 11, color: soft });
  const clip = { x: 304, y: TOP, width: 292, height: high };
  return { width: 900, height: TOP + high + 44, ground: style.getPropertyValue("--pg-panel").trim(), clip, shapes };
}
