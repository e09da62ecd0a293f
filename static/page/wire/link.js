// Following a link: model, prompt, tab and selection come in one answer, so that they fit.
import { go } from "../address/places.js";
import { mounted } from "../mount.js";
import { promptText, setPrompt } from "../prompt/prompt.js";
import { isLoaded, useModel, want } from "./models.js";
import { askOnce } from "./post.js";

let newest = 0; // the number of the last link that was followed

export async function followLink(to) {
  newest = to.n;
  const answer = await askOnce("link", { to });
  if (to.n !== newest) return;
  if (!answer.linked.model && !isLoaded(answer.model)) useModel(answer.model);
  want(answer.wanted);
  if (promptText() !== answer.prompt) setPrompt(answer.prompt);
  mounted.get("nav").props.value = { tab: answer.tab };
  go(answer.tab);
  if (answer.selection) mounted.get("selection").show(answer.selection);
  mounted.get("linked").show(answer.linked);
}
