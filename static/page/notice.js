// What is wrong or under way, below the page's head, with buttons to do something about it.
import { el } from "./dom.js";
import { define } from "./mount.js";
import { focusPrompt, setPrompt } from "./prompt.js";

define("notice", (root, props, trigger) => (payload) => {
  root.hidden = !payload.text;
  root.className = `pg-notice pg-notice-${payload.kind ?? "info"}`;
  root.setAttribute("role", payload.kind === "error" ? "alert" : "status");
  const text = el("div", "pg-notice-text");
  text.append(el("strong", "", payload.text ?? ""), el("span", "", payload.hint ?? ""));
  root.replaceChildren(text);
  if (payload.bar) {
    const bar = el("progress", "", "", { max: 1, "aria-label": payload.text });
    if (payload.fraction !== null) bar.value = payload.fraction;
    root.append(bar);
  }
  const fire = {
    cancel: () => trigger("cancel"),
    retry: () => trigger("retry"),
    cut: (prompt) => {
      setPrompt(prompt);
      focusPrompt();
    },
  };
  for (const { name, text, prompt } of payload.actions ?? []) {
    const button = el("button", "pg-button", text, { type: "button" });
    button.onclick = () => fire[name](prompt);
    root.append(button);
  }
});
