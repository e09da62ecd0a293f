// A reward model: the pairs of this page that it learns from, and a text coloured by the reward at each token.
import { el, fill } from "../../page/dom.js";
import { define } from "../../page/mount.js";
import { isDark, onTheme } from "../../page/theme.js";
import { rampLegend, tint } from "../../parts/tinted.js";
import { titled } from "../../parts/titled.js";
import { listed, onPairs, pairs } from "./pairs.js";

// payload: { words, least, wanted }; the value is { pairs: [[prompt, chosen, rejected, by]] }
define("pairsused", (root, props, ask) => {
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
    ask("select");
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
  const scale = el("div", "pg-surprise-scale"),
    text = el("div", "pg-reading-text pg-reward-text", "", { role: "group" }),
    readout = el("p", "pg-surprise-readout", "", { "aria-live": "polite" }),
    show = titled(root, scale, text, readout);
  let payload = null;
  const colour = () => {
    if (!payload) return;
    const { ramps, places, words, ticks } = payload,
      stops = ramps[isDark() ? "dark" : "light"];
    tint(text.children, places, stops);
    scale.replaceChildren(...rampLegend(words.label, stops, ticks));
  };
  const explain = ({ target }) => {
    const at = target.closest?.("[data-index]")?.dataset.index;
    if (at === undefined) return;
    const { words, tokens, values } = payload;
    readout.textContent = fill(words.token, { token: tokens[at], position: at, reward: values[at] });
  };
  text.addEventListener("mouseover", explain);
  text.addEventListener("focusin", explain);
  onTheme(colour);
  return (next) => {
    payload = next;
    const { words, tokens, values, columns } = payload;
    readout.textContent = words.told;
    text.setAttribute("aria-label", payload.title);
    text.replaceChildren(
      ...tokens.map((token, index) =>
        el("span", "pg-reading-token", token, { "data-index": index, tabindex: 0, title: values[index] }),
      ),
    );
    colour();
    show(payload, { names: columns, lines: tokens.map((token, at) => [at, token, values[at]]) });
  };
});
