// Colors and texts that the viewer's parts share.
import { el, fill } from "../page/dom.js";
import { isDark } from "../page/theme.js";
import { percent } from "../parts/percent.js";

export const ramp = (doc) => doc.ramps[isDark() ? "dark" : "light"];

// Format a number of a head. `words` of the viewer name its unit; without them, the unit is left out.
export function numberText(value, unit = "", words = null) {
  if (value === null || value === undefined || !Number.isFinite(value)) return "–";
  if (unit === "%") return percent(value);
  const text = Math.abs(value) >= 1000 ? value.toFixed(0) : value.toPrecision(3);
  if (!words || !unit) return text;
  return unit === "tokens" ? fill(words.number_tokens, { n: text }) : `${text} ${words[`unit_${unit}`] ?? unit}`;
}

// Build the parts of a legend: a name, and the ramp between two texts.
export function rampBar(doc, name, low, high, stops = ramp(doc)) {
  const bar = el("i", "pg-viewer-ramp", "", { "aria-hidden": "true" });
  bar.style.background = `linear-gradient(to right, ${stops.join(", ")})`;
  return [el("span", "", name), el("b", "", low), bar, el("b", "", high)];
}

export function swatch(color) {
  const mark = el("i", "pg-swatch", "", { "aria-hidden": "true" });
  mark.style.background = color;
  return mark;
}

// Plotly interprets some markup in texts; shorten a label and escape it.
export const short = (text, most) => {
  const signs = [...text];
  return signs.length > most ? `${signs.slice(0, most - 1).join("")}…` : text;
};
export const plotText = (text) => text.replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;");

// Join two sentences; after full-width punctuation, without a space.
export const both = (first, second) => `${first}${/[。！？]$/.test(first) ? "" : " "}${second}`;

// Return a function that reads the custom properties of an element, such as its colors.
export function properties(node) {
  const style = getComputedStyle(node);
  return (name) => style.getPropertyValue(name).trim();
}
