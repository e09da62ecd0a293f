// The lines of the picture: from the tokens to the head that reads them, and the residual stream through the blocks.
import { svg } from "../../page/dom.js";

const WIDEST = 9, // width in pixels of a line for an attention weight of 1
  STREAM = 20, // and of the residual stream where its vector is longest
  BEND = 0.55; // how far the ends of a line run straight, as a fraction of its length

const within = (value) => Math.max(0, Math.min(1, value));
const round = (value) => Math.round(value * 10) / 10;

// Build the layer of lines over `picture`. measure(payload) places them again; paint(at) draws them up to a step.
export function wires(picture) {
  const layer = svg("svg", { class: "pg-way-wires", "aria-hidden": "true" });
  let lines = [], // { path, from, to }: steps between which a line grows
    stops = [], // height of the stream at each step from the embedding on
    reveal = null, // clips the stream
    dot = null,
    entry = null, // the line from the followed token to the stream
    x = 0;

  const boxOf = (node) => {
    const { left, right, top, bottom } = node.getBoundingClientRect(),
      frame = picture.getBoundingClientRect();
    const box = {
      left: left - frame.left,
      right: right - frame.left,
      top: top - frame.top,
      bottom: bottom - frame.top,
    };
    return { ...box, x: (box.left + box.right) / 2, y: (box.top + box.bottom) / 2 };
  };
  // Add a line that grows between two steps.
  const grow = (d, look, from, to, more = {}) => {
    const path = svg("path", { d, class: look, pathLength: 1, "stroke-dasharray": 1, ...more });
    lines.push({ path, from, to });
    return path;
  };
  // From a token to a place: a curve; in a narrow window, through the gutter beside the blocks.
  const route = (token, to, blocks, narrow) => {
    if (!narrow) {
      const bend = BEND * (to.x - token.right);
      return `M${round(token.right)} ${round(token.y)}C${round(token.right + bend)} ${round(token.y)} ${round(to.x - bend)} ${round(to.y)} ${round(to.x)} ${round(to.y)}`;
    }
    const gutter = blocks.left + 4,
      top = blocks.top - 4;
    return `M${round(token.x)} ${round(token.bottom)}C${round(token.x)} ${round(token.bottom + 18)} ${round(gutter)} ${round(top - 18)} ${round(gutter)} ${round(top)}V${round(to.y)}H${round(to.x)}`;
  };

  function measure({ read, position, head: [at], stream }) {
    const tokens = [...picture.querySelectorAll(".pg-way-token")].map(boxOf),
      places = [...picture.querySelectorAll(".pg-way-stream")].map(boxOf),
      head = boxOf(picture.querySelector('.pg-way-head[aria-pressed="true"]')),
      label = boxOf(picture.querySelectorAll(".pg-way-layer")[at]),
      blocks = boxOf(picture.querySelector(".pg-way-blocks")),
      narrow = tokens[0].right > blocks.left,
      gate = { x: label.right - 20, y: label.y },
      widest = narrow ? 4 : WIDEST,
      under = head.bottom + 2;
    lines = [];
    x = places[0].x;
    stops = places.map((place, n) => (n === places.length - 1 ? place.bottom - 7 : place.y));
    const reads = read.map(({ share, index }, n) =>
      grow(route(tokens[n], gate, blocks, narrow), "pg-way-wire", 1, at + 1.5, {
        "stroke-width": round(0.75 + widest * share),
        "stroke-opacity": round(0.2 + 0.8 * share),
        "data-index": index,
      }),
    );
    const into = `M${round(gate.x)} ${round(gate.y)}C${round(gate.x + 8)} ${round(gate.y)} ${round(gate.x)} ${round(under)} ${round(gate.x + 20)} ${round(under)}H${round(head.x)}`,
      own = tokens[read.findIndex(({ index }) => index === position)],
      start = { x: blocks.left + (narrow ? 12 : 0), y: places[0].bottom + 1 };
    entry = grow(`${route(own, start, blocks, narrow)}H${round(x)}V${round(stops[0])}`, "pg-way-entry", 0, 1);
    const half = (n) => round(1.5 + (STREAM / 2) * stream[Math.min(n, stream.length - 1)].size),
      side = (sign) => stops.map((y, n) => `${round(x + sign * half(n))} ${round(y)}`);
    reveal = svg("rect", { x: 0, y: 0, width: picture.clientWidth, height: 0 });
    dot = svg("circle", { r: 5, class: "pg-way-dot" });
    layer.replaceChildren(
      svg("clipPath", { id: "pg-way-reveal" }, reveal),
      entry,
      ...reads,
      grow(into, "pg-way-lead", at + 1.4, at + 1.7),
      grow(`M${round(head.x)} ${round(under)}H${round(x)}`, "pg-way-lead", at + 1.7, at + 2),
      svg("path", {
        d: `M${side(-1).join("L")}L${side(1).reverse().join("L")}Z`,
        class: "pg-way-flow",
        "clip-path": "url(#pg-way-reveal)",
      }),
      dot,
    );
  }

  function paint(at) {
    for (const { path, from, to } of lines) {
      const grown = within((at - from) / (to - from));
      path.style.strokeDashoffset = 1 - grown;
      path.style.visibility = grown ? "" : "hidden";
    }
    const n = Math.min(stops.length - 1, Math.max(0, Math.floor(at - 1))),
      y = stops[n] + (at - 1 - n) * ((stops[n + 1] ?? stops[n]) - stops[n]);
    reveal?.setAttribute("height", at < 1 ? 0 : round(y));
    const { x: left, y: top } =
      at < 1 && entry ? entry.getPointAtLength(within(at) * entry.getTotalLength()) : { x, y };
    dot?.setAttribute("cx", round(left));
    dot?.setAttribute("cy", round(top));
  }
  return { layer, measure, paint };
}
