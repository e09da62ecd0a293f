// A conversation as a value: { on, turns: [[role, text]], special, open }; open: the last turn is an answer that was begun.
// What a link, a file or the page says is checked
// here for its form. Nothing here knows the page.
export const ROLES = ["system", "user", "assistant"];
const MOST_TURNS = 64,
  MOST_TEXT = 200000; // characters

const isTurn = (turn) =>
  Array.isArray(turn) && turn.length === 2 && ROLES.includes(turn[0]) && typeof turn[1] === "string";
// The value without what is not of its form; turns of which one is none are none at all.
export function checkedChat(sent) {
  const turns = Array.isArray(sent?.turns) ? sent.turns : [];
  const fits =
    turns.length <= MOST_TURNS &&
    turns.every(isTurn) &&
    turns.reduce((sum, [, text]) => sum + text.length, 0) <= MOST_TEXT;
  const kept = fits ? turns.map(([role, text]) => [role, text]) : [];
  const open = sent?.open === true && isBegun(kept);
  return { on: sent?.on === true && kept.length > 0, turns: kept, special: sent?.special === true, open };
}

// The part of it that belongs to the state of the page; null for an untouched one.
export function chatState(value) {
  const checked = checkedChat(value);
  return checked.on || checked.special || checked.turns.length ? checked : null;
}

const ownAt = (turns) => {
  const at = turns.findLastIndex(([role]) => role === "user");
  return at < 0 ? turns.length - 1 : at;
};
// The text that stands in the prompt's box where there is no conversation: the last one of a user.
export const ownText = (turns) => turns[ownAt(turns)]?.[1] ?? "";
export const withOwn = (turns, text) => turns.map((turn, at) => (at === ownAt(turns) ? [turn[0], text] : turn));

// The first turns: the template's own system message, the prompt, and where the model is to answer.
export const firstTurns = (system, prompt) => [
  ...(system ? [["system", system]] : []),
  ["user", prompt],
  ["assistant", ""],
];
export const isOpen = (turns, at) => at === turns.length - 1 && turns[at][0] === "assistant" && turns[at][1] === "";
// Whether the last turn is the assistant's and has text: the model may go on with it.
export const isBegun = (turns) => turns.at(-1)?.[0] === "assistant" && turns.at(-1)[1] !== "";
export const nextRole = (turns) => (turns.at(-1)?.[0] === "user" ? "assistant" : "user");
