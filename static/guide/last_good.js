import { el } from "../page/dom.js";
import { onDrawn } from "../page/mount.js";

let good = null,
  back = "";
onDrawn((root, payload) => {
  if (payload) root.dataset.drawn = ""; // until then guide.css hides what has no words yet
  if (root.dataset.part === "tokens") good = payload?.prompt ?? good;
  if (root.dataset.part !== "notice" || payload?.kind !== "error" || payload.actions?.length || !back) return;
  const box = document.querySelector("#prompt textarea");
  if (good === null || !box || box.value === good) return;
  const button = el("button", "pg-button", back, { type: "button" });
  button.onclick = () => {
    Object.getOwnPropertyDescriptor(HTMLTextAreaElement.prototype, "value").set.call(box, good);
    box.dispatchEvent(new Event("input", { bubbles: true }));
    box.focus();
  };
  root.append(button);
});

export const nameBack = (text) => {
  back = text;
};
