// Export of a figure, or a complete report, as one self-contained HTML file: it works offline, follows the reader's light
// or dark theme, and prints black on white. Text from users and models is included only as text.
import { el, fill } from "../page/dom.js";
import { themed } from "../parts/figure/figure_look.js";
import { tableOf } from "../parts/table.js";
import { sourceOf, sources } from "./sources.js";
import { still } from "./still.js";
import { colors, styles } from "./styles.js";

const MOST = 2000; // maximum number of rows of a data table; the other export formats contain all rows
const escaped = (text) => String(text).replace(/[&<>"']/g, (c) => `&#${c.charCodeAt(0)};`);
export const pause = () => new Promise((done) => setTimeout(done));

// An inline script must not contain its own end tag, and "<!--" would change how the end tag is parsed.
const inlined = (script) => script.replace(/<(?=\/script)/gi, "\\x3c").replace(/<!-{2}/g, "\\x3c!--");
const asJson = (value) =>
  JSON.stringify(value)
    .replace(/</g, "\\u003c")
    .replace(/\u2028/g, "\\u2028")
    .replace(/\u2029/g, "\\u2029");
let library = null;
const plotlySource = () =>
  (library ??= fetch("playground/plotly/plotly.min.js")
    .then((answer) => {
      if (!answer.ok) throw new Error("plotly.min.js could not be loaded");
      return answer.text();
    })
    .then(inlined)
    .catch((error) => {
      library = null;
      throw error;
    }));

// This script runs in the file: it draws each figure in the file's theme shortly before the figure becomes visible, and
// all figures in the light theme before printing.
function drawing(themed) {
  const figures = JSON.parse(document.getElementById("figures").textContent),
    dark = matchMedia("(prefers-color-scheme: dark)"),
    paper = document.documentElement.classList;
  const places = [...document.querySelectorAll("[data-figure]")],
    seen = new Set();
  const draw = (place) => {
    const { data, layout } = JSON.parse(JSON.stringify(figures[+place.dataset.figure]));
    const style = getComputedStyle(place),
      color = (name) => style.getPropertyValue(name).trim(),
      frame = place.closest(".pg-as-dark, .pg-as-light");
    const isDark = frame ? frame.matches(".pg-as-dark") : dark.matches && !paper.contains("pg-on-paper"),
      meta = layout.meta || {},
      narrow = place.clientWidth < 480;
    themed(layout, { text: color("--pg-text"), line: color("--pg-line"), isDark, narrow });
    const height = meta.height ? (narrow ? (meta.narrow ?? meta.height) : meta.height) : narrow ? 400 : 540;
    place.style.height = `${height}px`;
    layout.height = height;
    delete layout.width;
    return window.Plotly.react(place, data, layout, { displaylogo: false, responsive: true });
  };
  const show = (place) => {
    seen.add(place);
    draw(place);
  };
  const near = new IntersectionObserver(
    (entries) => {
      for (const { isIntersecting, target } of entries)
        if (isIntersecting) {
          near.unobserve(target);
          show(target);
        }
    },
    { rootMargin: "600px" },
  );
  places.forEach((place) => near.observe(place));
  dark.addEventListener("change", () => seen.forEach(draw));
  const turn = (printing) => {
    paper.toggle("pg-on-paper", printing);
    (printing ? places : [...seen]).forEach(show);
  };
  window.addEventListener("beforeprint", () => turn(true));
  window.addEventListener("afterprint", () => turn(false));
}

const FRAME = `
*, *::before, *::after { box-sizing: border-box; }
body { margin: 0 auto; max-width: 1100px; padding: 20px 16px 40px; background: var(--pg-panel); color: var(--pg-text); font: 14px/1.5 ui-sans-serif, system-ui, sans-serif; overflow-wrap: anywhere; }
h1 { font-size: 22px; line-height: 1.25; margin: 0 0 6px; } h2, h3, h4 { line-height: 1.3; } p { margin: 0 0 6px; } a { color: var(--pg-focus); }
h1, h2, h3, h4, p, td, th, li, dd, dt, pre, summary, caption, bdi { unicode-bidi: isolate; }
table { border-collapse: collapse; } ul, ol, dl { margin: 0; } canvas, img { max-width: 100%; }
figure { margin: 22px 0; } .pg-source { color: var(--pg-soft); font-size: 12px; margin: 6px 0; }
pg-button { display: inline-block; text-align: center; cursor: default !important; }
.pg-said { padding: 0 4px; } .pg-said:empty { display: none; }
.pg-chart { min-height: 200px; }
.pg-still { position: relative; padding: 10px 12px; border-radius: 8px; background: var(--pg-panel); color: var(--pg-text); overflow-x: auto; font: 16px/1.5 ui-sans-serif, system-ui, sans-serif; }
.pg-still :is(h1, h2, h3, h4, p) { margin-top: 0; }
details { margin: 6px 0; } summary { cursor: pointer; color: var(--pg-focus); }
pre { margin: 6px 0; padding: 8px 10px; background: var(--pg-ground); border-radius: 6px; font: 12px/1.5 ui-monospace, Menlo, Consolas, monospace; white-space: pre-wrap; overflow-x: auto; }
.pg-numbers { max-height: 60vh; overflow: auto; } .pg-numbers :is(td, th) { text-align: left; padding: 2px 10px; border-top: 1px solid var(--pg-line); white-space: pre-wrap; font: 12px ui-monospace, Menlo, Consolas, monospace; }
@media print { body { max-width: none; padding: 0; } details > summary { list-style: none; } figure { break-inside: avoid; } .pg-still, .pg-still * { max-height: none !important; } .pg-still { print-color-adjust: exact; -webkit-print-color-adjust: exact; } }
`;
const block = (selector, theme, colors) =>
  `${selector} { color-scheme: ${theme}; ${Object.entries(colors)
    .map(([name, value]) => `${name}: ${value};`)
    .join(" ")} }`;
function themes() {
  const light = colors(false),
    dark = colors(true),
    paper = { ...light, "--pg-panel": "#fff", "--pg-text": "#000" };
  return `${block(":root, .pg-as-light", "light", light)}\n${block(".pg-as-dark", "dark", dark)}\n@media (prefers-color-scheme: dark) { ${block(":root", "dark", dark)} ${block(".pg-as-light", "light", light)} }
${block(":root.pg-on-paper", "light", paper)}
@media print { ${block(":root", "light", paper)} ${block(".pg-as-dark", "dark", { ...dark, "--pg-panel": "#000", "--pg-text": "#fff" })} }
/* Pictures made in the dark theme have its colors: invert their lightness and keep their hues. */
@media print { .pg-as-dark { filter: invert(1) hue-rotate(180deg); } }`;
}

// title: text; body: a list of HTML strings; figures: [{ data, layout }]; css: additional styles.
export async function page({ title, body, figures, css = "" }) {
  const nonce = btoa(String.fromCharCode(...crypto.getRandomValues(new Uint8Array(16))));
  const script = (text, type = "") => `<script nonce="${nonce}"${type && ` type="${type}"`}>${text}</script>\n`;
  const policy = `default-src 'none'; script-src 'nonce-${nonce}'; style-src 'unsafe-inline'; img-src data: blob:; base-uri 'none'; form-action 'none'`;
  const parts = [
    `<!DOCTYPE html>\n<html lang="${escaped(document.documentElement.lang || "en")}">\n<head>\n<meta charset="utf-8">\n<meta http-equiv="Content-Security-Policy" content="${policy}">\n`,
    `<meta name="viewport" content="width=device-width, initial-scale=1">\n<title>${escaped(title)}</title>\n<style>${`${css}\n${themes()}\n${FRAME}`.replace(/<\//g, "<\\/")}</style>\n</head>\n<body>\n`,
    ...body,
  ];
  if (figures.length) {
    const plotly = await plotlySource();
    await pause();
    parts.push(script(plotly), '<script type="application/json" id="figures">[');
    for (const [i, figure] of figures.entries()) {
      parts.push(i ? ",\n" : "", asJson(figure));
      await pause();
    }
    parts.push("]</script>\n", script(`(${drawing})(${themed});`));
  }
  parts.push("</body>\n</html>\n");
  return new Blob(parts, { type: "text/html" });
}

// --- one figure in a page ---

// Copy the content of `root` for a file; its Plotly figures are added to `figures` and redrawn in the file.
function copied(root, figures) {
  const charts = new Map();
  for (const each of sources.keys())
    if (root.contains(each) && sources.get(each).figure) charts.set(each.querySelector(".pg-chart"), each);
  return still(root, {
    dead: true,
    chart: (node) => {
      if (!charts.has(node)) return null;
      const { figure, title } = sourceOf(charts.get(node)),
        place = el("div", "pg-chart", "", { "data-figure": figures.length, role: "img", "aria-label": title });
      figures.push(figure());
      return place;
    },
  });
}
export const folded = (title, ...content) => {
  const box = el("details");
  box.append(el("summary", "", title), ...content);
  return box;
};
function numbers({ names, lines }, words) {
  const box = el("div", "pg-numbers"),
    rows = lines.slice(0, MOST).map((line) => line.map((value) => String(value ?? "")));
  box.append(tableOf({ columns: names, rows, named: -1 }));
  return folded(
    fill(words.rows, { n: lines.length }),
    ...(lines.length > MOST ? [el("p", "", fill(words.rows_cut, { n: MOST }))] : []),
    box,
  );
}
// Build a figure's section: the figure, its source, its numbers and its Python code.
export function section(one, figures, { heading = "", table = null } = {}) {
  const node = el("figure"),
    plain = Boolean(one.figure),
    still = el(
      "div",
      plain ? "" : `pg-still ${document.body.classList.contains("dark") ? "pg-as-dark dark" : "pg-as-light"}`,
    );
  const copy = copied(one.root, figures),
    first = copy.querySelector("h2");
  const title = one.title || first?.textContent;
  if (first && (plain || heading || first.textContent === title)) first.remove();
  if (heading && title && (first || !copy.textContent.includes(title))) node.append(el(heading, "", title));
  if (plain)
    copy.querySelectorAll(".pg-about").forEach((note) => {
      if (!note.textContent) note.remove();
    });
  still.append(copy);
  node.append(still, el("p", "pg-source", one.source));
  if (table) node.append(numbers(table, one.words));
  if (one.python) node.append(folded(one.words.code, el("pre", "", one.python)));
  return node;
}
export async function figure(one) {
  const figures = [],
    title = el("h1", "", one.title),
    table = one.has("lines") || one.has("all") ? await one.numbers() : null,
    shown = section(one, figures, { table });
  await pause();
  return page({ title: one.title, body: [title.outerHTML, shown.outerHTML], figures, css: styles() });
}
