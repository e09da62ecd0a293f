// The maps of the selected heads: one panel for each, on one color scale, query rows and key columns, masked cells blank.
// A click on a cell, or the arrow keys, choose a query and a key; the readout says the weights in a sentence.
import { el, fill, hint, onWidth, touch } from "../page/dom.js";
import { onTheme } from "../page/theme.js";
import { lookup } from "../parts/colors.js";
import { plotly } from "../parts/figure/plotly.js";
import { percent } from "../parts/percent.js";
import { both, plotText, properties, ramp, short, swatch } from "./looks.js";

const MONO = "ui-monospace, Menlo, Consolas, monospace",
  MOST_TICKS = 36, // maximum number of labels per axis
  NARROW = 480,
  CONFIG = { displaylogo: false, displayModeBar: false, responsive: false, doubleClick: "reset" };

export const largestOf = (matrices) =>
  matrices.reduce((most, { values }) => values.reduce((a, b) => (b > a ? b : a), most), 0);

// Build Plotly's color scale: the ramp by the square root of a fraction of the largest weight.
function colorscale(stops) {
  const table = lookup(stops);
  return Array.from({ length: 33 }, (_, i) => [i / 32, `rgb(${table[Math.round(254 * Math.sqrt(i / 32))]})`]);
}
const longestOf = (texts) => (texts.length > 8 ? 16 : 24); // maximum number of characters of a label
// Count the columns of a monospaced text; Chinese characters take more than one.
const columnsOf = (text) => [...text].reduce((sum, sign) => sum + (sign > "\u2e7f" ? 1.65 : 1), 0);
// Build an axis with labels on as many of its units as fit.
function axisOf(texts, title, room, style) {
  const step = Math.max(1, Math.ceil(texts.length / Math.max(2, Math.min(MOST_TICKS, Math.floor(room / 14))))),
    at = [...texts.keys()].filter((i) => i % step === 0);
  return {
    title: { text: plotText(title), standoff: 8, font: { size: 12, color: style("--pg-soft") } },
    tickmode: "array",
    tickvals: at,
    ticktext: at.map((i) => plotText(short(texts[i], longestOf(texts)))),
    tickfont: { family: MONO, size: 11, color: style("--pg-text") },
    ticklabeloverflow: "allow",
    ticks: "",
    automargin: true,
    showgrid: false,
    zeroline: false,
    constrain: "domain",
  };
}
// Place the panels in rows and columns: the domains of the axes, and the texts above.
function placesOf(n, columns, height) {
  const rows = Math.ceil(n / columns),
    gapX = 0.05,
    gapY = rows > 1 ? Math.min(0.9 / rows, 78 / height) : 0,
    wide = (1 - gapX * (columns - 1)) / columns,
    high = (1 - gapY * (rows - 1)) / rows;
  return Array.from({ length: n }, (_, i) => {
    const row = Math.floor(i / columns),
      column = i % columns,
      left = column * (wide + gapX),
      top = 1 - row * (high + gapY);
    return {
      x: [left, Math.min(1, left + wide)],
      y: [Math.max(0, top - high), top],
      left: column === 0,
      low: i + columns >= n,
    };
  });
}

// Build the figure of the selected heads for a width in pixels. `plain`: for a picture, without the marked cell.
export function figureOf(look, root, wide, { plain = false } = {}) {
  const { data, words, unit } = look,
    style = properties(root),
    matrices = look.heads.map((head) => data.matrix(unit, head)),
    { queries, keys } = data.labels(unit),
    n = matrices.length,
    narrow = wide < NARROW,
    columns = n === 1 ? 1 : narrow ? 1 : n > 4 && wide > 900 ? 3 : 2,
    rows = Math.ceil(n / columns),
    room = (wide - 150) / columns,
    ratio = Math.min(1.25, Math.max(0.45, queries.length / keys.length)),
    beside = (texts) => Math.max(...texts.map((text) => columnsOf(short(text, longestOf(texts))))) * 6.7 + 36,
    below = Math.round(beside(keys) * 0.87) + 8,
    each = Math.max(180, Math.min(640, (wide - beside(queries) - (narrow ? 10 : 84)) / columns) * ratio),
    height = Math.round(rows * each + (rows - 1) * 78 + below + (n > 1 ? 28 : 10)),
    top = largestOf(matrices) || 1,
    places = placesOf(n, columns, rows * each),
    layout = {
      height,
      width: wide,
      margin: { l: 8, r: 8, t: n > 1 ? 28 : 10, b: below },
      paper_bgcolor: "rgba(0,0,0,0)",
      plot_bgcolor: "rgba(0,0,0,0)",
      font: { family: "ui-sans-serif, system-ui, sans-serif", color: style("--pg-text") },
      dragmode: touch() ? false : "zoom",
      hovermode: "closest",
      uirevision: `${unit} ${n}`,
      annotations: [],
      shapes: [],
      coloraxis: {
        cmin: 0,
        cmax: top,
        colorscale: colorscale(ramp(look.doc)),
        showscale: !narrow,
        colorbar: {
          thickness: 10,
          len: 1,
          outlinewidth: 0,
          nticks: 6,
          tickformat: "~%",
          tickfont: { size: 11, color: style("--pg-text") },
          title: { text: plotText(words.weight), side: "right", font: { size: 12, color: style("--pg-soft") } },
        },
      },
    },
    square = queries.length === keys.length;
  const traces = matrices.map(({ rows: of, columns: across, values }, i) => {
    const tail = i ? String(i + 1) : "",
      place = places[i],
      gap = Math.max(of, across) * columns <= 48 ? 1 : 0;
    layout[`xaxis${tail}`] = {
      ...axisOf(keys, place.low ? words[`keys_${unit}`] : "", room, style),
      tickangle: -60,
      automargin: false, // Plotly would not shrink a square map by it when it draws again
      domain: place.x,
      anchor: `y${tail}`,
      range: [-0.5, across - 0.5],
      ...(i ? { matches: "x" } : {}),
    };
    layout[`yaxis${tail}`] = {
      ...axisOf(queries, place.left ? words[`queries_${unit}`] : "", each, style),
      domain: place.y,
      anchor: `x${tail}`,
      range: [of - 0.5, -0.5],
      showticklabels: place.left,
      ...(i ? { matches: "y" } : {}),
      ...(square ? { scaleanchor: `x${tail}`, constraintoward: "top" } : {}),
    };
    if (n > 1)
      layout.annotations.push({
        text: `<span style="color:${look.hue(i)}">■</span> ${plotText(data.name(look.heads[i]))}`,
        x: (place.x[0] + place.x[1]) / 2,
        y: place.y[1],
        xref: "paper",
        yref: "paper",
        xanchor: "center",
        yanchor: "bottom",
        yshift: 3,
        showarrow: false,
        font: { size: 12 },
      });
    if (look.pair && !plain) layout.shapes.push(...framesOf(look, tail, style("--pg-accent")));
    return {
      type: "heatmap",
      z: Array.from({ length: of }, (_, row) => values.subarray(row * across, (row + 1) * across)),
      coloraxis: "coloraxis",
      xaxis: `x${tail}`,
      yaxis: `y${tail}`,
      name: data.name(look.heads[i]),
      hoverinfo: "none",
      hoverongaps: false,
      xgap: gap,
      ygap: gap,
    };
  });
  return { traces, layout };
}
// Frame the chosen cell, and lightly its row and column.
function framesOf({ pair: [query, key] }, tail, color) {
  const box = (more, width) => ({ type: "rect", line: { color, width }, ...more });
  const x = { xref: `x${tail}`, x0: key - 0.5, x1: key + 0.5 },
    y = { yref: `y${tail}`, y0: query - 0.5, y1: query + 0.5 };
  return [
    box({ ...y, xref: `x${tail} domain`, x0: 0, x1: 1, opacity: 0.45 }, 1),
    box({ ...x, yref: `y${tail} domain`, y0: 0, y1: 1, opacity: 0.45 }, 1),
    box({ ...x, ...y }, 2),
  ];
}

// Return the weight of a cell for each selected head, NaN where the query cannot attend to the key.
const weightsAt = ({ data, heads, unit }, [query, key]) =>
  heads.map((head) => {
    const { columns, values } = data.matrix(unit, head);
    return values[query * columns + key];
  });
// Describe a cell: the query, the key, and the weight of each selected head, in its hue if there are several.
function sentence(look, cell) {
  const { data, words, unit } = look,
    { queries, keys } = data.labels(unit),
    [query, key] = cell,
    texts = { query: `${queries[query]} (${query})`, key: `${keys[key]} (${key})` },
    weights = weightsAt(look, cell);
  if (weights.every(Number.isNaN)) return [fill(words.masked, texts)];
  const said = weights.map((value) => (Number.isNaN(value) ? "–" : percent(value)));
  if (said.length === 1) return [fill(words.attends, { ...texts, weight: said[0] })];
  const items = said.map((text, i) => {
    const item = el("span", "pg-viewer-weight");
    item.append(swatch(look.hue(i)), `${data.name(look.heads[i])}: ${text}`);
    return item;
  });
  return [el("span", "", fill(words.attends, { ...texts, weight: "" })), ...items];
}

// Build the maps. Returns { node, draw() }.
export function mapPanel(look, { set }) {
  const { words, data } = look,
    about = look.doc.mask === "causal" ? words.about_map_causal : words.about_map,
    node = el("div", "pg-viewer-map"),
    readout = el("p", "pg-viewer-readout", "", { "aria-live": "polite" }),
    chart = el("div", "pg-viewer-chart", "", { tabindex: 0, role: "application", "aria-label": words.map_keys }),
    tip = el("div", "pg-viewer-tip", "", { "aria-hidden": "true" });
  let Plotly = null,
    drawing = Promise.resolve();
  tip.hidden = true;
  node.append(readout, chart, tip);

  const say = () => {
    readout.classList.toggle("pg-muted", !look.pair);
    readout.replaceChildren(...(look.pair ? sentence(look, look.pair) : [both(about, hint(words, "map_help"))]));
    readout.title = look.pair
      ? weightsAt(look, look.pair)
          .map((value) => value.toFixed(6))
          .join(" · ")
      : "";
  };
  const choose = (query, key) => set({ pair: [query, key], picked: { side: "query", at: query } });
  const hover = ({ points: [point], event }) => {
    const [query, key] = point.pointIndex ?? point.pointNumber;
    tip.replaceChildren(...sentence(look, [query, key]));
    tip.hidden = false;
    const { left, top, width } = node.getBoundingClientRect(),
      x = event.clientX - left,
      y = event.clientY - top;
    tip.style.top = `${y + 18}px`;
    tip.style.left = `${Math.max(0, Math.min(x + 12, width - tip.offsetWidth - 4))}px`;
  };
  const hide = () => {
    tip.hidden = true;
  };
  const listen = () => {
    chart.on("plotly_hover", hover);
    chart.on("plotly_unhover", hide);
    chart.on("plotly_click", ({ points: [point] }) => choose(...(point.pointIndex ?? point.pointNumber)));
  };
  node.addEventListener("mouseleave", hide);
  chart.addEventListener("keydown", (event) => {
    const { queries, keys } = data.labels(look.unit),
      at = look.picked?.side === "query" ? look.picked.at : queries.length - 1,
      [query, key] = look.pair ?? [at, 0];
    const to = {
      ArrowDown: [query + 1, key],
      ArrowUp: [query - 1, key],
      ArrowRight: [query, key + 1],
      ArrowLeft: [query, key - 1],
      Home: [query, 0],
      End: [query, keys.length - 1],
    }[event.key];
    if (!to) return;
    event.preventDefault();
    if (to[0] < 0 || to[1] < 0 || to[0] >= queries.length || to[1] >= keys.length) return;
    choose(...(look.pair ? to : [query, key]));
  });
  const render = async () => {
    if (look.panel !== "map" || !node.clientWidth) return;
    const { traces, layout } = figureOf(look, node, node.clientWidth);
    chart.style.height = `${layout.height}px`;
    Plotly ??= await plotly();
    const shape = `${look.unit} ${look.heads.length}`,
      anew = chart.dataset.shape !== shape; // Plotly fits a square map to its labels only if it draws from the start
    await Plotly[anew ? "newPlot" : "react"](chart, traces, layout, CONFIG);
    chart.dataset.shape = shape;
    if (anew) listen();
    chart.dataset.wired = "yes";
    chart.dataset.drawn = `${look.unit} ${look.heads.map(data.name).join(" ")}`;
  };
  const draw = () => {
    hide();
    say();
    drawing = drawing.then(render, render);
  };
  onWidth(node, draw);
  onTheme(draw);
  return {
    node,
    draw(changes) {
      if (Object.keys(changes).every((name) => name === "pair" || name === "picked") && chart.dataset.wired) {
        say();
        const color = properties(node)("--pg-accent"),
          shapes = look.pair ? look.heads.flatMap((_, i) => framesOf(look, i ? String(i + 1) : "", color)) : [];
        drawing = drawing.then(() => Plotly.relayout(chart, { shapes }));
      } else draw();
    },
    async picture() {
      Plotly ??= await plotly();
      const wide = 900,
        { traces, layout } = figureOf(look, node, wide);
      const page = { ...layout, paper_bgcolor: properties(node)("--pg-panel"), title: { text: "" } };
      const url = await Plotly.toImage(
        { data: traces, layout: page },
        { format: "png", width: wide, height: layout.height, scale: 2 },
      );
      const bytes = Uint8Array.from(atob(url.slice(url.indexOf(",") + 1)), (c) => c.charCodeAt(0));
      return new Blob([bytes], { type: "image/png" });
    },
  };
}
