// A note that the page shows another model or prompt than the lesson, with the way back. As long as the model is another
// one, the step is not shown: the numbers in it would be of that model.
import { el, fill } from "../page/dom.js";
import { choose } from "../page/wire/models.js";
import { button } from "./panel.js";

let note = [];

// `back` restores the state of the step. `showAstray` decides what is shown.
export function astrayNote(words, model, back) {
  const of = (kind, text, act, does) => {
    const row = el("div", "pg-learn-astray");
    row.dataset.of = kind;
    row.append(el("span", "", text), button(does, act));
    return row;
  };
  note = [
    of("model", fill(words.other_model, { model }), () => choose(model), fill(words.load_model, { model })),
    of("prompt", words.astray, back, words.bring_back),
  ];
  return note;
}

// kind: "model", "prompt", or "" if the page shows what the lesson is about.
export function showAstray(kind) {
  for (const row of note) row.hidden = row.dataset.of !== kind;
  note[0]?.parentElement?.classList.toggle("pg-learn-waits", kind === "model");
}
