// Elements shared by the views of training runs: the run's buttons, errors, and the actions on a finished run.
//
// run: { id, state, over, model_id, download, adapter, before { model, prompt } }; words: include those of training.lab
import { enter, state } from "../page/address/address.js";
import { el } from "../page/dom.js";

export function button(text, act, { enabled = true, primary = false } = {}) {
  const node = el("button", `pg-button${primary ? " pg-primary" : ""}`, text, { type: "button" });
  node.disabled = !enabled;
  node.onclick = act;
  return node;
}

export const clock = (seconds) => {
  const whole = Math.max(0, Math.round(seconds));
  return `${Math.floor(whole / 60)}:${String(whole % 60).padStart(2, "0")}`;
};

// Build the Start, Pause/Resume and Stop buttons. Returns paint(words, going, busy): `going` is the current run, if
// any; `busy` is true after a request. Buttons are replaced only if they change, since replacing one loses the focus and a
// click in progress. `start()` starts a run; `send(event, { run })` notifies the server.
export function runButtons(node, start, send) {
  let painted = null;
  return (words, going, busy = false) => {
    const looks = `${words.start} ${going?.id} ${going?.state} ${busy}`;
    if (looks === painted) return;
    painted = looks;
    const ask = (event) => () => send(event, { run: going.id });
    node.replaceChildren(
      button(words.start, start, { enabled: !going && !busy, primary: true }),
      going?.state === "paused"
        ? button(words.resume, ask("resume"))
        : button(words.pause, ask("pause"), { enabled: going?.state === "running" }),
      button(words.stop, ask("stop"), { enabled: Boolean(going) && going.state !== "starting" }),
    );
  };
}

export function problemLine({ text, hint }) {
  const alert = el("p", "pg-train-error", "", { role: "alert" });
  alert.append(el("strong", "", text), ` ${hint ?? ""}`);
  return alert;
}

// Compare the trained model with the base model in the Compare tab.
function compare({ model_id, before }) {
  const now = state(),
    { chat, ...values } = now.values;
  const chosen = { compare_view: { view: "runs" }, run_b: { with: "model", model: before.model } };
  enter({ heads: now.heads, model: model_id, prompt: before.prompt, tab: "compare", values: { ...values, ...chosen } });
}

// Build the actions on the model of a finished run; null if it has no model.
export function offers(words, run, open) {
  if (!run.over || !run.model_id) return null;
  const row = el("div", "pg-buttons");
  if (run.before) row.append(button(words.compare, () => compare(run)));
  row.append(button(words.open, open), el("a", "pg-button", words.download, { href: run.download, download: "" }));
  if (run.adapter) row.append(el("a", "pg-button", words.adapter, { href: run.adapter, download: "" }));
  row.append(el("span", "pg-muted", words.picker_note));
  return row;
}
