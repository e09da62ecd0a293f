// The editor of a pipeline: an ordered list of steps that reshape a distribution.
//
// spec: { warps [{ key, label, help, kind, source, text { label, example, default } or null, rule,
//   parameters [{ name, label, low, high, default, step, whole, quiet }] }], groups [[label, keys]], presets [{ key, label, steps }],
//   rules (rule_field.js), default, most, words }
// steps: [{ warp, values { name: number }, text?, rule?, off? }]; onChange(steps, settled): settled is false during a drag
import { el, fill } from "../../page/dom.js";
import { define } from "../../page/mount.js";
import { iconButton } from "../../parts/icons.js";
import { tableOf } from "../../parts/table.js";
import { firstRule, ruleField } from "./rule_field.js";
import { compareButton, toolFold } from "./tool_settings.js";

const PAUSE = 120; // milliseconds to wait after the last movement of a slider
const PLACES = 1000; // number of positions of a logarithmic slider

const copy = (steps) => steps.map((step) => ({ ...step, values: { ...step.values } }));
// Return the smallest positive number of a slider, and whether the slider is logarithmic. The first position of a
// logarithmic slider that starts at 0 is 0.
const least = ({ low, step }) => low || step;
const logarithmic = (parameter) =>
  parameter.low >= 0 && parameter.high / least(parameter) >= (parameter.whole ? 100 : 1000) - 1e-6;
const digits = ({ whole, step }) => (whole ? 0 : Math.max(0, Math.ceil(-Math.log10(step) - 1e-9)));
const neat = (parameter, value) => Math.min(Math.max(+value.toFixed(digits(parameter)), parameter.low), parameter.high);
// Convert a number to a slider position, and back; a logarithmic slider has PLACES positions.
export function placeOf(parameter, value) {
  if (!logarithmic(parameter)) return value;
  const first = parameter.low ? 0 : 1,
    low = least(parameter);
  if (value < low) return 0;
  return first + ((PLACES - first) * Math.log(value / low)) / Math.log(parameter.high / low);
}
export function valueAt(parameter, place) {
  if (!logarithmic(parameter)) return place;
  const first = parameter.low ? 0 : 1,
    low = least(parameter);
  if (place < first) return 0;
  return neat(parameter, low * (parameter.high / low) ** ((place - first) / (PLACES - first)));
}

// Build a parameter as a slider with a number field. tell(settled) is called after a change of its number in `step`.
function numberField(warp, step, parameter, words, tell) {
  const field = el("label", "pg-pipe-field"),
    track = el("span", "pg-pipe-track"),
    { name, low, high, whole, step: grain, default: preset } = parameter,
    label = { "aria-label": `${warp.label}: ${parameter.label}`, "data-name": name },
    range = logarithmic(parameter) ? { min: 0, max: PLACES, step: 1 } : { min: low, max: high, step: grain },
    slider = el("input", "", "", { type: "range", ...range, ...label }),
    box = el("input", "", "", { type: "number", min: low, max: high, step: whole ? 1 : "any", ...label }),
    usual = el("i", "", "", { "aria-hidden": "true" });
  const value = () => step.values[name],
    share = (number) => (placeOf(parameter, number) - range.min) / (range.max - range.min);
  usual.style.setProperty("--pg-at", share(preset));
  const paint = (source) => {
    if (source !== slider) slider.value = placeOf(parameter, value());
    if (source !== box) box.value = value();
    slider.setAttribute("aria-valuetext", String(value()));
    track.style.setProperty("--pg-at", share(value()));
    box.removeAttribute("aria-invalid");
  };
  const set = (number, source, settled) => {
    const before = value();
    step.values = { ...step.values, [name]: number };
    paint(source);
    if (number !== before || settled) tell(settled);
  };
  slider.title = fill(words.default, { value: preset });
  slider.oninput = () => set(valueAt(parameter, +slider.value), slider, false);
  slider.ondblclick = () => set(preset, null, true);
  box.oninput = () => {
    const fits = box.value !== "" && box.validity.valid;
    if (fits) set(+box.value, box, false);
    else box.setAttribute("aria-invalid", "true");
  };
  box.onchange = () => paint(null); // this resets an invalid number
  paint(null);
  track.append(usual, slider);
  if (parameter.quiet) field.classList.add("pg-pipe-aside");
  field.append(el("span", "pg-pipe-name", parameter.label), ...(parameter.quiet ? [] : [track]), box);
  return field;
}

// Build the text field of a warp that takes tokens or phrases; one with a default text is folded, and shows it.
function textField({ label, text: { label: what, example, default: usual } }, step, tell) {
  const own = step.text ?? usual,
    box = el(usual ? "details" : "label", "pg-pipe-text"),
    shown = el("code"),
    text = el("textarea", "", "", {
      rows: usual ? 4 : 2,
      placeholder: example,
      "aria-label": `${label}: ${what}`,
      spellcheck: "false",
    });
  const paint = () => {
    shown.textContent = usual ? text.value.split("\n").filter(Boolean).join(" ") : "";
  };
  text.value = own;
  text.oninput = () => {
    step.text = text.value;
    paint();
    tell(false);
  };
  paint();
  const name = el(usual ? "summary" : "span", "", what);
  name.append(" ", shown);
  box.append(name, text);
  return box;
}

// Build the line of a step. `place`: { at, last }; acts: tell(settled), move(at, by), remove(at), explain(warp).
function stepLine(step, place, warp, spec, acts) {
  const { words } = spec,
    { at, last } = place,
    line = el("li", `pg-pipe-step pg-pipe-${warp.kind}`, "", { "data-warp": step.warp }),
    title = el("label", "pg-pipe-title"),
    fields = el("span", "pg-pipe-fields"),
    moves = el("span", "pg-pipe-moves"),
    use = el("input", "", "", { type: "checkbox", "aria-label": fill(words.use, { name: warp.label }) });
  step.values = valuesOf(warp, step.values);
  const button = (what, sign, act, enabled = true) => {
    const label = fill(words[what], { name: warp.label }),
      node = iconButton(sign, label, act, { look: "pg-pipe-button", title: label, "data-what": what });
    node.disabled = !enabled;
    return node;
  };
  use.checked = !step.off;
  use.onchange = () => {
    step.off = !use.checked;
    acts.tell(true);
  };
  title.append(use, el("b", "", warp.label));
  fields.append(...warp.parameters.map((parameter) => numberField(warp, step, parameter, words, acts.tell)));
  if (warp.text) fields.append(textField(warp, step, acts.tell));
  if (warp.rule) fields.append(ruleField(warp, step, spec, acts.tell));
  moves.append(
    button("up", "up", () => acts.move(at, -1), at > 0),
    button("down", "down", () => acts.move(at, 1), at < last),
    button("remove", "cross", () => acts.remove(at)),
  );
  line.append(el("span", "pg-pipe-number"), title, fields, moves);
  line.onmouseenter = () => acts.explain(step.warp);
  line.addEventListener("focusin", () => acts.explain(step.warp));
  return line;
}
const valuesOf = ({ parameters }, values) =>
  Object.fromEntries(parameters.map(({ name, default: usual }) => [name, values?.[name] ?? usual]));

// Build the list of presets, and the reset button. acts: take(steps).
function pipelineHead({ words, presets, default: usual }, take) {
  const node = el("div", "pg-pipe-head"),
    select = el("select", "pg-pipe-presets", "", { "aria-label": words.presets }),
    reset = el("button", "pg-button pg-quiet", words.reset, { type: "button" }),
    from = el("label", "pg-pipe-from");
  select.append(new Option(words.preset_own, ""), ...presets.map(({ key, label }) => new Option(label, key)));
  select.onchange = () => {
    const preset = presets.find(({ key }) => key === select.value);
    if (preset) take(preset.steps);
  };
  reset.onclick = () => take(usual);
  from.append(el("span", "pg-muted", words.presets), select);
  node.append(el("span", "pg-label", words.label), from, reset);
  // Return the preset to which these steps correspond.
  const mark = (same) => {
    select.value = presets.find((preset) => same(preset.steps))?.key ?? "";
    select.options[0].hidden = select.value !== "";
    reset.disabled = same(usual);
  };
  return { node, mark };
}

// Build the list of warps that can be added, by group; a selection calls add(warp).
function addList({ words, groups, warps, most }, add) {
  const node = el("select", "pg-pipe-add", "", { "aria-label": words.add });
  node.append(new Option(words.add, "", true, true));
  for (const [label, keys] of groups) {
    const group = el("optgroup", "", "", { label });
    group.append(...warps.filter(({ key }) => keys.includes(key)).map((warp) => new Option(warp.label, warp.key)));
    node.append(group);
  }
  node.onchange = () => {
    const warp = warps.find(({ key }) => key === node.value);
    node.value = "";
    if (warp) add(warp);
  };
  const mark = (n) => {
    node.disabled = n >= most;
    node.title = node.disabled ? fill(words.full, { most }) : "";
  };
  return { node, mark };
}

export function pipelineEditor(spec, start, onChange) {
  const { words } = spec,
    warps = Object.fromEntries(spec.warps.map((warp) => [warp.key, warp])),
    root = el("div", "pg-pipe"),
    list = el("ol", "pg-pipe-steps", "", { "aria-label": words.label }),
    none = el("p", "pg-muted pg-pipe-none", words.none),
    help = el("p", "pg-pipe-help"),
    status = el("p", "pg-pipe-said", "", { role: "status" }),
    foot = el("div", "pg-pipe-foot");
  let steps = copy(start).filter(({ warp }) => warps[warp]);
  const head = pipelineHead(spec, (next) => {
    steps = copy(next);
    rebuild();
    tell(true);
  });
  const more = addList(spec, (warp) => {
    // a rule goes first: after a cut, perhaps no token that fits is left
    if (warp.rule) steps.unshift({ warp: warp.key, values: {}, rule: firstRule(spec.rules) });
    else steps.push({ warp: warp.key, values: {}, ...(warp.text ? { text: warp.text.default } : {}) });
    rebuild();
    explain(warp.key);
    const added = warp.rule ? list.firstElementChild : list.lastElementChild;
    added.querySelector(".pg-pipe-fields :is(input, textarea)")?.focus();
    tell(true);
  });

  const filled = ({ warp, values = {}, text, rule = null, off = false }) => [
    warp,
    Object.values(valuesOf(warps[warp], values)),
    text ?? warps[warp].text?.default ?? "",
    rule,
    Boolean(off),
  ];
  const same = (other) => JSON.stringify(other.map(filled)) === JSON.stringify(steps.map(filled));
  const tell = (settled) => {
    mark();
    onChange(copy(steps), settled);
  };
  // Update the preset, the state of the buttons, and the numbers of the steps; disabled steps have no number.
  const mark = () => {
    head.mark(same);
    more.mark(steps.length);
    none.hidden = steps.some(({ off }) => !off);
    let n = 0;
    [...list.children].forEach((line, at) => {
      line.classList.toggle("pg-off", Boolean(steps[at].off));
      line.querySelector(".pg-pipe-number").textContent = steps[at].off ? words.off : String(++n);
    });
  };
  const explain = (key) => {
    const warp = warps[key],
      source = warp && el("span", "", fill(words.source, { source: warp.source }));
    help.replaceChildren(...(warp ? [el("b", "", warp.label), ` ${warp.help} `, source] : []));
  };
  const rebuild = (focus) => {
    const last = steps.length - 1;
    list.replaceChildren(...steps.map((step, at) => stepLine(step, { at, last }, warps[step.warp], spec, acts)));
    mark();
    if (!focus) return;
    const [at, what] = focus,
      buttons = [...(list.children[at]?.querySelectorAll("button") ?? [])],
      target = buttons.find((button) => button.dataset.what === what);
    (target && !target.disabled ? target : (buttons.find((button) => !button.disabled) ?? more.node)).focus();
  };
  const acts = {
    tell,
    explain,
    move(at, by) {
      const [step] = steps.splice(at, 1),
        n = at + by;
      steps.splice(n, 0, step);
      rebuild([n, by < 0 ? "up" : "down"]);
      status.textContent = fill(words.moved, { name: warps[step.warp].label, n: n + 1, total: steps.length });
      tell(true);
    },
    remove(at) {
      steps.splice(at, 1);
      rebuild([Math.min(at, steps.length - 1), "remove"]);
      tell(true);
    },
  };
  foot.append(more.node, help);
  root.append(head.node, none, list, foot, status);
  rebuild();
  explain(steps[0]?.warp);
  return root;
}

// Recommended settings by use case; a click applies them.
function usesTable({ uses, words }, fold, use) {
  const box = el("details", "pg-pipe-uses"),
    scroll = el("div", "pg-pipe-uses-scroll");
  const line = ({ label, settings, why, steps }) => {
    const button = el("button", "pg-button pg-quiet", words.uses_try, {
      type: "button",
      "aria-label": `${words.uses_try}: ${label}`,
    });
    button.onclick = () => use(steps);
    return [label, settings, why, button];
  };
  const columns = [words.uses_column, words.uses_settings, words.uses_why, null];
  scroll.append(tableOf({ columns, rows: uses.map(line) }));
  box.append(el("summary", "", words.uses), el("p", "pg-muted", words.uses_about), scroll);
  box.open = fold.open;
  box.ontoggle = () => {
    fold.open = box.open;
  };
  return box;
}

// The pipeline below for other parts: use(steps) replaces its steps.
export const shared = { steps: () => [], use: () => {} };

// The pipeline shared by several views of a tab. payload: the spec with `other`, that of the tools; value: { steps }.
define("pipeline", (root, props, ask) => {
  let timer = null,
    sent = "";
  const tell = () => {
    clearTimeout(timer);
    const value = JSON.stringify(props.value);
    if (value === sent) return;
    sent = value;
    ask("select");
  };
  let spec = null;
  const fold = { open: false },
    tools = { open: false, text: "", tool: "", answer: null };
  const use = (steps) => {
    props.value = { steps: copy(steps) };
    draw(spec);
    ask("select");
  };
  const now = () => copy(Array.isArray(props.value?.steps) ? props.value.steps : spec.default);
  Object.assign(shared, { steps: now, use });
  const draw = (next) => {
    spec = next;
    const steps = now();
    sent = JSON.stringify(props.value);
    const take = (steps) => {
        use(steps);
        root.querySelector(".pg-pipe-other-said").focus(); // what was read, in the new fold
      },
      other = toolFold(spec.other, tools, { steps: now, use: take });
    root.replaceChildren(
      pipelineEditor(spec, steps, (next, settled) => {
        props.value = { steps: next };
        other.forget();
        clearTimeout(timer);
        if (settled) tell();
        else timer = setTimeout(tell, PAUSE);
      }),
      usesTable(spec, fold, use),
      other.node,
      compareButton(spec.other, now),
    );
    root.dataset.ready = "yes";
  };
  draw.stateOf = (value) => (spec && JSON.stringify(value.steps) === JSON.stringify(spec.default) ? null : value);
  return draw;
});
