// In the text: the prompt coloured by what the model expected, and the token that is looked at.
import { alongRow, el, fill, rests, roving } from "../../page/dom.js";
import { define } from "../../page/mount.js";
import { adding, onSelect, pickToken, selection } from "../../page/selection/selection.js";
import { isDark, onTheme } from "../../page/theme.js";
import { chances, facts, likely, piece } from "../../parts/next_tokens.js";
import { rampLegend, tint } from "../../parts/tinted.js";
import { titled } from "../../parts/titled.js";

// What is said of a token, or of none.
function readoutOf({ words, tokens, bits_text: bits, rank, share }, at) {
  if (at === null) return words.told;
  if (at === 0) return fill(words.told_first, { token: tokens[0] });
  const n = at - 1,
    numbers = { bits: bits[n], rank: rank[n].toLocaleString("en"), share: share[n] };
  return fill(words.hover, { token: tokens[at], position: at, ...numbers });
}
function textTokens({ words, tokens, breaks }) {
  const ends = new Map(breaks);
  return tokens.flatMap((token, at) => {
    const button = el("button", `pg-reading-token${at ? "" : " pg-surprise-unscored"}`, "", {
      type: "button",
      "data-index": at,
      "aria-label": fill(words.token_name, { token, position: at }),
      tabindex: at ? -1 : 0,
    });
    return [piece(button, token), ...Array.from({ length: ends.get(at) ?? 0 }, () => el("br"))];
  });
}

define("surprisetext", (root) => {
  const details = el("div", "pg-surprise-facts"),
    scale = el("div", "pg-surprise-scale"),
    text = el("div", "pg-reading-text pg-surprise-text", "", { role: "group" }),
    readout = el("p", "pg-surprise-readout", "", { "aria-live": "polite" }),
    show = titled(root, details, scale, text, readout);
  let payload = null;
  const buttons = () => text.querySelectorAll("button");
  const colour = () => {
    if (!payload) return;
    const { ramps, label, ticks } = payload.scale,
      stops = ramps[isDark() ? "dark" : "light"];
    tint(buttons(), payload.places, stops);
    scale.replaceChildren(...rampLegend(label, stops, ticks));
  };
  const paint = () => {
    for (const token of buttons()) {
      const on = String(selection.tokens.includes(+token.dataset.index));
      if (token.ariaPressed !== on) token.ariaPressed = on;
    }
  };
  const explain = (at) => {
    if (payload) readout.textContent = readoutOf(payload, at);
  };
  const over = (event) => {
    const token = event.target.closest?.(".pg-reading-token");
    if (token && !rests(event)) explain(+token.dataset.index);
  };
  const out = () => explain(null);
  text.addEventListener("mouseover", over);
  text.addEventListener("focusin", over);
  text.addEventListener("mouseleave", out);
  text.addEventListener("focusout", out);
  text.addEventListener("click", (event) => {
    const token = event.target.closest(".pg-reading-token");
    if (token) pickToken(+token.dataset.index, adding(event));
  });
  roving(text, alongRow);
  onTheme(colour);
  onSelect(paint);
  return (next) => {
    const same = payload && JSON.stringify(payload.tokens) === JSON.stringify(next.tokens);
    payload = next;
    const { words, tokens, bits, rank, entropy } = payload;
    text.setAttribute("aria-label", words.text_label);
    facts(details, payload.facts);
    if (!same) text.replaceChildren(...textTokens(payload)); // else only the colours change, and the focus stays
    colour();
    paint();
    explain(null);
    const numbers = (at) => (at ? [bits[at - 1], rank[at - 1], entropy[at - 1]] : ["", "", ""]);
    show(payload, {
      file: "surprise-in-the-text",
      source: "",
      names: ["position", "token", "bits", "rank", "entropy"],
      lines: tokens.map((token, at) => [at, token, ...numbers(at)]),
    });
  };
});

define("surprisedetail", (root) => {
  const own = el("p", "pg-surprise-own"),
    next = el("p", "pg-surprise-own"),
    details = el("div", "pg-surprise-facts"),
    frame = el("div", "pg-surprise-frame", "", { tabindex: 0 }),
    show = titled(root, own, next, details, frame);
  root.setAttribute("aria-live", "polite");
  return (payload) => {
    const { rows, words, following } = payload;
    own.textContent = payload.own;
    next.textContent = payload.next;
    facts(details, payload.facts);
    chances(frame, {
      rows,
      words,
      label: payload.title,
      marks: following === null ? {} : { [following]: words.is_next },
    });
    show({ ...payload, about: "", file: "next-tokens" }, { note: payload.own, ...likely(rows) });
  };
});
