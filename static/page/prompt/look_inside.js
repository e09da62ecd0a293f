// Buttons that make a generated text the prompt, or the last turn of a conversation, so that its attention,
// predictions, norms and edits can be inspected.
import { talk } from "../chat/chat.js";
import { el } from "../dom.js";
import { pageState } from "../state.js";
import { setPrompt } from "./prompt.js";

const bytes = (text) => new TextEncoder().encode(text).length;

// Build a button that makes `text` the prompt, with tokens that start after `before` marked as generated. With `turns`,
// the text becomes the assistant's next turn.
export function lookInside(text, before, turns = null) {
  const { inside, inside_help, inside_turn } = pageState.words ?? {};
  const title = turns ? inside_turn : inside_help;
  const button = el("button", "pg-button pg-look-inside", inside, { type: "button", title });
  button.onclick = () => {
    if (turns) {
      const said = [...turns, ["assistant", text]];
      pageState.written = { turns: said };
      talk().open(said);
    } else {
      pageState.written = text.startsWith(before) ? { prompt: text, from: bytes(before) } : null;
      talk()?.close();
      setPrompt(text);
    }
    document.getElementById("pg-tokens")?.scrollIntoView({ block: "nearest" });
    document.querySelector("#pg-tokens .pg-chip[tabindex='0']")?.focus({ preventScroll: true });
  };
  return button;
}

// Return the range [from, to) of generated tokens, or null.
export function writtenSpan({ prompt, tokens }) {
  const { written } = pageState;
  if (!written) return null;
  const talks = tokens[0]?.turn !== undefined;
  if (talks !== Boolean(written.turns)) return null;
  return talks ? ofTurn(tokens, written.turns) : prompt === written.prompt ? behind(tokens, written.from) : null;
}
// Return the tokens of the last turn if the conversation is unchanged.
function ofTurn(tokens, turns) {
  const last = turns.length - 1;
  if (JSON.stringify(talk()?.value().turns) !== JSON.stringify(turns)) return null;
  const from = tokens.findIndex(({ turn }) => turn === last);
  return from < 0 ? null : [from, tokens.findLastIndex(({ turn }) => turn === last) + 1];
}
function behind(tokens, bytesBefore) {
  let seen = 0;
  const from = tokens.findIndex((token) => {
    const begins = seen;
    seen += token.bytes.split(" ").filter(Boolean).length;
    return begins >= bytesBefore;
  });
  return from > 0 ? [from, tokens.length] : null;
}
