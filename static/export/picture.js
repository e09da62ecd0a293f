// Export of a figure as PNG or SVG, with its title above and the source of the numbers below.
import { el } from "../page/dom.js";
import { isDark } from "../page/theme.js";
import { themed } from "../parts/figure/figure_look.js";
import { plotly } from "../parts/figure/plotly.js";
import { sourceOf, sources } from "./sources.js";
import { still } from "./still.js";
import { vendor } from "./vendor.js";

const WIDTH = 900,
  EDGE = 24,
  MOST_PIXELS = 16000; // maximum width and height of a picture; browsers limit the size of a canvas

// Convert a data: URL to a blob manually, because the page's policy may forbid fetching it.
function blobOf(url) {
  const [, type, coded, body] = url.match(/^data:([^;,]*)[^,]*?(;base64)?,([^]*)$/);
  return new Blob([coded ? Uint8Array.from(atob(body), (c) => c.charCodeAt(0)) : decodeURIComponent(body)], { type });
}
const dataOf = (blob) =>
  new Promise((resolve) => {
    const reader = new FileReader();
    reader.onload = () => resolve(reader.result);
    reader.readAsDataURL(blob);
  });
const image = (url) =>
  new Promise((resolve, reject) => {
    const picture = new Image();
    picture.onload = () => resolve(picture);
    picture.onerror = () => reject(new Error("a picture could not be read"));
    picture.src = url;
  });
const looks = (root) => {
  const style = getComputedStyle(root),
    color = (name) => style.getPropertyValue(name).trim();
  return {
    ground: color("--pg-panel"),
    text: color("--pg-text"),
    soft: color("--pg-soft"),
    line: color("--pg-line"),
    font: "ui-sans-serif, system-ui, sans-serif",
  };
};
// Wrap text into lines no wider than `wide`; words that are too long are split.
function wrapped(text, font, wide) {
  const pen = el("canvas").getContext("2d"),
    out = [""];
  pen.font = font;
  for (const word of text.split(/(?<=\s)/)) {
    if (pen.measureText(out.at(-1) + word).width <= wide) {
      out[out.length - 1] += word;
      continue;
    }
    if (out.at(-1)) out.push("");
    for (const sign of word)
      if (pen.measureText(out.at(-1) + sign).width <= wide) out[out.length - 1] += sign;
      else out.push(sign);
  }
  return out.map((line) => line.trim()).filter(Boolean);
}
const drawn = (name, attributes, text) => {
  const node = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
  if (text !== undefined) node.textContent = text.replace(/[\x00-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff]/g, "\ufffd"); // characters that are invalid in XML
  return node;
};
const asSvg = (node) => new Blob([new XMLSerializer().serializeToString(node)], { type: "image/svg+xml" });

// Add the title above and the source of the numbers below.
function frame({ title, source }, { text, soft, font }, width, height) {
  const heads = wrapped(title, `600 16px ${font}`, width - 2 * EDGE),
    feet = wrapped(source, `11px ${font}`, width - 2 * EDGE);
  const top = EDGE + 22 * heads.length,
    whole = top + height + 16 * feet.length + EDGE;
  const lines = [
    ...heads.map((line, i) => ({ line, y: EDGE + 12 + 22 * i, size: 16, weight: 600, fill: text })),
    ...feet.map((line, i) => ({ line, y: top + height + 14 + 16 * i, size: 11, weight: 400, fill: soft })),
  ];
  return { top, whole, lines };
}
async function ofPlotly(one, format) {
  const Plotly = await plotly(),
    { data, layout } = one.figure(),
    look = looks(one.root),
    high = layout.meta?.height ? Math.max(480, layout.meta.height) : 780;
  themed(layout, { text: look.text, line: look.line, isDark: isDark(), narrow: false });
  const { top, whole, lines } = frame(one, look, WIDTH, high);
  const bare = {
    ...layout,
    title: undefined,
    height: undefined,
    width: undefined,
    paper_bgcolor: look.ground,
    margin: { l: EDGE, r: EDGE, t: 32, b: 16 },
  };
  const url = await Plotly.toImage(
    { data, layout: bare },
    { format, width: WIDTH, height: high, scale: format === "png" ? 2 : 1 },
  );
  if (format === "svg") {
    const svg = drawn("svg", { width: WIDTH, height: whole, viewBox: `0 0 ${WIDTH} ${whole}` });
    const inner = new DOMParser().parseFromString(await blobOf(url).text(), "image/svg+xml").documentElement;
    inner.setAttribute("y", top);
    svg.append(
      drawn("rect", { width: "100%", height: "100%", fill: look.ground }),
      inner,
      ...lines.map(({ line, y, size, weight, fill }) =>
        drawn("text", { x: EDGE, y, "font-size": size, "font-weight": weight, "font-family": look.font, fill }, line),
      ),
    );
    return asSvg(svg);
  }
  const canvas = el("canvas", "", "", { width: WIDTH * 2, height: whole * 2 }),
    pen = canvas.getContext("2d");
  pen.scale(2, 2);
  pen.fillStyle = look.ground;
  pen.fillRect(0, 0, WIDTH, whole);
  pen.drawImage(await image(url), 0, top, WIDTH, high);
  for (const { line, y, size, weight, fill } of lines) {
    pen.font = `${weight} ${size}px ${look.font}`;
    pen.fillStyle = fill;
    pen.fillText(line, EDGE, y);
  }
  return new Promise((resolve) => canvas.toBlob(resolve, "image/png"));
}

// For other elements, draw a copy outside the page, as wide as its widest part.
async function ofPage(one, format) {
  const shot = await vendor("modern-screenshot.min.js");
  const charts = new Map();
  for (const [root, source] of sources)
    if (source.figure && one.root.contains(root)) {
      const src = await dataOf(await ofPlotly(sourceOf(root), "png"));
      charts.set(root.querySelector(".pg-chart"), el("img", "", "", { src, style: "width: 100%" }));
    }
  const copy = still(one.root, { chart: (node) => charts.get(node), dead: false });
  const widest = Math.max(
    one.root.clientWidth,
    ...[...one.root.querySelectorAll("*")].map((node) =>
      node.scrollWidth > node.clientWidth + 1 && /auto|scroll/.test(getComputedStyle(node).overflowX)
        ? node.scrollWidth
        : 0,
    ),
  );
  const holder = el("div", "pg-still pg-still-picture"),
    box = one.root.closest(".gradio-container") ?? document.body;
  holder.style.width = `${widest + 2 * EDGE}px`;
  if (!copy.textContent.includes(one.title)) holder.append(el("h2", "", one.title));
  holder.append(copy, el("p", "pg-source", one.source));
  box.append(holder);
  try {
    const { ground } = looks(one.root),
      { offsetWidth: width, offsetHeight: height } = holder,
      scale = Math.min(2, MOST_PIXELS / Math.max(width, height));
    const options = { scale, width, height, backgroundColor: ground, font: false, style: { position: "static" } };
    if (format === "png") return blobOf(await shot.domToPng(holder, options));
    const svg = new DOMParser().parseFromString(
      await blobOf(await shot.domToSvg(holder, options)).text(),
      "image/svg+xml",
    ).documentElement;
    svg.prepend(drawn("title", {}, one.title), drawn("desc", {}, one.source));
    return asSvg(svg);
  } finally {
    holder.remove();
  }
}
export const picture = (one, format) =>
  one.own ? one.own(format) : one.figure ? ofPlotly(one, format) : ofPage(one, format);
