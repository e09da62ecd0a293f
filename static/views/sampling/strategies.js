// The compared strategies, each on a line, at most one of them open, and the settings that they share.
//
// payload: { presets { key: strategy }, default [keys], methods [{ key, label, help, source, parameters }], pipeline,
//   settings, bounds, chat, hues, names, words, memories [[kind, label]], memory_short { kind: text } };
//   strategy: { name, method, options { name: number }, steps, memory: { kind, budget }, optional }
// value: { strategies: [strategy], settings: { tokens, seed, shared, stop, chat, eight } }
import { el, fill } from "../../page/dom.js";
import { define } from "../../page/mount.js";
import { cross } from "../../parts/icons.js";
import { ask } from "./side_by_side/state.js";
import { MEMORY, strategyEditor } from "./strategy_editor.js";
import { sharedSettings } from "./strategy_settings.js";
import { copy, core, labels, summary } from "./strategy_text.js";

// Build a line for each strategy. acts: toggle(i), add(i, strategy), remove(i).
function strategyLine({ payload, strategies, open }, i, label, acts) {
  const { words, bounds, hues } = payload,
    item = el("li", i === open ? "pg-strat pg-strat-opened" : "pg-strat"),
    about = summary(strategies[i], payload);
  item.style.setProperty("--pg-hue", hues[i % hues.length]);
  const show = el("button", "pg-strat-open", "", {
    type: "button",
    "aria-expanded": i === open,
    "aria-controls": "pg-strat-editor",
    title: `${label}: ${about}`,
  });
  show.append(el("b", "pg-strat-name", label), el("span", "pg-strat-summary", about));
  show.onclick = () => acts.toggle(i);
  const twin = el("button", "pg-cross pg-strat-twin", "", {
    type: "button",
    title: words.duplicate,
    "aria-label": `${words.duplicate}: ${label}`,
  });
  twin.disabled = strategies.length >= bounds.strategies;
  twin.onclick = () => acts.add(i + 1, copy(strategies[i]));
  const gone = cross(`${words.remove}: ${label}`, () => acts.remove(i), { title: words.remove });
  gone.disabled = strategies.length < 2;
  item.append(show, twin, gone);
  return item;
}

// Build the buttons above the list, which add a strategy, or compare four eviction policies, or a rule with none.
function strategyHead({ payload, strategies }, acts) {
  const { words, bounds, presets } = payload;
  const button = (text, title, disabled, act) => {
    const node = el("button", "pg-button pg-quiet", text, { type: "button", title });
    node.disabled = disabled;
    node.onclick = act;
    return node;
  };
  const add = () => {
    const there = strategies.map((each) => core(each, payload)),
      next = Object.values(presets).find((each) => !there.includes(core(each, payload)));
    acts.add(strategies.length, copy(next ?? Object.values(presets)[0]));
  };
  const memories = () => {
    const kinds = ["window", "first", "h2o"].map((kind) => ({ memory: { kind, budget: MEMORY } }));
    acts.replace([{}, ...kinds].map((more) => ({ ...copy(presets.top_p), name: "", ...more })));
  };
  // the same strategy with a rule and without it, with the same random numbers
  const masks = () => {
    const { kind, text } = payload.pipeline.rules.examples[2],
      plain = { ...copy(presets.top_p), name: "" };
    acts.replace([
      { ...copy(plain), steps: [{ warp: "fits", values: {}, rule: { kind, text } }, ...plain.steps] },
      plain,
    ]);
  };
  const full = strategies.length >= bounds.strategies;
  return [
    button(`+ ${words.add}`, fill(words.most, { n: bounds.strategies }), full, add),
    button(words.compare_memories, words.compare_memories_help, bounds.strategies < 4, memories),
    button(words.compare_rule, words.compare_rule_help, bounds.strategies < 2 || !payload.pipeline.rules.ready, masks),
  ];
}

define("strategies", (root, props, send) => {
  const head = el("div", "pg-strat-head"),
    list = el("ul", "pg-strat-list"),
    shared = el("div", "pg-strat-settings"),
    desk = { payload: null, strategies: [], settings: {}, open: -1 };
  let timer = null;

  const tell = (pause = 0) => {
    const { strategies, settings } = desk;
    props.value = { strategies: structuredClone(strategies), settings: structuredClone(settings) };
    clearTimeout(timer);
    const ask = () => send("select");
    if (pause) timer = setTimeout(ask, pause);
    else ask();
  };
  // Update only the texts, so that the focus is kept while the user types or moves a slider.
  const relabel = () => {
    const { strategies, payload, open } = desk,
      names = labels(strategies, payload),
      field = editor.node.querySelector("input[type=text]");
    if (field) field.placeholder = names[open];
    [...list.children].forEach((item, i) => {
      const [name, description] = item.firstChild.children;
      name.textContent = names[i];
      description.textContent = summary(strategies[i], payload);
      item.firstChild.title = `${name.textContent}: ${description.textContent}`;
    });
  };
  const editor = strategyEditor(desk, (pause) => {
    relabel();
    tell(pause);
  });
  const below = el("div", "pg-strat-below");
  below.append(shared, head);
  root.append(list, editor.node, below);

  const lines = () => {
    const names = labels(desk.strategies, desk.payload);
    list.replaceChildren(...desk.strategies.map((_, i) => strategyLine(desk, i, names[i], acts)));
    list.setAttribute("aria-label", desk.payload.words.title);
    root.dataset.count = desk.strategies.length;
  };
  const drawAll = () => {
    head.replaceChildren(...strategyHead(desk, acts));
    lines();
    editor.draw();
  };
  const acts = {
    toggle(i) {
      desk.open = desk.open === i ? -1 : i;
      lines();
      editor.draw();
    },
    add(i, strategy) {
      desk.strategies.splice(i, 0, strategy);
      desk.open = i;
      drawAll();
      tell();
      editor.node.querySelector("input")?.select();
    },
    remove(i) {
      const { strategies, open } = desk;
      strategies.splice(i, 1);
      desk.open = open === i ? -1 : open > i ? open - 1 : open;
      drawAll();
      tell();
      list.children[Math.min(i, strategies.length - 1)]?.querySelector(".pg-strat-open")?.focus();
    },
    replace(strategies) {
      Object.assign(desk, { strategies, open: -1 });
      drawAll();
      tell();
    },
  };
  // Open the strategy of a preset for the search: add it, or replace the last strategy by it.
  root.addEventListener("pg-choose", ({ detail: key }) => {
    const { payload, strategies } = desk,
      wanted = core(payload.presets[key], payload),
      there = strategies.findIndex((each) => core(each, payload) === wanted);
    if (there < 0) {
      if (strategies.length >= payload.bounds.strategies) strategies.pop();
      strategies.push(copy(payload.presets[key]));
    }
    desk.open = there < 0 ? strategies.length - 1 : there;
    drawAll();
    if (there < 0) tell();
    list.children[desk.open].querySelector(".pg-strat-open").focus({ preventScroll: true });
    root.scrollIntoView({ block: "start" });
  });
  // Write with a pipeline and with greedy decoding, with the same random numbers.
  root.addEventListener("pg-compare", ({ detail: { name, steps } }) => {
    desk.settings.shared = true;
    sharedSettings(shared, desk.payload, desk.settings, tell);
    acts.replace([copy(desk.payload.presets.greedy), { name, method: "sample", options: {}, steps }]);
    ask("start");
  });
  const draw = (payload) => {
    const { strategies, settings } = structuredClone(props.value ?? {});
    desk.payload = payload;
    desk.strategies = strategies ?? structuredClone(payload.default.map((key) => payload.presets[key]));
    desk.settings = { ...payload.settings, ...settings };
    if (desk.open >= desk.strategies.length) desk.open = -1;
    drawAll();
    sharedSettings(shared, payload, desk.settings, tell);
  };
  draw.stateOf = (value) => value;
  return draw;
});
