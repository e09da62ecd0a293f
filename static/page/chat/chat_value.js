// A conversation as a value: { on, turns: [[role, text]], special, open }; open: the last turn is an unfinished answer.
// This module
// validates values from links, files and the page. It does not depend on the page.
export const ROLES = ["system", "user", "assistant"];
const MOST_TURNS = 64,
  MOST_TEXT = 200000; // maximum number of characters of a turn

const isTurn = (turn) =>
  Array.isArray(turn) && turn.length === 2 && ROLES.includes(turn[0]) && typeof turn[1] === "string";
// Return the valid fields of a value; if a turn is invalid, all turns are dropped.
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

// Return the fields that belong to the page's state; null for an unchanged conversation.
export function chatState(value) {
  const checked = checkedChat(value);
  return checked.on || checked.special || checked.turns.length ? checked : null;
}

const ownAt = (turns) => {
  const at = turns.findLastIndex(([role]) => role === "user");
  return at < 0 ? turns.length - 1 : at;
};
// Return the text for the prompt box when the conversation is closed: the last user message.
export const ownText = (turns) => turns[ownAt(turns)]?.[1] ?? "";
export const withOwn = (turns, text) => turns.map((turn, at) => (at === ownAt(turns) ? [turn[0], text] : turn));

// Return the initial turns: the template's own system message, the prompt, and an empty answer for the model.
export const firstTurns = (system, prompt) => [
  ...(system ? [["system", system]] : []),
  ["user", prompt],
  ["assistant", ""],
];
export const isOpen = (turns, at) => at === turns.length - 1 && turns[at][0] === "assistant" && turns[at][1] === "";
// Return whether the last turn is a non-empty assistant turn, which the model can continue.
export const isBegun = (turns) => turns.at(-1)?.[0] === "assistant" && turns.at(-1)[1] !== "";
export const nextRole = (turns) => (turns.at(-1)?.[0] === "user" ? "assistant" : "user");
