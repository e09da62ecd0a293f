// One Plotly figure that stays on the page: keeps its zoom, follows the theme, exports, and has a table behind it.
//
// payload: { figure (JSON), title, note, source, file, run, columns, python, words }
//   figure.layout.meta: scales { light, dark } of coloraxis, as text, height, narrow;
//   of a pattern also block, window [q0, q1, k0, k1] and whole. A point's customdata { head } or { tokens } is what a
//   click on it selects, and { part } is passed to the figure's owner; in a heat map of layers x heads (meta.heads
//   true) the cell itself is the head.
import { exporting } from "../export/menu.js";
import { el } from "../page/dom.js";
import { define } from "../page/mount.js";
import { adding, onSelect, pickHead, select, selection } from "../page/selection/selection.js";
import { onTheme } from "../page/theme.js";
import { fitted, marks } from "./figure_look.js";
import { arrays, lines, ownFigure } from "./figure_numbers.js";
import { plotly } from "./plotly.js";
import { tools } from "./tools.js";

// Where a figure lives; `on.pick(tokens)` hears a click on a cell [query, key], `on.ask(window)` a zoom into what is
// pooled, and `on.marked()` says whose rows and columns are framed.
export function mountPlot(root, on) {
  const title = el("h2"),
    note = el("p", "pg-about"),
    chart = el("div", "pg-chart", "", { role: "img" });
  const foot = el("div");
  const marked = on.marked ?? (() => []);
  root.append(title, note, chart, foot);
  let payload = null,
    figure = null,
    Plotly = null,
    drawnAt = 0, // pixels across
    drawing = Promise.resolve();
  const config = { displaylogo: false, displayModeBar: false, responsive: true, doubleClick: "reset" };

  const render = async () => {
    if (!figure || root.hidden || !root.clientWidth) return;
    Plotly ??= await plotly();
    fitted(figure, root, marked());
    const { height, narrow } = figure.layout.meta;
    chart.style.height = height ? `${root.clientWidth < 480 ? (narrow ?? height) : height}px` : "";
    figure.layout.height = chart.clientHeight; // Plotly would go on with the height it had
    const wider = drawnAt && root.clientWidth > drawnAt;
    drawnAt = root.clientWidth;
    await Plotly.react(chart, figure.data, figure.layout, config);
    if (wider) await Plotly.redraw(chart); // a legend that needed more lines before would stand in the picture
    if (!chart.dataset.wired) {
      chart.dataset.wired = "yes";
      chart.on("plotly_click", picked);
      chart.on("plotly_relayout", zoomed);
    }
    root.dataset.run = payload.run;
  };
  // In a task of its own: several figures on one page would hold it up together.
  const soon = () => new Promise((done) => setTimeout(done));
  const redraw = () => {
    drawing = drawing.then(soon, soon).then(render);
  };

  const picked = ({ points: [point], event }) => {
    const { block, window: seen, heads } = figure.layout.meta;
    const cell = point.pointIndex ?? point.pointNumber;
    if (point.customdata?.part !== undefined) return on.part?.(point.customdata.part);
    if (heads && Array.isArray(cell)) return pickHead(cell[1], cell[0], adding(event));
    if (point.customdata?.head) return pickHead(...point.customdata.head, adding(event));
    if (point.customdata?.tokens) return select({ tokens: point.customdata.tokens });
    if (seen && Array.isArray(cell)) on.pick?.(seen[0] + cell[0] * block, seen[2] + cell[1] * block, block);
  };
  const ask = (window) => on.ask?.(window, payload.run);
  const zoomed = (change) => {
    const { block, window: seen, whole } = figure.layout.meta;
    if (!seen) return;
    if (change["xaxis.autorange"] || change["yaxis.autorange"]) {
      if (!whole) ask(null);
      return;
    }
    const [q0, q1, k0, k1] = seen;
    const range = (axis) =>
      Object.keys(change)
        .filter((name) => name.startsWith(axis) && name.includes("range["))
        .slice(0, 2)
        .map((name) => change[name]);
    const x = range("xaxis"),
      y = range("yaxis").sort((a, b) => a - b);
    if (x.length < 2 || y.length < 2 || block === 1) return; // single tokens are already drawn
    const span = ([from, to], start, end) => [
      Math.max(start, start + Math.floor(from + 0.5) * block),
      Math.min(end, start + Math.ceil(to + 0.5) * block),
    ];
    ask([...span(y, q0, q1), ...span(x, k0, k1)]);
  };

  const names = () => {
    const { columns, words } = payload,
      names = columns ?? [words.query, words.key, words.weight];
    const width = lines(figure)[0]?.length ?? names.length;
    return width > names.length ? [words.series ?? "", ...names].slice(-width) : names.slice(-width);
  };
  // As the server sent it, with what is picked framed.
  const whole = () => {
    const figure = ownFigure(payload);
    figure.layout.shapes = marks(figure, root, marked());
    return figure;
  };
  const footer = () => {
    const { file, source, python, words } = payload,
      part = figure.layout.meta.window && !figure.layout.meta.whole;
    foot.replaceChildren(
      exporting(root, {
        file,
        source,
        python,
        title: payload.title,
        note: payload.note,
        names,
        lines: () => lines(figure),
        arrays: () => arrays(figure),
        figure: whole,
        table: true,
        extra: part ? [...tools([[words.reset, () => ask(null)]]).children] : [],
      }),
    );
  };

  let width = 0,
    marking = false;
  new ResizeObserver(() => {
    if (root.clientWidth !== width) {
      width = root.clientWidth;
      redraw();
    }
  }).observe(root);
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
    title.textContent = payload.title;
    note.textContent = payload.note;
    chart.setAttribute("aria-label", payload.title);
    footer();
    redraw();
  };
}

// A pattern: a click on a cell picks its pair, a zoom requests the part in full.
define("plot", (root, props, trigger) =>
  Object.assign(
    mountPlot(root, {
      marked: () => selection.tokens,
      pick: (query, key, block) =>
        select({ tokens: [...new Set([query, key])], pair: block === 1 ? [query, key] : null }),
      ask: (window, run) => {
        props.value = { run, window };
        trigger("select", { index: 0, value: JSON.stringify(window) });
      },
    }),
    { stateOf: (value) => (value.window ? value : null) },
  ),
);
define("figure", (root) => mountPlot(root, {}));
