// The strategies that are compared: a line each, one of them opened at a time, and what all of them share.
//
// payload: { presets { key: strategy }, default [keys], methods [{ key, label, help, source, parameters }], pipeline,
//   settings, bounds, chat, hues, names, words, memories [[kind, label]], memory_short { kind: text } };
//   strategy: { name, method, options { name: number }, steps, memory: { kind, budget } or none }
// value: { strategies: [strategy], settings: { tokens, seed, shared, stop, chat, eight } }
import { el, fill } from "../../page/dom.js";
import { define } from "../../page/mount.js";
import { pipelineEditor } from "./pipeline.js";

const MEMORY = 32; // keys that a bounded memory holds where nothing was chosen
const PAUSE = 300; // milliseconds between two questions while a slider moves or someone types

const short = (value) => String(+(+value).toPrecision(6));
const copy = (strategy) => structuredClone(strategy);
// A name that is a key of the presets is its word; several with the same word are told apart by their numbers, and no two
// labels are the same. viz/views/sampling/strategies.py does the same.
function labels(strategies, payload) {
  const own = ({ name }) => (payload.names[name] ? "" : name.trim());
  const usual = ({ name, method }) =>
    payload.names[name] ?? payload.methods.find(({ key }) => key === method)?.label ?? "";
  const called = strategies.map((each) => own(each) || usual(each));
  const names = [];
  for (const [i, strategy] of strategies.entries()) {
    const alike = strategies.filter((each, n) => n !== i && !own(each) && called[n] === called[i]);
    const told = own(strategy) || !alike.length ? "" : summary(strategy, payload);
    const label = told && alike.every((each) => summary(each, payload) !== told) ? told : called[i];
    let each = label;
    for (let n = 2; names.includes(each); n++) each = `${label} ${n}`;
    names.push(each);
  }
  return names;
}

const filled = (parameters, values) =>
  Object.fromEntries(parameters.map(({ name, default: usual }) => [name, values?.[name] ?? usual]));
const warp = (payload, key) =>
  payload.pipeline.warps.find((each) => each.key === key) ?? { label: key, parameters: [] };
const method = (payload, key) => payload.methods.find((each) => each.key === key) ?? payload.methods[0];

// "T 0.8 · top-k 40 · top-p 0.9"
function summary(strategy, payload) {
  const parts = strategy.steps
    .filter(({ off }) => !off)
    .map((step) => {
      const { label, parameters } = warp(payload, step.warp);
      return [
        payload.words[`short_${step.warp}`] ?? label,
        ...Object.values(filled(parameters, step.values)).map(short),
      ].join(" ");
    });
  const { key, label, parameters } = method(payload, strategy.method);
  if (key !== "sample")
    parts.unshift(
      label,
      ...Object.entries(filled(parameters, strategy.options)).map(
        ([name, value]) => `${parameters.find((p) => p.name === name).label} ${short(value)}`,
      ),
    );
  if (strategy.memory) parts.push(fill(payload.memory_short[strategy.memory.kind], { n: strategy.memory.budget }));
  return parts.join(" · ") || payload.words.plain;
}

// What decides the next token, whatever the name, in one form.
const core = (strategy, payload) =>
  JSON.stringify([
    strategy.method,
    filled(method(payload, strategy.method).parameters, strategy.options),
    strategy.memory ?? null,
    strategy.steps
      .filter(({ off }) => !off)
      .map((step) => [step.warp, filled(warp(payload, step.warp).parameters, step.values), step.text ?? ""]),
  ]);

function field(text, input, help) {
  const label = el("label", "pg-field");
  label.append(el("span", "", text), input);
  if (help) label.title = help;
  return label;
}
function box(text, checked, change, help) {
  const label = el("label", "pg-inline"),
    input = el("input", "", "", { type: "checkbox" });
  input.checked = checked;
  input.onchange = () => change(input.checked);
  label.append(input, el("span", "", text));
  if (help) label.title = help;
  return label;
}
function whole(value, low, high, change) {
  const input = el("input", "", "", { type: "number", min: low, max: high, step: 1 });
  input.value = value;
  input.oninput = () => {
    if (input.value !== "" && input.validity.valid) change(+input.value);
  };
  input.onblur = () => {
    if (input.value !== "" && input.validity.valid) return;
    input.value = Math.min(high, Math.max(low, Math.round(+input.value) || low));
    change(+input.value);
  };
  return input;
}

define("strategies", (root, props, trigger) => {
  let payload = null,
    open = -1,
    timer = null;
  let strategies = [],
    settings = {};
  const head = el("div", "pg-strat-head"),
    list = el("ul", "pg-strat-list"),
    editor = el("div", "pg-strat-editor");
  const shared = el("div", "pg-strat-settings");
  root.append(head, list, editor, shared);
  const hue = (i) => payload.hues[i % payload.hues.length];

  const tell = (pause = 0) => {
    props.value = { strategies: structuredClone(strategies), settings: structuredClone(settings) };
    clearTimeout(timer);
    const ask = () => trigger("select", { index: 0, value: JSON.stringify(props.value) });
    if (pause) timer = setTimeout(ask, pause);
    else ask();
  };

  // --- a line for each ---

  const line = (strategy, i, label) => {
    const item = el("li", i === open ? "pg-strat pg-strat-opened" : "pg-strat");
    item.style.setProperty("--pg-hue", hue(i));
    const show = el("button", "pg-strat-open", "", {
      type: "button",
      "aria-expanded": i === open,
      "aria-controls": "pg-strat-editor",
      title: `${label}: ${summary(strategy, payload)}`,
    });
    show.append(el("b", "pg-strat-name", label), el("span", "pg-strat-summary", summary(strategy, payload)));
    show.onclick = () => {
      open = open === i ? -1 : i;
      lines();
      edit();
    };
    const twin = el("button", "pg-cross pg-strat-twin", "", {
      type: "button",
      title: payload.words.duplicate,
      "aria-label": `${payload.words.duplicate}: ${label}`,
    });
    twin.disabled = strategies.length >= payload.bounds.strategies;
    twin.onclick = () => add(i + 1, copy(strategy));
    const gone = el("button", "pg-cross", "×", {
      type: "button",
      title: payload.words.remove,
      "aria-label": `${payload.words.remove}: ${label}`,
    });
    gone.disabled = strategies.length < 2;
    gone.onclick = () => remove(i);
    item.append(show, twin, gone);
    return item;
  };
  const lines = () => {
    const names = labels(strategies, payload);
    list.replaceChildren(...strategies.map((strategy, i) => line(strategy, i, names[i])));
    root.dataset.count = strategies.length;
  };
  // Only the texts, so that who types or slides keeps the focus.
  const relabel = () => {
    const names = labels(strategies, payload);
    const field = editor.querySelector("input[type=text]");
    if (field) field.placeholder = names[open];
    [...list.children].forEach((item, i) => {
      const [name, description] = item.firstChild.children;
      name.textContent = names[i];
      description.textContent = summary(strategies[i], payload);
      item.firstChild.title = `${name.textContent}: ${description.textContent}`;
    });
  };
  const at = (i) => list.children[i]?.querySelector(".pg-strat-open");
  const add = (i, strategy) => {
    strategies.splice(i, 0, strategy);
    open = i;
    top();
    lines();
    edit();
    tell();
    editor.querySelector("input")?.select();
  };
  const remove = (i) => {
    strategies.splice(i, 1);
    open = open === i ? -1 : open > i ? open - 1 : open;
    top();
    lines();
    edit();
    tell();
    at(Math.min(i, strategies.length - 1))?.focus();
  };
  const top = () => {
    const plus = el("button", "pg-button pg-quiet", `+ ${payload.words.add}`, { type: "button" });
    plus.disabled = strategies.length >= payload.bounds.strategies;
    plus.title = fill(payload.words.most, { n: payload.bounds.strategies });
    plus.onclick = () => {
      const there = strategies.map((each) => core(each, payload));
      const next = Object.values(payload.presets).find((each) => !there.includes(core(each, payload)));
      add(strategies.length, copy(next ?? Object.values(payload.presets)[0]));
    };
    const memories = el("button", "pg-button pg-quiet", payload.words.compare_memories, { type: "button" });
    memories.title = payload.words.compare_memories_help;
    memories.disabled = payload.bounds.strategies < 4;
    memories.onclick = () => {
      const kinds = ["window", "first", "h2o"].map((kind) => ({ memory: { kind, budget: MEMORY } }));
      strategies = [{}, ...kinds].map((more) => ({ ...copy(payload.presets.top_p), name: "", ...more }));
      open = -1;
      top();
      lines();
      edit();
      tell();
    };
    head.replaceChildren(el("span", "pg-label", payload.words.title), plus, memories);
  };

  // --- the one that is open ---

  const changed = (pause = 0) => {
    relabel();
    presetOf();
    tell(pause);
  };
  const presetOf = () => {
    const select = editor.querySelector("select");
    if (!select) return;
    const now = core(strategies[open], payload);
    select.value = Object.keys(payload.presets).find((key) => core(payload.presets[key], payload) === now) ?? "";
  };
  const edit = () => {
    editor.hidden = open < 0;
    editor.replaceChildren();
    if (open < 0) return;
    const strategy = strategies[open],
      { words } = payload;
    editor.style.setProperty("--pg-hue", hue(open));
    const name = el("input", "", "", {
      type: "text",
      maxlength: payload.bounds.name,
      placeholder: labels(strategies, payload)[open],
    });
    name.value = payload.names[strategy.name] ? "" : strategy.name;
    name.oninput = () => {
      strategy.name = name.value;
      changed(PAUSE);
    };
    const preset = el("select");
    preset.append(
      new Option(words.own, ""),
      ...Object.keys(payload.presets).map((key) => new Option(payload.names[key] ?? key, key)),
    );
    preset.options[0].disabled = true;
    preset.onchange = () => {
      const named = strategy.name && !(strategy.name in payload.presets) ? { name: strategy.name } : {};
      strategies[open] = { ...copy(payload.presets[preset.value]), ...named };
      edit();
      relabel();
      tell();
      editor.querySelector("select").focus();
    };
    const how = el("select");
    how.append(...payload.methods.map(({ key, label }) => new Option(label, key)));
    how.value = strategy.method;
    how.onchange = () => {
      Object.assign(strategy, { method: how.value, options: {} });
      edit();
      changed();
      editor.querySelectorAll("select")[1].focus();
    };
    const { help, source, parameters } = method(payload, strategy.method);
    const row = el("div", "pg-strat-fields");
    row.append(
      field(words.name, name),
      field(words.preset, preset),
      field(words.method, how),
      ...parameters.map((parameter) => slider(strategy, parameter)),
      ...remembering(strategy),
    );
    const about = el("p", "pg-about", help);
    about.append(el("span", "pg-strat-cited", ` ${source}`));
    editor.append(row, about, steps(strategy));
    presetOf();
  };
  const slider = (strategy, { name, label, low, high, step, default: usual }) => {
    const both = el("span", "pg-slider"),
      input = el("input", "", "", { type: "range", min: low, max: high, step });
    const shown = el("output", "", short(strategy.options[name] ?? usual));
    input.value = strategy.options[name] ?? usual;
    input.oninput = () => {
      strategy.options[name] = +input.value;
      shown.textContent = short(input.value);
      changed(PAUSE);
    };
    both.append(input, shown);
    return field(label, both);
  };
  // What the cache keeps, and how many keys where that is bounded.
  const remembering = (strategy) => {
    const { words, bounds, memories } = payload;
    const what = el("select");
    what.append(new Option(words.memory_all, ""), ...memories.map(([kind, label]) => new Option(label, kind)));
    what.value = strategy.memory?.kind ?? "";
    what.onchange = () => {
      const budget = strategy.memory?.budget ?? MEMORY;
      if (what.value) strategy.memory = { kind: what.value, budget };
      else delete strategy.memory;
      edit();
      changed();
      editor.querySelectorAll("select")[2].focus();
    };
    const set = (budget) => {
      strategy.memory.budget = budget;
      changed(PAUSE);
    };
    const size = strategy.memory && whole(strategy.memory.budget, 1, bounds.memory, set);
    return [field(words.memory, what, words.memory_help), ...(size ? [field(words.memory_size, size)] : [])];
  };
  const steps = (strategy) => {
    const part = el("div", "pg-strat-steps");
    part.append(
      pipelineEditor(payload.pipeline, copy(strategy.steps), (next, settled) => {
        strategy.steps = copy(next);
        changed(settled ? 0 : PAUSE);
      }),
    );
    return part;
  };

  // --- what all share ---

  const share = () => {
    const { words, bounds } = payload;
    const set = (name, pause) => (value) => {
      settings[name] = value;
      tell(pause);
    };
    const seed = whole(settings.seed, 0, bounds.seed, set("seed", PAUSE));
    const dice = el("button", "pg-button pg-quiet", words.new_seed, { type: "button" });
    dice.onclick = () => {
      seed.value = settings.seed = Math.floor(Math.random() * (bounds.seed + 1));
      tell();
    };
    const stop = el("textarea", "", "", { rows: 2, "aria-label": words.stop });
    stop.value = settings.stop.join("\n");
    stop.oninput = () => set("stop", 2 * PAUSE)(stop.value.split("\n").filter(Boolean));
    const fold = el("details", "pg-strat-stop"),
      help = el("p", "pg-muted", fill(words.stop_help, { n: bounds.stops }));
    fold.open = settings.stop.length > 0;
    fold.append(el("summary", "", words.stop), stop, help);
    const inline = (text, ...inputs) => {
      const label = el("label", "pg-inline");
      label.append(el("span", "pg-muted", text), ...inputs);
      return label;
    };
    // A conversation is in the model's template already.
    const talking = () => {
      const label = box(words.chat, payload.talk || settings.chat, set("chat", 0), words.chat_help);
      if (payload.talk) {
        label.querySelector("input").disabled = true;
        label.title = words.chat_talk;
      }
      return label;
    };
    const seeding = el("span", "pg-inline");
    seeding.append(inline(words.seed, seed), dice);
    shared.setAttribute("role", "group");
    shared.setAttribute("aria-label", words.settings);
    shared.replaceChildren(
      inline(words.tokens, whole(settings.tokens, 1, bounds.tokens, set("tokens", PAUSE))),
      seeding,
      box(words.shared, settings.shared, set("shared", 0), words.shared_help),
      ...(payload.chat ? [talking()] : []),
      box(words.eight, settings.eight, set("eight", 0), words.eight_help),
      fold,
    );
  };

  editor.id = "pg-strat-editor";
  const draw = (next) => {
    payload = next;
    strategies = structuredClone(props.value?.strategies ?? payload.default.map((key) => payload.presets[key]));
    settings = { ...payload.settings, ...structuredClone(props.value?.settings ?? {}) };
    if (open >= strategies.length) open = -1;
    top();
    lines();
    edit();
    share();
  };
  draw.stateOf = (value) => value;
  return draw;
});
