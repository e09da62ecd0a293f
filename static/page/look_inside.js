// A written text becomes the prompt: its attention, predictions, norms and effects can then be looked at.
import { el } from "./dom.js";
import { setPrompt } from "./prompt.js";
import { pageState } from "./state.js";

const bytes = (text) => new TextEncoder().encode(text).length;

// A button that makes `text` the prompt. The first of its tokens that begins after `before` is marked as written.
export function lookInside(text, before) {
  const { inside, inside_help } = pageState.words ?? {};
  const button = el("button", "pg-button pg-look-inside", inside, { type: "button", title: inside_help });
  button.onclick = () => {
    pageState.written = text.startsWith(before) ? { prompt: text, from: bytes(before) } : null;
    setPrompt(text);
    document.getElementById("pg-tokens")?.scrollIntoView({ block: "nearest" });
    document.querySelector("#pg-tokens .pg-chip[tabindex='0']")?.focus({ preventScroll: true });
  };
  return button;
}

// Where among its tokens the written part of a prompt begins, or -1.
export function writtenFrom({ prompt, tokens }) {
  if (!pageState.written || pageState.written.prompt !== prompt) return -1;
  let seen = 0;
  return tokens.findIndex((token) => {
    const begins = seen;
    seen += token.bytes.split(" ").filter(Boolean).length;
    return begins >= pageState.written.from;
  });
}
