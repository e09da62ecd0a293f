// What the page is set to and what it shows, as the server reads it (viz/page/wire/question.py).
import { mounted } from "../mount.js";
import { promptText } from "../prompt/prompt.js";
import { visit } from "./visit.js";

// What it shows, as the last answer named it; the last job that ended; the id of the model that it computes with.
export const page = { shown: {}, done: "", model: null };
const apart = new Set(["wire", "nav", "selection", "chat"]); // parts whose values have a field of their own, or none
export const leaveOut = (names) => names.forEach((name) => apart.add(name));

// Gradio puts its components onto the page one after the other: whether all that a question names is there.
export const isWhole = () => promptText() !== undefined && mounted.has("address");

const held = (name) => mounted.get(name)?.props.value;
export function question() {
  const values = {};
  for (const [name, { props }] of mounted)
    if (!apart.has(name) && props.value !== undefined) values[name] = props.value;
  return {
    visit,
    prompt: promptText(),
    chat: held("chat"),
    selection: held("selection"),
    tab: held("nav")?.tab,
    values,
    ...page,
  };
}
