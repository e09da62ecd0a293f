import { el } from "../page/dom.js";
import { onDrawn } from "../page/mount.js";
import { focusPrompt, promptText, setPrompt } from "../page/prompt/prompt.js";

let good = null,
  back = "";
onDrawn((root, payload) => {
  if (payload) {
    root.dataset.drawn = ""; // before this, the style sheet hides elements without text
    root.closest(".tabitem")?.setAttribute("data-begun", ""); // before this, it marks the tab as empty
  }
  if (root.dataset.part === "tokens") good = payload?.prompt ?? good;
  if (root.dataset.part !== "notice" || payload?.kind !== "error" || !back) return;
  if (payload.actions?.some((action) => action.name === "retry")) return;
  if (good === null || [undefined, good].includes(promptText())) return;
  const button = el("button", "pg-button", back, { type: "button" });
  button.onclick = () => {
    setPrompt(good);
    focusPrompt();
  };
  root.append(button);
});

export const nameBack = (text) => {
  back = text;
};
