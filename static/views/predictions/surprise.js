// The selected token, and the model's next-token prediction at its position.
import { el } from "../../page/dom.js";
import { define } from "../../page/mount.js";
import { chances, facts, likely } from "../../parts/next_tokens.js";
import { titled } from "../../parts/titled.js";

define("surprisedetail", (root) => {
  const own = el("p", "pg-surprise-own"),
    next = el("p", "pg-surprise-own"),
    details = el("div", "pg-surprise-facts"),
    frame = el("div", "pg-surprise-frame", "", { tabindex: 0 }),
    show = titled(root, own, next, details, frame);
  root.setAttribute("aria-live", "polite");
  return (payload) => {
    const { rows, words, following } = payload;
    own.textContent = payload.own;
    next.textContent = payload.next;
    facts(details, payload.facts);
    chances(frame, {
      rows,
      words,
      label: payload.title,
      marks: following === null ? {} : { [following]: words.is_next },
    });
    show({ ...payload, about: "", file: "next-tokens" }, { note: payload.own, ...likely(rows) });
  };
});
