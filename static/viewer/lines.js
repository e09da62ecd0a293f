// The attention of the selected heads as lines between two columns: queries on the left, keys on the right. Hovering or
// clicking a token shows only its lines, with the numbers beside its partners.
import { el, fill, onWidth, pointed, rests } from "../page/dom.js";
import { onTheme } from "../page/theme.js";
import { massControls } from "../views/attention/lines_controls.js";
import { sift } from "../views/attention/lines_links.js";
import { column, isolate, moveAmong } from "./lines_board.js";
import { paintCurves, panelOf, pictureOf, settled, stays } from "./lines_curves.js";

const FEW = 20; // number of tokens up to which there is room for higher lines

// Handle the pointer, keys and clicks on tokens; refresh() redraws.
function listen(board, set, refresh) {
  const { grid, look } = board,
    tokenOf = (event) => event.target.closest?.(".pg-lines-token");
  const out = () => {
    if (!board.hovered) return;
    board.hovered = null;
    refresh();
  };
  const over = (event) => {
    if (rests(event)) return;
    const token = tokenOf(event);
    if (!token) return out();
    board.hovered = { side: token.dataset.side, at: +token.dataset.at };
    refresh();
  };
  pointed(grid, over, out);
  grid.addEventListener("click", (event) => {
    const token = tokenOf(event);
    if (!token) return;
    const { side, at } = token.dataset,
      again = look.picked?.side === side && look.picked.at === +at;
    board.hovered = null;
    set({ picked: again ? null : { side, at: +at }, pair: null });
  });
  grid.addEventListener("keydown", (event) => moveAmong(board, event));
}

// Build the columns of a unit.
function fillColumns(board, titles) {
  const { look, grid, sides } = board,
    { queries, keys } = look.data.labels(look.unit),
    names = [look.words[`queries_${look.unit}`], look.words[`keys_${look.unit}`]];
  board.step = Math.max(queries.length, keys.length) <= FEW ? 28 : 24;
  board.hovered = null;
  board.marked = [];
  sides?.query.remove();
  sides?.key.remove();
  board.sides = { query: column("query", queries, names[0]), key: column("key", keys, names[1]) };
  grid.prepend(board.sides.query);
  grid.append(board.sides.key);
  for (const side of Object.values(board.sides))
    side.classList.toggle("pg-viewer-stays", stays(side.childElementCount, board.step));
  grid.style.setProperty("--pg-step", `${board.step}px`);
  titles.replaceChildren(el("span", "", names[0]), el("span"), el("span", "", names[1]));
}

// Build the lines. Returns { node, draw(), picture() }.
export function linesPanel(look, { set }) {
  const { words, data } = look,
    titles = el("div", "pg-viewer-titles", "", { "aria-hidden": "true" }),
    count = el("p", "pg-muted", "", { role: "status" });
  const board = {
    look,
    node: el("div", "pg-viewer-lines"),
    readout: el("p", "pg-viewer-readout", "", { "aria-live": "polite" }),
    box: el("div", "pg-viewer-box"),
    grid: el("div", "pg-viewer-grid"),
    middle: el("div", "pg-viewer-middle"),
    canvas: el("canvas", "", "", { "aria-hidden": "true" }),
    controls: massControls(() => resift()),
    panels: [],
    sides: null, // { query, key }: the columns
    step: 0, // height of a token in pixels
    hovered: null, // { side, at }
    marked: [], // the lines of the hovered or picked token and of its partners
  };
  const { node, readout, box, grid, middle, canvas, controls } = board;
  let waiting = false,
    drawn = ["", ""]; // the unit and the heads
  controls.name(words);
  middle.append(canvas);
  grid.append(middle);
  box.append(grid);
  node.append(controls.node, readout, titles, box, count);

  const paint = () => {
    waiting = false;
    if (look.panel !== "lines" || !box.clientHeight) return;
    const { n, of } = paintCurves(board);
    count.textContent = fill(words[n < of ? "capped" : "count"], { n, of });
  };
  const schedule = () => {
    if (!waiting) requestAnimationFrame(paint);
    waiting = true;
  };
  const refresh = () => {
    if (!board.sides || look.panel !== "lines") return;
    isolate(board);
    schedule();
  };
  const resift = () => {
    if (!board.sides) return;
    controls.tell(words);
    sift(board.panels, settled(board));
    refresh();
  };
  const draw = () => {
    if (look.panel !== "lines" || !node.clientWidth) return;
    const now = [look.unit, look.heads.join(" ")];
    if (now.every((each, i) => each === drawn[i])) return refresh();
    if (drawn[0] !== look.unit) fillColumns(board, titles);
    drawn = now;
    board.panels = look.heads.map((head, i) => panelOf(data.matrix(look.unit, head), head, data.name(head), i));
    resift();
    node.dataset.drawn = now.join(" ");
  };
  listen(board, set, refresh);
  box.addEventListener("scroll", schedule, { passive: true });
  onWidth(node, () => {
    draw();
    schedule();
  });
  onTheme(refresh);
  return { node, draw, picture: () => pictureOf(board) };
}
