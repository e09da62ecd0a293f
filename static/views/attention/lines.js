// Attention as lines between two columns of the same tokens, one hue per head. The payload is described in links.js.
import { exporting } from "../../export/menu.js";
import { el, fill, onWidth, pointed, rests } from "../../page/dom.js";
import { define } from "../../page/mount.js";
import { adding, onSelect, selection } from "../../page/selection/selection.js";
import { pickedUnits, pickUnit } from "../../page/selection/units.js";
import { onTheme } from "../../page/theme.js";
import {
  active,
  buttonsOf,
  curvesOf,
  fillColumns,
  inView,
  isolate,
  lineBoard,
  moveAmong,
  NUMBERS,
  paintCurves,
  settled,
  shownPanels,
  stepOf,
} from "./lines_board.js";
import { fillLegend, massControls } from "./lines_controls.js";
import { asArrays, asLines, grouped, namesOf, partnersOf, shows, sift, visitLinks } from "./lines_links.js";
import { ACROSS, linesPicture } from "./lines_picture.js";
import { asSvg, decode, onCanvas, slug } from "./links.js";

// List all visible links for export.
function shownLinks(look) {
  const links = [];
  visitLinks(settled(look), active(look), (...link) => links.push(link));
  return links;
}
// Count the links that are visible when no token is isolated.
const counted = ({ panels, T, hides }) =>
  panels.reduce((sum, panel) => {
    for (let row = 0; row < T; row++)
      for (let link = panel.starts[row]; link < panel.most[row]; link++)
        sum += shows(panel, row, panel.keys[link], panel.weights[link], link, hides);
    return sum;
  }, 0);

// Return what is visible as a list of shapes.
function compose(board, look, root) {
  const now = active(look),
    [from, to] = inView(board, look),
    tokens = [];
  for (let at = from; at < to; at++)
    for (const isLeft of [true, false])
      tokens.push({
        at,
        isLeft,
        text: look.payload.tokens[at].slice(0, 24),
        y: (at + 0.5) * stepOf(look) - board.view.scrollTop + 4,
        strong: board.marked.includes(buttonsOf(board, isLeft ? "left" : "right")[at]),
      });
  const numbered = new Map(now ? grouped(partnersOf(settled(look), now).slice(0, NUMBERS)) : []);
  const { shapes } = curvesOf(board, look, ACROSS);
  const shown = { panels: shownPanels(look), shapes, tokens, numbered, now, high: board.view.clientHeight };
  return linesPicture(look.payload, shown, root);
}

function footer(root, board, look) {
  const { payload } = look,
    { source, python, title, note } = payload;
  const picture = (format) =>
    format === "svg"
      ? new Blob([asSvg(compose(board, look, root))], { type: "image/svg+xml" })
      : new Promise((done) => onCanvas(compose(board, look, root)).toBlob(done));
  return exporting(root, {
    file: `lines-${slug(payload)}`,
    source,
    python,
    title,
    note,
    names: namesOf(payload),
    lines: () => asLines(shownLinks(look), payload),
    arrays: () => asArrays(shownLinks(look), look.panels, payload.tokens),
    picture,
    table: true,
  });
}

// Handle the pointer, keys and clicks on tokens; refresh() redraws the part.
function listen(board, look, refresh) {
  const { grid } = board;
  const out = () => {
    if (!look.hovered) return;
    look.hovered = null;
    refresh();
  };
  const over = (event) => {
    if (rests(event)) return;
    const button = event.target.closest?.(".pg-lines-token");
    if (!button) return event.target.closest?.(".pg-lines-group") ? undefined : out();
    look.hovered = { side: button.dataset.side, at: +button.dataset.at };
    if (event.type === "focusin") {
      for (const other of grid.querySelectorAll(".pg-lines-token[tabindex='0']")) other.tabIndex = -1;
      button.tabIndex = 0;
    }
    refresh();
  };
  pointed(grid, over, out);
  grid.addEventListener("click", (event) => {
    const button = event.target.closest(".pg-lines-token");
    if (!button) return;
    const add = adding(event) && look.side === button.dataset.side;
    look.side = button.dataset.side;
    look.byUs = true;
    pickUnit(look.payload.spans, +button.dataset.at, add);
    look.byUs = false;
  });
  grid.addEventListener("keydown", (event) => moveAmong(board, look, event));
  onSelect(() => {
    if (!look.byUs) look.side = "left";
    if (!selection.tokens.length) look.hovered = null;
    refresh();
    const at = pickedUnits(look.payload?.spans).at(-1),
      { view } = board,
      step = stepOf(look);
    if (look.byUs || look.stale || at === undefined || at >= look.T || !view.clientWidth) return;
    if (at * step < view.scrollTop || (at + 1) * step > view.scrollTop + view.clientHeight)
      view.scrollTop = (at + 0.5) * step - view.clientHeight / 2;
  });
}

define("lines", (root) => {
  const title = el("h2"),
    about = el("p", "pg-about"),
    legend = el("div", "pg-links-legend", "", { role: "group" }),
    readout = el("p", "pg-links-readout", "", { "aria-live": "polite" }),
    leftTitle = el("span"),
    rightTitle = el("span"),
    titles = el("div", "pg-lines-titles", "", { "aria-hidden": "true" }),
    count = el("p", "pg-muted pg-links-count", "", { role: "status" }),
    foot = el("div"),
    board = lineBoard(),
    controls = massControls(() => {
      if (look.payload && !look.stale) resift();
    });
  titles.append(leftTitle, el("span"), rightTitle);
  root.append(title, about, controls.node, legend, readout, titles, board.view, count, foot);
  const look = {
    payload: null,
    panels: [],
    T: 0, // number of tokens
    stale: false, // true if the latest payload is not drawn yet
    hovered: null,
    side: "left", // the column of the selected tokens
    byUs: false, // true while this part itself changes the selection
    off: new Set(), // names of hidden heads
    controls,
  };
  let total = 0,
    waiting = false,
    building = null;

  const paint = () => {
    waiting = false;
    if (!look.payload || look.stale || !root.clientWidth) return;
    const { words, run } = look.payload,
      { n, of } = paintCurves(board, look);
    count.textContent = fill(words.count, { n: total }) + (of > n ? ` · ${fill(words.capped, { n, of })}` : "");
    root.dataset.run = run;
  };
  const schedule = () => {
    if (!waiting) requestAnimationFrame(paint);
    waiting = true;
  };
  const refresh = () => {
    if (!look.payload || look.stale || !root.clientWidth) return;
    isolate(board, look, readout);
    schedule();
  };
  const resift = () => {
    controls.tell(look.payload.words);
    sift(look.panels, settled(look));
    total = counted({ panels: shownPanels(look), T: look.T, hides: controls.hides() });
    refresh();
  };
  const build = () => {
    const { payload, off } = look;
    if (building === payload) return;
    building = payload;
    const { words } = payload;
    Object.assign(look, { panels: decode(payload), T: payload.tokens.length, hovered: null });
    for (const name of off) if (!look.panels.some((panel) => panel.name === name)) off.delete(name);
    if (off.size === look.panels.length) off.clear();
    title.textContent = payload.title;
    about.textContent = [payload.note, payload.kept && fill(words.known, payload)].filter(Boolean).join(" ");
    about.hidden = !about.textContent;
    leftTitle.textContent = words.attending;
    rightTitle.textContent = words.attended;
    controls.name(words);
    fillColumns(board, payload);
    board.grid.style.setProperty("--pg-step", `${stepOf(look)}px`);
    fillLegend(legend, look, resift);
    foot.replaceChildren(footer(root, board, look));
    requestAnimationFrame(() => {
      // draw in a separate task, because a long prompt has thousands of buttons to lay out
      if (building !== look.payload) return;
      look.stale = false;
      building = null;
      resift();
    });
  };
  const render = () => {
    if (!look.payload || root.hidden || !root.clientWidth) return;
    if (look.stale) build();
    else refresh();
  };
  listen(board, look, refresh);
  board.view.addEventListener("scroll", schedule, { passive: true });
  onWidth(root, render);
  onTheme(refresh);
  return (next) => {
    look.payload = next;
    look.stale = true;
    render();
  };
});
