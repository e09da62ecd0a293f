// A persistent Plotly figure that keeps its zoom, follows the theme, and has exports and a data table.
//
// payload: { figure (JSON), title, note, source, file, run, columns, python, words }
//   figure.layout.meta: scales { light, dark } of coloraxis, as text, height, narrow;
//  for a pattern also block, window [q0, q1, k0, k1] and whole. A point's customdata { head } or { tokens } is selected
//  by a click on it, { cell } becomes the value of the part if the payload has `cells` (value { cell, of: cells }), and
//  { part } is passed to the figure's owner (the event "pg-part" of the kind "figure"); in a
//   heat map of layers x heads (meta.heads true) the cell itself is the head.
// payload of "figure" also: absent (nothing is shown), picks "pair" (a pattern, with `places` of another run's tokens or
//  the `spans` of words, see units.js)
//  or "column" (with `last`), zooms (a zoom requests the region at full resolution: value { run, window }), wide (a
//  layout for screens with room for its panels side by side)
import { el, onWidth } from "../../page/dom.js";
import { define } from "../../page/mount.js";
import { adding, onSelect, pickHead, select, selection } from "../../page/selection/selection.js";
import { pickedUnits, tokensIn } from "../../page/selection/units.js";
import { onTheme } from "../../page/theme.js";
import { titled } from "../titled.js";
import { fitted, marks } from "./figure_look.js";
import { arrays, lines, ownFigure } from "./figure_numbers.js";
import { plotly } from "./plotly.js";
import { tools } from "./tools.js";

const ROOM = 860; // minimum width in pixels of the wide layout

// Handle a click on a point; `on` as in mountPlot.
function pickPoint({ points: [point], event }, { block, window: seen, heads }, on) {
  const cell = point.pointIndex ?? point.pointNumber,
    data = point.customdata;
  if (data?.part !== undefined) return on.part?.(data.part);
  if (data?.cell) return on.cell?.(data.cell);
  if (heads && Array.isArray(cell)) return pickHead(cell[0], cell[1], adding(event));
  if (data?.head) return pickHead(...data.head, adding(event));
  if (data?.tokens) return select({ tokens: data.tokens });
  if (seen && Array.isArray(cell)) on.pick?.(seen[0] + cell[0] * block, seen[2] + cell[1] * block, block);
}

// Return the window [q0, q1, k0, k1] that a zoom requests: null for the complete pattern, undefined if it is unchanged.
function zoomedTo(change, { block, window: seen, whole }) {
  if (!seen) return undefined;
  if (change["xaxis.autorange"] || change["yaxis.autorange"]) return whole ? undefined : null;
  const [q0, q1, k0, k1] = seen;
  const range = (axis) =>
    Object.keys(change)
      .filter((name) => name.startsWith(axis) && name.includes("range["))
      .slice(0, 2)
      .map((name) => change[name]);
  const x = range("xaxis"),
    y = range("yaxis").sort((a, b) => a - b);
  if (x.length < 2 || y.length < 2 || block === 1) return undefined; // single tokens are already drawn
  const span = ([from, to], start, end) => [
    Math.max(start, start + Math.floor(from + 0.5) * block),
    Math.min(end, start + Math.ceil(to + 0.5) * block),
  ];
  return [...span(y, q0, q1), ...span(x, k0, k1)];
}

// Return the names of the columns of the figure's numbers.
function namesOf({ columns, words }, figure) {
  const names = columns ?? [words.query, words.key, words.weight],
    width = lines(figure)[0]?.length ?? names.length;
  return width > names.length ? [words.series ?? "", ...names].slice(-width) : names.slice(-width);
}

// Mount a figure. `on.pick(tokens)` handles a click on a cell [query, key], `on.ask(window)` a zoom into a pooled
// region, and `on.marked()` returns the tokens whose rows and columns are framed.
export function mountPlot(root, on) {
  const chart = el("div", "pg-chart", "", { role: "img" }),
    frame = titled(root, chart),
    marked = on.marked ?? (() => []),
    config = { displaylogo: false, displayModeBar: false, responsive: true, doubleClick: "reset" };
  let payload = null,
    figure = null,
    Plotly = null,
    drawnAt = 0, // width in pixels at the last drawing
    labels = "", // those of a square map at the last drawing
    marking = false,
    drawing = Promise.resolve();

  const ask = (window) => on.ask?.(window, payload.run);
  const listen = () => {
    chart.dataset.wired = "yes";
    chart.on("plotly_click", (event) => {
      if (!payload.stored_example) pickPoint(event, figure.layout.meta, on);
    });
    chart.on("plotly_relayout", (change) => {
      const window = zoomedTo(change, figure.layout.meta);
      if (window !== undefined) ask(window);
    });
  };
  const render = async () => {
    if (!figure || root.hidden || !root.clientWidth) return;
    Plotly ??= await plotly();
    fitted(figure, root, marked());
    const { height, narrow } = figure.layout.meta;
    chart.style.height = height ? `${root.clientWidth < 480 ? (narrow ?? height) : height}px` : "";
    figure.layout.height = chart.clientHeight; // without this, Plotly would keep the previous height
    const wider = drawnAt && root.clientWidth > drawnAt;
    drawnAt = root.clientWidth;
    const { xaxis, yaxis } = figure.layout,
      now = yaxis?.scaleanchor ? xaxis.ticktext.join(" ") : "",
      anew = labels && now && now !== labels; // Plotly fits a square map to its labels only if it draws from the start
    labels = now;
    await Plotly[anew ? "newPlot" : "react"](chart, figure.data, figure.layout, config);
    if (wider) await Plotly.redraw(chart); // a legend that took more lines before would overlap the figure
    if (anew || !chart.dataset.wired) listen();
    root.dataset.run = payload.run;
  };
  // Draw in a separate task, because drawing several figures in one task would block the page.
  const soon = () => new Promise((done) => setTimeout(done));
  const redraw = () => {
    drawing = drawing.then(soon, soon).then(render);
  };
  // Return the server's figure with frames around the selected items.
  const whole = () => {
    const copy = ownFigure(payload);
    copy.layout.shapes = marks(copy, root, marked());
    return copy;
  };
  onWidth(root, redraw);
  onTheme(redraw);
  onSelect(() => {
    if (marking || !figure || !Plotly || !root.clientWidth || !chart.dataset.wired) return;
    marking = true;
    drawing = drawing.then(soon, soon).then(() => {
      marking = false;
      const shapes = marks(figure, root, marked());
      if (JSON.stringify(shapes) !== JSON.stringify(chart.layout?.shapes ?? []))
        return Plotly.relayout(chart, { shapes });
    });
  });
  return (next) => {
    payload = next;
    figure = ownFigure(payload);
    chart.setAttribute("aria-label", payload.title);
    const { meta } = figure.layout,
      part = meta.window && !meta.whole;
    frame(
      { ...payload, run: undefined },
      {
        names: () => namesOf(payload, figure),
        lines: () => lines(figure),
        arrays: () => arrays(figure),
        figure: whole,
        table: true,
        extra: part ? [...tools([[payload.words.reset, () => ask(null)]]).children] : [],
      },
    );
    redraw();
  };
}

// Handle the selection in a pattern, and determine the framed rows and columns. `places`, in a figure of another run:
// for each of its tokens the corresponding position in this run, or null.
const PICKS = {
  // Select the cell's pair; a zoom requests the region at full resolution.
  pair: {
    marked: ({ places, spans }) =>
      places ? selection.tokens.map((token) => places.indexOf(token)).filter((at) => at >= 0) : pickedUnits(spans),
    pick({ places, spans }, query, key, block) {
      if (spans)
        return select({
          tokens: tokensIn(spans, [...new Set([query, key])]),
          pair: block === 1 ? [query, key].map((at) => spans[at][1] - 1) : null,
        });
      const here = (token) => (places ? (places[token] ?? null) : token),
        pair = [here(query), here(key)],
        tokens = [...new Set(pair)].filter((token) => token !== null),
        whole = block === 1 && (!places || (!pair.includes(null) && pair[1] <= pair[0]));
      if (tokens.length) select({ tokens, pair: whole ? pair : null });
    },
  },
  // Select the column's token, one at a time; `last`: the token shown if none is selected.
  column: {
    marked: ({ last }) => [selection.tokens.length ? Math.max(...selection.tokens) : last],
    pick: (payload, row, position) => select({ tokens: [position] }),
  },
};

// Return a window of a map of words as positions of tokens, in which the page keeps it.
const inTokens = ({ spans }, [q0, q1, k0, k1]) =>
  spans ? [spans[q0][0], spans[q1 - 1][1], spans[k0][0], spans[k1 - 1][1]] : [q0, q1, k0, k1];

// Hide the texts of cells that are too narrow for them.
function withoutTexts(payload, root) {
  const figure = ownFigure(payload),
    [heat] = figure.data;
  if (heat.texttemplate && root.clientWidth - 120 < 34 * (payload.last + 1)) delete heat.texttemplate;
  return { ...payload, figure };
}

// The kind "figure"; see the top of this file for its payload.
define("figure", (root, props, send) => {
  let payload = null,
    roomy = null; // whether the figure was last drawn in the wide layout
  const picks = () => PICKS[payload?.picks];
  const draw = mountPlot(root, {
    marked: () => picks()?.marked(payload) ?? [],
    pick: (...cell) => picks()?.pick(payload, ...cell),
    cell: (cell) => {
      if (payload.cells === undefined) return;
      props.value = { cell, of: payload.cells };
      send("select");
    },
    part: (part) => root.dispatchEvent(new CustomEvent("pg-part", { detail: part, bubbles: true })),
    ask: (window, run) => {
      if (!payload.zooms) return;
      props.value = { run, window: window && inTokens(payload, window) };
      send("select");
    },
  });
  const show = () => {
    if (payload.picks === "column") return draw(withoutTexts(payload, root));
    if (!payload.wide) return draw(payload);
    const room = root.clientWidth >= ROOM;
    if (!root.clientWidth || room === roomy) return;
    roomy = room;
    draw(room ? { ...payload, figure: { ...ownFigure(payload), layout: payload.wide } } : payload);
  };
  onWidth(root, () => payload?.wide && show());
  const take = (now) => {
    payload = now;
    roomy = null;
    root.classList.toggle("pg-absent", Boolean(payload.absent));
    if (payload.absent) delete root.dataset.run;
    else show();
  };
  if (props.value) take.stateOf = (value) => (value.window ? value : null);
  return take;
});
