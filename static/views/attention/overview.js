// The overview: the grid of layers x heads on one canvas, with a button over each thumbnail.
import { exporting } from "../../export/menu.js";
import { el, fill, hint } from "../../page/dom.js";
import { define } from "../../page/mount.js";
import { crossedOut, offButton } from "../../page/selection/off.js";
import { ranking } from "../../page/selection/ranking.js";
import { adding, onSelect, pickHead, selection } from "../../page/selection/selection.js";
import { pageState } from "../../page/state.js";
import { isDark, onTheme } from "../../page/theme.js";
import { lookup } from "../../parts/colors.js";
import { byPlace, GAP, inOrder, LABEL } from "./overview_layout.js";
import { picker } from "./overview_picker.js";

const FIRST = 4; // number of heads that the button beside a sorted grid switches off

async function inflate(base64) {
  const bytes = Uint8Array.from(atob(base64), (c) => c.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

// Downsample a picture by integer factors to the maximum of each block, so that single strong links stay visible.
function shrink(codes, side, steps) {
  if (steps === 1) return { codes, side };
  const small = Math.ceil(side / steps);
  const out = new Uint8Array(small * small).fill(255);
  for (let y = 0; y < side; y++)
    for (let x = 0; x < side; x++) {
      const code = codes[y * side + x];
      const at = Math.floor(y / steps) * small + Math.floor(x / steps);
      if (code !== 255 && (out[at] === 255 || code > out[at])) out[at] = code;
    }
  return { codes: out, side: small };
}

function paintHeads(canvas, payload, codes, plan, order) {
  const ratio = window.devicePixelRatio || 1;
  canvas.width = plan.width * ratio;
  canvas.height = plan.height * ratio;
  canvas.style.width = `${plan.width}px`;
  canvas.style.height = `${plan.height}px`;
  const ctx = canvas.getContext("2d");
  ctx.scale(ratio, ratio);
  ctx.imageSmoothingEnabled = false;
  const colors = new Uint32Array(256); // in the canvas's byte order; 255, which marks future keys, stays transparent
  const bytes = new Uint8Array(colors.buffer);
  lookup(payload.ramps[isDark() ? "dark" : "light"]).forEach((color, code) => bytes.set([...color, 255], code * 4));
  const steps = Math.max(1, Math.floor(payload.side / (plan.cell * ratio)));
  const style = getComputedStyle(canvas);
  const ground = style.getPropertyValue("--pg-ground");
  const picture = document.createElement("canvas");
  for (const at of order) {
    const start = at * payload.side ** 2;
    const small = shrink(codes.subarray(start, start + payload.side ** 2), payload.side, steps);
    const image = new ImageData(small.side, small.side),
      pixels = new Uint32Array(image.data.buffer);
    for (let i = 0; i < pixels.length; i++) pixels[i] = colors[small.codes[i]];
    picture.width = picture.height = small.side;
    picture.getContext("2d").putImageData(image, 0, 0);
    const { x, y } = plan.place(at);
    ctx.fillStyle = ground;
    ctx.fillRect(x, y, plan.cell, plan.cell);
    ctx.drawImage(picture, x, y, plan.cell, plan.cell);
  }
  ctx.fillStyle = style.color;
  ctx.font = "10px ui-sans-serif, system-ui, sans-serif";
  ctx.textAlign = "center";
  ctx.textBaseline = "middle";
  if (plan.axes) labelAxes(ctx, payload, plan, style.getPropertyValue("--pg-soft"));
  else
    for (const at of order) {
      const { x, y } = plan.place(at);
      ctx.fillText(
        `${Math.floor(at / payload.heads)}.${at % payload.heads}`,
        x + plan.cell / 2,
        y + plan.cell + LABEL / 2 - 1,
      );
    }
}

// Draw the numbers of layers and heads, and a frame around the query heads that share a KV head.
function labelAxes(ctx, { layers, heads, group }, plan, line) {
  const every = Math.ceil(16 / plan.cell);
  for (let layer = 0; layer < layers; layer += every) {
    const { x, y } = plan.place(layer * heads);
    ctx.fillText(layer, x - LABEL / 2 - 1, y + plan.cell / 2);
  }
  for (let layer = 0; layer < layers; layer += plan.rows)
    for (let head = 0; head < heads; head += every) {
      ctx.fillText(head, plan.place(layer * heads + head).x + plan.cell / 2, LABEL / 2);
    }
  if (group < 2) return;
  ctx.strokeStyle = line;
  ctx.lineWidth = 1;
  for (let at = 0; at < layers * heads; at += group) {
    const { x, y } = plan.place(at);
    ctx.strokeRect(x - 0.5, y - 0.5, group * (plan.cell + GAP) - GAP + 1, plan.cell + 1);
  }
}

// Format the numbers of one head.
function headReadout({ words, metric_names: names, metrics, heads }, at) {
  const [layer, head] = placeOf(heads, at);
  return [
    el("strong", "", fill(words.button, { layer, head })),
    ...names.map(({ label, help, unit }, i) => {
      const value = metrics[at][i],
        shown = value === null ? words.undefined : `${value.toPrecision(3)}${unit ? ` ${unit}` : ""}`,
        item = el("div", "pg-metric", "", { title: help });
      item.append(el("span", "", label), el("b", value === null ? "pg-muted" : "", shown));
      return item;
    }),
  ];
}
const indexIn = (layers, heads, layer, head) => (layer < layers && head < heads ? layer * heads + head : null);
const placeOf = (heads, at) => [Math.floor(at / heads), at % heads];

// Build one button per head over the picture. `now()`: { payload, plan }; describe(at) and rest() are called when the
// pointer enters or leaves a button.
function headButtons(now, { describe, rest }) {
  const node = el("div", "pg-head-buttons"),
    at = (event) => event.target.dataset?.index,
    place = (event) => placeOf(now().payload.heads, +at(event));
  const hover = (event) => {
    if (at(event)) describe(+at(event));
  };
  node.addEventListener("click", (event) => {
    if (at(event)) pickHead(...place(event), adding(event));
  });
  node.addEventListener("mouseover", hover);
  node.addEventListener("focusin", hover);
  node.addEventListener("mouseleave", rest);
  node.addEventListener("keydown", (event) => {
    if (!at(event)) return;
    if (event.key === "Enter" && adding(event)) {
      // browsers activate a button only on Enter without modifiers
      event.preventDefault();
      return pickHead(...place(event), true);
    }
    const to = now().plan.walk(+at(event))[event.key];
    if (to === undefined || to === null) return;
    event.preventDefault();
    event.target.tabIndex = -1;
    node.children[to].tabIndex = 0;
    node.children[to].focus();
  });
  // Put one head in the Tab order: the main head, or else the first one.
  const reach = (order) => {
    if (!order.length || node.contains(document.activeElement)) return;
    const main = now().main(),
      first = order.includes(main) ? main : order[0];
    for (const button of node.querySelectorAll('[tabindex="0"]')) button.tabIndex = -1;
    node.children[first].tabIndex = 0;
  };
  return {
    node,
    reach,
    build({ layers, heads, words }) {
      node.replaceChildren(
        ...Array.from({ length: layers * heads }, (_, index) => {
          const [layer, head] = placeOf(heads, index);
          const button = el("button", "pg-head", "", {
            type: "button",
            "data-index": index,
            "aria-label": fill(words.button, { layer, head }),
            tabindex: -1,
          });
          return crossedOut(button, layer, head);
        }),
      );
    },
    lay(plan, order) {
      const drawn = new Set(order);
      for (const button of node.children) {
        const index = +button.dataset.index;
        button.hidden = !drawn.has(index);
        if (button.hidden) continue;
        const { x, y } = plan.place(index),
          cell = `${plan.cell}px`;
        Object.assign(button.style, { left: `${x}px`, top: `${y}px`, width: cell, height: cell });
      }
      reach(order);
    },
    mark({ layers, heads }) {
      for (const button of node.querySelectorAll("[aria-pressed=true]")) button.setAttribute("aria-pressed", "false");
      const index = ([layer, head]) => indexIn(layers, heads, layer, head);
      selection.heads.forEach((pair, i) => {
        const button = node.children[index(pair) ?? -1];
        button?.setAttribute("aria-pressed", "true");
        button?.style.setProperty("--pg-hue", pageState.hues?.[i % 8] ?? "");
      });
    },
  };
}

define("heads", (root, props, ask) => {
  const title = el("h2"),
    about = el("p", "pg-about"),
    group = el("p", "pg-about"),
    told = el("p", "pg-about pg-no-export"), // not exported, because it has no meaning in a static picture
    board = el("div", "pg-board", "", { role: "group" }),
    canvas = el("canvas", "", "", { "aria-hidden": "true" }),
    readout = el("div", "pg-readout", "", { "aria-live": "polite" }),
    foot = el("div");
  let payload = null,
    codes = null,
    plan = null,
    drawn = [], // the heads of the picture, in order
    ticket = 0;
  const describe = (at) => readout.replaceChildren(...headReadout(payload, at)),
    main = () => {
      const last = selection.heads.at(-1);
      return payload && last ? indexIn(payload.layers, payload.heads, ...last) : null;
    },
    mark = () => {
      if (!payload) return;
      buttons.mark(payload);
      buttons.reach(drawn);
      if (main() !== null) describe(main());
    },
    buttons = headButtons(() => ({ payload, plan, main }), { describe, rest: mark });
  board.append(canvas, buttons.node);
  root.append(title, about);
  const filter = picker(root, props, ask, () => {
    words();
    lay();
  });
  const ranks = ranking(board, () => lay()),
    off = offButton(
      () => (payload && !filter.plain() ? drawn.slice(0, FIRST) : []).map((at) => placeOf(payload.heads, at)),
      {
        off: "first_off",
        on: "first_on",
      },
    );
  root.append(off.root, ranks.node, board, readout, group, told, foot);

  const lay = () => {
    if (!codes || !root.clientWidth) return;
    const narrow = root.clientWidth < 480,
      height = narrow ? 520 : Math.max(620, Math.min(0.72 * innerHeight, 900)),
      order = filter.plain() ? filter.list() : ranks.of(filter.list(), JSON.stringify(filter.asked()));
    ranks.node.hidden ||= filter.plain();
    drawn = order;
    off.root.hidden = filter.plain();
    off.show();
    plan = filter.plain() ? byPlace(payload, root.clientWidth, height) : inOrder(order, root.clientWidth, height);
    paintHeads(canvas, payload, codes, plan, order);
    buttons.lay(plan, order);
  };
  const words = () => {
    if (!payload) return;
    title.textContent = payload.words.title;
    const plain = filter.plain(),
      name = `${plain ? "about" : "chosen"}${isDark() ? "_dark" : ""}`;
    about.textContent = fill(payload.words[name], plain ? payload : { shown: filter.shown() });
    group.textContent = payload.group > 1 ? fill(payload.words.group, { n: payload.group }) : "";
    told.textContent = hint(payload.words, "hover");
  };
  new ResizeObserver(lay).observe(root);
  onTheme(() => {
    words();
    lay();
  });
  onSelect(mark);

  const draw = async (next) => {
    const mine = ++ticket,
      fresh = await inflate(next.codes);
    if (mine !== ticket) return; // a newer picture arrived while this one was being decoded
    const shape = (p) => p && `${p.layers} ${p.heads} ${p.words.button}`,
      rebuild = shape(payload) !== shape(next);
    payload = next;
    codes = fresh;
    if (rebuild) buttons.build(payload);
    filter.fill(payload, rebuild);
    words();
    board.setAttribute("aria-label", payload.words.title);
    lay();
    mark();
    const measures = payload.metric_names.map(({ label, unit }) => (unit ? `${label} (${unit})` : label));
    foot.replaceChildren(
      exporting(root, {
        file: "all-heads",
        title: payload.words.title,
        note: about.textContent,
        names: ["layer", "head", ...measures],
        lines: payload.metrics.map((values, at) => [...placeOf(payload.heads, at), ...values]),
      }),
    );
    root.dataset.run = payload.run;
  };
  draw.stateOf = (value) => value;
  return draw;
});
