// Tokens colored by a ramp, with the ramp and its ticks as a legend.
import { el } from "../../page/dom.js";
import { ink, lookup } from "../colors.js";

// Color tokens by their positions on the ramp, from 0 to 1, indexed by `data-index`; null leaves a token uncolored.
export function tint(tokens, places, stops) {
  const ramp = lookup(stops);
  let plain = "";
  for (const token of tokens) {
    const place = places[+token.dataset.index];
    if (place === null) continue;
    plain ||= getComputedStyle(token.parentNode).getPropertyValue("--pg-text").trim();
    const ground = ramp[Math.round(place * (ramp.length - 1))];
    token.style.cssText = `background-color: rgb(${ground}); color: ${ink(ground, plain)}`;
  }
}

// `ticks`: [[position on the ramp, text]]
export function rampLegend(label, stops, ticks) {
  const bar = el("i", "pg-surprise-ramp", "", { "aria-hidden": true }),
    marks = el("span", "pg-surprise-ticks"),
    both = el("span", "pg-surprise-legend");
  bar.style.background = `linear-gradient(to right, ${stops.join(", ")})`;
  for (const [place, text] of ticks) {
    const tick = el("span", "", text);
    tick.style.left = `${100 * place}%`;
    marks.append(tick);
  }
  both.append(bar, marks);
  return [el("span", "", label), both];
}
