// The preference pairs of this page. They exist only on the page unless they are saved to a file.
import { feed } from "../../parts/feed.js";

export const pairs = []; // { prompt, chosen, rejected, by: "person" | "rule" }
const listeners = new Set();
export const onPairs = (listener) => listeners.add(listener);
const tell = () => listeners.forEach((listener) => listener());

export function add(more) {
  pairs.push(...more);
  tell();
}
export function remove(at) {
  pairs.splice(at, 1);
  tell();
}
export function clear() {
  pairs.length = 0;
  tell();
}
export function edit(at, change) {
  Object.assign(pairs[at], change);
  tell();
}
export const listed = () => pairs.map(({ prompt, chosen, rejected, by }) => [prompt, chosen, rejected, by]);

export const asLines = () =>
  pairs.map(({ prompt, chosen, rejected, by }) => `${JSON.stringify({ prompt, chosen, rejected, by })}\n`).join("");

// Parse pairs in the JSON Lines format; throws the number of the first invalid line.
export function fromLines(text, longest) {
  const found = [];
  text.split("\n").forEach((line, at) => {
    if (!line.trim()) return;
    let value = null;
    try {
      value = JSON.parse(line);
    } catch {
      // invalid JSON is treated like an invalid pair
    }
    const { prompt, chosen, rejected, by = "person" } = value ?? {};
    const texts = [prompt, chosen, rejected].every((each) => typeof each === "string" && each.length <= longest);
    if (!texts || !prompt || chosen === rejected || !["person", "rule"].includes(by)) throw at + 1;
    found.push({ prompt, chosen, rejected, by });
  });
  return found;
}

// The channel to the server, with only one pending question at a time, so that no answer replaces another.
export const desk = { send: feed("preferences_writer", (answer) => desk.take(answer)), take: () => {} };
