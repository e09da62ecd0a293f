// Prompts that show something on the model that is loaded: what each shows, and its text; a click makes it the prompt.
import { el, roving } from "./dom.js";
import { define } from "./mount.js";
import { focusPrompt, setPrompt } from "./prompt.js";

define("examples", (root) => {
  const button = el("button", "pg-button", "", { type: "button", "aria-haspopup": "dialog", "aria-expanded": "false" });
  const list = el("div", "pg-examples-list", "", { popover: "auto", role: "dialog" });
  root.append(button, list);
  const place = () => {
    const { right, bottom } = button.getBoundingClientRect(),
      room = document.documentElement.clientWidth,
      width = Math.min(520, room - 16);
    Object.assign(list.style, {
      width: `${width}px`,
      left: `${Math.max(8, Math.min(right - width, room - width - 8))}px`,
      top: `${bottom + 6}px`,
      maxHeight: `${Math.max(200, innerHeight - bottom - 20)}px`,
    });
  };
  // A press on the button closes an open list by itself, before the click: the click is not to open it again.
  let wasOpen = false;
  button.onpointerdown = () => {
    wasOpen = list.matches(":popover-open");
  };
  button.onclick = () => {
    if (wasOpen) {
      wasOpen = false;
      return list.hidePopover();
    }
    place();
    list.showPopover({ source: button });
    list.querySelector("button")?.focus();
  };
  list.addEventListener("toggle", ({ newState }) => button.setAttribute("aria-expanded", newState === "open"));
  list.addEventListener("keydown", (event) => {
    if (event.key !== "Escape") return;
    event.stopPropagation(); // for the page it means something else
    event.preventDefault();
    list.hidePopover();
    button.focus();
  });
  list.addEventListener("focusout", ({ relatedTarget }) => {
    if (relatedTarget && !list.contains(relatedTarget)) list.hidePopover();
  });
  window.addEventListener("resize", () => {
    if (list.matches(":popover-open")) place();
  });
  roving(list, (key, at, n) => ({ ArrowDown: at + 1, ArrowUp: at - 1, Home: 0, End: n - 1 })[key] ?? null);
  return ({ label, title, items }) => {
    button.textContent = label;
    list.setAttribute("aria-label", title);
    list.replaceChildren(
      el("p", "pg-muted", title),
      ...items.map(({ name, shows, text }, n) => {
        const item = el("button", "pg-example", "", { type: "button", "data-index": n });
        item.tabIndex = n ? -1 : 0;
        item.append(el("strong", "", name), el("span", "", shows), el("code", "", text));
        item.onclick = () => {
          list.hidePopover();
          setPrompt(text);
          focusPrompt();
        };
        return item;
      }),
    );
  };
});
