// The training tab: settings, the current run, and the earlier runs of this page.
import { el, fill } from "../../page/dom.js";
import { define } from "../../page/mount.js";
import { pickHead } from "../../page/selection/selection.js";
import { clock, offers, problemLine, runButtons } from "../../parts/run.js";
import { changed, choose, lab, runs, take } from "./runs.js";
import { trainingCharts } from "./training_charts.js";
import { trainingReplay } from "./training_replay.js";

// --- settings --------------------------------------------------------------------------------------

function field(words, name, control) {
  const label = el("label", control.type === "checkbox" ? "pg-field pg-field-check" : "pg-field");
  label.append(el("span", "", words[`field_${name}`]), control);
  control.name = name;
  return label;
}
// Click a button as soon as it is visible, but give up after a minute.
function onceShown(selector, then) {
  const until = Date.now() + 60_000;
  const timer = setInterval(() => {
    const node = [...document.querySelectorAll(selector)].find((each) => each.getClientRects().length);
    if (!node && Date.now() < until) return;
    clearInterval(timer);
    if (!node) return;
    node.click();
    then();
  }, 100);
}
function select(options, value) {
  const node = el("select");
  for (const [key, text] of options) node.append(el("option", "", text, { value: key }));
  node.value = value;
  return node;
}
function optional([min, max], placeholder) {
  const node = el("input", "", "", { type: "number", min, max, step: 1, placeholder });
  node.dataset.optional = "yes";
  return node;
}
const check = (value) => Object.assign(el("input", "", "", { type: "checkbox" }), { checked: value });
const number = (value, [min, max], step = 1) => {
  const node = el("input", "", "", { type: "number", min, max, step });
  node.value = value;
  return node;
};

function form(payload) {
  const { words, limits, defaults, choices } = payload;
  const node = el("form", "pg-settings");
  const about = el("p", "pg-muted"),
    box = el("div", "pg-own");
  const area = el("textarea", "", "", { rows: 5, placeholder: words.text_placeholder, "aria-label": words.field_text });
  const file = el("input", "", "", {
    type: "file",
    accept: ".txt,.md,.csv,.json,.py,text/*",
    "aria-label": words.field_file,
  });
  const status = el("p", "pg-muted");
  area.name = "text";
  box.append(area, file, status);
  const cut = check(defaults.characters),
    vocabulary = field(words, "vocabulary", number(defaults.vocabulary, limits.vocabulary)),
    tokens = el("div", "pg-fields");
  tokens.append(field(words, "characters", cut), vocabulary);
  const preset = select([["", words.own_settings], ...payload.presets.map(({ key, label }) => [key, label])], "");
  const task = select(
    payload.tasks.map((t) => [t.key, t.label]),
    defaults.task,
  );
  const main = el("div", "pg-fields"),
    more = el("details"),
    rest = el("div", "pg-fields");
  const mixer = select(Object.entries(choices.mixer), defaults.mixer),
    width = field(words, "window", number(defaults.window, limits.window));
  const pick = (name) => select(Object.entries(choices[name]), defaults[name]);
  main.append(
    field(words, "layers", number(defaults.layers, limits.layers)),
    field(words, "heads", number(defaults.heads, limits.heads)),
    field(words, "mixer", mixer),
    width,
    field(words, "positions", pick("positions")),
    field(words, "placement", pick("placement")),
    field(words, "steps", number(defaults.steps, limits.steps)),
  );
  rest.append(
    field(words, "width", number(defaults.width, limits.width, 8)),
    field(words, "norm", pick("norm")),
    field(words, "mlp", pick("mlp")),
    field(words, "mlp_width", optional(limits.mlp_width, words.mlp_width_placeholder)),
    ...["untied", "scaled", "biases", "zero_positions"].map((name) => field(words, name, check(defaults[name]))),
    field(words, "dropout", number(defaults.dropout, limits.dropout, "any")),
    field(words, "length", number(defaults.length, limits.length)),
    field(words, "batch", number(defaults.batch, limits.batch)),
    field(words, "rate", number(defaults.rate, [0.00001, 0.1], "any")),
    field(words, "schedule", pick("schedule")),
    field(words, "warmup", number(defaults.warmup, limits.steps)),
    ...["beta1", "beta2"].map((name) => field(words, name, number(defaults[name], limits.beta, "any"))),
    field(words, "weight_decay", number(defaults.weight_decay, limits.weight_decay, "any")),
    field(words, "seed", number(defaults.seed, [0, 1e9])),
    field(
      words,
      "probe",
      Object.assign(el("input", "", "", { type: "text", placeholder: words.probe_placeholder }), { value: "" }),
    ),
  );
  more.append(el("summary", "", words.more), rest);
  const chosenPreset = field(words, "preset", preset),
    aboutPreset = el("p", "pg-muted");
  preset.removeAttribute("name"); // the preset only fills in the other fields
  node.append(chosenPreset, aboutPreset, field(words, "task", task), about, box, tokens, main, more);
  const describe = () => {
    const chosen = payload.tasks.find((t) => t.key === task.value);
    about.textContent = chosen.about + (chosen.example ? ` ${fill(words.example, chosen)}` : "");
    box.hidden = chosen.key !== "text";
    tokens.hidden = !chosen.text;
    vocabulary.hidden = cut.checked;
    vocabulary.lastChild.disabled = tokens.hidden || cut.checked;
    aboutPreset.textContent = payload.presets.find(({ key }) => key === preset.value)?.about ?? "";
    aboutPreset.hidden = !aboutPreset.textContent;
    width.hidden = mixer.value !== "sliding_window";
    width.lastChild.disabled = width.hidden; // hidden fields must not block the form's validation
  };
  mixer.onchange = cut.onchange = describe;
  task.onchange = () => {
    put(node, payload.tasks.find((t) => t.key === task.value).settings);
    describe();
  };
  preset.onchange = () => {
    const chosen = payload.presets.find(({ key }) => key === preset.value);
    put(node, chosen ? chosen.settings : defaults);
    describe();
  };
  // A manual change of a field deselects the preset.
  node.addEventListener("input", ({ target }) => {
    if (target === preset || !preset.value) return;
    preset.value = "";
    describe();
  });
  file.onchange = async () => {
    const [picked] = file.files;
    if (!picked) return;
    const [, limit] = limits.bytes;
    if (picked.size > limit) {
      status.textContent = fill(words.too_large, { most: (limit / 1e6).toFixed(0) });
      return;
    }
    area.value = await picked.text();
    status.textContent = fill(words.read, { name: picked.name, size: (picked.size / 1000).toFixed(0) });
  };
  describe();
  node.addEventListener("restored", describe);
  return node;
}

const held = (control) => ({ number: control.valueAsNumber, checkbox: control.checked })[control.type] ?? control.value;
const values = (node) =>
  Object.fromEntries(
    [...node.querySelectorAll("[name]:not(:disabled)")]
      .filter((control) => control.value !== "" || !control.dataset.optional)
      .map((control) => [control.name, held(control)]),
  );
// Fill in fields; those without a value stay unchanged, except for fields that may be empty.
function put(node, filled) {
  for (const control of node.querySelectorAll("[name]")) {
    const value = filled[control.name] ?? (control.dataset.optional && filled.task ? "" : null);
    if (value === null) continue;
    if (control.type === "checkbox") control.checked = value;
    else control.value = value;
  }
}

// --- the run -----------------------------------------------------------------------------------------

function progress(run, words) {
  const done = run.reports.at(-1)?.[0] ?? 0,
    last = run.snapshots.at(-1);
  const lately = run.reports.slice(-40);
  const spent = lately.slice(1).reduce((sum, report) => sum + report[5], 0);
  const tokens = lately.length > 1 ? lately.at(-1)[4] - lately[0][4] : 0;
  const parts = [fill(words.step, { step: done.toLocaleString(), steps: run.steps.toLocaleString() })];
  if (lately.length) parts.push(fill(words.loss, { loss: lately.at(-1)[1].toFixed(3) }));
  if (last && done) parts.push(fill(words.accuracy, { accuracy: (100 * last.accuracy).toFixed(1) }));
  if (run.state === "running" && spent) {
    parts.push(fill(words.speed, { speed: Math.round(tokens / spent).toLocaleString() }));
    parts.push(fill(words.left, { time: clock((run.steps - done) * run.pace) }));
  }
  return parts;
}

define("training", (root) => {
  let payload = null,
    settings = null;
  const side = el("div", "pg-train-side"),
    view = el("div", "pg-train-view");
  const buttons = el("div", "pg-buttons"),
    status = el("div", "pg-train-status", "", { "aria-live": "polite" });
  const charts = el("div", "pg-train-charts"),
    replay = el("div", "pg-replay");
  view.append(status, charts, replay);
  root.append(side, view);
  let draw = () => {};

  const active = () => [...runs.values()].find((run) => !run.over);
  const begin = () => {
    if (settings.reportValidity()) lab.send("start", values(settings));
  };
  const paintButtons = runButtons(buttons, begin, (event, value) => lab.send(event, value));
  const paintStatus = () => {
    const { words } = payload,
      run = runs.get(lab.current);
    status.replaceChildren();
    if (lab.error) status.append(problemLine(lab.error));
    if (!run) {
      status.append(el("p", "pg-empty", words.empty));
      return;
    }
    const done = run.reports.at(-1)?.[0] ?? 0;
    const bar = el("progress", "", "", { max: run.steps, "aria-label": words.progress });
    if (run.state !== "starting") bar.value = done;
    const line = el("p", "pg-train-line");
    line.append(
      el("strong", "", words[`state_${run.state}`]),
      ...progress(run, words).map((part) => el("span", "", part)),
    );
    status.append(picker(), ...(run.note ? [el("p", "pg-stored-note", run.note)] : [bar, line]));
    const row = offers(words, run, () => open(run));
    if (row) status.append(row);
  };
  // Open the trained model in the Attention tab.
  const open = (run) => {
    const head = lab.current === run.id ? lab.head : null;
    lab.send("open", { run: run.id });
    if (head) onceShown("#pg-attention_view button[data-key=map]", () => pickHead(...head, false));
  };
  const picker = () => {
    const { words } = payload,
      row = el("div", "pg-train-pick");
    const all = [...runs.values()].reverse();
    const shown = select(
      all.map((run) => [run.id, run.label]),
      lab.current,
    );
    shown.onchange = () => choose({ current: shown.value, other: lab.other === shown.value ? null : lab.other });
    row.append(field(words, "shown", shown));
    const others = all.filter((run) => run.id !== lab.current);
    if (others.length) {
      const other = select([["", words.nothing], ...others.map((run) => [run.id, run.label])], lab.other ?? "");
      other.onchange = () => choose({ other: other.value || null });
      row.append(field(words, "compare", other));
    }
    return row;
  };
  const paint = (what) => {
    if (!payload) return;
    if (!status.contains(document.activeElement) || what === "choice") paintStatus();
    paintButtons(payload.words, active());
    draw(what);
  };
  // Updates are drawn once per second, or less often on a slow machine: after each drawing, the page stays idle for
  // four times its duration, because the training usually runs on the same processor.
  let due = null,
    rest = 0;
  changed((what) => {
    if (what !== "data") return paint(what);
    if (due === null)
      due = setTimeout(() => {
        due = null;
        const began = performance.now();
        paint(what);
        setTimeout(() => {
          rest = Math.max(1000, Math.min(3000, 4 * (performance.now() - began)));
        }); // runs after Plotly has drawn
      }, rest);
  });
  const show = (next) => {
    payload = next;
    lab.words = next.words;
    const previous = settings && values(settings);
    settings = form(next);
    if (previous) put(settings, previous);
    settings.dispatchEvent(new Event("restored"));
    settings.onsubmit = (event) => event.preventDefault();
    side.replaceChildren(settings, buttons);
    if (next.stored && !runs.size) take(next.stored);
    const parts = [trainingCharts(charts, next), trainingReplay(replay, next)];
    draw = (what) => parts.forEach((part) => part(what));
    paint("choice");
  };
  // Apply a lesson's settings; all others take their defaults.
  show.take = (filled) => {
    put(settings, { ...payload.defaults, ...filled });
    settings.dispatchEvent(new Event("restored"));
  };
  return show;
});
