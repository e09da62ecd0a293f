// Target and distractor: the two tokens of the vocabulary whose chances the views watch, by their ids.

import { iconButton } from "../../parts/icons.js";
import { el, fill } from "../dom.js";
import { pageState } from "../state.js";
import { onSelect, select, selection } from "./selection.js";

export const ROLES = ["target", "distractor"];
const texts = new Map(); // what a token is called, by its id in the model that is shown

export const tokenText = (id) => texts.get(id) ?? String(id);
export const watchedText = (role) => tokenText(selection[role]);
export const nameWatched = (id, text) => texts.set(id, text);

// Watch a token, or no longer where it is null. One token cannot be both.
export function watch(role, id, text) {
  if (id !== null) texts.set(id, text);
  const other = ROLES.find((each) => each !== role);
  const taken = id !== null && selection[other] === id ? { [other]: null } : {};
  select({ [role]: id, ...taken });
}

const MARKS = { target: "plus", distractor: "minus" };

// Say of the buttons of a token whether it is the target or the distractor.
function mark(both) {
  const taken = (button) => selection[button.dataset.role] === +both.dataset.watch;
  for (const button of both.children) button.setAttribute("aria-pressed", taken(button));
  both.classList.toggle("pg-watch-taken", [...both.children].some(taken));
}

// Two small buttons that make the token of a row the target or the distractor, and once more to let it go.
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

// A row of next tokens: the buttons stand behind its name, and a click anywhere in it makes its token the target.
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
