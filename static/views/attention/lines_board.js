// Two columns with the same tokens, the curves between them, and numbers beside the partners of the isolated tokens.
//
// `look`: the state of the part, see lines.js.
import { el, fill, hint } from "../../page/dom.js";
import { pickedUnits, placeOf } from "../../page/selection/units.js";
import { isDark } from "../../page/theme.js";
import { grouped, partnersOf, visitLinks } from "./lines_links.js";
import { numbersAt, readoutOf } from "./lines_readout.js";
import { curve, hue } from "./links.js";

const CURVES = 1500; // maximum number of curves; if there are more, only the strongest are drawn
export const NUMBERS = 12;

export function lineBoard() {
  const view = el("div", "pg-lines-box"),
    grid = el("div", "pg-lines-grid"),
    middle = el("div", "pg-lines-middle"),
    left = el("div", "pg-lines-column pg-lines-left", "", { role: "group" }),
    right = el("div", "pg-lines-column", "", { role: "group" }),
    canvas = el("canvas", "", "", { "aria-hidden": "true" }),
    numbers = el("div", "pg-lines-numbers");
  middle.append(canvas);
  grid.append(left, middle, right, numbers);
  view.append(grid);
  return { view, grid, middle, left, right, canvas, numbers, marked: [], pressed: [] };
}

export const buttonsOf = (board, side) => board[side].children;
export const stepOf = ({ T }) => (T <= 20 ? 28 : 24); // height of a token in pixels
export const shownPanels = ({ panels, off }) => panels.filter(({ name }) => !off.has(name));
export const settled = (look) => ({
  panels: shownPanels(look),
  tokens: look.T,
  share: look.controls.share(),
  hide: look.controls.hides(),
});
// Return the pinned tokens, or the pinned words of a payload of words.
const pinnedIn = ({ payload, T }) => pickedUnits(payload.spans).filter((at) => at < T);
// Return the isolated tokens: { left, tokens }, or null.
export function active(look) {
  const { T, hovered, side } = look,
    pinned = pinnedIn(look);
  if (hovered && hovered.at < T && !(pinned.includes(hovered.at) && side === hovered.side))
    return { left: hovered.side === "left", tokens: [hovered.at] };
  return pinned.length ? { left: side === "left", tokens: pinned } : null;
}

export function fillColumns(board, payload) {
  const { tokens, words } = payload;
  for (const [side, label] of [
    ["left", words.attending_token],
    ["right", words.attended_token],
  ])
    board[side].replaceChildren(
      ...tokens.map((text, at) =>
        el("button", "pg-lines-token", text, {
          type: "button",
          "data-at": at,
          "data-side": side,
          "aria-pressed": "false",
          "aria-label": fill(label, { token: text, position: placeOf(payload, at) }),
          tabindex: side === "left" && !at ? 0 : -1,
        }),
      ),
    );
  board.left.setAttribute("aria-label", words.attending);
  board.right.setAttribute("aria-label", words.attended);
  board.marked = board.pressed = [];
}

// Return the indices of the first visible token and of the one after the last.
export function inView({ view }, look) {
  const step = stepOf(look);
  return [
    Math.max(0, Math.floor(view.scrollTop / step)),
    Math.min(look.T, Math.ceil((view.scrollTop + view.clientHeight) / step)),
  ];
}

// Compute the visible curves, from x = 0 to x = `across`, by increasing strength; y starts at the viewport's top.
export function curvesOf(board, look, across) {
  const all = shownPanels(look),
    alone = active(look),
    spread = Math.min(2.5, 12 / all.length),
    step = stepOf(look),
    shares = [],
    shapes = [];
  const visit = (take) => visitLinks(settled(look), alone, take, ...inView(board, look));
  visit((panel, row, key, weight, share) => {
    shares.push(share);
  });
  const edge = shares.length > CURVES ? Float64Array.from(shares).sort()[shares.length - CURVES] : 0;
  const faint = alone && shares.length <= 60 ? 0.35 : 0.06; // if there are few lines, all can be clearly visible
  const dark = isDark(); // thin lines are hard to see on a dark background
  visit((panel, row, key, weight, share) => {
    if (share < edge || shapes.length === CURVES) return;
    const shift = (all.indexOf(panel) - (all.length - 1) / 2) * spread + step / 2 - board.view.scrollTop;
    shapes.push({
      x1: 0,
      y1: row * step + shift,
      x2: across,
      y2: key * step + shift,
      share,
      width: 1 + (alone ? 3 : 2) * share,
      alpha: Math.max(faint, dark ? share ** 0.6 : share),
      color: hue(panel.index),
    });
  });
  return { shapes: shapes.sort((a, b) => a.share - b.share), of: shares.length };
}

// Draw the curves, and return the number drawn and the total number.
export function paintCurves(board, look) {
  const { canvas, middle, view } = board,
    ratio = window.devicePixelRatio || 1,
    across = middle.clientWidth,
    high = view.clientHeight;
  canvas.width = across * ratio;
  canvas.height = high * ratio;
  Object.assign(canvas.style, { width: `${across}px`, height: `${high}px` });
  const ctx = canvas.getContext("2d"),
    { shapes, of } = curvesOf(board, look, across);
  ctx.scale(ratio, ratio);
  for (const shape of shapes) {
    ctx.globalAlpha = shape.alpha;
    ctx.strokeStyle = shape.color;
    curve(ctx, shape);
  }
  canvas.dataset.curves = shapes.length;
  return { n: shapes.length, of };
}

// Name the hovered or pinned tokens in the readout, show numbers beside their partners, and dim all others.
export function isolate(board, look, readout) {
  const { payload, side, panels } = look,
    now = active(look),
    readers = now ? partnersOf(settled(look), now) : [],
    near = now?.left ? "left" : "right",
    far = now?.left ? "right" : "left";
  board.grid.classList.toggle("pg-lines-alone", Boolean(now));
  for (const button of board.marked) button.classList.remove("pg-lines-on");
  board.marked = now
    ? [
        ...now.tokens.map((at) => buttonsOf(board, near)[at]),
        ...[...new Set(readers.map(({ other }) => other))].map((at) => buttonsOf(board, far)[at]),
      ]
    : [];
  for (const button of board.marked) button.classList.add("pg-lines-on");
  for (const button of board.pressed) button.setAttribute("aria-pressed", "false");
  board.pressed = pinnedIn(look).map((at) => buttonsOf(board, side)[at]);
  for (const button of board.pressed) button.setAttribute("aria-pressed", "true");
  board.numbers.replaceChildren();
  if (!now) {
    readout.textContent = hint(payload.words, "help");
    return;
  }
  const several = panels.length > 1;
  readout.replaceChildren(...readoutOf(payload, now, readers, several));
  for (const [other, items] of grouped(readers.slice(0, NUMBERS))) {
    const at = { button: buttonsOf(board, far)[other], left: now.left, top: other * stepOf(look) };
    board.numbers.append(numbersAt(at, items, several, board.grid.clientWidth));
  }
}

// Move between tokens and columns with the arrow keys.
export function moveAmong(board, look, event) {
  const { at: from, side } = document.activeElement.dataset ?? {},
    at = +(from ?? -1);
  if (at < 0) return;
  const to = {
    ArrowDown: [side, at + 1],
    ArrowUp: [side, at - 1],
    ArrowLeft: ["left", at],
    ArrowRight: ["right", at],
    Home: [side, 0],
    End: [side, look.T - 1],
  }[event.key];
  if (!to) return;
  event.preventDefault();
  buttonsOf(board, to[0])[to[1]]?.focus();
}
