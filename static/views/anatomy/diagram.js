// A diagram of a model: its parts are boxes that act as buttons, connected by lines drawn behind them.
//
// payload: { title, note, source, file, run, python, words, drawing, labels { part: [name, second line, share] }, formulas, chosen,
//   heads { groups, size, more, chosen, text }, frames [name, how many] of each kind of layer, look: { layer, layers, head, heads } of the loaded model or null,
//   names, lines }
//   drawing: see viz/views/anatomy/diagram/boxes.py; across, places are fractions of the width. Where layers differ in size, a box of
//     a layer has its own second line and heads
// value: { part }
import { el, fill, onWidth, roving, svg } from "../../page/dom.js";
import { define } from "../../page/mount.js";
import { pickHead, selection } from "../../page/selection/selection.js";
import { icon, iconButton } from "../../parts/icons.js";
import { titled } from "../../parts/titled.js";

const ROUND = 9, // corner radius in pixels
  // A narrower box has no room for: the second half of a name such as "Scores, causal mask", its share of the parameters,
  // and the sizes of its matrix.
  SHORT = 180,
  SLIM = 140,
  TINY = 60;

// Build the path of a connection with rounded corners through these points.
function way(points) {
  let path = `M${points[0].join(",")}`;
  for (let i = 1; i < points.length; i++) {
    const [x, y] = points[i],
      next = points[i + 1];
    if (!next) {
      path += `L${x},${y}`;
      break;
    }
    const back = toward(points[i], points[i - 1]),
      on = toward(points[i], next);
    path += `L${back.join(",")}Q${x},${y} ${on.join(",")}`;
  }
  return path;
}
function toward([x, y], [a, b]) {
  const far = Math.hypot(a - x, b - y),
    step = Math.min(ROUND, far / 2) / (far || 1);
  return [x + (a - x) * step, y + (b - y) * step];
}

// Build the query heads above each KV head.
function headsOf({ groups, size, more, chosen }) {
  const row = el("span", "pg-dia-heads", "", { "aria-hidden": "true" });
  for (let g = 0; g < groups; g++) {
    const group = el("span", "pg-dia-group"),
      queries = el("span");
    for (let i = 0; i < size; i++)
      queries.append(el("i", chosen && chosen[0] === g && chosen[1] === i ? "pg-here" : ""));
    group.append(queries, el("b"));
    row.append(group);
  }
  if (more) row.append(el("em", "", "…"));
  return row;
}

// Build a part of the model as a button; additions are circles.
function partButton({ labels, heads }, box, index, pick) {
  const [name, one, share] = labels[box.key],
    second = box.second ?? one;
  const node = el("button", `pg-dia-box${box.round ? " pg-dia-sum" : ""}`, "", {
    type: "button",
    "data-index": index,
    "data-step": box.key,
    "data-of": box.of,
    tabindex: -1,
  });
  node.onclick = () => pick(box.key);
  const high = `${box.h}px`,
    across = `${100 * box.x}%`;
  if (box.round) {
    Object.assign(node.style, {
      left: `calc(${across} - ${box.h / 2}px)`,
      top: `${box.y}px`,
      width: high,
      height: high,
    });
    node.append(icon("plus"));
    node.setAttribute("aria-label", name);
    node.title = name;
    return node;
  }
  Object.assign(node.style, { left: across, top: `${box.y}px`, width: `${100 * box.w}%`, height: high });
  const line = el("span", "pg-dia-second");
  line.append(el("span", "", second));
  if (share) line.append(el("em", "", share));
  const [short, ...more] = name.split(/(?=[,，])/),
    label = el("span", "pg-dia-name", short);
  label.append(el("span", "", more.join("")));
  node.append(label);
  if (box.key === "scores") node.append(headsOf(box.heads ?? heads));
  node.append(line);
  node.title = [name, second, share].filter(Boolean).join(" · ");
  return node;
}

function arrowTip(name) {
  const tip = svg("path", { d: "M0,0.8 L7.5,4 L0,7.2 Z", class: `pg-dia-tip-${name}` });
  const size = { viewBox: "0 0 8 8", refX: 7, refY: 4, markerWidth: 8, markerHeight: 8 };
  return svg("marker", { id: `pg-dia-${name}`, ...size, markerUnits: "userSpaceOnUse", orient: "auto" }, tip);
}
// Build the lines behind the boxes. Their coordinates are in pixels, so that corners and arrows are not distorted.
function waysOf(drawing, width) {
  const size = { width, height: drawing.height },
    layer = svg("svg", { ...size, "aria-hidden": "true", class: "pg-dia-lines" }),
    middle = drawing.stream * width;
  layer.append(svg("defs", {}, arrowTip("flow"), arrowTip("tied")));
  for (const { kind, points } of drawing.lines) {
    const placed = points.map(([x, y]) => [x * width, y]);
    if (kind === "sum") placed.at(-1)[0] += drawing.sum / 2 + 1;
    const tip = kind === "tied" ? "tied" : ["flow", "sum"].includes(kind) ? "flow" : "",
      end = tip ? { "marker-end": `url(#pg-dia-${tip})` } : {};
    layer.append(svg("path", { d: way(placed), class: `pg-dia-${kind}`, fill: "none", ...end }));
  }
  for (const y of drawing.sums)
    layer.append(
      svg("circle", { cx: middle, cy: y, r: drawing.sum / 2, class: "pg-dia-circle" }),
      svg("text", { x: middle, y: y + 5, "text-anchor": "middle", class: "pg-dia-sign" }, "+"),
    );
  return layer;
}

// Build two buttons around a number, which call change(by) to change it.
function stepper(words, what, value, n, change) {
  const box = el("span", "pg-dia-step"),
    less = iconButton("minus", fill(words.less, { what }), () => change(-1)),
    more = iconButton("plus", fill(words.more, { what }), () => change(1));
  less.disabled = value === 0;
  more.disabled = value >= n - 1;
  box.append(el("span", "pg-muted", what), less, el("b", "", String(value), { "aria-live": "polite" }), more);
  return box;
}
// Build the fields for the layer and head of the shapes. They start from the currently selected head, because a second
// click may come before the answer to the first one.
function lookSteppers({ words, look }) {
  if (!look) return [];
  const step = (layers, heads) => {
    const [layer, head] = selection.heads.at(-1) ?? [look.layer, look.head],
      within = (value, n) => Math.min(Math.max(value, 0), n - 1);
    pickHead(within(layer + layers, look.layers), within(head + heads, look.heads), false);
  };
  return [
    stepper(words, words.layer, look.layer, look.layers, (by) => step(by, 0)),
    stepper(words, words.head, look.head, look.heads, (by) => step(0, by)),
  ];
}
// Build the frames around the parts of a layer, one for each kind of layer.
function layerFrames({ drawing, frames }) {
  return drawing.frames.map(([top, end], i) => {
    const frame = el("div", "pg-dia-frame"),
      name = el("div", "pg-dia-times"),
      [kind, times] = frames[i];
    Object.assign(frame.style, { top: `${top}px`, height: `${end - top}px`, width: `${100 * drawing.edge}%` });
    name.append(el("b", "", kind), el("span", "", times));
    frame.append(name);
    return frame;
  });
}

define("modeldiagram", (root, props, ask) => {
  const bar = el("div", "pg-dia-look pg-no-export"),
    board = el("div", "pg-dia", "", { role: "group" }),
    now = el("div", "pg-dia-now pg-no-export"),
    frame = titled(root, bar, board, now);
  const walk = (key, at, n) =>
    ({ ArrowDown: at + 1, ArrowRight: at + 1, ArrowUp: at - 1, ArrowLeft: at - 1, Home: 0, End: n - 1 })[key] ?? null;
  roving(board, walk);
  let payload = null,
    buttons = [],
    width = 0;

  const chosen = () => (payload.labels[props.value?.part] ? props.value.part : payload.chosen);
  const paint = () => {
    for (const button of buttons) {
      const here = button.dataset.step === chosen();
      button.setAttribute("aria-pressed", here);
      if (!board.contains(document.activeElement)) button.tabIndex = here ? 0 : -1;
    }
    const jump = el("button", "pg-button pg-quiet", `${payload.words.jump} `, { type: "button" });
    jump.append(icon("down"));
    jump.onclick = () =>
      document.querySelector("#pg-diagram_facts")?.scrollIntoView({ behavior: "smooth", block: "start" });
    now.replaceChildren(el("b", "", payload.labels[chosen()][0]), el("span", "", payload.formulas[chosen()]), jump);
  };
  const pick = (part) => {
    props.value = { part };
    paint();
    ask("select");
  };
  const lines = () => {
    const { drawing } = payload;
    for (const [limit, name] of [
      [SHORT, "short"],
      [SLIM, "slim"],
      [TINY, "tiny"],
    ])
      drawing.boxes.forEach((box, i) => buttons[i].classList.toggle(`pg-dia-${name}`, box.w * width < limit));
    board.querySelector(".pg-dia-lines")?.remove();
    [...board.querySelectorAll(".pg-dia-frame")].at(-1).after(waysOf(drawing, width));
  };
  const draw = (next) => {
    payload = next;
    const { drawing, look, words } = payload,
      { activeElement } = document,
      back = board.contains(activeElement) ? activeElement.dataset.step : null,
      at = [...bar.querySelectorAll("button")].indexOf(activeElement);
    bar.replaceChildren(...lookSteppers(payload));
    bar.hidden = !look;
    bar.querySelectorAll("button")[at]?.focus({ preventScroll: true });
    board.style.height = `${drawing.height}px`;
    board.setAttribute("aria-label", words.parts);
    buttons = drawing.boxes.map((box, index) => partButton(payload, box, index, pick));
    board.replaceChildren(...layerFrames(payload), ...buttons);
    if (width) lines();
    frame(payload, { names: payload.names, lines: payload.lines });
    paint();
    buttons.find((each) => each.dataset.step === back)?.focus({ preventScroll: true });
  };
  onWidth(board, (wide) => {
    if (!wide) return;
    width = wide;
    if (payload) lines();
  });
  draw.stateOf = (value) => value;
  return draw;
});
