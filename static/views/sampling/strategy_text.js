// Texts about strategies: their names, their summaries, and a comparison key.
import { fill } from "../../page/dom.js";

export const short = (value) => String(+(+value).toPrecision(6));
export const copy = (strategy) => structuredClone(strategy);
// Name the strategies. A preset's key is replaced by its label. Duplicates are numbered, so that all labels are unique,
// as in viz/views/sampling/strategies.py.
export function labels(strategies, payload) {
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

export const filled = (parameters, values) =>
  Object.fromEntries(parameters.map(({ name, default: usual }) => [name, values?.[name] ?? usual]));
const warp = (payload, key) =>
  payload.pipeline.warps.find((each) => each.key === key) ?? { label: key, parameters: [] };
export const method = (payload, key) => payload.methods.find((each) => each.key === key) ?? payload.methods[0];

// Format a summary such as "T 0.8 · top-k 40 · top-p 0.9".
export function summary(strategy, payload) {
  const parts = strategy.steps
    .filter(({ off }) => !off)
    .map((step) => {
      const { label, parameters } = warp(payload, step.warp);
      const values = filled(parameters, step.values);
      const named = parameters.filter((each) => !each.quiet || values[each.name] !== each.default);
      return [
        payload.words[`short_${step.warp}`] ?? label,
        ...named.map(({ name }) => short(values[name])),
        ...(step.rule ? [payload.pipeline.rules.kinds.find(([kind]) => kind === step.rule.kind)?.[1] ?? ""] : []),
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

// Return a canonical form of everything that affects the next token; this excludes the name.
export const core = (strategy, payload) =>
  JSON.stringify([
    strategy.method,
    filled(method(payload, strategy.method).parameters, strategy.options),
    strategy.memory ?? null,
    strategy.steps
      .filter(({ off }) => !off)
      .map((step) => [
        step.warp,
        filled(warp(payload, step.warp).parameters, step.values),
        step.text ?? "",
        step.rule ?? null,
      ]),
  ]);
