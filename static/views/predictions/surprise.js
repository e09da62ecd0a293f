// In the text: the prompt coloured by what the model expected, and the token that is looked at.
import { exporting } from "../../export/menu.js";
import { el, fill, rests, roving } from "../../page/dom.js";
import { define } from "../../page/mount.js";
import { adding, onSelect, pickToken, selection } from "../../page/selection/selection.js";
import { isDark, onTheme } from "../../page/theme.js";
import { ink, lookup } from "../../parts/colours.js";
import { chances, facts, likely, piece } from "../../parts/next_tokens.js";

define("surprisetext", (root) => {
  const title = el("h2"),
    details = el("div", "pg-surprise-facts"),
    scale = el("div", "pg-surprise-scale");
  const text = el("div", "pg-reading-text pg-surprise-text", "", { role: "group" }),
    readout = el("p", "pg-surprise-readout", "", { "aria-live": "polite" }),
    foot = el("div");
  root.append(title, details, scale, text, readout, foot);
  let payload = null;

  const colour = () => {
    if (!payload) return;
    const stops = payload.scale.ramps[isDark() ? "dark" : "light"],
      ramp = lookup(stops),
      plain = getComputedStyle(root).getPropertyValue("--pg-text").trim();
    for (const token of text.querySelectorAll("button")) {
      const place = payload.places[+token.dataset.index];
      if (place === null) continue;
      const ground = ramp[Math.round(place * (ramp.length - 1))];
      token.style.cssText = `background-color: rgb(${ground}); color: ${ink(ground, plain)}`;
    }
    const bar = el("i", "pg-surprise-ramp", "", { "aria-hidden": true }),
      ticks = el("span", "pg-surprise-ticks");
    bar.style.background = `linear-gradient(to right, ${stops.join(", ")})`;
    for (const [place, label] of payload.scale.ticks) {
      const tick = el("span", "", label);
      tick.style.left = `${100 * place}%`;
      ticks.append(tick);
    }
    const both = el("span", "pg-surprise-legend");
    both.append(bar, ticks);
    scale.replaceChildren(el("span", "", payload.scale.label), both);
  };
  const paint = () => {
    for (const token of text.querySelectorAll("button")) {
      const on = String(selection.tokens.includes(+token.dataset.index));
      if (token.ariaPressed !== on) token.ariaPressed = on;
    }
  };
  const explain = (at) => {
    const { words, tokens, bits_text, rank, share } = payload,
      n = at - 1;
    readout.textContent =
      at === null
        ? words.told
        : at === 0
          ? fill(words.told_first, { token: tokens[0] })
          : fill(words.hover, {
              token: tokens[at],
              position: at,
              bits: bits_text[n],
              rank: rank[n].toLocaleString("en"),
              share: share[n],
            });
  };
  const over = (event) => {
    const token = event.target.closest?.(".pg-reading-token");
    if (payload && token && !rests(event)) explain(+token.dataset.index);
  };
  const out = () => {
    if (payload) explain(null);
  };
  text.addEventListener("mouseover", over);
  text.addEventListener("focusin", over);
  text.addEventListener("mouseleave", out);
  text.addEventListener("focusout", out);
  text.addEventListener("click", (event) => {
    const token = event.target.closest(".pg-reading-token");
    if (token) pickToken(+token.dataset.index, adding(event));
  });
  roving(text, (key, at, n) => ({ ArrowRight: at + 1, ArrowLeft: at - 1, Home: 0, End: n - 1 })[key] ?? null);
  onTheme(colour);
  onSelect(paint);
  return (next) => {
    const same = payload && JSON.stringify(payload.tokens) === JSON.stringify(next.tokens);
    payload = next;
    const { words, tokens } = payload,
      breaks = new Map(payload.breaks);
    title.textContent = payload.title;
    text.setAttribute("aria-label", words.text_label);
    facts(details, payload.facts);
    if (!same) {
      // else only the colours change, and the focus stays
      text.replaceChildren(
        ...tokens.flatMap((token, at) => {
          const button = el("button", "pg-reading-token", "", {
            type: "button",
            "data-index": at,
            "aria-label": fill(words.token_name, { token, position: at }),
            tabindex: at ? -1 : 0,
          });
          if (!at) button.classList.add("pg-surprise-unscored");
          return [piece(button, token), ...Array.from({ length: breaks.get(at) ?? 0 }, () => el("br"))];
        }),
      );
    }
    colour();
    paint();
    explain(null);
    const { bits, rank, entropy } = payload;
    foot.replaceChildren(
      exporting(root, {
        file: "surprise-in-the-text",
        title: payload.title,
        names: ["position", "token", "bits", "rank", "entropy"],
        lines: tokens.map((token, at) => [
          at,
          token,
          ...(at ? [bits[at - 1], rank[at - 1], entropy[at - 1]] : ["", "", ""]),
        ]),
      }),
    );
    root.dataset.run = payload.run;
  };
});

define("surprisedetail", (root) => {
  const title = el("h2"),
    tokenText = el("p", "pg-surprise-own"),
    next = el("p", "pg-surprise-own"),
    details = el("div", "pg-surprise-facts");
  const frame = el("div", "pg-surprise-frame", "", { tabindex: 0 }),
    foot = el("div");
  root.append(title, tokenText, next, details, frame, foot);
  root.setAttribute("aria-live", "polite");
  return (payload) => {
    const { rows, words, following } = payload;
    title.textContent = payload.title;
    tokenText.textContent = payload.own;
    next.textContent = payload.next;
    facts(details, payload.facts);
    chances(frame, {
      rows,
      words,
      label: payload.title,
      marks: following === null ? {} : { [following]: words.is_next },
    });
    foot.replaceChildren(
      exporting(root, {
        file: "next-tokens",
        source: payload.source,
        title: payload.title,
        note: payload.own,
        ...likely(rows),
      }),
    );
    root.dataset.run = payload.run;
  };
});
