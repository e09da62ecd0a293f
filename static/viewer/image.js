// The picture that the keys are patches of, lit or colored by the weights of the picked query. Where queries are the same
// tokens, a click on a patch makes it the query. All numbers here are by tokens, whatever the unit elsewhere.
import { el, fill, hint, onWidth, pointed, rests } from "../page/dom.js";
import { onTheme } from "../page/theme.js";
import { channels } from "../parts/colors.js";
import { percent } from "../parts/percent.js";
import { switcher } from "../parts/switcher.js";
import { centerOf, colorOf, headSwitch, weightsOf } from "./center.js";
import { paintPatches, patchButtons, pictureOf, stopsOf } from "./image_patches.js";
import { properties, rampBar } from "./looks.js";

const OTHERS = 6; // maximum number of other tokens that are named

const isPatch = ({ first, rows, columns }, at) => at >= first && at < first + rows * columns;
// Return the picked query by tokens: the first token of a picked word.
function queryOf(look) {
  const center = centerOf(look);
  if (center.side === "query") return look.data.spans(look.unit).queries[center.at]?.[0] ?? 0;
  return centerOf({ ...look, picked: null, unit: "tokens" }).at;
}

// List the tokens outside the picture: those that get weight, and those that can be chosen as the query.
function others({ data, doc, words }, values, query, choose) {
  const { queries, keys } = data.labels("tokens"),
    off = [...values.keys()]
      .filter((at) => !isPatch(doc.image, at) && values[at] > 0)
      .sort((a, b) => values[b] - values[a]),
    sum = off.reduce((total, at) => total + values[at], 0),
    list = el("ul"),
    name = words[data.same ? "image_queries" : "queries_tokens"],
    chips = el("div", "pg-chips", "", { role: "group", "aria-label": name });
  for (const at of off.slice(0, OTHERS)) {
    const item = el("li");
    item.append(el("span", "pg-links-mono", `${keys[at]} (${at})`), el("b", "", percent(values[at])));
    list.append(item);
  }
  queries.forEach((text, at) => {
    if (data.same && isPatch(doc.image, at)) return;
    const chip = el("button", "pg-chip", text, { type: "button", "aria-pressed": at === query, title: String(at) });
    chip.onclick = () => choose(at);
    chips.append(chip);
  });
  return [
    ...(chips.childElementCount ? [el("h3", "", name), chips] : []),
    ...(off.length ? [el("h3", "", fill(words.image_rest, { weight: percent(sum) })), list] : []),
  ];
}

// Say the query's weight on the whole picture, or on the hovered patch.
function say(readout, { data, doc, words }, values, query, hovered) {
  const { queries, keys } = data.labels("tokens"),
    { first, rows, columns } = doc.image,
    token = `${queries[query]} (${query})`;
  if (hovered !== null) {
    const at = hovered + first;
    readout.textContent = fill(words.attends, {
      query: token,
      key: `${keys[at]} (${at})`,
      weight: percent(values[at]),
    });
    return;
  }
  const inside = values.subarray(first, first + rows * columns).reduce((sum, value) => sum + (value || 0), 0);
  readout.replaceChildren(
    fill(words.image_now, { token, weight: percent(inside) }),
    el("span", "pg-muted", hint(words, data.same ? "image_help" : "image_pick")),
  );
}

// Build the picture. Returns { node, draw(), picture() }.
export function imagePanel(look, { set }) {
  const { words, data, doc } = look,
    { src, rows, columns, first } = doc.image,
    node = el("div", "pg-viewer-image"),
    tools = el("div", "pg-links-set"),
    heads = headSwitch(look, set),
    readout = el("p", "pg-viewer-readout", "", { "aria-live": "polite" }),
    beside = el("div", "pg-viewer-beside-picture"),
    frame = el("div", "pg-viewer-picture"),
    image = el("img", "", "", { src, alt: doc.title, draggable: "false" }),
    canvas = el("canvas", "", "", { "aria-hidden": "true" }),
    patches = patchButtons(doc.image, words),
    scale = el("p", "pg-viewer-bar"),
    rest = el("div", "pg-viewer-others");
  let way = "light",
    hovered = null,
    values = null;
  const ways = ["light", "color"].map((key) => [key, words[`image_${key}`]]);
  tools.append(
    switcher(words.image_way, ways, way, (next) => {
      way = next;
      draw();
    }),
    heads.node,
  );
  frame.append(image, canvas, patches);
  beside.append(frame, rest);
  node.append(tools, readout, beside, scale);

  const choose = (token) => {
    const at = data.spans(look.unit).queries.findIndex(([start, end]) => token >= start && token < end);
    set({ picked: { side: "query", at }, pair: null });
  };
  const draw = () => {
    if (look.panel !== "image" || !node.clientWidth) return;
    const query = queryOf(look),
      back = rest.contains(document.activeElement);
    values = weightsOf(look, { side: "query", at: query }, "tokens");
    heads.draw();
    patches.querySelector("[aria-pressed=true]")?.setAttribute("aria-pressed", "false");
    if (data.same && isPatch(doc.image, query)) patches.children[query - first].setAttribute("aria-pressed", "true");
    const own = values.subarray(first, first + rows * columns),
      largest = own.reduce((a, b) => (b > a ? b : a), 0) || 1,
      rgb = channels(colorOf(look, properties(node)));
    paintPatches(canvas, doc.image, { values: own, largest, way, rgb });
    scale.replaceChildren(
      ...rampBar(doc, words.weight, "0", percent(largest), stopsOf(way, rgb)),
      el("span", "", `(${words.scale})`),
    );
    say(readout, look, values, query, hovered);
    rest.replaceChildren(...others(look, values, query, choose));
    if (back) rest.querySelector("[aria-pressed=true]")?.focus({ preventScroll: true });
    node.dataset.drawn = `${query} ${way}`;
  };
  const point = (at) => {
    if (at === hovered) return;
    hovered = at;
    say(readout, look, values, queryOf(look), hovered);
  };
  pointed(
    patches,
    (event) => rests(event) || point(event.target.dataset?.index === undefined ? null : +event.target.dataset.index),
    () => point(null),
  );
  patches.addEventListener("click", ({ target }) => {
    if (data.same && target.dataset.index !== undefined) choose(+target.dataset.index + first);
  });
  image.onload = draw;
  onWidth(frame, draw);
  onTheme(draw);
  return { node, draw, picture: () => pictureOf(image, canvas, node) };
}
