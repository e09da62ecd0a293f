// Reinforcement learning: the buttons of a run, its progress, and the figures that the server draws.
//
// payload of "reinforcement": { words, stored: the message of the stored run, with its note }
// payload of the channel "practice": { run, state, over, name, done, steps, line [texts], facts, model_id, download,
//   from_report, reports, from_snapshot, snapshots, error { text, hint }, parts [{ name, kind, payload }] }: the
//  current state of the run, without parts if none changed. After a missed message, the complete run is requested.
import { el, fill } from "../../page/dom.js";
import { define, mountPart } from "../../page/mount.js";
import { noteRun } from "../../page/state.js";
import { keepPage, returned } from "../../page/wire/visit.js";
import { feed } from "../../parts/feed.js";
import { offers, problemLine, runButtons } from "../../parts/run.js";
import { glance } from "./glance.js";
import { fold } from "./more.js";
import { listed } from "./pairs.js";
import { joined } from "./pieces.js";

const lab = { run: null, error: null, send: null, told: () => {} };

lab.send = feed("reinforcement_practice", (piece) => {
  lab.error = piece.error ?? null;
  const run = piece.run ? joined(lab.run, piece) : lab.run;
  if (piece.run && !run) {
    lab.send("again", { run: piece.run, reports: 0, snapshots: 0 });
    return;
  }
  lab.run = run;
  if (run) noteRun("reinforcement_form", run);
  lab.told();
});
if (returned) lab.send("return");
keepPage(() => Boolean(lab.run && (!lab.run.over || lab.run.reports)));

define("reinforcement", (root) => {
  let words = null,
    asked = false; // true if a start was requested but not answered yet
  const buttons = el("div", "pg-buttons"),
    status = el("div", "pg-train-status", "", { "aria-live": "polite" }),
    pictures = el("div", "pg-practice-parts"),
    first = glance();
  const parts = new Map(); // name -> result of mountPart
  let stored = null, // the stored run, shown until a run is started
    more = null;

  const begin = () => {
    asked = true;
    lab.error = null;
    lab.send("start", { pairs: listed() });
    paint();
  };
  const paintButtons = runButtons(buttons, begin, (event, value) => lab.send(event, value));
  const paintStatus = () => {
    const { run } = lab;
    status.replaceChildren();
    if (lab.error) status.append(problemLine(lab.error));
    if (!run) {
      const note = stored && !asked ? stored.note : null;
      status.append(
        el("p", note ? "pg-stored-note" : "pg-empty", note ?? (asked ? words.state_starting : words.empty)),
      );
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
    if (run.facts) status.append(el("p", "pg-about", run.facts));
    const row = offers(words, run, () => lab.send("open", { run: run.id }));
    if (row) status.append(row);
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
  // Arrange the blocks in the same order as in the payload.
  const ordered = (shown) => {
    pictures.append(...shown.filter(({ name }) => parts.has(name)).map(({ name }) => parts.get(name).block));
  };
  const paint = () => {
    if (!words) return;
    paintStatus();
    first.draw((lab.run ?? stored)?.glance);
    paintButtons(words, lab.run && !lab.run.over ? lab.run : null, asked);
  };
  lab.told = () => {
    asked = false;
    paint();
    if (lab.run?.parts) paintParts(lab.run.parts);
    if (more) more.hidden = Boolean(lab.run) && !lab.run.parts && lab.run.reports === 0;
  };
  return (payload) => {
    words = payload.words;
    stored = payload.stored ?? stored;
    more = fold(words.more, pictures);
    root.replaceChildren(buttons, status, first.node, more);
    paint();
    paintParts(lab.run?.parts ?? stored?.parts ?? []);
  };
});
