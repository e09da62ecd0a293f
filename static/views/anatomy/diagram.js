// A model as a drawing: boxes are buttons, the ways between them are lines behind.
//
// payload: { title, note, source, file, run, python, words, drawing, labels { part: [name, second line, share] }, formulas, chosen,
//   heads { groups, size, more, chosen, text }, times, look: { layer, layers, head, heads } of the loaded model or null,
//   names, lines }
//   drawing: see viz/views/anatomy/diagram/figures.py; across, places are shares of the width
// value: { part }
import { exporting } from "../../export/menu.js";
import { el, fill, roving } from "../../page/dom.js";
import { define } from "../../page/mount.js";
import { pickHead, selection } from "../../page/selection/selection.js";

const SVG = "http://www.w3.org/2000/svg",
  ROUND = 9,
  SLIM = 140; // pixels: of a corner; a box below that has no room for a share
const svg = (tag, attributes) => {
  const node = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  return node;
};

// A way with rounded corners through these points.
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

// The query heads of each KV head above it.
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

define("modeldiagram", (root, props, trigger) => {
  const title = el("h2"),
    note = el("p", "pg-about"),
    bar = el("div", "pg-dia-look pg-no-export"),
    board = el("div", "pg-dia", "", { role: "group" });
  const now = el("div", "pg-dia-now pg-no-export"),
    foot = el("div");
  root.append(title, note, bar, board, now, foot);
  roving(
    board,
    (key, at, n) =>
      ({ ArrowDown: at + 1, ArrowRight: at + 1, ArrowUp: at - 1, ArrowLeft: at - 1, Home: 0, End: n - 1 })[key] ?? null,
  );
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
    const jump = el("button", "pg-button pg-quiet", payload.words.jump, { type: "button" });
    jump.onclick = () =>
      document.querySelector("#pg-diagram_facts")?.scrollIntoView({ behavior: "smooth", block: "start" });
    now.replaceChildren(el("b", "", payload.labels[chosen()][0]), el("span", "", payload.formulas[chosen()]), jump);
  };
  const pick = (part) => {
    props.value = { part };
    paint();
    trigger("select", { index: 0, value: JSON.stringify(props.value) });
  };

  const button = (box, index) => {
    const [name, second, share] = payload.labels[box.key];
    const node = el("button", `pg-dia-box${box.round ? " pg-dia-sum" : ""}`, "", {
      type: "button",
      "data-index": index,
      "data-step": box.key,
      "data-of": box.of,
    });
    node.tabIndex = -1;
    node.onclick = () => pick(box.key);
    Object.assign(
      node.style,
      box.round
        ? {
            left: `calc(${100 * box.x}% - ${box.h / 2}px)`,
            top: `${box.y}px`,
            width: `${box.h}px`,
            height: `${box.h}px`,
          }
        : { left: `${100 * box.x}%`, top: `${box.y}px`, width: `${100 * box.w}%`, height: `${box.h}px` },
    );
    if (box.round) {
      node.append(el("span", "", "+"));
      node.setAttribute("aria-label", name);
      node.title = name;
      return node;
    }
    const line = el("span", "pg-dia-second");
    line.append(el("span", "", second));
    if (share) line.append(el("em", "", share));
    node.append(el("span", "pg-dia-name", name));
    if (box.key === "scores") node.append(headsOf(payload.heads));
    node.append(line);
    node.title = [name, second, share].filter(Boolean).join(" · ");
    return node;
  };

  // The lines know the width in pixels, so that corners and arrows keep their form.
  const lines = () => {
    const { drawing } = payload,
      across = (x) => x * width;
    const layer = svg("svg", { width, height: drawing.height, "aria-hidden": "true", class: "pg-dia-lines" }),
      defs = svg("defs", {});
    for (const name of ["flow", "tied"]) {
      const marker = svg("marker", {
        id: `pg-dia-${name}`,
        viewBox: "0 0 8 8",
        refX: 7,
        refY: 4,
        markerWidth: 8,
        markerHeight: 8,
        markerUnits: "userSpaceOnUse",
        orient: "auto",
      });
      marker.append(svg("path", { d: "M0,0.8 L7.5,4 L0,7.2 Z", class: `pg-dia-tip-${name}` }));
      defs.append(marker);
    }
    layer.append(defs);
    const draw = ({ kind, points }) => {
      const placed = points.map(([x, y]) => [across(x), y]);
      if (kind === "sum") placed.at(-1)[0] += drawing.sum / 2 + 1;
      const tip = kind === "tied" ? "tied" : ["flow", "sum"].includes(kind) ? "flow" : "";
      layer.append(
        svg("path", {
          d: way(placed),
          class: `pg-dia-${kind}`,
          fill: "none",
          ...(tip && { "marker-end": `url(#pg-dia-${tip})` }),
        }),
      );
    };
    drawing.lines.forEach(draw);
    for (const y of drawing.sums) {
      const sign = svg("text", { x: across(drawing.stream), y: y + 5, "text-anchor": "middle", class: "pg-dia-sign" });
      sign.textContent = "+";
      layer.append(
        svg("circle", { cx: across(drawing.stream), cy: y, r: drawing.sum / 2, class: "pg-dia-circle" }),
        sign,
      );
    }
    payload.drawing.boxes.forEach((box, i) => buttons[i].classList.toggle("pg-dia-slim", box.w * width < SLIM));
    board.querySelector(".pg-dia-lines")?.remove();
    board.querySelector(".pg-dia-frame").after(layer);
  };

  // From the head that is picked now: a second click may come before the numbers of the first one.
  const step = ([layers, heads]) => {
    const { look } = payload,
      [layer, head] = selection.heads.at(-1) ?? [look.layer, look.head];
    const within = (value, n) => Math.min(Math.max(value, 0), n - 1);
    pickHead(within(layer + layers, look.layers), within(head + heads, look.heads), false);
  };
  const stepper = (what, value, n, change) => {
    const box = el("span", "pg-dia-step");
    const less = el("button", "pg-button pg-quiet", "−", {
      type: "button",
      "aria-label": fill(payload.words.less, { what }),
    });
    const more = el("button", "pg-button pg-quiet", "+", {
      type: "button",
      "aria-label": fill(payload.words.more, { what }),
    });
    less.disabled = value === 0;
    more.disabled = value >= n - 1;
    less.onclick = () => change(-1);
    more.onclick = () => change(1);
    box.append(el("span", "pg-muted", what), less, el("b", "", String(value), { "aria-live": "polite" }), more);
    return box;
  };

  const draw = (next) => {
    payload = next;
    const { drawing, look, words } = payload;
    const back = board.contains(document.activeElement) ? document.activeElement.dataset.step : null;
    const at = bar.contains(document.activeElement)
      ? [...bar.querySelectorAll("button")].indexOf(document.activeElement)
      : -1;
    title.textContent = next.title;
    note.textContent = next.note;
    bar.replaceChildren(
      ...(look
        ? [
            stepper(words.layer, look.layer, look.layers, (by) => step([by, 0])),
            stepper(words.head, look.head, look.heads, (by) => step([0, by])),
          ]
        : []),
    );
    bar.hidden = !look;
    bar.querySelectorAll("button")[at]?.focus({ preventScroll: true });
    board.style.height = `${drawing.height}px`;
    board.setAttribute("aria-label", words.parts);
    const [top, end] = drawing.frame,
      frame = el("div", "pg-dia-frame"),
      name = el("div", "pg-dia-times");
    Object.assign(frame.style, { top: `${top}px`, height: `${end - top}px`, width: `${100 * drawing.edge}%` });
    name.append(el("b", "", words.block), el("span", "", next.times));
    frame.append(name);
    buttons = drawing.boxes.map(button);
    board.replaceChildren(frame, ...buttons);
    if (width) lines();
    foot.replaceChildren(
      exporting(root, {
        file: next.file,
        title: next.title,
        note: next.note,
        source: next.source,
        python: next.python,
        names: next.names,
        lines: next.lines,
      }),
    );
    paint();
    buttons.find((each) => each.dataset.step === back)?.focus({ preventScroll: true });
    root.dataset.run = next.run;
  };
  new ResizeObserver(() => {
    if (board.clientWidth === width || !board.clientWidth) return;
    width = board.clientWidth;
    if (payload) lines();
  }).observe(board);
  draw.stateOf = (value) => value;
  return draw;
});
