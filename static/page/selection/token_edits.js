// Edits of the selected tokens, by one click: hidden from the others, and their embedding replaced by the mean.
import { el } from "../dom.js";
import { select, selection } from "./selection.js";

const MOST_EDITS = 64;

// Write positions as an edit does: [5, 0, 1] becomes "0-1,5".
export function positionsText(positions) {
  const spans = [];
  for (const at of [...new Set(positions)].sort((a, b) => a - b)) {
    const last = spans.at(-1);
    if (last && last[1] === at - 1) last[1] = at;
    else spans.push([at, at]);
  }
  return spans.map(([low, high]) => (low === high ? `${low}` : `${low}-${high}`)).join(",");
}

// Build a button for each kind that fits the model. A second click takes the edit back.
export function tokenButtons(words, fits) {
  const positions = positionsText(selection.tokens);
  const each = (kind, name) => {
    const there = selection.edits.find((edit) => edit.kind === kind && edit.positions === positions),
      others = selection.edits.filter((edit) => edit !== there),
      button = el("button", "pg-button pg-quiet", words[there ? `${name}_back` : name], { type: "button" });
    button.dataset.edits = kind;
    button.title = words[`${name}_help`];
    button.disabled = !there && others.length >= MOST_EDITS;
    button.onclick = () => {
      // The token itself sees no change: the line of edits shows that of the last one, so nothing stays selected.
      select({ edits: there ? others : [...others, { kind, positions }], tokens: [] });
      document.querySelector('[data-part="edited"] button')?.focus();
    };
    return button;
  };
  return [
    ["hide_token", "hide"],
    ["embed_mean", "embed"],
  ]
    .filter(([kind]) => selection.tokens.length && fits.includes(kind))
    .map(([kind, name]) => each(kind, name));
}
