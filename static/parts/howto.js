// Text-only parts: how to read a view, the purpose of a view, and the question of a tab.
import { el } from "../page/dom.js";
import { define } from "../page/mount.js";

define("howto", (root) => (payload) => {
  const details = el("details");
  details.append(el("summary", "", payload.title));
  const paragraphs = (kinds) => kinds.map((kind) => el("p", `pg-howto-${kind}`, payload.parts[kind])),
    more = el("details", "pg-howto-more");
  more.append(el("summary", "", payload.more), ...paragraphs(["formula", "caveat"]));
  details.append(...paragraphs(["body", "try"]), more);
  details.ontoggle = () => root.classList.toggle("pg-howto-open", details.open);
  root.classList.remove("pg-howto-open"); // collapse a redrawn part
  root.replaceChildren(details);
});

define("about", (root) => (payload) => {
  root.textContent = payload.text;
});
define("question", (root) => (payload) => root.replaceChildren(el("p", "pg-question", payload.text)));
