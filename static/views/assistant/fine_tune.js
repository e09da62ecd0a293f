// Fine-tuning: the controls and the curves of a run, and the losses of one example and the answers at every saved step.
import { el, fill } from "../../page/dom.js";
import { define } from "../../page/mount.js";
import { isDark, onTheme } from "../../page/theme.js";
import { keepPage, returned } from "../../page/wire/visit.js";
import { feed } from "../../parts/feed.js";
import { clock, offers, problemLine, runButtons } from "../../parts/run.js";
import { tableOf } from "../../parts/table.js";
import { chart, HUES, line, smooth, thin } from "../training/training_charts.js";
import { glance } from "./glance.js";
import { paintLosses } from "./losses.js";
import { fold } from "./more.js";

const runs = new Map(); // id -> run, with all data received from the server
let told = () => {},
  problem = null,
  current = null,
  stored = null; // the stored run, shown until a run is started

keepPage(() => [...runs.values()].some(({ over, reports }) => !over || reports.length));
const shownRun = () => runs.get(current) ?? stored;

// Store the pieces in order; if any were missed, request them.
function take(piece) {
  problem = piece.error ?? null;
  if (piece.run) {
    const run = runs.get(piece.run) ?? { id: piece.run, reports: [], snapshots: [] };
    if (piece.from_report > run.reports.length || piece.from_snapshot > run.snapshots.length) {
      send("again", { run: run.id, reports: run.reports.length, snapshots: run.snapshots.length });
      return;
    }
    run.reports.push(...piece.reports.slice(run.reports.length - piece.from_report));
    run.snapshots.push(...piece.snapshots.slice(run.snapshots.length - piece.from_snapshot));
    const { reports, snapshots, ...rest } = piece;
    if (!runs.has(run.id)) current = run.id;
    Object.assign(run, rest);
    runs.set(run.id, run);
  }
  told();
}

const send = feed("fine_tune_tuning", take);
if (returned) send("return");

function curves(words) {
  const loss = chart(words, words.loss_title, words.loss_about, "fine-tuning-loss");
  const bits = chart(words, words.bits_title, words.bits_about, "forgetting");
  const node = el("div", "pg-tune-curves");
  node.append(loss.node, bits.node);
  const draw = (run) => {
    const hues = HUES[isDark() ? "dark" : "light"],
      points = (key) => run.snapshots.filter((each) => each[key] !== null).map((each) => [each.step, each[key]]),
      raw = run.reports.map(([step, value]) => [step, value]),
      dots = { mode: "lines+markers", marker: { size: 5 } };
    loss.draw(
      [
        line(thin(raw), words.raw, hues[0], {
          line: { width: 0.7 },
          trace: { opacity: 0.35, showlegend: false, hoverinfo: "skip", hovertemplate: null },
        }),
        line(thin(smooth(raw, Math.min(0.9, 1 - 10 / (raw.length + 10)))), words.train, hues[0]),
        line(points("loss"), words.held_out, hues[1], { line: { dash: "dot" }, trace: dots }),
      ],
      { of: run.label, y: words.axis_loss, range: { rangemode: "tozero" } },
    );
    bits.draw([line(points("bits"), words.bits_curve, hues[2], { trace: dots })], {
      of: run.label,
      y: words.axis_bits,
      range: {},
      legend: false,
    });
  };
  return { node, draw };
}

// Build the losses of the example and the answers, before training and at the step of the slider.
function moments(words, ramps) {
  const node = el("div", "pg-tune-moments"),
    row = el("div", "pg-replay-controls"),
    slider = el("input", "", "", { type: "range", min: 0, max: 0, step: 1, "aria-label": words.saved_step }),
    now = el("output", "pg-train-line"),
    text = el("div", "pg-loss-text", "", { role: "group", tabindex: 0, "aria-label": words.example_title }),
    way = el("select", "", "", { "aria-label": words.way }),
    grid = el("div", "pg-lab-scroll", "", { tabindex: 0, role: "group", "aria-label": words.answers_title });
  for (const [at, name] of ["greedy", "drawn"].entries()) way.append(el("option", "", words[name], { value: at }));
  row.append(slider, now);
  const head = el("div", "pg-tune-head");
  head.append(el("h3", "", words.answers_title), way);
  node.append(
    row,
    el("h3", "", words.example_title),
    el("p", "pg-about", words.example_about),
    text,
    head,
    el("p", "pg-about", words.answers_about),
    grid,
  );
  let shown = null,
    at = null; // index of the shown step; null follows the newest
  const draw = (run) => {
    if (run) {
      if (run.id !== shown?.id) at = null;
      shown = run;
    }
    if (!shown?.snapshots.length) return;
    const last = shown.snapshots.length - 1,
      place = Math.min(at ?? last, last),
      snapshot = shown.snapshots[place];
    slider.max = last;
    slider.value = place;
    now.replaceChildren(
      ...[
        fill(words.step_of, { step: snapshot.step }),
        fill(words.loss_held, { loss: snapshot.loss?.toFixed(3) ?? "–" }),
        fill(words.accuracy, { accuracy: (100 * (snapshot.accuracy ?? 0)).toFixed(0) }),
        fill(words.bits, { bits: snapshot.bits?.toFixed(3) ?? "–" }),
      ].map((each) => el("span", "", each)),
    );
    if (shown.example) {
      const { tokens, breaks, prompt } = shown.example;
      paintLosses(text, { tokens, breaks, prompt, losses: snapshot.losses, most: 6, ramps }, words);
    }
    const before = shown.snapshots[0],
      after = shown.snapshots.slice(0, place + 1).findLast(({ answers }) => answers.length) ?? before;
    const line = ([prompt, wanted], n) => {
      const [first, written] = [before, after].map(({ answers }) => answers[n]?.[+way.value] ?? "");
      return [
        prompt,
        { text: first || words.nothing, look: "pg-soft" },
        { text: written || words.nothing, look: written === wanted ? "pg-right" : written ? "" : "pg-soft" },
        { text: wanted, look: "pg-soft" },
      ];
    };
    const columns = [words.prompt, words.before, fill(words.after, { step: after.step }), words.wanted];
    grid.replaceChildren(
      tableOf({ look: "pg-lab-table pg-tune-answers", columns, rows: (shown.questions ?? []).map(line) }),
    );
  };
  slider.oninput = () => {
    at = +slider.value === +slider.max ? null : +slider.value;
    draw();
  };
  way.onchange = () => draw();
  onTheme(() => draw());
  return { node, draw };
}

define("tuning", (root) => {
  const buttons = el("div", "pg-buttons"),
    status = el("div", "pg-train-status", "", { "aria-live": "polite" }),
    body = el("div", "pg-tune-body"),
    first = glance();
  let more = null,
    words = null,
    parts = [];
  const active = () => [...runs.values()].find((run) => !run.over);
  const paintButtons = runButtons(
    buttons,
    () => send("start", {}),
    (event, value) => send(event, value),
  );
  const progress = (run) => {
    const done = run.reports.at(-1)?.[0] ?? 0,
      told = [fill(words.step, { step: done, steps: run.steps })];
    if (run.reports.length) told.push(fill(words.loss_now, { loss: run.reports.at(-1)[1].toFixed(3) }));
    if (run.state === "running" && done) told.push(fill(words.left, { time: clock((run.steps - done) * run.pace) }));
    return told;
  };
  const paintStatus = () => {
    const run = runs.get(current);
    status.replaceChildren();
    if (problem) status.append(problemLine(problem));
    if (!run) {
      status.append(el("p", stored ? "pg-stored-note" : "pg-empty", stored?.note ?? words.empty));
      return;
    }
    if (runs.size > 1) {
      const pick = el("select", "", "", { "aria-label": words.field_shown });
      for (const each of [...runs.values()].reverse()) pick.append(el("option", "", each.label, { value: each.id }));
      pick.value = current;
      pick.onchange = () => {
        current = pick.value;
        paint();
      };
      status.append(pick);
    }
    const bar = el("progress", "", "", { max: run.steps, "aria-label": words.progress }),
      text = el("p", "pg-train-line");
    if (run.state !== "starting") bar.value = run.reports.at(-1)?.[0] ?? 0;
    text.append(
      el("strong", "", words[`state_${run.state}`]),
      ...[run.label, ...progress(run)].map((each) => el("span", "", each)),
    );
    status.append(bar, text);
    if (run.facts) status.append(el("p", "pg-about", run.facts));
    const row = offers(words, run, () => send("open", { run: run.id }));
    if (row) status.append(row);
  };
  const paint = () => {
    if (!words) return;
    if (!status.contains(document.activeElement) || !document.activeElement.matches("select")) paintStatus();
    paintButtons(words, active());
    const run = shownRun();
    first.draw(run?.glance);
    more.hidden = !run?.snapshots.length;
    if (!more.hidden) parts.forEach((part) => part.draw(run));
  };
  let due = null;
  told = () => {
    if (due !== null) return;
    due = setTimeout(() => {
      due = null;
      paint();
    });
  };
  onTheme(paint);
  return (next) => {
    words = next.words;
    stored = next.stored ? { ...next.stored, id: next.stored.run } : stored;
    more = fold(words.more, body);
    root.replaceChildren(buttons, status, first.node, more);
    parts = [curves(words), moments(words, next.ramps)];
    body.replaceChildren(...parts.map((part) => part.node));
    paint();
  };
});
