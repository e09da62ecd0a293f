// Small forms: a row of settings beside the figure they control. value: a plain object with one entry per control
//
// payload: { controls: [{ name, kind, label, value, options, min, max, step, when, help }], help, shows }
//  kind "views" and "choice": options [[value, text, help]]; "views" is a row of buttons, "choice" a select menu
//  options of "views" may have a fourth entry, a sentence: the views are then the stages of one process, in order
//  groups: { option: the heading above it and its neighbors in a select menu, or "" }
//  absent: the views whose buttons are hidden while they are not selected
//  kind "check": a checkbox; "range": a slider with its number; "number"; "text"; "tokens": the prompt as chips
//  file: accepted types of files whose text, of .npz and .gguf in base64, can be loaded; kind "button": repeats the question without a change
//  help: the label of the button that unfolds the texts of several settings
//  when { other: [values] }: visible only while another control has one of these values
//  shows { value of the first control: [parts] }: alternative parts of the page
import { el, roving } from "../page/dom.js";
import { choose, define } from "../page/mount.js";

const MOST_BYTES = 740_000; // of a file that is sent in base64
const BINARY = /\.(npz|gguf)$/i;
const PAUSE = 120; // milliseconds between questions while a slider moves or the user types

// Scroll a row sideways, so that one of its buttons is in sight; the page stays where it is.
function reveal(row, button) {
  const [outer, inner] = [row, button].map((node) => node.getBoundingClientRect());
  if (inner.left < outer.left || inner.right > outer.right)
    row.scrollLeft += inner.left - outer.left - (outer.width - inner.width) / 2;
}

// Read a file as base64; one that is too large as text that the server refuses.
async function base64(file) {
  if (file.size > MOST_BYTES) return "too large";
  let text = "";
  for (const byte of new Uint8Array(await file.arrayBuffer())) text += String.fromCharCode(byte);
  return btoa(text);
}

const makers = {
  views(control, value, change) {
    const row = el("div", "pg-views", "", { role: "tablist", "aria-label": control.label });
    row.classList.toggle("pg-stages", Boolean(control.options[0][3]));
    control.options.forEach(([key, text, term, stage], index) => {
      const tab = el("button", "pg-view", text, {
        type: "button",
        role: "tab",
        "data-index": index,
        "data-key": key,
      });
      if (stage) tab.prepend(el("span", "pg-stage-number", `${index + 1} `, { "aria-hidden": "true" }));
      if (term) {
        tab.append(el("small", "", stage || term, { "aria-hidden": "true" })); // the technical term
        tab.setAttribute("aria-description", stage ? `${term}. ${stage}` : term);
      }
      tab.onclick = () => {
        mark(key);
        change(key);
      };
      row.append(tab);
    });
    const mark = (selected) => {
      for (const tab of row.children) {
        const { key } = tab.dataset;
        tab.setAttribute("aria-selected", key === selected);
        tab.tabIndex = key === selected ? 0 : -1;
        tab.hidden = key !== selected && (control.absent ?? []).includes(key);
        if (key === selected) requestAnimationFrame(() => reveal(row, tab));
      }
    };
    mark(value);
    roving(row, (key, at, n) => ({ ArrowRight: (at + 1) % n, ArrowLeft: (at - 1 + n) % n })[key] ?? null);
    return row;
  },
  choice(control, value, change) {
    const select = el("select");
    let group = null;
    for (const [key, text] of control.options) {
      const label = control.groups?.[key] ?? "";
      if (label !== (group?.label ?? "")) {
        group = label ? el("optgroup", "", "", { label }) : null;
        if (group) select.append(group);
      }
      (group ?? select).append(new Option(text, key, key === control.value, key === value));
    }
    select.onchange = () => change(select.value);
    return select;
  },
  check(control, value, change) {
    const box = el("input", "", "", { type: "checkbox" });
    box.checked = value;
    box.onchange = () => change(box.checked);
    return box;
  },
  range(control, value, change) {
    const both = el("span", "pg-slider");
    const slider = el("input", "", "", { type: "range", min: control.min, max: control.max, step: control.step });
    const shown = el("output", "", String(value));
    slider.value = value;
    slider.oninput = () => {
      shown.textContent = slider.value;
      change(+slider.value, PAUSE);
    };
    both.append(slider, shown);
    return both;
  },
  number(control, value, change) {
    const box = el("input", "", "", { type: "number", min: control.min, max: control.max, step: control.step ?? 1 });
    box.placeholder = control.placeholder ?? "";
    box.value = value;
    box.oninput = () => {
      if (box.value !== "" && box.validity.valid) change(+box.value, PAUSE);
    };
    return box;
  },
  button(control, value, change) {
    const button = el("button", "pg-button", control.label, { type: "button" });
    button.onclick = () => change(value);
    return button;
  },
  text(control, value, change) {
    const box = el(control.lines > 1 ? "textarea" : "input", "", "", { placeholder: control.placeholder ?? "" });
    if (control.lines > 1) box.rows = control.lines;
    else box.type = "text";
    box.value = value;
    box.oninput = () => change(box.value, 3 * PAUSE);
    if (!control.file) return box;
    const both = el("span", "pg-control-file"),
      file = el("input", "", "", { type: "file", accept: control.file, "aria-label": control.label });
    file.onchange = async () => {
      const [picked] = file.files;
      if (!picked) return;
      box.value = BINARY.test(picked.name) ? await base64(picked) : (await picked.slice(0, 1e6).text()).trim();
      change(box.value);
    };
    both.append(box, file);
    return both;
  },
};

define("controls", (root, props, ask) => {
  let timer = null,
    payload = null;
  const fields = new Map();
  const help = el("div", "pg-control-help");
  // Fold several texts behind a button, so that the settings stay in one line.
  const folded = (lines) => {
    const details = el("details");
    details.open = help.querySelector("details")?.open ?? false;
    details.append(el("summary", "", payload.help), ...lines);
    return details;
  };
  // Return the control's value, or its initial one if a link contains an invalid value.
  const fits = ({ kind, value, options }, chosen) => {
    if (options) return options.some(([key]) => key === chosen || String(key) === chosen);
    return (
      value === null ||
      typeof chosen === typeof value ||
      (kind === "number" && [chosen, value].every((each) => each === "" || Number.isFinite(each)))
    );
  };
  const controlValue = (control) => {
    const chosen = props.value?.[control.name] ?? control.value;
    return fits(control, chosen) ? chosen : control.value;
  };
  const values = () => Object.fromEntries(payload.controls.map((control) => [control.name, controlValue(control)]));
  const show = () => {
    const now = values();
    for (const { name, when } of payload.controls) {
      const fits = Object.entries(when ?? {}).every(([other, allowed]) => allowed.includes(now[other]));
      fields.get(name).hidden = !fits;
    }
    const texts = payload.controls
      .filter(({ name }) => !fields.get(name).hidden)
      .map(({ name, kind, label, options }) => [
        label,
        kind === "views" ? "" : options?.find(([key]) => key === now[name])?.[2],
      ])
      .filter(([, text]) => text);
    const lines = texts.map(([label, text]) => {
      const line = el("span");
      if (texts.length > 1) line.append(el("b", "", label), " "); // the series to which the text belongs
      line.append(text);
      return line;
    });
    help.classList.toggle("pg-control-folded", lines.length > 1);
    help.replaceChildren(...(lines.length > 1 ? [folded(lines)] : lines));
    const rest = root.querySelector(".pg-control-rest"),
      seen = ({ hidden, firstChild }) => !hidden && firstChild;
    rest?.toggleAttribute("data-folded", ![...rest.children].some(seen));
    if (payload.shows) {
      const chosen = payload.shows[now[payload.controls[0].name]] ?? [];
      choose(chosen, [...new Set(Object.values(payload.shows).flat())]);
    }
  };
  const change =
    (name) =>
    (value, pause = 0) => {
      props.value = { ...values(), [name]: value };
      show();
      clearTimeout(timer);
      const tell = () => ask("select");
      if (pause) timer = setTimeout(tell, pause);
      else tell();
    };
  // Record the focused control and its text cursor, to restore them after redrawing.
  const held = () => {
    const at = document.activeElement;
    if (!root.contains(at)) return () => {};
    const { name } = at.closest("[data-name]")?.dataset ?? {};
    const { selectionStart: start, selectionEnd: end, dataset } = at;
    return () => {
      const key = dataset.key && `[data-key="${CSS.escape(dataset.key)}"]`;
      const next = fields.get(name)?.querySelector(key ?? "input, select, textarea, button");
      next?.focus({ preventScroll: true });
      if (next && Number.isInteger(start)) next.setSelectionRange(start, end);
    };
  };
  const draw = (next) => {
    const goOn = held();
    payload = next;
    const now = values();
    fields.clear();
    const made = payload.controls.map((control) => {
      const labeled = !["views", "button"].includes(control.kind);
      const field = el(labeled ? "label" : "div", `pg-control pg-control-${control.kind}`);
      field.dataset.name = control.name;
      const input = makers[control.kind](control, now[control.name], change(control.name));
      if (labeled) field.append(el("span", "pg-control-label", control.label));
      if (control.help) field.title = control.help;
      field.append(input);
      fields.set(control.name, field);
      return field;
    });
    // A row of views is placed above the text about the view, its settings below.
    const views = made.filter((field) => field.matches(".pg-control-views")),
      rest = el("div", "pg-control-rest");
    rest.append(...made.slice(views.length), help);
    root.replaceChildren(...views, ...(views.length ? [rest] : rest.childNodes));
    show();
    goOn();
  };
  // Return the entries that differ from the initial settings.
  draw.stateOf = (value) =>
    Object.fromEntries(
      Object.entries(value).filter(([name, chosen]) => {
        const control = payload?.controls.find((each) => each.name === name);
        return payload
          ? control && fits(control, chosen) && JSON.stringify(chosen) !== JSON.stringify(control.value)
          : true;
      }),
    );
  return draw;
});
