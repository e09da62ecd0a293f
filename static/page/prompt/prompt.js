// The prompt's box: what it holds, and putting a text there as if it had been typed.
import { pageState } from "../state.js";

const box = () => document.querySelector("#prompt textarea, #prompt input");

export const promptText = () => box()?.value; // undefined where there is no box yet

export function setPrompt(text) {
  const place = box();
  if (!place) return;
  Object.getOwnPropertyDescriptor(Object.getPrototypeOf(place), "value").set.call(place, text);
  place.dispatchEvent(new Event("input", { bubbles: true }));
}
// Where one types: the prompt, or the last turn of a user.
export function focusPrompt() {
  const turns = document.querySelectorAll("body.pg-chatting .pg-chat-turn[data-role='user'] textarea");
  ([...turns].at(-1) ?? box())?.focus();
}

// The prompt with a written end: all of its tokens that begin after `before` are marked, with those written just before.
export function writeOn(text, before) {
  const { written } = pageState;
  const from = written && written.prompt === before ? written.from : new TextEncoder().encode(before).length;
  pageState.written = { prompt: text, from };
  setPrompt(text);
}
