// Access to the prompt box: reading its text, and setting it as if it had been typed.
import { pageState } from "../state.js";

const box = () => document.querySelector("#prompt textarea, #prompt input");

export const promptText = () => box()?.value; // undefined before the box exists

export function setPrompt(text) {
  const place = box();
  if (!place) return;
  Object.getOwnPropertyDescriptor(Object.getPrototypeOf(place), "value").set.call(place, text);
  place.dispatchEvent(new Event("input", { bubbles: true }));
}
// Focus the text input: the prompt box, or the last user turn.
export function focusPrompt() {
  const turns = document.querySelectorAll("body.pg-chatting .pg-chat-turn[data-role='user'] textarea");
  ([...turns].at(-1) ?? box())?.focus();
}

// Set the prompt with a generated ending: all tokens that start after `before` are marked as generated.
export function writeOn(text, before) {
  const { written } = pageState;
  const from = written && written.prompt === before ? written.from : new TextEncoder().encode(before).length;
  pageState.written = { prompt: text, from };
  setPrompt(text);
}
