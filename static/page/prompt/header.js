// The line that names the model and the prompt of the displayed numbers.
import { el } from "../dom.js";
import { define } from "../mount.js";
import { pageState } from "../state.js";

define("header", (root) => {
  const status = el("p", "pg-status", "", { "aria-live": "polite" });
  root.append(status);
  return (payload) => {
    status.replaceChildren(...payload.status.map((part) => el("span", "", part)));
    status.title = payload.status.join(" · ");
    pageState.slow = payload.slow;
  };
});
