// One quiet line below the prompt: what the model does not do with a prompt of a known kind, the measured reason, and a
// button that opens the prompt on a model that does.
//
// Also a part of views that show another model than the page's.
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
    const said = Boolean(payload.reason);
    if (root.closest("[data-screen]"))
      root.hidden = !said; // a part of a view
    else showBlock(root, said);
    if (!said) return root.replaceChildren();
    const { kind, reason, able, open } = payload;
    root.replaceChildren(...(kind ? [el("strong", "", kind)] : []), el("span", "", reason));
    if (!open) return;
    const way = el("button", "pg-button", open, { type: "button" });
    way.onclick = () => openIt(payload);
    root.append(...(able ? [el("span", "", able)] : []), way);
  };
});
