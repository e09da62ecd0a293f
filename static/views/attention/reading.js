// The prompt as running text, colored by the weights from or to one token. The payload is described in links.js.
import { exporting } from "../../export/menu.js";
import { framed, onJoin } from "../../page/characters.js";
import { alongRow, el, fill, onWidth, pointed, rests, roving } from "../../page/dom.js";
import { define } from "../../page/mount.js";
import { adding, onSelect } from "../../page/selection/selection.js";
import { pickedUnits, pickUnit, placeOf } from "../../page/selection/units.js";
import { onTheme } from "../../page/theme.js";
import { ink, mixed } from "../../parts/colors.js";
import { piece } from "../../parts/next_tokens.js";
import { decode, digits, eachLink, hue, slug, swatch } from "./links.js";

const TOP = 8;

// `look`: { payload, panels, T (tokens), left (true to show keys that the tokens attend to, false for queries that
//  attend to them), only (index of one head, or null for the mean of all), hovered (a token, or null) }
const chosenPanels = ({ panels, only }) => (panels.length > 1 && only === null ? panels : [panels[only ?? 0]]);
function centerOf({ payload, T }) {
  const picked = pickedUnits(payload.spans).filter((at) => at < T);
  return picked.length ? picked : [T - 1];
}
// Compute each head's weights between all tokens and the selected ones: Float64Array [T], NaN if unknown.
function valuesOf(panel, { T }, tokens, asLeft) {
  const values = new Float64Array(T).fill(NaN);
  for (const token of tokens)
    eachLink(panel, token, asLeft, (row, key, weight) => {
      const other = asLeft ? key : row;
      values[other] = (Number.isNaN(values[other]) ? 0 : values[other]) + weight;
    });
  return values;
}
// Compute the mean over heads. In a short prompt, all numbers are known; a NaN in any head makes the mean NaN.
function meanValues(look, asLeft = look.left) {
  const rows = chosenPanels(look).map((panel) => valuesOf(panel, look, centerOf(look), asLeft));
  return Float64Array.from({ length: look.T }, (_, at) => {
    const known = rows.filter((values) => !Number.isNaN(values[at]));
    if (!known.length || (look.payload.kept === null && known.length < rows.length)) return NaN;
    return known.reduce((sum, values) => sum + values[at], 0) / rows.length;
  });
}
const largestFirst = (numbers) =>
  [...numbers.keys()]
    .filter((at) => numbers[at] > 0)
    .sort((a, b) => numbers[b] - numbers[a] || a - b)
    .slice(0, TOP);
const named = ({ payload }, at) =>
  fill(payload.words.of_one, { token: payload.tokens[at], position: placeOf(payload, at) });
function centerName(look) {
  const center = centerOf(look);
  return center.length > 1 ? fill(look.payload.words.sum, { n: center.length }) : named(look, center[0]);
}
const numberText = (value) =>
  Number.isNaN(value) ? "" : value >= 1e-4 || value === 0 ? value.toFixed(6) : value.toExponential(3);

function colorsOf(root, look) {
  const style = getComputedStyle(root),
    property = (name) => style.getPropertyValue(name).trim(),
    one = chosenPanels(look);
  return {
    none: property("--pg-panel"),
    full: one.length > 1 ? property("--pg-focus") : hue(one[0].index),
    text: property("--pg-text"),
  };
}
// Color the tokens, and draw the scale.
function paintText(text, scale, root, look) {
  const { measure, words } = look.payload,
    weights = meanValues(look),
    largest = weights.reduce((a, b) => (b > a ? b : a), 0),
    { none, full, text: plain } = colorsOf(root, look),
    center = new Set(centerOf(look));
  for (const token of text.querySelectorAll("button")) {
    const at = +token.dataset.index,
      share = weights[at] > 0 ? Math.sqrt(weights[at] / largest) : 0,
      ground = mixed(none, full, share),
      style = share ? `background-color: rgb(${ground}); color: ${ink(ground, plain)}` : "";
    if (token.style.cssText !== style) token.style.cssText = style;
    token.dataset.value = Number.isNaN(weights[at]) ? "" : weights[at];
    if (token.ariaPressed !== String(center.has(at))) token.ariaPressed = center.has(at);
  }
  const bar = el("i", "pg-reading-ramp", "", { "aria-hidden": "true" }),
    stops = Array.from({ length: 9 }, (_, i) => `rgb(${mixed(none, full, Math.sqrt(i / 8))}) ${12.5 * i}%`);
  bar.style.background = `linear-gradient(to right, ${stops.join(", ")})`;
  scale.replaceChildren(
    el("span", "", measure),
    el("b", "", "0"),
    bar,
    el("b", "", digits(largest)),
    el("span", "", `(${words.scale})`),
  );
}

// Describe the token under the pointer, or the selected tokens.
function readoutOf(look) {
  const { payload, hovered, left, T } = look,
    { words } = payload;
  if (hovered === null || hovered >= T) {
    const now = fill(words[left ? "now_reads" : "now_read_by"], { token: centerName(look) }),
      picked = pickedUnits(payload.spans).some((at) => at < T);
    return [el("span", "pg-links-mono", now), ...(picked ? [] : [el("span", "pg-muted", words.default_note)])];
  }
  const weight = meanValues(look)[hovered],
    [here, other] = [centerName(look), named(look, hovered)],
    pair = left ? { query: here, key: other } : { query: other, key: here };
  if (Number.isNaN(weight)) return [el("span", "pg-muted", fill(words.readout_nothing, pair))];
  const panels = chosenPanels(look);
  const each = panels.map((panel) => {
    const item = el("span", "pg-links-item"),
      value = valuesOf(panel, look, centerOf(look), left)[hovered];
    item.append(swatch(panel.index), `${panel.head.join(".")} ${numberText(value)}`);
    return item;
  });
  return [
    el("span", "pg-links-mono", fill(words.readout_reads, pair)),
    el("strong", "pg-reading-number", numberText(weight)),
    ...(panels.length > 1 ? each : []),
  ];
}

// Return the largest numbers in one direction with their tokens.
function tokenList(look, asLeft, color) {
  const { words, tokens } = look.payload,
    parts = new Map(look.payload.parts),
    weights = meanValues(look, asLeft),
    best = largestFirst(weights),
    part = el("div", "pg-reading-list", "", { "data-list": asLeft ? "reads" : "read_by" });
  part.append(el("h3", "", words[asLeft ? "top_reads" : "top_read_by"]));
  if (!best.length) part.append(el("p", "pg-muted", words.no_readers));
  for (const at of best) {
    const line = el("div", "pg-reading-line"),
      track = el("span", "pg-reading-track"),
      bar = el("i", "", "", { "aria-hidden": "true" });
    const chip = el("button", "pg-chip", tokens[at], {
      type: "button",
      "data-at": at,
      "aria-label": fill(words.token_name, { token: tokens[at], position: placeOf(look.payload, at) }),
      title: parts.get(at) ?? "",
    });
    chip.onclick = (event) => pickUnit(look.payload.spans, at, adding(event));
    bar.style.width = `${(100 * weights[at]) / weights[best[0]]}%`;
    bar.style.background = color;
    track.append(bar);
    line.append(chip, el("span", "pg-muted", placeOf(look.payload, at)), track, el("b", "", digits(weights[at])));
    part.append(line);
  }
  if (asLeft && look.payload.sink) part.append(sinkLine(look, weights[best[0]]));
  return part;
}
// The rest of the row, which a learned sink takes, in the scale of the largest weight.
function sinkLine(look, largest) {
  const rest = centerOf(look).reduce((sum, at) => sum + 1 - look.panels[0].totals[at], 0),
    line = el("div", "pg-reading-line"),
    track = el("span", "pg-reading-track"),
    bar = el("i", "pg-reading-sink", "", { "aria-hidden": "true" });
  bar.style.width = `${Math.min(100, (100 * rest) / (largest || 1))}%`;
  track.append(bar);
  line.append(el("span", "pg-muted", look.payload.words.sink), el("span"), track, el("b", "", digits(rest)));
  return line;
}

// Build the tokens as running text, with the tokens of one character in one frame.
function textTokens(payload) {
  const { tokens, breaks, words, parts, frames } = payload;
  const ends = new Map(breaks),
    partOf = new Map(parts);
  const nodes = tokens.map((token, at) => {
    const label = [fill(words.token_name, { token, position: placeOf(payload, at) }), partOf.get(at)]
      .filter(Boolean)
      .join(", ");
    const button = el("button", "pg-reading-token", "", {
      type: "button",
      "data-index": at,
      "aria-label": label,
      title: partOf.get(at) ?? "",
      tabindex: at ? -1 : 0,
    });
    return [piece(button, token), ...Array.from({ length: ends.get(at) ?? 0 }, () => el("br"))];
  });
  return framed(nodes, frames);
}

// Build the settings for direction and head, which call `change` after a change. Returns { node, show() }.
function lookSwitches(look, change) {
  const node = el("div", "pg-links-set"),
    directions = el("span", "pg-tools", "", { role: "group" }),
    heads = el("span", "pg-tools", "", { role: "group" });
  node.append(directions, heads);
  const button = (inside, name, value) => {
    const one = el("button", "pg-button pg-quiet pg-links-head", "", {
      type: "button",
      "aria-pressed": look[name] === value,
    });
    one.append(...inside);
    one.onclick = () => {
      look[name] = value;
      change();
    };
    return one;
  };
  const show = () => {
    const { words } = look.payload,
      keep = document.activeElement,
      group = [directions, heads].find((each) => each.contains(keep)),
      at = group && [...group.children].indexOf(keep);
    directions.setAttribute("aria-label", words.direction);
    heads.setAttribute("aria-label", words.which);
    directions.replaceChildren(button([words.reads_from], "left", true), button([words.who_reads], "left", false));
    heads.hidden = look.panels.length < 2;
    heads.replaceChildren(
      button([words.mean], "only", null),
      ...look.panels.map((panel) => button([swatch(panel.index), panel.name], "only", panel.index)),
    );
    if (group) group.children[at]?.focus();
  };
  return { node, show };
}

// Return the export: one row per token with a number.
function takenOf(look) {
  const { payload } = look;
  return {
    file: () => `text-${slug(payload)}-${look.left ? "reads" : "read-by"}-${centerOf(look).join("-")}`,
    names() {
      const { words, measure } = payload,
        names = look.left ? ["key_position", "attended"] : ["query_position", "attending"];
      return [...names.map((name) => words[name]), `${measure}: ${centerName(look)}`];
    },
    lines() {
      const weights = meanValues(look);
      return [...weights.keys()]
        .filter((at) => !Number.isNaN(weights[at]))
        .map((at) => [payload.positions?.[at] ?? at, payload.tokens[at], weights[at]]);
    },
    table: true,
  };
}

define("reading", (root) => {
  const look = { payload: null, panels: [], T: 0, left: true, only: null, hovered: null };
  const title = el("h2"),
    about = el("p", "pg-about"),
    switches = lookSwitches(look, () => refresh()),
    readout = el("p", "pg-links-readout", "", { "aria-live": "polite" }),
    text = el("div", "pg-reading-text", "", { role: "group" }),
    scale = el("p", "pg-reading-scale"),
    lists = el("div", "pg-reading-lists"),
    foot = el("div");
  root.append(title, about, switches.node, readout, text, scale, lists, foot);
  let stale = false; // true if the latest payload is not drawn yet

  const explain = () => readout.replaceChildren(...readoutOf(look));
  const refresh = () => {
    if (!look.payload || stale || !root.clientWidth) return;
    switches.show();
    paintText(text, scale, root, look);
    explain();
    const focused = lists.contains(document.activeElement),
      { full } = colorsOf(root, look);
    lists.replaceChildren(tokenList(look, true, full), tokenList(look, false, full));
    if (focused) text.querySelector(`button[data-index="${centerOf(look)[0]}"]`)?.focus({ preventScroll: true });
    root.dataset.run = look.payload.run;
  };
  const build = () => {
    const { payload, only } = look,
      { words, source, python, note } = payload;
    stale = false;
    Object.assign(look, { panels: decode(payload), T: payload.tokens.length, hovered: null });
    if (only !== null && only >= look.panels.length) look.only = null;
    title.textContent = payload.title;
    about.textContent = [note, payload.kept && fill(words.known, payload)].filter(Boolean).join(" ");
    about.hidden = !about.textContent;
    text.setAttribute("aria-label", words.text);
    text.replaceChildren(...textTokens(payload));
    foot.replaceChildren(exporting(root, { source, python, title: payload.title, note, ...takenOf(look) }));
    refresh();
  };
  const render = () => {
    if (!look.payload || root.hidden || !root.clientWidth) return;
    if (stale) build();
    else refresh();
  };
  const out = () => {
    if (look.hovered === null || !look.payload || stale) return;
    look.hovered = null;
    explain();
  };
  const over = (event) => {
    if (rests(event)) return;
    const token = event.target.closest?.(".pg-reading-token");
    if (!token) return out();
    look.hovered = +token.dataset.index;
    if (event.type === "focusin") {
      for (const other of text.querySelectorAll("button[tabindex='0']")) other.tabIndex = -1;
      token.tabIndex = 0;
    }
    if (look.payload && !stale) explain();
  };
  pointed(text, over, out);
  text.addEventListener("click", (event) => {
    const token = event.target.closest(".pg-reading-token");
    if (token) pickUnit(look.payload.spans, +token.dataset.index, adding(event));
  });
  roving(text, alongRow);
  onJoin(() => {
    stale = true;
    render();
  });
  onWidth(root, render);
  onTheme(refresh);
  onSelect(refresh);
  return (next) => {
    look.payload = next;
    stale = true;
    render();
  };
});
