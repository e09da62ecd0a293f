// One quiet line below the prompt: what the model does not do with a prompt of a known kind, the measured reason, and a
// button that opens the prompt on a model that does.
//
// payload: {} or { kind, reason, able, open, model, chat, prompt }; `model`: "" for the model on the page.
import { talk } from "../chat/chat.js";
import { el, showBlock } from "../dom.js";
import { define } from "../mount.js";
import { choose } from "../wire/models.js";

async function openIt({ model, chat, prompt }) {
  if (model && !(await choose(model))) return;
  if (chat)
    talk().open([
      ["user", prompt],
      ["assistant", ""],
    ]);
}

define("shortfall", (root) => {
  root.setAttribute("role", "status");
  return (payload) => {
    showBlock(root, Boolean(payload.reason));
    if (!payload.reason) return root.replaceChildren();
    root.replaceChildren(el("strong", "", payload.kind), el("span", "", payload.reason));
    if (!payload.open) return;
    const way = el("button", "pg-button", payload.open, { type: "button" });
    way.onclick = () => openIt(payload);
    root.append(el("span", "", payload.able), way);
  };
});
