// A button that starts work on the server, its bar, and its cancel.
import { el } from "../page/dom.js";
import { define } from "../page/mount.js";
import { pageState } from "../page/state.js";

const PAUSE = 400; // milliseconds

define("job", (root, props, trigger) => {
  let itself = 0; // the start of what is quick enough to begin without a click
  let cancelled = false; // a bar of what is being stopped does not bring its button back
  return (payload) => {
    const { state } = payload;
    clearTimeout(itself);
    if (cancelled && state === "running") return;
    cancelled = false;
    root.dataset.state = state;
    const items = [];
    if (state === "running") {
      const bar = el("progress", "", "", { max: 1, "aria-label": payload.text || payload.cancel });
      if (payload.fraction !== null) bar.value = payload.fraction;
      const cancel = el("button", "pg-button", payload.cancel, { type: "button" });
      cancel.onclick = () => {
        cancelled = cancel.disabled = true;
        trigger("cancel");
      };
      items.push(bar, cancel);
    } else if (state !== "done" || payload.again) {
      const look = state === "done" ? "" : " pg-primary";
      const start = el("button", `pg-button${look}`, state === "done" ? payload.again : payload.start, {
        type: "button",
      });
      start.disabled = state === "unready";
      start.onclick = () => {
        start.disabled = true;
        trigger("start");
      };
      items.push(start);
      // After a pause: settings may be on their way to what is really wanted.
      const begin = () => {
        if (pageState.restoring) itself = setTimeout(begin, PAUSE);
        else if (root.offsetParent && !start.disabled) start.click();
      };
      if (payload.auto) itself = setTimeout(begin, PAUSE);
    }
    items.push(el("span", "pg-job-text", payload.text));
    root.setAttribute("role", state === "failed" ? "alert" : "status");
    root.replaceChildren(...items);
  };
});
