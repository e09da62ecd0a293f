// The line that names the model and the prompt of the displayed numbers.
import { el } from "../dom.js";
import { define } from "../mount.js";
import { select } from "../selection/selection.js";
import { pageState } from "../state.js";

define("header", (root) => {
  const status = el("p", "pg-status", "", { "aria-live": "polite" });
  root.append(status);
  return (payload) => {
    status.replaceChildren(...payload.status.map((part) => el("span", "", part)));
    status.title = payload.status.join(" · ");
    pageState.slow = payload.slow;
    const changed = String(pageState.tokenEdits) !== String(payload.token_edits);
    pageState.tokenEdits = payload.token_edits;
    if (changed) select({}); // the strip of the selection shows their buttons
  };
});
