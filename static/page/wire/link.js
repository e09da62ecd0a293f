// Following a link: model, prompt, tab and selection come in one answer, so that they fit.
import { go } from "../address/places.js";
import { mounted } from "../mount.js";
import { promptText, setPrompt } from "../prompt/prompt.js";
import { isLoaded, useModel, want } from "./models.js";
import { postOnce } from "./post.js";

// Put a link's state into its place, if `isNewest()` still holds then. Resolves to what is said of a model that is not
// here: { model, text, hint, load, close }, empty where it is.
export async function followLink(to, isNewest) {
  const answer = await postOnce("link", { to });
  if (!isNewest()) return {};
  if (!answer.linked.model && !isLoaded(answer.model)) useModel(answer.model);
  want(answer.wanted);
  if (promptText() !== answer.prompt) setPrompt(answer.prompt);
  mounted.get("nav").props.value = { tab: answer.tab };
  go(answer.tab);
  if (answer.selection) mounted.get("selection").show(answer.selection);
  return answer.linked;
}
