// Opening of a link: the model, prompt, tab and selection arrive in a single answer, so that they are consistent.
import { go } from "../address/places.js";
import { mounted } from "../mount.js";
import { promptText, setPrompt } from "../prompt/prompt.js";
import { choices, isLoaded, useModel, want } from "./models.js";
import { postOnce } from "./post.js";

const LOOK = 20; // milliseconds between checks that the prompt box is there, which may come after the answer
async function boxed() {
  while (promptText() === undefined) await new Promise((done) => setTimeout(done, LOOK));
}

// Apply a link's state if `isNewest()` still holds. Resolves to the message about a missing model, { model, text, hint,
// load, close }, which is empty if the model is available.
export async function followLink(to, isNewest) {
  const answer = await postOnce("link", { to });
  await boxed();
  if (!isNewest()) return {};
  if (answer.models.length) choices(answer.models);
  if (!answer.linked.model && !isLoaded(answer.model)) useModel(answer.model);
  want(answer.wanted);
  if (promptText() !== answer.prompt) setPrompt(answer.prompt);
  mounted.get("nav").props.value = { tab: answer.tab };
  go(answer.tab);
  if (answer.selection) mounted.get("selection").show(answer.selection);
  return answer.linked;
}
