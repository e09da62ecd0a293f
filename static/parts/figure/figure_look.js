// The page's adjustments of a figure's layout: theme, narrow screens, and frames around selected items.
import { headsOff } from "../../page/selection/off.js";
import { selection } from "../../page/selection/selection.js";
import { isDark } from "../../page/theme.js";

// Adjust a layout to the theme and a narrow screen. Exported files contain this function; it must not use the page.
export function themed(layout, { text, line, isDark, narrow }) {
  const meta = layout.meta || {},
    theme = isDark ? "dark" : "light";
  if (meta.stacked) {
    // stack the panels if there is no room for them side by side
    meta.beside ??= Object.fromEntries(Object.keys(meta.stacked).map((name) => [name, layout[name]]));
    Object.assign(layout, structuredClone(narrow ? meta.stacked : meta.beside));
  }
  layout.font = { ...layout.font, color: text };
  // All axis labels fit, so Plotly need not measure each one and hide those that it considers too long.
  const axis = { color: text, gridcolor: line, ticklabeloverflow: "allow" };
  for (const name of Object.keys(layout)) if (/^[xy]axis/.test(name)) Object.assign(layout[name], axis);
  if (meta.scales && layout.coloraxis)
    layout.coloraxis.colorscale = meta.scales[theme].split(";").map((stop) => {
      const [share, color] = stop.split(" ");
      return [+share, color];
    });
  for (const name of Object.keys(layout))
    if (/^coloraxis/.test(name)) {
      layout[name].colorbar = { ...layout[name].colorbar, tickcolor: text, tickfont: { color: text } };
      if (narrow) layout[name].showscale = false;
      else delete layout[name].showscale;
    }
}
export function fitted(figure, root, tokens) {
  const style = getComputedStyle(root),
    color = (name) => style.getPropertyValue(name).trim();
  themed(figure.layout, {
    text: color("--pg-text"),
    line: color("--pg-line"),
    isDark: isDark(),
    narrow: root.clientWidth < 480,
  });
  thinned(figure.layout, root.clientWidth);
  breakNames(figure.data, root.clientWidth);
  figure.layout.shapes = marks(figure, root, tokens);
}

const LETTER = 7, // average width of a letter of a legend in pixels; that of a Chinese character is twice as large
  SIGN = 60; // width of the line or point before it
const lengthOf = (text) => text.length + (text.match(/[\u2e80-\uffef]/g)?.length ?? 0);
// Break names in the legend that are wider than the figure into lines; figure_numbers.js joins them again.
function breakNames(traces, width) {
  const most = Math.max(20, Math.floor((width - SIGN) / LETTER));
  for (const trace of traces) {
    const whole = trace.name?.replaceAll("<br>", " ") ?? "",
      lines = [""];
    if (!whole) continue;
    for (const word of whole.split(" ")) {
      if (lines.at(-1) && lengthOf(`${lines.at(-1)} ${word}`) > most) lines.push("");
      lines.push(`${lines.pop()} ${word}`.trim());
    }
    trace.name = lines.join("<br>");
  }
}

const LINE = 13, // height of a label in pixels
  AROUND = 90; // margin around a map in pixels
// Label every token of a map if they fit; on a narrow screen only every second, third, ... one.
export function thinned(layout, width) {
  const labeled = (name) => layout[name]?.type === "category" && layout[name].tickvals?.length > 1;
  const axes = ["xaxis", "yaxis"].filter(labeled);
  if (axes.length < 2 || layout.xaxis2) return;
  layout.meta.ticks ??= Object.fromEntries(axes.map((name) => [name, [layout[name].tickvals, layout[name].ticktext]]));
  for (const [name, [values, texts]] of Object.entries(layout.meta.ticks)) {
    const every = Math.max(1, Math.ceil((LINE * values.length) / Math.max(width - AROUND, 1)));
    const [tickvals, ticktext] = [values, texts].map((all) => all.filter((_, at) => at % every === 0));
    Object.assign(layout[name], { tickvals, ticktext });
  }
}

// Cross out the cell of a head that is off, in a map of layers x heads.
const crossShape = (tail, layer, head, line) => {
  const [left, right, top, bottom] = [head - 0.4, head + 0.4, layer - 0.4, layer + 0.4],
    path = `M${left},${top}L${right},${bottom}M${left},${bottom}L${right},${top}`;
  return { type: "path", xref: `x${tail}`, yref: `y${tail}`, path, line };
};

// Frame the rows and columns of the selected tokens or, in a map of layers x heads, the selected heads, and cross out the
// heads that are off. A figure of another run keeps only its own shapes.
export function marks({ layout }, root, tokens) {
  if (layout.meta.unmarked) return layout.meta.shapes ?? [];
  const line = { color: getComputedStyle(root).getPropertyValue("--pg-accent").trim(), width: 1.5 };
  const tails = Object.keys(layout)
    .filter((name) => /^xaxis/.test(name))
    .map((name) => name.slice(5));
  const text = getComputedStyle(root).getPropertyValue("--pg-text").trim(),
    ground = getComputedStyle(root).getPropertyValue("--pg-panel").trim();
  const maps = tails.filter((tail) => `yaxis${tail}` in layout); // not a strip beside a map, which shares its axis
  if (layout.meta.heads)
    return maps.flatMap((tail) => [
      ...headsOff().flatMap(([layer, head]) =>
        [
          [ground, 3.5],
          [text, 1.5],
        ].map(([color, width]) => crossShape(tail, layer, head, { color, width })),
      ),
      ...selection.heads.map(([layer, head]) => ({
        type: "rect",
        xref: `x${tail}`,
        yref: `y${tail}`,
        x0: head - 0.5,
        x1: head + 0.5,
        y0: layer - 0.5,
        y1: layer + 0.5,
        line,
      })),
    ]);
  if (layout.meta.places)
    return selection.tokens.map(
      (
        at, // the prompt's tokens are on the horizontal axis
      ) => ({ type: "rect", xref: "x", yref: "paper", x0: at - 0.5, x1: at + 0.5, y0: 0, y1: 1, line }),
    );
  if (!layout.meta.window) return layout.meta.shapes ?? [];
  const {
      block,
      window: [q0, q1, k0, k1],
    } = layout.meta,
    shapes = [];
  for (const tail of tails)
    for (const token of tokens) {
      if (token >= q0 && token < q1) {
        const at = Math.floor((token - q0) / block);
        shapes.push({
          type: "rect",
          xref: `x${tail} domain`,
          yref: `y${tail}`,
          x0: 0,
          x1: 1,
          y0: at - 0.5,
          y1: at + 0.5,
          line,
        });
      }
      if (token >= k0 && token < k1) {
        const at = Math.floor((token - k0) / block);
        shapes.push({
          type: "rect",
          xref: `x${tail}`,
          yref: `y${tail} domain`,
          y0: 0,
          y1: 1,
          x0: at - 0.5,
          x1: at + 0.5,
          line,
        });
      }
    }
  return shapes;
}
