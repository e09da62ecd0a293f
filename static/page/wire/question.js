// The page's settings and content in the form that the server reads (viz/page/wire/question.py).
import { mounted } from "../mount.js";
import { promptText } from "../prompt/prompt.js";
import { visit } from "./visit.js";

// The state sent with a question: the content named by the last answer, the last finished job, and the model's id.
export const page = { shown: {}, done: "", model: null };
const apart = new Set(["wire", "nav", "selection", "chat"]); // parts whose values have a separate field or are not sent
export const leaveOut = (names) => names.forEach((name) => apart.add(name));

// Return whether all components that a question names are mounted: Gradio adds them one by one.
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
