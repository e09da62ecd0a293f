// Curves of a training run, with an optional second run to compare: loss, head scores, learning rate, gradient norm.
import { exporting } from "../../export/menu.js";
import { el, fill } from "../../page/dom.js";
import { isDark, onTheme } from "../../page/theme.js";
import { plotly } from "../../parts/figure/plotly.js";
import { formed } from "./forming.js";
import { lab } from "./runs.js";

const MOST = 1200; // maximum number of points per curve; longer curves are averaged in groups
export const HUES = {
  light: ["#0b7285", "#b4530b", "#6741d9", "#2b8a3e", "#a61e4d", "#5c4b00"],
  dark: ["#5ccfe6", "#ffad66", "#b197fc", "#8ce99a", "#faa2c1", "#e0c860"],
};

export function thin(points) {
  const group = Math.ceil(points.length / MOST);
  if (group <= 1) return points;
  const out = [];
  for (let at = 0; at < points.length; at += group) {
    const part = points.slice(at, at + group);
    out.push([part.at(-1)[0], part.reduce((sum, point) => sum + point[1], 0) / part.length]);
  }
  return out;
}
// Smooth a curve by an exponential moving average. `keep`: the weight of the previous average.
export function smooth(points, keep = 0.9) {
  let mean = null;
  return points.map(([x, y]) => {
    mean = mean === null ? y : keep * mean + (1 - keep) * y;
    return [x, mean];
  });
}
export const line = (points, name, color, extra = {}) => ({
  type: "scatter",
  mode: "lines",
  x: points.map((p) => p[0]),
  y: points.map((p) => p[1]),
  name,
  line: { color, width: 1.6, ...extra.line },
  hovertemplate: "%{x}: %{y:.4g}<extra>%{fullData.name}</extra>",
  ...extra.trace,
});

// Mount a Plotly figure with its title, data table and exports.
export function chart(words, title, about, file) {
  const node = el("section", "pg-curve"),
    plot = el("div", "pg-chart pg-curve-plot", "", { role: "img", "aria-label": title });
  let traces = [],
    layout = {},
    of = "",
    Plotly = null,
    drawing = Promise.resolve(),
    width = 0;
  const rows = () =>
    traces.flatMap((trace) =>
      trace.x.map((x, i) => [trace.name, x, trace.y[i]]).filter((row) => Number.isFinite(row[2])),
    );
  const heading = el("div", "pg-curve-head");
  heading.append(el("h2", "", title));
  const whole = () => JSON.parse(JSON.stringify({ data: traces, layout }));
  node.append(
    heading,
    el("p", "pg-about", about),
    plot,
    exporting(node, {
      file,
      title,
      note: about,
      source: () => of,
      names: [words.curve, words.axis_step, title],
      lines: rows,
      figure: whole,
    }),
  );
  const render = async () => {
    if (!layout.font || !plot.clientWidth) return;
    Plotly ??= await plotly();
    const style = getComputedStyle(node),
      color = style.getPropertyValue("--pg-text").trim(),
      grid = style.getPropertyValue("--pg-line").trim();
    layout.font = { ...layout.font, color: color };
    for (const axis of [layout.xaxis, layout.yaxis, layout.yaxis2])
      if (axis) Object.assign(axis, { color: color, gridcolor: grid, linecolor: grid });
    await Plotly.react(plot, traces, layout, { displaylogo: false, displayModeBar: false, responsive: true });
  };
  const redraw = () => {
    drawing = drawing.then(render, render);
  };
  new ResizeObserver(() => {
    if (plot.clientWidth !== width) {
      width = plot.clientWidth;
      redraw();
    }
  }).observe(plot);
  return {
    node,
    draw(next, axes) {
      traces = next;
      of = axes.of;
      layout = {
        font: { family: "ui-sans-serif, system-ui, sans-serif", size: 12 },
        paper_bgcolor: "rgba(0,0,0,0)",
        plot_bgcolor: "rgba(0,0,0,0)",
        margin: { l: 8, r: 16, t: 8, b: 8 },
        showlegend: axes.legend ?? true,
        legend: { orientation: "h", y: 1.02, yanchor: "bottom", x: 0, font: { size: 11 } },
        hovermode: "closest",
        uirevision: "kept",
        xaxis: { title: { text: words.axis_step }, automargin: true, rangemode: "tozero", zeroline: false },
        yaxis: { title: { text: axes.y }, automargin: true, zeroline: false, ...axes.range },
        ...(axes.y2
          ? {
              yaxis2: {
                title: { text: axes.y2 },
                overlaying: "y",
                side: "right",
                automargin: true,
                showgrid: false,
                rangemode: "tozero",
              },
            }
          : {}),
      };
      redraw();
    },
  };
}

const hues = () => HUES[isDark() ? "dark" : "light"];
const GRAY = "#888888";
// If there are two runs, add the run's name to each curve and dash the curves of the second one.
const tailOf = (run, named) => (named ? ` · ${run.label}` : "");

function lossTraces(run, at, named, words) {
  const raw = run.reports.map((report) => [report[0], report[1]]),
    color = hues()[at],
    tail = tailOf(run, named),
    dash = at ? "dash" : "solid",
    quiet = { opacity: 0.35, showlegend: false, hoverinfo: "skip", hovertemplate: null },
    dots = { mode: "lines+markers", marker: { size: 4, symbol: at ? "square" : "circle" } },
    held = run.snapshots.map((s) => [s.step, s.loss]);
  return [
    line(thin(raw), words.raw + tail, color, { line: { width: 0.7, dash }, trace: quiet }),
    line(thin(smooth(raw)), words.train + tail, color, { line: { dash } }),
    line(held, words.held_out + tail, color, { line: { width: 1, dash: "dot" }, trace: dots }),
  ];
}
// Draw the lower bound on the loss on new examples over all steps of the run.
function floorTraces(runs) {
  const floors = runs.filter(({ floor }) => floor).map(({ floor, steps }) => [floor.text, { ...floor, steps }]);
  return [...new Map(floors).values()].map(({ loss, text, steps }) =>
    line(
      [
        [0, loss],
        [steps, loss],
      ],
      text,
      GRAY,
      { line: { dash: "dash", width: 1.2 } },
    ),
  );
}
// Draw a line at the step at which heads formed, with a label if there is room.
function formedTrace(run, mark, named, words) {
  const text = fill(words.forms, mark),
    upright = [
      [mark.step, 0],
      [mark.step, 1],
    ];
  return {
    ...line(upright, text + tailOf(run, named), GRAY, { line: { dash: "dot", width: 1.2 } }),
    mode: "lines+text",
    text: ["", text],
    textposition: `bottom ${2 * mark.step < run.snapshots.at(-1).step ? "right" : "left"}`,
    cliponaxis: false,
  };
}
function headTraces(run, at, named, metric, words) {
  const { snapshots } = run,
    tail = tailOf(run, named),
    pen = { line: { dash: at ? "dash" : "solid", width: 1.4 }, trace: { connectgaps: false } },
    out = [];
  snapshots[0]?.[metric].forEach((row, layer) =>
    row.forEach((_, head) => {
      const points = snapshots.map((s) => [s.step, s[metric][layer][head]]);
      out.push(line(points, fill(words.head, { layer, head }) + tail, hues()[layer % hues().length], pen));
    }),
  );
  const mark = formed(snapshots, metric);
  if (mark) out.push(formedTrace(run, mark, named, words));
  if (metric === "induction" && snapshots.length) {
    const worst = snapshots.map((s) => [s.step, Math.max(...s.induction_baseline.flat())]);
    out.push(line(worst, words.baseline + tail, GRAY, { line: { dash: "dot", width: 1.2 } }));
  }
  return out;
}
function rateTraces(run, at, named, words) {
  const tail = tailOf(run, named),
    pen = { dash: at ? "dash" : "solid" },
    column = (n) => thin(run.reports.map((report) => [report[0], report[n]]));
  return [
    line(column(3), words.norm_curve + tail, hues()[at], { line: pen }),
    line(column(2), words.rate_curve + tail, hues()[at + 2], { line: pen, trace: { yaxis: "y2" } }),
  ];
}

export function trainingCharts(root, { words }) {
  const loss = chart(words, words.loss_title, words.loss_about, "training-loss"),
    heads = chart(words, words.heads_title, words.heads_about, "training-heads"),
    rate = chart(words, words.rate_title, words.rate_about, "training-rate"),
    more = el("details"),
    metric = el("select", "", "", { "aria-label": words.metric }),
    pick = el("label", "pg-field pg-inline");
  more.append(el("summary", "", words.rate_title), rate.node);
  for (const name of ["induction", "previous_token"])
    metric.append(el("option", "", words[`metric_${name}`], { value: name }));
  pick.append(el("span", "", words.metric), metric);
  heads.node.querySelector(".pg-curve-head").after(pick);
  root.replaceChildren(loss.node, heads.node, more);
  let drawn = ""; // run and number of snapshots that are drawn, because head scores change only with snapshots
  const drawHeads = (shown, named, of) => {
    const { snapshots } = shown.find((run) => run.snapshots.length),
      few = snapshots[0].induction.flat().every((value) => value === null);
    heads.draw(
      shown.flatMap((run, at) => headTraces(run, at, named, metric.value, words)),
      { of, y: words[`metric_${metric.value}`], range: { range: [0, 1] }, legend: false },
    );
    heads.node.querySelector(".pg-about").textContent = few ? words.heads_short : words.heads_about;
  };
  const draw = (what) => {
    const shown = [lab.runs.get(lab.current), lab.runs.get(lab.other)].filter(Boolean),
      named = shown.length > 1,
      of = shown.map((run) => run.label).join(" · "),
      range = { rangemode: "tozero" },
      each = (traces) => shown.flatMap((run, at) => traces(run, at, named, words));
    root.hidden = !shown.some((run) => run.snapshots.length);
    if (root.hidden) return;
    loss.draw([...each(lossTraces), ...floorTraces(shown)], { of, y: words.axis_loss, range });
    const snapshots = shown.map((run) => `${run.id} ${run.snapshots.length}`).join();
    if (what !== "data" || snapshots !== drawn) drawHeads(shown, named, of);
    drawn = snapshots;
    rate.draw(each(rateTraces), { of, y: words.axis_norm, y2: words.axis_rate, range });
  };
  metric.onchange = () => draw();
  onTheme(() => draw());
  return draw;
}
