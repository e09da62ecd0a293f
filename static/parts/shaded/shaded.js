// A text whose tokens are colored by a number, with a description of the token under the pointer.
//
// payload of "shaded": { title, about or note, facts, tokens, breaks, places, scale { label, ramps, ticks }, values, picks, words,
//   names, lines, file, source, python, run }
//   places: on the ramp, from 0 to 1; null for a token without a number
//  values: { name: texts, one per token } for words.hover; picks: true if a click selects a token of the prompt
//  words: told (shown while no token is pointed at), hover, told_first (for a token without a number), text_label, token_name
import { alongRow, el, fill, pointed, rests, roving } from "../../page/dom.js";
import { define } from "../../page/mount.js";
import { adding, onSelect, pickToken, selection } from "../../page/selection/selection.js";
import { isDark, onTheme } from "../../page/theme.js";
import { facts, piece } from "../next_tokens.js";
import { titled } from "../titled.js";
import { rampLegend, tint } from "./tinted.js";

// Format the description of a token, or the hint if no token is given.
function saidOf({ words, tokens, places, values }, at) {
  if (at === null) return words.told;
  const numbers = Object.entries(values).map(([name, texts]) => [name, texts[at]]);
  return fill(places[at] === null ? words.told_first : words.hover, {
    token: tokens[at],
    position: at,
    ...Object.fromEntries(numbers),
  });
}
function textTokens(payload) {
  const { words, tokens, breaks = [], places, picks } = payload,
    ends = new Map(breaks);
  return tokens.flatMap((token, at) => {
    const look = `pg-reading-token${places[at] === null ? " pg-surprise-unscored" : ""}`,
      node = el(picks ? "button" : "span", look, "", { "data-index": at, tabindex: at && picks ? -1 : 0 });
    if (picks) node.ariaLabel = fill(words.token_name, { token, position: at });
    else node.title = saidOf(payload, at);
    return [piece(node, token), ...Array.from({ length: ends.get(at) ?? 0 }, () => el("br"))];
  });
}

define("shaded", (root) => {
  const details = el("div", "pg-surprise-facts"),
    scale = el("div", "pg-surprise-scale"),
    text = el("div", "pg-reading-text pg-surprise-text", "", { role: "group" }),
    readout = el("p", "pg-surprise-readout", "", { "aria-live": "polite" });
  let payload = null,
    show = null; // created when first drawn, so that the part takes no space while it waits for its numbers
  const tokens = () => text.querySelectorAll("[data-index]");
  const color = () => {
    if (!payload) return;
    const { ramps, label, ticks } = payload.scale,
      stops = ramps[isDark() ? "dark" : "light"];
    tint(tokens(), payload.places, stops);
    scale.replaceChildren(...rampLegend(label, stops, ticks));
  };
  const paint = () => {
    if (!payload?.picks) return;
    for (const token of tokens()) {
      const on = String(selection.tokens.includes(+token.dataset.index));
      if (token.ariaPressed !== on) token.ariaPressed = on;
    }
  };
  const explain = (at) => {
    if (payload) readout.textContent = saidOf(payload, at);
  };
  const over = (event) => {
    const token = event.target.closest?.("[data-index]");
    if (token && !rests(event)) explain(+token.dataset.index);
  };
  const out = () => explain(null);
  pointed(text, over, out);
  text.addEventListener("click", (event) => {
    const token = event.target.closest("button");
    if (token) pickToken(+token.dataset.index, adding(event));
  });
  roving(text, alongRow);
  onTheme(color);
  onSelect(paint);
  return (next) => {
    show ??= titled(root, details, scale, text, readout);
    const same = payload && JSON.stringify(payload.tokens) === JSON.stringify(next.tokens);
    payload = next;
    text.setAttribute("aria-label", payload.words.text_label ?? payload.title);
    facts(details, payload.facts ?? []);
    if (!same) text.replaceChildren(...textTokens(payload)); // otherwise only the colors change, and the focus stays
    color();
    paint();
    explain(null);
    show(payload, { names: payload.names, lines: payload.lines });
  };
});
