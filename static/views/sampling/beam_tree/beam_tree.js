// Beam search: the tree of everything that was considered, with scores, and when and why each branch was dropped.
//
// payload of "beamtree": { title, note, mine, nodes, groups, share, before [text], cut, prompt, turns, source, file, run, python, words };
//   mine: the steps before the search are those of the editor in The distribution
//   a node is { text, id, step, parent, group, place, state, reason, pruned, ended, rank, typed, p, total, penalty, score }, see
//   viz/views/sampling/beam_tree/figures.py
import { wayTo } from "../../../page/address/places.js";
import { el, fill, onWidth, rests, roving, svg } from "../../../page/dom.js";
import { define } from "../../../page/mount.js";
import { lookInside } from "../../../page/prompt/look_inside.js";
import { icon } from "../../../parts/icons.js";
import { percent } from "../../../parts/percent.js";
import { titled } from "../../../parts/titled.js";
import { HIGH, layout, pathTo, stepOf } from "./layout.js";

const NARROW = 600; // maximum width in pixels of a compact tree
const digits = (value) => (value === null ? "–" : value.toFixed(3).replace("-", "−"));
const sameTree = (one, other) =>
  one?.nodes.length === other.nodes.length &&
  one.nodes.every(({ id, parent }, n) => id === other.nodes[n].id && parent === other.nodes[n].parent);
const endsItself = ({ ended }) => ended === "end" || ended === "stop";

// The look of a node: "winner", "final", "kept", "below" (never kept) or "dropped" (later).
function lookOf({ state, rank, reason }) {
  if (state === "final") return rank === 1 ? "winner" : "final";
  if (state === "kept") return "kept";
  return reason === "below" || reason === "late" ? "below" : "dropped";
}

function face(tag, node, attributes) {
  const made = el(tag, `pg-beam-node pg-beam-${lookOf(node)}`, "", attributes);
  made.append(el("span", "pg-beam-text", node.text, { title: node.text }));
  if (node.state === "pruned") {
    const sign = el("span", "pg-beam-sign", "", { "aria-hidden": "true" });
    sign.append(icon("cross"), String(node.pruned));
    made.append(sign);
  } else if (endsItself(node)) made.append(el("i", "pg-beam-end", "", { "aria-hidden": "true" }));
  made.append(el("small", "", percent(node.p)));
  return made;
}

// Say what became of a node.
function fateOf(node, { words, share }) {
  const name = node.state === "pruned" ? node.reason : lookOf(node);
  return fill(words[`fate_${name}`], { step: node.pruned, rank: node.rank, share, place: node.place + 1 });
}

const textOf = (nodes, at) =>
  pathTo(nodes, at)
    .map((n) => nodes[n].text)
    .join("");

// Describe a node in three lines: token and fate, numbers, text.
function told(payload, at) {
  const { words, nodes, groups } = payload;
  const line = (...parts) => {
    const row = el("div");
    row.append(...parts);
    return row;
  };
  if (at === null) return [line(el("span", "pg-muted", words.help))];
  const node = nodes[at],
    place = fill(words[groups > 1 ? "place_group" : "place"], {
      step: node.step,
      place: node.place + 1,
      group: node.group + 1,
    });
  const numbers = fill(words[node.penalty ? "numbers_fined" : "numbers"], {
    p: percent(node.p),
    total: digits(node.total),
    penalty: digits(node.penalty),
    score: digits(node.score),
  });
  const ended = node.ended ? ` ${words[`ended_${node.ended}`]}` : "";
  return [
    line(el("b", "pg-beam-name", node.text), el("span", "", `(${node.id}) · ${place}`)),
    line(el("span", "", `${fateOf(node, payload)}${ended}`)),
    line(el("span", "pg-muted", numbers)),
  ];
}

// Draw the edges; the width follows the probability of the token.
function edges({ nodes, words }, { places, root, sizes, width, height }) {
  const picture = svg("svg", { width, height, class: "pg-beam-edges", role: "img", "aria-label": words.tree_label });
  const lines = nodes.map((node, n) => {
    const from = node.parent < 0 ? { x: sizes.root, y: root.y } : { ...places[node.parent] };
    if (node.parent >= 0) from.x += sizes.node;
    const to = places[n],
      middle = (from.x + to.x) / 2;
    return svg("path", {
      d: `M ${from.x} ${from.y} C ${middle} ${from.y} ${middle} ${to.y} ${to.x} ${to.y}`,
      "stroke-width": (1 + 7 * (node.p ?? 0)).toFixed(2),
      class: `pg-beam-edge pg-beam-${lookOf(node)}`,
    });
  });
  picture.append(...lines);
  return { picture, lines };
}

// Build the legend: the looks that occur.
function keyOf({ nodes, words }) {
  const found = new Map(nodes.map((node) => [lookOf(node), node]));
  return ["winner", "final", "kept", "dropped", "below"]
    .filter((look) => found.has(look))
    .map((look) => {
      const item = el("li");
      const sample = { ...found.get(look), text: "abc", pruned: "n", ended: "" };
      const shown = face("span", sample, { "aria-hidden": "true" });
      shown.querySelector("small").remove();
      item.append(shown, el("span", "", words[`key_${look}`]));
      return item;
    });
}

const columnsOf = (words) =>
  [
    "step",
    "parent",
    "token",
    "id",
    "p",
    "total",
    "penalty",
    "score",
    "group",
    "place",
    "state",
    "reason",
    "pruned",
  ].map((name) => words[`csv_${name}`]);
const linesOf = ({ nodes }) =>
  nodes.map((node) => [
    node.step,
    node.parent + 1,
    node.text,
    node.id,
    node.p,
    node.total,
    node.penalty,
    node.score,
    node.group + 1,
    node.place + 1,
    node.state,
    node.reason,
    node.pruned || "",
  ]);

// Show the text up to a node, with a button that makes it the prompt.
function chosenText({ words, nodes, before, cut, prompt, turns }, at) {
  const { typed } = nodes[at],
    row = el("span", "pg-beam-said"),
    can = typed !== null && (prompt !== null || turns !== null);
  row.append(el("span", "pg-muted", `${cut ? "… " : ""}${before.join("")}`), el("b", "", textOf(nodes, at)));
  const button = !can ? [] : [turns ? lookInside(typed, "", turns) : lookInside(prompt + typed, prompt)];
  return [el("span", "pg-beam-label", words.text_here), row, ...button];
}

define("beamtree", (root) => {
  const key = el("ul", "pg-beam-key"),
    scroll = el("div", "pg-beam-scroll"),
    board = el("div", "pg-beam-board", "", { role: "group" }),
    details = el("div", "pg-beam-told", "", { "aria-live": "polite" }),
    chosen = el("div", "pg-beam-chosen"),
    frame = titled(root, key, scroll, details, chosen);
  scroll.append(board);
  let payload = null,
    buttons = [],
    lines = [],
    picked = 0;
  const mark = (name, at) => {
    const on = new Set(at === null ? [] : pathTo(payload.nodes, at));
    for (const [n, node] of buttons.entries()) {
      node.classList.toggle(name, on.has(n));
      lines[n].classList.toggle(name, on.has(n));
    }
  };
  const show = (at) => {
    mark("pg-here", at);
    details.replaceChildren(...told(payload, at));
  };
  const choose = (at) => {
    picked = at;
    for (const [n, node] of buttons.entries()) node.setAttribute("aria-pressed", n === at);
    mark("pg-picked", at);
    chosen.replaceChildren(...chosenText(payload, at));
    show(at);
  };
  roving(board, (pressed, at) => stepOf(payload.nodes, pressed, at));
  board.onmouseleave = () => {
    if (!board.contains(document.activeElement)) show(null);
  };
  const draw = () => {
    const { nodes, groups, words, before } = payload,
      plan = layout(nodes, groups, root.clientWidth < NARROW),
      { picture, lines: paths } = edges(payload, plan);
    lines = paths;
    const start = el("span", "pg-beam-root", words.prompt, { title: before.join("") });
    start.style.cssText = `top: ${plan.root.y - HIGH / 2}px; width: ${plan.sizes.root}px`;
    const heads = plan.columns.map((x, n) => {
      const head = el("span", "pg-beam-step", n ? String(n + 1) : fill(words.step, { n: 1 }));
      head.style.cssText = `left: ${x}px; width: ${plan.sizes.node}px`;
      return head;
    });
    const names =
      groups < 2
        ? []
        : plan.blocks.map((y, n) => {
            const name = el("span", "pg-beam-group", fill(words.group, { n: n + 1 }));
            name.style.top = `${y}px`;
            return name;
          });
    buttons = nodes.map((node, n) => {
      const label = `${node.text}, ${fill(words.step, { n: node.step })}, ${percent(node.p)}, ${fateOf(node, payload)}`;
      const button = face("button", node, { type: "button", "data-index": n, "aria-label": label });
      button.tabIndex = n === picked ? 0 : -1;
      button.style.cssText = `left: ${plan.places[n].x}px; top: ${plan.places[n].y - HIGH / 2}px; width: ${plan.sizes.node}px`;
      button.onmouseover = (event) => {
        if (!rests(event)) show(n);
      };
      button.onfocus = () => show(n);
      button.onclick = () => choose(n);
      return button;
    });
    board.style.cssText = `width: ${plan.width}px; height: ${plan.height}px`;
    board.replaceChildren(picture, start, ...heads, ...names, ...buttons);
    choose(picked);
    show(null);
  };
  onWidth(scroll, () => {
    if (payload) draw();
  });
  return (next) => {
    const same = sameTree(payload, next); // then what is picked stays
    payload = next;
    const { words, nodes } = payload;
    if (!same) picked = nodes.findIndex(({ rank }) => rank === 1);
    key.replaceChildren(...keyOf(payload));
    if (payload.mine) {
      const item = el("li");
      item.append(wayTo("sampling", "distribution", words.change, { class: "pg-button pg-quiet" }));
      key.append(item);
    }
    board.setAttribute("aria-label", words.tree_label);
    draw();
    frame(payload, { names: () => columnsOf(words), lines: () => linesOf(payload) });
  };
});
