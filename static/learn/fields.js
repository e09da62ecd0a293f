// Input of an answer: a field for a number, a token or a head, or choices. Every answer is a string.
import { el } from "../page/dom.js";
import { selection } from "../page/selection/selection.js";

// Build a sentence of a lesson from [[kind, text]].
export function sentence(tag, className, pieces, more = {}) {
  const node = el(tag, className, "", more);
  const tags = { code: "code", strong: "strong", value: "b" };
  for (const [kind, text] of pieces) node.append(tags[kind] ? el(tags[kind], `pg-learn-${kind}`, text) : text);
  return node;
}
export const plainOf = (pieces) => pieces.map(([, text]) => text).join("");

let count = 0;

// What is typed or chosen in the open question, and back again: the numbers of its text may arrive meanwhile.
export const answered = () => {
  const form = document.querySelector(".pg-learn-form");
  return form?.querySelector("input:checked")?.value ?? form?.querySelector(".pg-learn-input")?.value ?? "";
};
export function refill(value) {
  for (const input of document.querySelectorAll(".pg-learn-form input"))
    if (input.type === "radio") input.checked = input.value === value;
    else input.value = value;
}

// Build the form of a question: given(text) is called with the typed or selected answer.
export function question({ text, kind, choices, percent }, words, { send, pass }, given) {
  count += 1;
  const name = `pg-learn-${count}`,
    form = el("form", "pg-learn-form"),
    row = el("div", "pg-learn-row");
  const submit = el("button", "pg-button pg-primary", send, { type: "submit" });
  let value;
  if (kind === "choice") {
    const set = el("fieldset", "pg-learn-choices");
    set.append(sentence("legend", "", text));
    for (const [key, label] of choices) {
      const line = el("label", "pg-learn-choice"),
        radio = el("input", "", "", { type: "radio", name, value: key });
      line.append(radio, el("span", "", label));
      set.append(line);
    }
    value = () => set.querySelector("input:checked")?.value ?? "";
    form.append(set);
  } else {
    const input = el("input", "pg-learn-input", "", {
      type: "text",
      id: name,
      autocomplete: "off",
      spellcheck: "false",
      inputmode: kind === "number" ? "decimal" : "text",
      placeholder: words[`placeholder_${kind}`],
    });
    form.append(sentence("label", "pg-learn-question", text, { for: name }));
    row.append(input);
    if (percent) row.append(el("span", "pg-muted", "%"));
    if (kind === "head") {
      const take = el("button", "pg-button", words.take_head, { type: "button" });
      take.onclick = () => {
        input.value = selection.heads.at(-1)?.join(".") ?? "";
        input.focus();
      };
      row.append(take);
    }
    value = () => input.value.trim();
  }
  row.append(submit);
  if (pass) {
    const none = el("button", "pg-button pg-quiet", pass, { type: "button" });
    none.onclick = () => given("");
    row.append(none);
  }
  form.append(row);
  form.onsubmit = (event) => {
    event.preventDefault();
    const answer = value();
    if (answer) given(answer);
    else form.querySelector("input")?.focus();
  };
  return form;
}
export const labelOf = ({ kind, choices }, given) =>
  kind === "choice" ? (choices.find(([key]) => key === given)?.[1] ?? given) : given;
