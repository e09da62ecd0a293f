// The neurons of a layer as a list and on all tokens, and one of them on the text.
import { exporting } from "../../export/menu.js";
import { alongColumn, alongRow, el, fill, roving } from "../../page/dom.js";
import { define } from "../../page/mount.js";
import { adding, onSelect, select, selection, toggled } from "../../page/selection/selection.js";
import { isDark, onTheme } from "../../page/theme.js";
import { lookup } from "../../parts/colors.js";
import { mountPlot } from "../../parts/figure/figure.js";
import { rowOf, tableOf } from "../../parts/table.js";
import { titled } from "../../parts/titled.js";

const PAUSE = 250; // milliseconds to wait after the last typed digit

// --- the top neurons in the selected order ---
//
// payload: { title, note, rows: [{ neuron, value, peak, shown: { value, peak }, at, token, toward }], of, last, map, run, words }
//   map: a figure's payload with the additional field `neurons`, the number of each row's neuron. value: { of, neuron }
define("neurontop", (root, props, ask) => {
  const title = el("h2"),
    note = el("p", "pg-about"),
    field = el("label", "pg-control pg-neuron-number"),
    label = el("span", "pg-control-label");
  const box = el("input", "", "", { type: "number", min: 0, step: 1 }),
    frame = el("div", "pg-neuron-table"),
    map = el("div", "pg-neuron-map"),
    foot = el("div");
  field.append(label, box);
  root.append(title, note, field, frame, foot, map);
  let payload = null,
    timer = null;
  const chosen = () =>
    payload && props.value?.of === payload.of && Number.isInteger(props.value.neuron)
      ? props.value.neuron
      : payload?.rows[0].neuron;
  const place = () => payload?.map.neurons.indexOf(chosen()) ?? -1;

  const paint = () => {
    if (document.activeElement !== box) box.value = chosen();
    for (const button of frame.querySelectorAll("button"))
      button.setAttribute("aria-pressed", +button.dataset.neuron === chosen());
  };
  const choose = (neuron, tokens) => {
    props.value = { of: payload.of, neuron };
    paint();
    ask("select");
    select(tokens ? { tokens } : {}); // the map then redraws its frame around the row
  };
  const draw = mountPlot(map, {
    // A selected token is a column, the selected neuron a row; window rows have indices below 0 (see map_figure).
    marked: () => [...selection.tokens, ...(place() < 0 ? [] : [place() - payload.map.neurons.length])],
    pick: (row, token) => choose(payload.map.neurons[row + payload.map.neurons.length], [token]),
  });
  box.oninput = () => {
    clearTimeout(timer);
    const neuron = Number(box.value);
    if (box.value === "" || !Number.isInteger(neuron) || neuron < 0 || neuron > payload.last) return;
    timer = setTimeout(() => choose(neuron), PAUSE);
  };
  box.onblur = paint;
  roving(frame, alongColumn);

  const line = (row, index, largest) => {
    const { neuron, value, shown, token, toward, at } = row,
      lane = el("span", "pg-neuron-lane", "", { "aria-hidden": "true" }),
      bar = el("i", value < 0 ? "pg-neuron-below" : "");
    const button = el("button", "pg-neuron-pick", String(neuron), {
      type: "button",
      "data-index": index,
      "data-neuron": neuron,
      "aria-label": fill(payload.words.row_name, { ...row, ...shown }),
      tabindex: index ? -1 : 0,
    });
    bar.style.width = `${(100 * Math.abs(value)) / largest}%`;
    lane.append(bar);
    // A cell may be too narrow for its token.
    const tr = rowOf([
      button,
      { look: "pg-neuron-value", inside: [el("b", "", shown.value), lane] },
      { inside: [el("span", "pg-neuron-token", token), el("span", "pg-muted", ` ${at}`)], help: `${token} ${at}` },
      { inside: el("span", "pg-neuron-token", toward), help: toward },
    ]);
    tr.onclick = () => choose(neuron);
    return tr;
  };
  const take = (next) => {
    payload = next;
    const { words, rows, last } = payload,
      largest = Math.max(...rows.map(({ value }) => Math.abs(value))) || 1;
    title.textContent = payload.title;
    note.textContent = payload.note;
    label.textContent = fill(words.number, { last });
    box.max = last;
    const names = ["neuron", "value", "peak", "toward"].map((name) => words[`column_${name}`]),
      grid = tableOf({ columns: names, rows: rows.map((row, index) => line(row, index, largest)) });
    const focused = frame.contains(document.activeElement) ? document.activeElement.dataset.index : null;
    frame.replaceChildren(grid);
    if (focused) frame.querySelector(`button[data-index="${focused}"]`)?.focus({ preventScroll: true });
    paint();
    foot.replaceChildren(
      exporting(root, {
        file: "neurons",
        title: payload.title,
        note: payload.note,
        source: payload.map.source,
        names: [...names.slice(0, 3), "position", "token", names[3]],
        lines: rows.map(({ neuron, value, peak, at, token, toward }) => [neuron, value, peak, at, token, toward]),
      }),
    );
    draw({ ...payload.map, run: payload.run });
    root.dataset.run = payload.run;
  };
  take.stateOf = (value) => value;
  return take;
});

// --- one neuron ---
//
// payload: { title, note, tokens, breaks, at, columns: { pre, post, up }, shown (texts of post), ends, facts: [[label, value]],
//            pushes: { up: [[token, score, text]], down }, ramps, source, file, run, python, words }
// Choose black or white text, whichever is more readable on a color, by the relative luminance of WCAG 2.2.
function ink(rgb) {
  const [r, g, b] = rgb.map((v) => v / 255).map((v) => (v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4));
  return 0.2126 * r + 0.7152 * g + 0.0722 * b > 0.179 ? "#000000" : "#ffffff";
}
function paintNeuron(text, scale, { columns, ramps, at, ends, words }) {
  const colors = lookup(ramps[isDark() ? "dark" : "light"]),
    top = columns.post.reduce((a, b) => Math.max(a, Math.abs(b)), 0) || 1,
    picked = new Set(selection.tokens.length ? selection.tokens : [at]);
  for (const token of text.querySelectorAll("button")) {
    const value = columns.post[+token.dataset.index],
      rgb = colors[Math.round(127 + 127 * Math.sign(value) * Math.sqrt(Math.abs(value) / top))];
    token.style.backgroundColor = `rgb(${rgb})`;
    token.style.color = ink(rgb);
    token.setAttribute("aria-pressed", picked.has(+token.dataset.index));
  }
  const bar = el("i", "pg-reading-ramp", "", { "aria-hidden": "true" }),
    stops = Array.from({ length: 9 }, (_, i) => `rgb(${colors[Math.round(31.75 * i)]}) ${12.5 * i}%`);
  bar.style.background = `linear-gradient(to right, ${stops.join(", ")})`;
  scale.replaceChildren(el("b", "", ends[0]), bar, el("b", "", ends[1]), el("span", "", `(${words.scale})`));
}
function neuronTokens({ tokens, breaks }) {
  const ends = new Set(breaks);
  return tokens.flatMap((token, at) => {
    const button = el("button", "pg-reading-token", token, {
      type: "button",
      "data-index": at,
      tabindex: at ? -1 : 0,
    });
    return ends.has(at) ? [button, el("br")] : [button];
  });
}
function pushedTokens(pushes, label) {
  const part = el("div"),
    items = el("ol", "pg-neuron-pushes");
  for (const [token, , score] of pushes) {
    const item = el("li");
    item.append(el("span", "pg-neuron-token", token), el("span", "pg-muted", score));
    items.append(item);
  }
  part.append(el("h3", "", label), items);
  return part;
}
// Build a label with its value, or only the neuron's number.
function neuronFact([label, value]) {
  const item = el("span");
  item.append(
    ...(value ? [el("span", "pg-muted", `${label} `), el("b", "", value)] : [el("span", "pg-neuron-at", label)]),
  );
  return item;
}
function neuronNumbers({ words, columns, tokens }) {
  const gated = Boolean(columns.up),
    before = gated ? ["gate", "up"] : ["pre"],
    numbers = [columns.pre, ...(gated ? [columns.up] : []), columns.post];
  return {
    names: ["position", "token", ...before, "post"].map((name) => words[`column_${name}`]),
    lines: tokens.map((token, at) => [at, token, ...numbers.map((column) => column[at])]),
    table: true,
  };
}

define("neuronone", (root) => {
  const facts = el("div", "pg-neuron-facts"),
    text = el("div", "pg-reading-text pg-neuron-text", "", { role: "group" }),
    scale = el("p", "pg-reading-scale"),
    lists = el("div", "pg-neuron-lists"),
    about = el("p", "pg-about"),
    show = titled(root, facts, text, scale, lists, about);
  let payload = null,
    shown = "";
  const paint = () => payload && paintNeuron(text, scale, payload);
  text.addEventListener("click", (event) => {
    const token = event.target.closest(".pg-reading-token");
    if (!token) return;
    const at = +token.dataset.index;
    select({ tokens: adding(event) ? toggled(selection.tokens, at, true) : [at] });
  });
  roving(text, alongRow);
  onTheme(paint);
  onSelect(paint);
  return (next) => {
    payload = next;
    const { words, tokens, shown: values, pushes } = payload,
      now = JSON.stringify(tokens);
    facts.replaceChildren(...payload.facts.map(neuronFact));
    text.setAttribute("aria-label", words.text);
    if (now !== shown) text.replaceChildren(...neuronTokens(payload)); // otherwise keep the buttons and the focus
    shown = now;
    for (const token of text.querySelectorAll("button")) {
      const at = +token.dataset.index;
      token.title = fill(words.token_name, { token: tokens[at], position: at, value: values[at] });
      token.setAttribute("aria-label", token.title);
    }
    lists.replaceChildren(pushedTokens(pushes.up, words.promotes), pushedTokens(pushes.down, words.suppresses));
    about.textContent = words.pushes_about;
    paint();
    show(payload, neuronNumbers(payload));
  };
});
