// A row of unobtrusive buttons.
import { el } from "../../page/dom.js";

// The arguments are [text, action] pairs for buttons, and strings for the words between them.
export function tools(items) {
  const row = el("span", "pg-tools");
  for (const item of items) {
    if (typeof item === "string") row.append(el("span", "pg-muted", item));
    else {
      const node = el("button", "pg-button pg-quiet", item[0], { type: "button" });
      node.onclick = item[1];
      row.append(node);
    }
  }
  return row;
}
