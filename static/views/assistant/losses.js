// The tokens of one example: gray if excluded from the loss, otherwise colored by their loss.
//
// of { tokens, breaks, prompt, losses, most, ramps }: losses in nats, null for the first token; the first `prompt` tokens
// belong to the prompt. words: masked, scored, first.
import { el, fill } from "../../page/dom.js";
import { define } from "../../page/mount.js";
import { isDark, onTheme } from "../../page/theme.js";
import { ink, lookup } from "../../parts/colors.js";
import { titled } from "../../parts/titled.js";

const nats = (value) => (value === null ? "–" : value.toFixed(2));

export function paintLosses(node, { tokens, breaks, prompt, losses, most, ramps }, words) {
  const ramp = lookup(ramps[isDark() ? "dark" : "light"]);
  const text = getComputedStyle(node).getPropertyValue("--pg-text").trim();
  const ends = new Set(breaks);
  node.replaceChildren(
    ...tokens.flatMap((token, at) => {
      const scored = at >= prompt;
      const piece = el("span", scored ? "pg-loss-scored" : "pg-loss-masked", token);
      piece.title = fill(words[at === 0 ? "first" : scored ? "scored" : "masked"], { token, loss: nats(losses[at]) });
      if (scored && losses[at] !== null) {
        const ground = ramp[Math.round(Math.min(losses[at] / most, 1) * (ramp.length - 1))];
        piece.style.backgroundColor = `rgb(${ground})`;
        piece.style.color = ink(ground, text);
        piece.append(el("small", "", nats(losses[at])));
      }
      return ends.has(at) ? [piece, el("br")] : [piece];
    }),
  );
}

define("maskedloss", (root) => {
  const mean = el("p", "pg-loss-mean"),
    text = el("div", "pg-loss-text", "", { role: "group", tabindex: 0 }),
    show = titled(root, mean, text);
  let payload = null;
  onTheme(() => payload && paintLosses(text, payload, payload.words));
  return (next) => {
    payload = next;
    const { words, tokens, losses, prompt } = next;
    text.setAttribute("aria-label", next.title);
    mean.textContent = fill(words.mean, { loss: next.mean, scored: tokens.length - prompt, n: tokens.length });
    paintLosses(text, next, words);
    show(next, {
      names: [words.token, words.is_scored, words.loss],
      lines: tokens.map((token, at) => [token, at >= prompt ? 1 : 0, losses[at] ?? ""]),
    });
  };
});
