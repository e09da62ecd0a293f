// The token row of a conversation: tokens written by the template are marked, and each token names the turn it is in.
import { onDrawn } from "../mount.js";

let shown = null;
// Describe the turn of a token; "" in a plain prompt.
export function turnOf(payload, at) {
  const turn = payload?.tokens[at]?.turn;
  if (turn === undefined || !payload.words.turns) return "";
  return turn < 0 ? payload.words.written : (payload.words.turns[turn] ?? "");
}

function explain({ target }) {
  const at = target.closest?.(".pg-chip")?.dataset.index,
    hint = document.querySelector("#pg-tokens .pg-hint");
  const text = at === undefined ? "" : turnOf(shown, +at);
  if (text && hint) hint.textContent += ` · ${text}`;
}
const heard = new WeakSet();
onDrawn((root, payload) => {
  if (root.dataset.part !== "tokens" || !payload) return;
  shown = payload;
  const chips = [...root.querySelectorAll(".pg-chip[data-index]")];
  let last = null;
  for (const chip of chips) {
    const { turn, part } = payload.tokens[+chip.dataset.index] ?? {};
    chip.classList.toggle("pg-chip-template", turn === -1);
    chip.classList.toggle("pg-chip-turn", turn >= 0 && turn !== last);
    if (turn !== undefined) chip.title = [turnOf(payload, +chip.dataset.index), part].filter(Boolean).join(" · ");
    last = turn;
  }
  const strip = root.querySelector(".pg-chips");
  if (!strip || heard.has(strip)) return;
  heard.add(strip); // registered after the row's own listeners, which write the hint
  strip.addEventListener("mouseover", explain);
  strip.addEventListener("focusin", explain);
});
