// Errors and the progress of work, shown below the page's header with buttons for possible actions.
import { el, showBlock } from "../dom.js";
import { define } from "../mount.js";
import { focusPrompt, setPrompt } from "../prompt/prompt.js";

function advance({ title, hint, bar }, payload) {
  title.textContent = payload.text ?? "";
  hint.textContent = payload.hint ?? "";
  bar.setAttribute("aria-label", payload.text);
  if (payload.fraction === null) bar.removeAttribute("value");
  else bar.value = payload.fraction;
}

define("notice", (root, props, ask) => {
  let shown = null; // the current notice, updated in place so that a button under the pointer is not replaced
  return (payload) => {
    const frame = JSON.stringify([payload.kind, payload.actions]);
    if (payload.bar && shown?.frame === frame) advance(shown, payload);
    else shown = build(root, ask, payload, frame);
  };
});

function build(root, ask, payload, frame) {
  showBlock(root, Boolean(payload.text));
  root.className = `pg-notice pg-notice-${payload.kind ?? "info"}`;
  root.setAttribute("role", payload.kind === "error" ? "alert" : "status");
  const text = el("div", "pg-notice-text");
  const [title, hint] = [el("strong", "", payload.text ?? ""), el("span", "", payload.hint ?? "")];
  text.append(title, hint);
  root.replaceChildren(text);
  const bar = payload.bar ? el("progress", "", "", { max: 1 }) : null;
  if (bar) {
    advance({ title, hint, bar }, payload);
    root.append(bar);
  }
  const fire = {
    cancel: () => ask("cancel"),
    retry: () => ask("retry"),
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
  return bar && { frame, title, hint, bar };
}
