// A visible list of heads keeps its order when the run is edited, until it is ranked again.
import { el } from "../dom.js";
import { pageState } from "../state.js";
import { onEdits } from "./selection.js";

const promptRun = () => document.querySelector('[data-part="tokens"]')?.dataset.run; // independent of edits

// Return { node, of }: `node` is the line with the button, to be placed above the list `list`; of(latest, asked) returns
// the ranking to show: the latest, or the earlier one that answers the same question `asked`. `again()` redraws the list.
export function ranking(list, again) {
  const node = el("p", "pg-ranked-before", "", { role: "status" }),
    said = el("span"),
    button = el("button", "pg-button pg-quiet", "", { type: "button" });
  node.append(said, button);
  node.hidden = true;
  let kept = null, // the ranking that is shown, and its question
    question = "",
    holds = false;
  onEdits(() => {
    holds ||= kept !== null && list.clientWidth > 0;
  });
  button.onclick = () => {
    holds = false;
    again();
  };
  return {
    node,
    of(latest, asked) {
      const now = `${promptRun()} ${asked}`;
      holds &&= now === question;
      if (!holds) [kept, question] = [latest, now];
      node.hidden = !holds || JSON.stringify(kept) === JSON.stringify(latest);
      said.textContent = pageState.words?.ranked_before ?? "";
      button.textContent = pageState.words?.rank_again ?? "";
      return kept;
    },
  };
}
