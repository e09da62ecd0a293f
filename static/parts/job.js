// A button that starts a job on the server, with a progress bar and a Cancel button.
import { el } from "../page/dom.js";
import { define } from "../page/mount.js";
import { pageState } from "../page/state.js";

const CELL = 10; // size in pixels of a cell of the numbers so far
const PAUSE = 400; // milliseconds to wait for more changes of the settings

// Draw the numbers so far as a map of small cells, in one color below 0 and another above.
function drawGrid(canvas, grid, [below, above]) {
  const top = Math.max(...grid.flat().map(Math.abs)) || 1,
    rows = grid.length,
    columns = grid[0].length,
    pen = canvas.getContext("2d");
  Object.assign(canvas, { width: columns * CELL, height: rows * CELL, hidden: false });
  for (const [y, row] of grid.entries())
    for (const [x, value] of row.entries()) {
      pen.globalAlpha = Math.sqrt(Math.abs(value) / top);
      pen.fillStyle = value < 0 ? below : above;
      pen.fillRect(x * CELL, y * CELL, CELL - 1, CELL - 1);
    }
}

function advance({ bar, cancel, text, canvas }, payload) {
  if (payload.grid) drawGrid(canvas, payload.grid, payload.colors);
  bar.setAttribute("aria-label", payload.text || payload.cancel);
  if (payload.fraction === null) bar.removeAttribute("value");
  else bar.value = payload.fraction;
  cancel.textContent = payload.cancel;
  text.textContent = payload.text;
}

define("job", (root, props, ask) => {
  let itself = 0; // timer of a job that is short enough to start without a click
  let cancelled = false; // true while a job is being stopped: its progress bar must not restore the Cancel button
  let shown = null; // the current bar, updated in place so that a button under the pointer is not replaced
  return (payload) => {
    const { state } = payload;
    clearTimeout(itself);
    if (cancelled && state === "running") return;
    cancelled = false;
    root.dataset.state = state;
    if (state === "running" && shown) {
      advance(shown, payload);
      return;
    }
    shown = null;
    const items = [];
    if (state === "running") {
      const bar = el("progress", "", "", { max: 1 });
      const cancel = el("button", "pg-button", payload.cancel, { type: "button" });
      cancel.onclick = () => {
        cancelled = cancel.disabled = true;
        ask("cancel");
      };
      const canvas = el("canvas", "pg-job-grid", "", { "aria-hidden": "true" });
      canvas.hidden = true;
      items.push(bar, cancel);
      shown = { bar, cancel, canvas };
    } else if (state !== "done" || payload.again) {
      const look = state === "done" ? "" : " pg-primary";
      const start = el("button", `pg-button${look}`, state === "done" ? payload.again : payload.start, {
        type: "button",
      });
      start.disabled = state === "unready";
      start.onclick = () => {
        start.disabled = true;
        ask("start");
      };
      items.push(start);
      // Wait briefly: more changes of the settings may follow.
      const begin = () => {
        if (pageState.restoring) itself = setTimeout(begin, PAUSE);
        else if (root.offsetParent && !start.disabled) start.click();
      };
      if (payload.auto) itself = setTimeout(begin, PAUSE);
    }
    const text = el("span", "pg-job-text", payload.text);
    items.push(text);
    root.setAttribute("role", state === "failed" ? "alert" : "status");
    if (shown) {
      items.push(shown.canvas);
      advance(Object.assign(shown, { text }), payload);
    }
    root.replaceChildren(...items);
  };
});
