// Target and distractor: the two vocabulary tokens whose probabilities the views track, by id.

import { iconButton } from "../../parts/icons.js";
import { el, fill } from "../dom.js";
import { pageState } from "../state.js";
import { onSelect, select, selection } from "./selection.js";

export const ROLES = ["target", "distractor"];
const texts = new Map(); // token id -> its string, for the current model

export const tokenText = (id) => texts.get(id) ?? String(id);
export const watchedText = (role) => tokenText(selection[role]);
export const nameWatched = (id, text) => texts.set(id, text);

// Track a token as target or distractor; null clears it. One token cannot be both.
export function watch(role, id, text) {
  if (id !== null) texts.set(id, text);
  const other = ROLES.find((each) => each !== role);
  const taken = id !== null && selection[other] === id ? { [other]: null } : {};
  select({ [role]: id, ...taken });
}

const MARKS = { target: "plus", distractor: "minus" };

// Mark a token's buttons according to whether it is the target or the distractor.
function mark(both) {
  const taken = (button) => selection[button.dataset.role] === +both.dataset.watch;
  for (const button of both.children) button.setAttribute("aria-pressed", taken(button));
  both.classList.toggle("pg-watch-taken", [...both.children].some(taken));
}

// Build two small buttons that set a row's token as target or distractor; a second press clears it.
export function watchButtons(id, text) {
  const both = el("span", "pg-watch", "", { "data-watch": id });
  const words = pageState.words ?? {};
  for (const role of ROLES) {
    const name = fill(words[`make_${role}`] ?? role, { text });
    const act = (event) => {
      event.stopPropagation();
      watch(role, selection[role] === id ? null : id, text);
    };
    both.append(iconButton(MARKS[role], name, act, { look: "pg-watch-button", title: name, "data-role": role }));
  }
  mark(both);
  return both;
}

// Extend a row of next tokens: the buttons follow the name, and a click anywhere in the row makes its token the target.
export function watchRow(line, name, id, text) {
  name.append(watchButtons(id, text));
  line.classList.add("pg-watch-row");
  line.addEventListener("click", (event) => {
    if (event.target.closest("button, a") || !getSelection().isCollapsed) return;
    watch("target", selection.target === id ? null : id, text);
  });
}

onSelect(() => {
  for (const both of document.querySelectorAll("[data-watch]")) mark(both);
});
