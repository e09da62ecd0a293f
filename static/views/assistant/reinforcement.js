// Reinforcement: the buttons of a run, where it stands, and the pictures that the server draws of it.
//
// payload of "reinforcement": { words }
// payload of the channel "practice": { run, state, over, name, done, steps, line [texts], model_id, download,
//   error { text, hint }, parts [{ name, kind, payload }] }: the run as it is now; without parts where none changed
import { el, fill } from "../../page/dom.js";
import { define, mountPart } from "../../page/mount.js";
import { listed } from "./pairs.js";

const lab = { run: null, error: null, send: () => {}, told: () => {} };

define("practice", (root, props, trigger) => {
  lab.send = (event) => {
    props.value = { run: lab.run?.run ?? "", pairs: event === "start" ? listed() : [] };
    trigger(event, { index: 0, value: event });
  };
  return (piece) => {
    if (!piece) return;
    lab.error = piece.error ?? null;
    if (piece.run) lab.run = piece;
    lab.told();
  };
});

define("reinforcement", (root) => {
  let words = null,
    painted = "",
    asked = false; // started, and not heard of yet
  const buttons = el("div", "pg-buttons"),
    status = el("div", "pg-train-status", "", { "aria-live": "polite" }),
    pictures = el("div", "pg-practice-parts");
  const parts = new Map(); // by name, what mountPart returns
  root.append(buttons, status, pictures);

  const button = (name, enabled, act, primary = false) => {
    const node = el("button", `pg-button${primary ? " pg-primary" : ""}`, words[name], { type: "button" });
    node.disabled = !enabled;
    node.onclick = act;
    return node;
  };
  // Painted anew only where they change: a button that is replaced loses the focus.
  const paintButtons = () => {
    const going = lab.run && !lab.run.over ? lab.run : null,
      looks = `${going?.run} ${going?.state} ${asked}`;
    if (looks === painted) return;
    painted = looks;
    const send = (event) => () => lab.send(event);
    const begin = () => {
      asked = true;
      lab.error = null;
      lab.send("start");
      paint();
    };
    buttons.replaceChildren(
      button("start", !going && !asked, begin, true),
      going?.state === "paused"
        ? button("resume", true, send("resume"))
        : button("pause", going?.state === "running", send("pause")),
      button("stop", Boolean(going) && going.state !== "starting", send("stop")),
    );
  };
  const paintStatus = () => {
    const { run } = lab;
    status.replaceChildren();
    if (lab.error) {
      const alert = el("p", "pg-train-error", "", { role: "alert" });
      alert.append(el("strong", "", lab.error.text), ` ${lab.error.hint ?? ""}`);
      status.append(alert);
    }
    if (!run) {
      status.append(el("p", "pg-empty", asked ? words.state_starting : words.empty));
      return;
    }
    const bar = el("progress", "", "", { max: run.steps, "aria-label": words.progress });
    if (run.state !== "starting") bar.value = run.done;
    const line = el("p", "pg-train-line");
    line.append(
      el("strong", "", fill(words[`state_${run.state}`], { name: run.name })),
      el("span", "", run.name),
      ...run.line.map((text) => el("span", "", text)),
    );
    status.append(bar, line);
    if (!run.over || !run.model_id) return;
    const row = el("div", "pg-buttons");
    row.append(
      button("open", true, () => lab.send("open")),
      el("a", "pg-button", words.download, { href: run.download, download: "" }),
      el("span", "pg-muted", words.picker_note),
    );
    status.append(row);
  };
  const paintParts = (shown) => {
    for (const { name, kind, payload } of shown) {
      if (!parts.has(name)) {
        const block = el("div", `pg-block pg-practice-${name}`),
          place = el("div", `pg-${kind}`, "", { "data-part": `reinforcement_${name}` });
        block.append(place);
        parts.set(name, { block, entry: null });
        ordered(shown);
        parts.get(name).entry = mountPart(kind, place, { value: null }, () => {});
      }
      parts.get(name).entry.show(payload);
    }
    const names = new Set(shown.map(({ name }) => name));
    for (const [name, { block }] of parts) block.hidden = !names.has(name);
  };
  // The blocks in the order of the payload, whenever one came.
  const ordered = (shown) => {
    pictures.append(...shown.filter(({ name }) => parts.has(name)).map(({ name }) => parts.get(name).block));
  };
  const paint = () => {
    if (!words) return;
    paintStatus();
    paintButtons();
  };
  lab.told = () => {
    asked = false;
    paint();
    if (lab.run?.parts) paintParts(lab.run.parts);
  };
  return (payload) => {
    words = payload.words;
    painted = "";
    paint();
  };
});
