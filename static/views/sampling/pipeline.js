// The editor of a pipeline: an ordered list of steps that reshape a distribution.
//
// spec: { warps [{ key, label, help, kind, source, tokens, parameters [{ name, label, low, high, default, step, whole }] }],
//   groups [[kind, text]], presets [{ key, label, steps }], default, most, words }
// steps: [{ warp, values { name: number }, text?, off? }]; onChange(steps, settled), settled false while something moves
import { el, fill } from "../../page/dom.js";
import { define } from "../../page/mount.js";

const PAUSE = 120; // milliseconds after the last movement of a slider
const PLACES = 1000; // of a slider that is logarithmic

const copy = (steps) => steps.map((step) => ({ ...step, values: { ...step.values } }));
// The smallest number above 0 of a slider, and whether the slider is logarithmic: one from 0 has 0 as its first place.
const least = ({ low, step }) => low || step;
const logarithmic = (parameter) =>
  parameter.low >= 0 && parameter.high / least(parameter) >= (parameter.whole ? 100 : 1000) - 1e-6;
const digits = ({ whole, step }) => (whole ? 0 : Math.max(0, Math.ceil(-Math.log10(step) - 1e-9)));
const neat = (parameter, value) => Math.min(Math.max(+value.toFixed(digits(parameter)), parameter.low), parameter.high);
// Where on a slider a number is, and back; a logarithmic one has PLACES places.
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

export function pipelineEditor(spec, start, onChange) {
  const { words } = spec,
    warps = Object.fromEntries(spec.warps.map((warp) => [warp.key, warp]));
  const root = el("div", "pg-pipe"),
    head = el("div", "pg-pipe-head"),
    list = el("ol", "pg-pipe-steps", "", { "aria-label": words.label });
  const none = el("p", "pg-muted pg-pipe-none", words.none),
    help = el("p", "pg-pipe-help"),
    status = el("p", "pg-pipe-said", "", { role: "status" });
  const presets = el("select", "pg-pipe-presets", "", { "aria-label": words.presets }),
    add = el("select", "pg-pipe-add", "", { "aria-label": words.add });
  const reset = el("button", "pg-button pg-quiet", words.reset, { type: "button" }),
    foot = el("div", "pg-pipe-foot");
  let steps = copy(start).filter(({ warp }) => warps[warp]);

  const filled = ({ warp, values = {}, text = "", off = false }) => [
    warp,
    warps[warp].parameters.map(({ name, default: usual }) => values[name] ?? usual),
    text,
    Boolean(off),
  ];
  const same = (a, b) => JSON.stringify(a.map(filled)) === JSON.stringify(b.map(filled));
  const tell = (settled) => {
    mark();
    onChange(copy(steps), settled);
  };
  // Which preset this is, what can be done, and which number each step has: steps that are off have none.
  const mark = () => {
    presets.value = spec.presets.find((preset) => same(preset.steps, steps))?.key ?? "";
    presets.options[0].hidden = presets.value !== "";
    reset.disabled = same(steps, spec.default);
    add.disabled = steps.length >= spec.most;
    add.title = add.disabled ? fill(words.full, { most: spec.most }) : "";
    none.hidden = steps.some(({ off }) => !off);
    let n = 0;
    [...list.children].forEach((line, at) => {
      line.classList.toggle("pg-off", Boolean(steps[at].off));
      line.querySelector(".pg-pipe-number").textContent = steps[at].off ? words.off : String(++n);
    });
  };
  const explain = (key) => {
    const warp = warps[key];
    help.replaceChildren(
      ...(warp
        ? [el("b", "", warp.label), ` ${warp.help} `, el("span", "", fill(words.source, { source: warp.source }))]
        : []),
    );
  };
  const rebuild = (focus) => {
    list.replaceChildren(...steps.map(lineOf));
    mark();
    if (!focus) return;
    const [at, what] = focus,
      buttons = [...(list.children[at]?.querySelectorAll("button") ?? [])];
    const target = buttons.find((button) => button.dataset.what === what);
    (target && !target.disabled ? target : (buttons.find((button) => !button.disabled) ?? add)).focus();
  };
  const move = (at, by) => {
    const [step] = steps.splice(at, 1);
    steps.splice(at + by, 0, step);
    rebuild([at + by, by < 0 ? "up" : "down"]);
    status.textContent = fill(words.moved, { name: warps[step.warp].label, n: at + by + 1, total: steps.length });
    tell(true);
  };
  const remove = (at) => {
    steps.splice(at, 1);
    rebuild([Math.min(at, steps.length - 1), "remove"]);
    tell(true);
  };

  const numberOf = (warp, step, parameter) => {
    const field = el("label", "pg-pipe-field"),
      track = el("span", "pg-pipe-track"),
      name = `${warp.label}: ${parameter.label}`;
    const range = logarithmic(parameter)
      ? { min: 0, max: PLACES, step: 1 }
      : { min: parameter.low, max: parameter.high, step: parameter.step };
    const slider = el("input", "", "", { type: "range", ...range, "aria-label": name, "data-name": parameter.name });
    const box = el("input", "", "", {
      type: "number",
      min: parameter.low,
      max: parameter.high,
      step: parameter.whole ? 1 : "any",
      "aria-label": name,
      "data-name": parameter.name,
    });
    const usual = el("i", "", "", { "aria-hidden": "true" }),
      value = () => step.values[parameter.name];
    const label = fill(words.default, { value: parameter.default });
    const span = range.max - range.min,
      share = (number) => (placeOf(parameter, number) - range.min) / span;
    usual.style.setProperty("--pg-at", share(parameter.default));
    const paint = (source) => {
      if (source !== slider) slider.value = placeOf(parameter, value());
      if (source !== box) box.value = value();
      slider.setAttribute("aria-valuetext", String(value()));
      track.style.setProperty("--pg-at", share(value()));
      box.removeAttribute("aria-invalid");
    };
    const set = (number, source, settled) => {
      const before = value();
      step.values = { ...step.values, [parameter.name]: number };
      paint(source);
      if (number !== before || settled) tell(settled);
    };
    slider.title = label;
    slider.oninput = () => set(valueAt(parameter, +slider.value), slider, false);
    slider.ondblclick = () => set(parameter.default, null, true);
    box.oninput = () => {
      const fits = box.value !== "" && box.validity.valid;
      if (fits) set(+box.value, box, false);
      else box.setAttribute("aria-invalid", "true");
    };
    box.onchange = () => paint(null); // what does not fit is as it was
    paint(null);
    track.append(usual, slider);
    field.append(el("span", "pg-pipe-name", parameter.label), track, box);
    return field;
  };

  const lineOf = (step, at) => {
    const warp = warps[step.warp],
      line = el("li", `pg-pipe-step pg-pipe-${warp.kind}`, "", { "data-warp": step.warp });
    step.values = Object.fromEntries(
      warp.parameters.map(({ name, default: usual }) => [name, step.values?.[name] ?? usual]),
    );
    const button = (what, sign, act) => {
      const node = el("button", "pg-pipe-button", sign, {
        type: "button",
        "data-what": what,
        "aria-label": fill(words[what], { name: warp.label }),
        title: fill(words[what], { name: warp.label }),
      });
      node.onclick = act;
      return node;
    };
    const up = button("up", "↑", () => move(at, -1)),
      down = button("down", "↓", () => move(at, 1));
    up.disabled = at === 0;
    down.disabled = at === steps.length - 1;
    const use = el("input", "", "", { type: "checkbox", "aria-label": fill(words.use, { name: warp.label }) });
    use.checked = !step.off;
    use.onchange = () => {
      step.off = !use.checked;
      tell(true);
    };
    const title = el("label", "pg-pipe-title"),
      fields = el("span", "pg-pipe-fields"),
      moves = el("span", "pg-pipe-moves");
    title.append(use, el("b", "", warp.label));
    fields.append(...warp.parameters.map((parameter) => numberOf(warp, step, parameter)));
    if (warp.tokens) {
      const text = el("textarea", "", "", {
        rows: 2,
        placeholder: words.tokens_example,
        "aria-label": `${warp.label}: ${words.tokens}`,
        title: words.tokens,
        spellcheck: "false",
      });
      text.value = step.text ?? "";
      text.oninput = () => {
        step.text = text.value;
        tell(false);
      };
      fields.append(text);
    }
    moves.append(
      up,
      down,
      button("remove", "×", () => remove(at)),
    );
    line.append(el("span", "pg-pipe-number"), title, fields, moves);
    line.onmouseenter = () => explain(step.warp);
    line.addEventListener("focusin", () => explain(step.warp));
    return line;
  };

  presets.append(new Option(words.preset_own, ""), ...spec.presets.map(({ key, label }) => new Option(label, key)));
  presets.onchange = () => {
    const preset = spec.presets.find(({ key }) => key === presets.value);
    if (!preset) return;
    steps = copy(preset.steps);
    rebuild();
    tell(true);
  };
  add.append(new Option(words.add, "", true, true));
  for (const [kind, text] of spec.groups) {
    const group = el("optgroup", "", "", { label: text });
    group.append(...spec.warps.filter((warp) => warp.kind === kind).map((warp) => new Option(warp.label, warp.key)));
    if (group.children.length) add.append(group);
  }
  add.onchange = () => {
    const { value } = add;
    add.value = "";
    if (!warps[value]) return;
    steps.push({ warp: value, values: {}, ...(warps[value].tokens ? { text: "" } : {}) });
    rebuild();
    explain(value);
    list.lastElementChild.querySelector(".pg-pipe-fields input, .pg-pipe-fields textarea")?.focus();
    tell(true);
  };
  reset.onclick = () => {
    steps = copy(spec.default);
    rebuild();
    tell(true);
  };

  const start_from = el("label", "pg-pipe-from");
  start_from.append(el("span", "pg-muted", words.presets), presets);
  head.append(el("span", "pg-label", words.label), start_from, reset);
  foot.append(add, help);
  root.append(head, none, list, foot, status);
  rebuild();
  explain(steps[0]?.warp);
  return root;
}

// Settings by use, each tried by a click.
function usesTable({ uses, words }, fold, use) {
  const box = el("details", "pg-pipe-uses"),
    grid = el("table"),
    head = el("tr"),
    body = el("tbody"),
    scroll = el("div", "pg-pipe-uses-scroll");
  for (const name of [words.uses_column, words.uses_settings, words.uses_why, ""])
    head.append(name ? el("th", "", name, { scope: "col" }) : el("td"));
  for (const { label, settings, why, steps } of uses) {
    const row = el("tr"),
      cell = el("td"),
      button = el("button", "pg-button pg-quiet", words.uses_try, {
        type: "button",
        "aria-label": `${words.uses_try}: ${label}`,
      });
    button.onclick = () => use(steps);
    cell.append(button);
    row.append(el("th", "", label, { scope: "row" }), el("td", "", settings), el("td", "", why), cell);
    body.append(row);
  }
  const top = el("thead");
  top.append(head);
  grid.append(top, body);
  scroll.append(grid);
  box.append(el("summary", "", words.uses), el("p", "pg-muted", words.uses_about), scroll);
  box.open = fold.open;
  box.ontoggle = () => {
    fold.open = box.open;
  };
  return box;
}

// The pipeline that several views of a tab share: payload is the spec, value { steps }.
define("pipeline", (root, props, trigger) => {
  let timer = null,
    sent = "";
  const tell = () => {
    clearTimeout(timer);
    const now = JSON.stringify(props.value);
    if (now === sent) return;
    sent = now;
    trigger("select", { index: 0, value: now });
  };
  let spec = null;
  const fold = { open: false };
  const use = (steps) => {
    props.value = { steps: copy(steps) };
    draw(spec);
    trigger("select", { index: 0, value: sent });
  };
  const draw = (next) => {
    spec = next;
    const steps = Array.isArray(props.value?.steps) ? props.value.steps : spec.default;
    sent = JSON.stringify(props.value);
    root.replaceChildren(
      pipelineEditor(spec, steps, (next, settled) => {
        props.value = { steps: next };
        clearTimeout(timer);
        if (settled) tell();
        else timer = setTimeout(tell, PAUSE);
      }),
      usesTable(spec, fold, use),
    );
    root.dataset.ready = "yes";
  };
  draw.stateOf = (value) => (spec && JSON.stringify(value.steps) === JSON.stringify(spec.default) ? null : value);
  return draw;
});
