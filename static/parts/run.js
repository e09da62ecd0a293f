// What the views of runs have in common: the buttons of a run, what went wrong, and what a finished run offers.
//
// run: { id, state, over, model_id, download, adapter, before { model, prompt } }; words: those of training.lab at least.
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

// Start, pause or resume, stop. Returns paint(words, going, busy): `going` is the run under way, if any; `busy`, that
// one was asked for. Painted anew only where they change: a button that is replaced loses the focus, and a click that
// is under way. `start()` begins a run, `send(event, { run })` tells the server.
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

// Its model beside the one that it began from, in the Compare tab.
function compare({ model_id, before }) {
  const now = state(),
    { chat, ...values } = now.values;
  const chosen = { compare_view: { view: "runs" }, run_b: { with: "model", model: before.model } };
  enter({ heads: now.heads, model: model_id, prompt: before.prompt, tab: "compare", values: { ...values, ...chosen } });
}

// What can be done with the model of a run that has ended; null where there is none.
export function offers(words, run, open) {
  if (!run.over || !run.model_id) return null;
  const row = el("div", "pg-buttons");
  if (run.before) row.append(button(words.compare, () => compare(run)));
  row.append(button(words.open, open), el("a", "pg-button", words.download, { href: run.download, download: "" }));
  if (run.adapter) row.append(el("a", "pg-button", words.adapter, { href: run.adapter, download: "" }));
  row.append(el("span", "pg-muted", words.picker_note));
  return row;
}
