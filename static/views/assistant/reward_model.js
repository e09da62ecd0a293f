// A reward model: the pairs of this page that it learns from, and a text coloured by the reward at each token.
import { exporting } from "../../export/menu.js";
import { el, fill } from "../../page/dom.js";
import { define } from "../../page/mount.js";
import { isDark, onTheme } from "../../page/theme.js";
import { ink, lookup } from "../../parts/colours.js";
import { listed, onPairs, pairs } from "./pairs.js";

// payload: { words, least, wanted }; the value is { pairs: [[prompt, chosen, rejected, by]] }
define("pairsused", (root, props, trigger) => {
  let payload = null;
  const text = el("p", "pg-about");
  root.append(text);
  const paint = () => {
    if (!payload) return;
    root.hidden = !payload.wanted;
    text.textContent = fill(payload.words[pairs.length ? "some" : "none"], { n: pairs.length });
  };
  // The server gets them only where they are learned from.
  const hold = () => {
    const value = { pairs: payload?.wanted ? listed() : [] };
    if (JSON.stringify(value) === JSON.stringify(props.value ?? { pairs: [] })) return;
    props.value = value;
    trigger("select", { index: 0, value: "pairs" });
  };
  onPairs(() => {
    if (!payload) return;
    paint();
    hold();
  });
  return (next) => {
    payload = next;
    paint();
    hold();
  };
});

// payload: { title, note, words { token, told, label }, tokens, values, places, ramps, ticks, columns, python, file, source, run }
define("rewardtext", (root) => {
  let payload = null;
  const title = el("h2"),
    note = el("p", "pg-about"),
    scale = el("div", "pg-surprise-scale"),
    text = el("div", "pg-reading-text pg-reward-text", "", { role: "group" }),
    readout = el("p", "pg-surprise-readout", "", { "aria-live": "polite" }),
    foot = el("div");
  root.append(title, note, scale, text, readout, foot);
  const colour = () => {
    if (!payload) return;
    const stops = payload.ramps[isDark() ? "dark" : "light"],
      ramp = lookup(stops),
      plain = getComputedStyle(root).getPropertyValue("--pg-text").trim();
    for (const token of text.querySelectorAll("[data-index]")) {
      const ground = ramp[Math.round(payload.places[+token.dataset.index] * (ramp.length - 1))];
      token.style.cssText = `background-color: rgb(${ground}); color: ${ink(ground, plain)}`;
    }
    const bar = el("i", "pg-surprise-ramp", "", { "aria-hidden": true }),
      ticks = el("span", "pg-surprise-ticks"),
      both = el("span", "pg-surprise-legend");
    bar.style.background = `linear-gradient(to right, ${stops.join(", ")})`;
    for (const [place, label] of payload.ticks) {
      const tick = el("span", "", label);
      tick.style.left = `${100 * place}%`;
      ticks.append(tick);
    }
    both.append(bar, ticks);
    scale.replaceChildren(el("span", "", payload.words.label), both);
  };
  const explain = ({ target }) => {
    const token = target.closest?.("[data-index]");
    if (!token) return;
    const at = +token.dataset.index;
    readout.textContent = fill(payload.words.token, {
      token: payload.tokens[at],
      position: at,
      reward: payload.values[at],
    });
  };
  text.addEventListener("mouseover", explain);
  text.addEventListener("focusin", explain);
  onTheme(colour);
  return (next) => {
    payload = next;
    const { words, tokens, values, columns, file, source, python, title: named, note: noted } = payload;
    title.textContent = named;
    note.textContent = noted;
    readout.textContent = words.told;
    text.setAttribute("aria-label", named);
    text.replaceChildren(
      ...tokens.map((token, index) =>
        el("span", "pg-reading-token", token, { "data-index": index, tabindex: 0, title: values[index] }),
      ),
    );
    colour();
    foot.replaceChildren(
      exporting(root, {
        file,
        source,
        python,
        title: named,
        note: noted,
        names: columns,
        lines: tokens.map((token, at) => [at, token, values[at]]),
      }),
    );
    root.dataset.run = payload.run;
  };
});
