// The tokens as running text, colored by the weights from or to the picked token. With different queries and keys, there
// are two texts; picking a token in one colors the other.
import { alongRow, el, fill, hint, onWidth, pointed, rests, roving } from "../page/dom.js";
import { onTheme } from "../page/theme.js";
import { ink, mixed } from "../parts/colors.js";
import { percent } from "../parts/percent.js";
import { switcher } from "../parts/switcher.js";
import { centerOf, colorOf, headSwitch, named, otherSide, pairText, textsOf, weightsOf } from "./center.js";
import { properties, rampBar } from "./looks.js";

const TOP = 8;
const stopsOf = (none, full) =>
  Array.from({ length: 9 }, (_, i) => `rgb(${mixed(none, full, Math.sqrt(i / 8))}) ${12.5 * i}%`);

// Build the tokens of one side, with dimmed signs for spaces, and a line break after a token that holds one.
function textOf(texts, side, label) {
  const node = el("div", "pg-reading-text", "", { role: "group", "aria-label": label, "data-side": side, dir: "auto" });
  texts.forEach((text, at) => {
    const [, signs, rest] = text.match(/^([·↵⇥]*)([^]*)$/),
      button = el("button", "pg-reading-token", "", {
        type: "button",
        "data-index": at,
        "aria-label": `${text}, ${at}`,
        tabindex: at ? -1 : 0,
      });
    button.append(...(signs ? [el("span", "pg-reading-space", signs)] : []), rest);
    node.append(button, ...(text.endsWith("↵") ? [el("br")] : []));
  });
  roving(node, alongRow);
  return node;
}

// Build the list of the largest weights in one direction.
function topList(look, center, color, pick) {
  const weights = weightsOf(look, center),
    side = otherSide(center.side),
    best = [...weights.keys()]
      .filter((at) => weights[at] > 0)
      .sort((a, b) => weights[b] - weights[a] || a - b)
      .slice(0, TOP),
    part = el("div", "pg-reading-list", "", { "data-list": center.side });
  part.append(el("h3", "", look.words[center.side === "query" ? "top_reads" : "top_read_by"]));
  if (!best.length) part.append(el("p", "pg-muted", look.words.no_tokens));
  for (const at of best) {
    const line = el("div", "pg-reading-line"),
      track = el("span", "pg-reading-track"),
      bar = el("i", "", "", { "aria-hidden": "true" }),
      chip = el("button", "pg-chip", textsOf(look, side)[at], { type: "button", "data-at": at });
    chip.onclick = () => pick({ side, at });
    bar.style.width = `${(100 * weights[at]) / weights[best[0]]}%`;
    bar.style.background = color;
    track.append(bar);
    line.append(
      chip,
      el("span", "pg-muted", String(at)),
      track,
      el("b", "", percent(weights[at]), { title: weights[at].toFixed(6) }),
    );
    part.append(line);
  }
  return part;
}

// Color the tokens by the weights of the picked one, and draw the scale. Returns the color of the largest weight.
function paint(look, node, texts, scale) {
  const center = centerOf(look),
    { words, data } = look,
    weights = weightsOf(look, center),
    largest = weights.reduce((a, b) => (b > a ? b : a), 0),
    property = properties(node),
    none = property("--pg-panel"),
    full = colorOf(look, property),
    plain = property("--pg-text"),
    far = data.same ? "query" : otherSide(center.side);
  for (const [side, text] of Object.entries(texts))
    for (const token of text.querySelectorAll("button")) {
      const at = +token.dataset.index,
        weight = side === far ? weights[at] : NaN,
        share = weight > 0 ? Math.sqrt(weight / largest) : 0,
        ground = mixed(none, full, share);
      token.style.cssText = share ? `background-color: rgb(${ground}); color: ${ink(ground, plain)}` : "";
      token.dataset.value = Number.isNaN(weight) ? "" : weight;
      token.setAttribute("aria-pressed", at === center.at && (data.same || side === center.side));
    }
  scale.replaceChildren(
    ...rampBar(look.doc, words.weight, "0", percent(largest), stopsOf(none, full)),
    el("span", "", `(${words.scale})`),
  );
  return full;
}

// Build the text. Returns { node, draw() }.
export function textPanel(look, { set }) {
  const { words, data } = look,
    node = el("div", "pg-viewer-text"),
    tools = el("div", "pg-links-set"),
    heads = headSwitch(look, set),
    readout = el("p", "pg-viewer-readout", "", { "aria-live": "polite" }),
    holder = el("div", "pg-viewer-texts"),
    scale = el("p", "pg-viewer-bar"),
    lists = el("div", "pg-reading-lists");
  let texts = {},
    built = "",
    hovered = null,
    direction = null;
  tools.append(heads.node);
  node.append(tools, readout, holder, scale, lists);

  // With the same tokens on both sides, the direction says which of them the picked token is.
  const pick = ({ side, at }) => set({ picked: { side: data.same ? centerOf(look).side : side, at }, pair: null });
  const say = () => {
    const center = centerOf(look);
    if (hovered !== null && hovered.side !== center.side) {
      readout.textContent = pairText(look, center, hovered, weightsOf(look, center)[hovered.at], percent);
      return;
    }
    const about = fill(words[center.side === "query" ? "now_reads" : "now_read_by"], { token: named(look, center) });
    readout.replaceChildren(about, el("span", "pg-muted", ` ${hint(words, "text_help")}`));
  };
  const build = () => {
    const sides = data.same ? ["query"] : ["query", "key"];
    texts = Object.fromEntries(
      sides.map((side) => [side, textOf(textsOf(look, side), side, words[data.same ? "text" : `text_${side}`])]),
    );
    holder.replaceChildren(
      ...sides.flatMap((side) => [
        ...(data.same ? [] : [el("h3", "", texts[side].getAttribute("aria-label"))]),
        texts[side],
      ]),
    );
  };
  const directions = () => {
    const options = [
      ["query", words.reads_from],
      ["key", words.who_reads],
    ];
    const next = switcher(words.direction, options, centerOf(look).side, (side) =>
      set({ picked: { side, at: centerOf(look).at }, pair: null }),
    );
    if (direction) {
      if (direction.querySelector("[aria-pressed=true]") === direction.children[+(centerOf(look).side === "key")])
        return;
      direction.replaceWith(next);
    } else tools.prepend(next);
    direction = next;
  };
  const draw = () => {
    if (look.panel !== "text" || !node.clientWidth) return;
    if (built !== look.unit) build();
    built = look.unit;
    if (data.same) directions();
    heads.draw();
    const back = lists.contains(document.activeElement);
    const center = centerOf(look),
      full = paint(look, node, texts, scale),
      both = ["query", "key"].map((side) => ({ side, at: center.at }));
    lists.replaceChildren(...(data.same ? both : [center]).map((each) => topList(look, each, full, pick)));
    say();
    if (back) holder.querySelector('[aria-pressed="true"]')?.focus({ preventScroll: true });
    node.dataset.drawn = look.unit;
  };
  const out = () => {
    if (!hovered) return;
    hovered = null;
    say();
  };
  pointed(
    holder,
    (event) => {
      if (rests(event)) return;
      const token = event.target.closest?.(".pg-reading-token");
      if (!token) return out();
      const own = token.parentElement.dataset.side;
      hovered = { side: data.same ? otherSide(centerOf(look).side) : own, at: +token.dataset.index };
      say();
    },
    out,
  );
  holder.addEventListener("click", (event) => {
    const token = event.target.closest(".pg-reading-token");
    if (token) pick({ side: token.parentElement.dataset.side, at: +token.dataset.index });
  });
  onWidth(node, draw);
  onTheme(draw);
  return { node, draw };
}
