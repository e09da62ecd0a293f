// The editor of the open strategy: its name, preset, method with parameters, eviction policy and steps.
import { el } from "../../page/dom.js";
import { pipelineEditor } from "./pipeline.js";
import { field, PAUSE, whole } from "./strategy_settings.js";
import { copy, core, labels, method, short } from "./strategy_text.js";

export const MEMORY = 32; // default number of keys in a bounded cache

function slider(strategy, { name, label, low, high, step, default: usual }, changed) {
  const both = el("span", "pg-slider"),
    input = el("input", "", "", { type: "range", min: low, max: high, step }),
    shown = el("output", "", short(strategy.options[name] ?? usual));
  input.value = strategy.options[name] ?? usual;
  input.oninput = () => {
    strategy.options[name] = +input.value;
    shown.textContent = short(input.value);
    changed(PAUSE);
  };
  both.append(input, shown);
  return field(label, both);
}

function choice(options, value, change) {
  const select = el("select");
  select.append(...options.map(([key, text]) => new Option(text, key)));
  select.value = value;
  select.onchange = () => change(select.value);
  return select;
}

// Build the setting for the eviction policy and its budget; redraw(2) redraws the editor and restores the focus.
function remembering(strategy, { words, bounds, memories }, { changed, redraw }) {
  const what = choice([["", words.memory_all], ...memories], strategy.memory?.kind ?? "", (kind) => {
    const budget = strategy.memory?.budget ?? MEMORY;
    if (kind) strategy.memory = { kind, budget };
    else delete strategy.memory;
    redraw(2);
  });
  const set = (budget) => {
    strategy.memory.budget = budget;
    changed(PAUSE);
  };
  const size = strategy.memory && whole(strategy.memory.budget, 1, bounds.memory, set);
  return [field(words.memory, what, words.memory_help), ...(size ? [field(words.memory_size, size)] : [])];
}

// Build the editor. `desk`: { payload, strategies, open }; changed(pause) reports a change of the open strategy,
// renamed() a change of its texts. Returns { node, draw, focus }.
export function strategyEditor(desk, changed) {
  const node = el("div", "pg-strat-editor", "", { id: "pg-strat-editor" });
  const told = (pause) => {
    changed(pause);
    markPreset();
  };
  const redraw = (select) => {
    draw();
    told();
    node.querySelectorAll("select")[select].focus();
  };
  const markPreset = () => {
    const select = node.querySelector("select"),
      { presets } = desk.payload;
    if (!select) return;
    const now = core(desk.strategies[desk.open], desk.payload);
    select.value = Object.keys(presets).find((key) => core(presets[key], desk.payload) === now) ?? "";
  };
  const nameField = (strategy) => {
    const { payload, strategies, open } = desk;
    const name = el("input", "", "", {
      type: "text",
      maxlength: payload.bounds.name,
      placeholder: labels(strategies, payload)[open],
    });
    name.value = payload.names[strategy.name] ? "" : strategy.name;
    name.oninput = () => {
      strategy.name = name.value;
      told(PAUSE);
    };
    return name;
  };
  const presetField = (strategy) => {
    const { words, presets, names } = desk.payload,
      options = Object.keys(presets).map((key) => [key, names[key] ?? key]);
    const preset = choice([["", words.own], ...options], "", (key) => {
      const named = strategy.name && !(strategy.name in presets) ? { name: strategy.name } : {};
      desk.strategies[desk.open] = { ...copy(presets[key]), ...named };
      redraw(0);
    });
    preset.options[0].disabled = true;
    return preset;
  };
  const draw = () => {
    const { payload, strategies, open } = desk,
      { words, methods } = payload;
    node.hidden = open < 0;
    node.replaceChildren();
    if (open < 0) return;
    const strategy = strategies[open],
      { help, source, parameters } = method(payload, strategy.method);
    node.style.setProperty("--pg-hue", payload.hues[open % payload.hues.length]);
    const how = choice(
      methods.map(({ key, label }) => [key, label]),
      strategy.method,
      (key) => {
        Object.assign(strategy, { method: key, options: {} });
        redraw(1);
      },
    );
    const row = el("div", "pg-strat-fields"),
      about = el("p", "pg-about", help),
      steps = el("div", "pg-strat-steps");
    row.append(
      field(words.name, nameField(strategy)),
      field(words.preset, presetField(strategy)),
      field(words.method, how),
      ...parameters.map((parameter) => slider(strategy, parameter, told)),
      ...remembering(strategy, payload, { changed: told, redraw }),
    );
    about.append(el("span", "pg-strat-cited", ` ${source}`));
    steps.append(
      pipelineEditor(payload.pipeline, copy(strategy.steps), (next, settled) => {
        strategy.steps = copy(next);
        told(settled ? 0 : PAUSE);
      }),
    );
    node.append(row, about, steps);
    markPreset();
  };
  return { node, draw };
}
