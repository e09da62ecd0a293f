// What the page is set to and what it shows, as the server reads it (viz/page/wire/question.py).
import { mounted } from "../mount.js";
import { promptText } from "../prompt/prompt.js";
import { visit } from "./visit.js";

const WITHOUT = new Set(["wire", "loaded", "nav", "address", "selection", "chat"]); // each has a field of its own
export const page = { shown: {}, done: "" }; // what it shows, as the last answer named it; the last job that ended

const held = (name) => mounted.get(name)?.props.value;
export async function question() {
  const name = await visit,
    values = {};
  for (const [part, { props }] of mounted)
    if (!WITHOUT.has(part) && props.value !== undefined) values[part] = props.value;
  return {
    visit: name,
    model: held("loaded")?.id,
    prompt: promptText(),
    chat: held("chat"),
    selection: held("selection"),
    tab: held("nav")?.tab,
    step: held("address")?.n,
    values,
    ...page,
  };
}
