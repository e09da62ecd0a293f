// The grid of all heads: thumbnails of their maps by layer and head, a number of each head as colors, or the heads in the
// order of that number. A click selects a head; Shift adds to the selection.
import { el, fill, hint, onWidth } from "../page/dom.js";
import { onTheme } from "../page/theme.js";
import { ink, lookup } from "../parts/colors.js";
import { switcher } from "../parts/switcher.js";
import { byPlace, LABEL } from "../views/attention/overview_layout.js";
import { thumbnail } from "./data.js";
import { both, numberText, ramp, rampBar } from "./looks.js";

const HIGHEST = 560, // maximum height in pixels of the grid by layer and head
  SMALLEST = 56, // width in pixels of a head in the sorted grid
  TEXT = 34, // minimum width in pixels of a cell with a number
  SLICE = 10, // milliseconds of drawing before other work gets its turn
  CAPTION = 30; // height in pixels of the name and the number below a head

// Lay out heads one after the other, with two lines of text below each.
function inTurn(order, width) {
  const columns = Math.max(1, Math.floor(width / (SMALLEST + 6))),
    step = Math.floor(width / columns),
    cell = Math.min(step - 6, 84),
    at = new Map(order.map((index, i) => [index, i])),
    to = (i) => order[i] ?? null;
  return {
    cell,
    caption: true,
    place: (index) => ({
      x: (at.get(index) % columns) * (cell + 6),
      y: Math.floor(at.get(index) / columns) * (cell + CAPTION),
    }),
    walk: (index) => {
      const i = at.get(index);
      return { ArrowRight: to(i + 1), ArrowLeft: to(i - 1), ArrowDown: to(i + columns), ArrowUp: to(i - columns) };
    },
    width: columns * (cell + 6),
    height: Math.ceil(order.length / columns) * (cell + CAPTION),
  };
}

// Return the heads in decreasing order of a number, those without one last.
export const ranked = (values) =>
  [...values.keys()].sort((a, b) => (values[b] ?? -Infinity) - (values[a] ?? -Infinity) || a - b);
// Return the places of numbers on a ramp from their smallest to their largest; null for a missing number.
function placesOf(values) {
  const known = values.filter((value) => value !== null),
    low = Math.min(...known),
    high = Math.max(...known);
  return {
    low,
    high,
    places: values.map((value) => (value === null ? null : high > low ? (value - low) / (high - low) : 0.5)),
  };
}

// Draw one head's thumbnail, or its cell in the color of its number.
function paintOne(ctx, index, { look, plan, colors, ratio, values, style }) {
  const { x, y } = plan.place(index),
    { cell } = plan;
  ctx.fillStyle = style.ground;
  ctx.fillRect(x, y, cell, cell);
  if (look.grid === "values") {
    const place = values.places[index];
    if (place !== null) {
      const color = colors[Math.round(place * 254)];
      ctx.fillStyle = `rgb(${color})`;
      ctx.fillRect(x, y, cell, cell);
      ctx.fillStyle = ink(color, style.text);
    } else ctx.fillStyle = style.soft;
    if (cell >= TEXT) ctx.fillText(numberText(values.raw[index], values.unit), x + cell / 2, y + cell / 2);
    return;
  }
  const { width, height, places } = thumbnail(look.data, look.data.heads[index], Math.round(cell * ratio)),
    image = new ImageData(width, height),
    pixels = new Uint32Array(image.data.buffer),
    small = document.createElement("canvas");
  places.forEach((place, i) => {
    pixels[i] = colors[place];
  });
  small.width = width;
  small.height = height;
  small.getContext("2d").putImageData(image, 0, 0);
  ctx.drawImage(small, x, y, cell, cell);
  if (!plan.caption) return;
  ctx.fillStyle = style.text;
  ctx.fillText(look.data.name(look.data.heads[index]), x + cell / 2, y + cell + 9);
  ctx.fillStyle = style.soft;
  ctx.fillText(numberText(values.raw[index], values.unit), x + cell / 2, y + cell + 22);
}

function labelAxes(ctx, { doc }, plan) {
  const every = Math.ceil(16 / plan.cell),
    half = plan.cell / 2;
  for (let layer = 0; layer < doc.layers; layer += every) {
    const { x, y } = plan.place(layer * doc.heads);
    ctx.fillText(layer + (doc.first_layer ?? 0), x - LABEL / 2 - 1, y + half);
  }
  for (let layer = 0; layer < doc.layers; layer += plan.rows)
    for (let head = 0; head < doc.heads; head += every)
      ctx.fillText(head, plan.place(layer * doc.heads + head).x + half, LABEL / 2);
}

// Draw the grid, in slices. Returns a function that stops the drawing.
function paint(canvas, look, plan, order, values) {
  const ratio = window.devicePixelRatio || 1,
    ctx = canvas.getContext("2d"),
    computed = getComputedStyle(canvas),
    color = (name) => computed.getPropertyValue(name).trim(),
    style = { text: color("--pg-text"), soft: color("--pg-soft"), ground: color("--pg-ground") },
    list = lookup(ramp(look.doc)),
    table = new Uint32Array(256),
    bytes = new Uint8Array(table.buffer);
  canvas.width = plan.width * ratio;
  canvas.height = plan.height * ratio;
  Object.assign(canvas.style, { width: `${plan.width}px`, height: `${plan.height}px` });
  ctx.scale(ratio, ratio);
  ctx.imageSmoothingEnabled = false;
  ctx.font = "11px ui-sans-serif, system-ui, sans-serif";
  ctx.textAlign = "center";
  ctx.textBaseline = "middle";
  list.forEach((rgb, code) => bytes.set([...rgb, 255], code * 4));
  ctx.fillStyle = style.soft;
  if (plan.axes) labelAxes(ctx, look, plan);
  const colors = look.grid === "values" ? list : table,
    brush = { look, plan, colors, ratio, values, style };
  let next = 0,
    timer = 0;
  const slice = () => {
    const until = performance.now() + SLICE;
    while (next < order.length && performance.now() < until) paintOne(ctx, order[next++], brush);
    if (next < order.length) timer = requestAnimationFrame(slice);
    else canvas.dataset.drawn = look.grid;
  };
  delete canvas.dataset.drawn;
  slice();
  return () => cancelAnimationFrame(timer);
}

// Build the select of the numbers and the switch of the three pictures.
function controls(look, set) {
  const { doc, words } = look,
    node = el("div", "pg-viewer-controls");
  const label = el("label", "pg-viewer-number"),
    select = el("select", "", "", { "data-name": "number" });
  select.append(...doc.numbers.map(({ key, label: text }) => el("option", "", text, { value: key })));
  select.value = look.number;
  // With the maps, a number has no effect, so choosing one shows it.
  select.onchange = () => set({ number: select.value, grid: look.grid === "maps" ? "values" : look.grid });
  label.append(el("span", "", words.number), select);
  label.hidden = !doc.numbers.length;
  const add = el("button", "pg-button pg-quiet pg-viewer-add", words.add, {
    type: "button",
    title: words.add_help,
    "aria-pressed": false,
  });
  add.onclick = () => {
    look.adds = !look.adds;
    add.setAttribute("aria-pressed", look.adds);
  };
  const options = ["maps", "values", "sorted"].map((key) => [key, words[`grid_${key}`]]);
  let pictures = null;
  const draw = () => {
    const next = switcher(words.grid, options, look.grid, (grid) => set({ grid }));
    if (pictures) pictures.replaceWith(next);
    else node.append(next, label, add);
    pictures = next;
    pictures.hidden = !doc.numbers.length;
  };
  draw();
  return Object.assign(node, {
    update() {
      const pressed = pictures.querySelector("[aria-pressed=true]"),
        at = options.findIndex(([key]) => key === look.grid);
      if (pressed !== pictures.children[at]) draw();
    },
  });
}

// Build a button over each head.
function buttons(look, { plan, describe, rest, pick }) {
  const node = el("div", "pg-head-buttons"),
    at = (event) => event.target.dataset?.index,
    hover = (event) => at(event) && describe(+at(event));
  node.append(
    ...look.data.heads.map((head, index) =>
      el("button", "pg-head", "", {
        type: "button",
        "data-index": index,
        "aria-label": fill(look.words.head, { head: look.data.name(head) }),
        tabindex: -1,
      }),
    ),
  );
  node.addEventListener(
    "click",
    (event) => at(event) && pick(+at(event), event.shiftKey || event.ctrlKey || event.metaKey),
  );
  node.addEventListener("mouseover", hover);
  node.addEventListener("focusin", hover);
  node.addEventListener("mouseleave", rest);
  node.addEventListener("keydown", (event) => {
    if (!at(event)) return;
    if (event.key === "Enter" && (event.shiftKey || event.ctrlKey || event.metaKey)) {
      event.preventDefault(); // browsers activate a button only on Enter without modifiers
      return pick(+at(event), true);
    }
    const to = plan().walk(+at(event))[event.key] ?? null;
    if (to === null) return;
    event.preventDefault();
    event.target.tabIndex = -1;
    node.children[to].tabIndex = 0;
    node.children[to].focus();
  });
  return node;
}

// Build the overview. `set` changes the state, `pick(index, add)` selects a head. Returns { node, draw(changes) }.
export function headsGrid(look, { set, pick }) {
  const { doc, words, data } = look,
    node = el("section", "pg-viewer-heads", "", { "aria-label": words.heads }),
    about = el("p", "pg-about"),
    bar = el("div", "pg-viewer-bar"),
    scroll = el("div", "pg-viewer-scroll"),
    board = el("div", "pg-board", "", { role: "group", "aria-label": words.heads }),
    canvas = el("canvas", "", "", { "aria-hidden": "true" }),
    readout = el("div", "pg-readout", "", { "aria-live": "polite" }),
    tools = controls(look, set);
  let plan = null,
    stop = () => {};
  const index = ([layer, head]) => layer * doc.heads + head,
    number = () => doc.numbers.find(({ key }) => key === look.number),
    valuesOf = (of) => of.values[look.unit] ?? of.values.tokens;
  const describe = (at) =>
    readout.replaceChildren(
      el("strong", "", fill(words.head, { head: data.name(data.heads[at]) })),
      ...doc.numbers.map((each) => {
        const value = valuesOf(each)[at] ?? null,
          item = el("div", "pg-metric", "", { title: each.help ?? "" });
        const shown =
          value === null ? words.undefined : numberText(value, each.unit === "tokens" ? look.unit : each.unit, words);
        item.append(el("span", "", each.label), el("b", value === null ? "pg-muted" : "", shown));
        return item;
      }),
    );
  const rest = () => describe(index(look.heads.at(-1)));
  const over = buttons(look, { plan: () => plan, describe, rest, pick });
  board.append(canvas, over);
  scroll.append(board);
  node.append(el("h2", "", words.heads), about, tools, bar, scroll, readout);

  const lay = () => {
    if (!node.clientWidth) return;
    stop();
    const width = scroll.clientWidth - 10, // without its padding
      of = number(),
      raw = of ? valuesOf(of).map((value) => value ?? null) : [],
      values = { raw, unit: of?.unit, ...placesOf(raw) },
      order = look.grid === "sorted" ? ranked(raw) : [...data.heads.keys()];
    plan = look.grid === "sorted" ? inTurn(order, width) : byPlace({ ...doc, group: 1 }, width, HIGHEST);
    stop = paint(canvas, look, plan, order, values);
    for (const button of over.children) {
      const { x, y } = plan.place(+button.dataset.index),
        cell = `${plan.cell}px`;
      Object.assign(button.style, { left: `${x}px`, top: `${y}px`, width: cell, height: cell });
    }
    bar.replaceChildren(
      ...(look.grid === "values" && of
        ? rampBar(doc, of.label, numberText(values.low, of.unit, words), numberText(values.high, of.unit, words))
        : []),
    );
    bar.hidden = !bar.childElementCount;
    about.textContent = both(fill(words[`about_${look.grid}`], { number: of?.label ?? "" }), hint(words, "heads_help"));
  };
  const mark = () => {
    for (const button of over.querySelectorAll("[aria-pressed=true]")) button.setAttribute("aria-pressed", "false");
    look.heads.forEach((head, i) => {
      const button = over.children[index(head)];
      button.setAttribute("aria-pressed", "true");
      button.style.setProperty("--pg-hue", look.hue(i));
    });
    if (!over.contains(document.activeElement)) {
      for (const button of over.querySelectorAll('[tabindex="0"]')) button.tabIndex = -1;
      over.children[index(look.heads.at(-1))].tabIndex = 0;
      rest();
    }
  };
  onWidth(scroll, lay);
  onTheme(lay);
  return {
    node,
    draw(changes) {
      tools.update?.();
      if (["unit", "number", "grid"].some((name) => name in changes)) lay();
      mark();
    },
  };
}
