// Several passages of tokens, colored by a number of each token, or by the attention of or to a token that is picked.
//
// payload of "passages": { title, note, scale { label, ramps, ticks }, rows, words, names, lines, file, source, python, run }
//   or { absent: true }
//  row: { label, value, tokens, at (the marked or first picked token) } and
//   places (on the ramp, from 0 to 1; null for a token without a number) with texts (the numbers), or
//   codes: the weights of each token on itself and the tokens before it, row by row, from 0 to the payload's `codes`
//  words: group, hover (for numbers), from, to (the two ways of coloring by weights), of_token, to_token
import { alongRow, el, fill, roving } from "../../page/dom.js";
import { define } from "../../page/mount.js";
import { isDark, onTheme } from "../../page/theme.js";
import { piece } from "../next_tokens.js";
import { titled } from "../titled.js";
import { rampLegend, tint } from "./tinted.js";

const weight = ({ codes }, query, key, top) => (key > query ? null : codes[(query * (query + 1)) / 2 + key] / top);
// Return the weights that color a passage: those of the picked token on others, or those of others on it.
export function weightsOf(row, at, way, top) {
  return row.tokens.map((_, other) => (way === "from" ? weight(row, at, other, top) : weight(row, other, at, top)));
}

function passageOf(row, payload, way, again) {
  const root = el("section", "pg-passage"),
    head = el("p", "pg-passage-label"),
    text = el("div", "pg-reading-text pg-surprise-text", "", { role: "group", "aria-label": row.label }),
    tag = row.codes ? "button" : "span",
    named = (token, index) => (row.codes ? { "aria-label": `${index}: ${token}`, type: "button" } : {}),
    tokens = row.tokens.map((token, index) => {
      const given = { "data-index": index, tabindex: row.codes ? -1 : 0, ...named(token, index) };
      return piece(el(tag, "pg-reading-token", "", given), token);
    });
  head.append(el("b", "", row.label), el("span", "pg-muted", row.value));
  text.append(...tokens);
  let at = row.at;
  const color = () => {
    const { words, scale, codes: top } = payload,
      shares = row.codes ? weightsOf(row, at, way(), top) : null,
      places = shares ? shares.map((share) => (share === null ? null : Math.sqrt(share))) : row.places;
    for (const [index, node] of tokens.entries()) {
      node.style.cssText = "";
      node.classList.toggle("pg-surprise-unscored", places[index] === null && !shares);
      if (tag === "button") node.ariaPressed = String(index === at);
      else node.classList.toggle("pg-passage-peak", index === at);
      const share = shares?.[index] ?? null,
        percent = share === null ? "" : `${(100 * share).toFixed(1)}%`,
        said = shares ? (percent ? words[`${way()}_token`] : "") : words.hover;
      node.title = fill(said, { percent, value: row.texts?.[index], picked: row.tokens[at], token: row.tokens[index] });
    }
    tint(tokens, places, scale.ramps[isDark() ? "dark" : "light"]);
  };
  if (row.codes) {
    tokens[at].tabIndex = 0;
    text.addEventListener("click", ({ target }) => {
      const picked = target.closest("button");
      if (!picked) return;
      at = +picked.dataset.index;
      again();
    });
    roving(text, alongRow);
  }
  root.append(head, text);
  return { root, color };
}

define("passages", (root) => {
  const top = el("div", "pg-passage-top"),
    ways = el("div", "pg-views", "", { role: "group" }),
    scale = el("div", "pg-surprise-scale"),
    list = el("div", "pg-passages");
  top.append(ways, scale);
  let show = null,
    payload = null,
    way = "from",
    passages = [];
  const color = () => {
    if (!payload) return;
    const { ramps, label, ticks } = payload.scale;
    scale.replaceChildren(...rampLegend(label, ramps[isDark() ? "dark" : "light"], ticks));
    for (const passage of passages) passage.color();
    for (const button of ways.children) button.ariaPressed = String(button.dataset.key === way);
  };
  onTheme(color);
  return (next) => {
    root.classList.toggle("pg-absent", Boolean(next.absent));
    payload = next.absent ? null : next;
    if (!payload) return;
    show ??= titled(root, top, list);
    const { words, rows } = payload;
    ways.hidden = !rows[0]?.codes;
    ways.setAttribute("aria-label", words.group ?? "");
    ways.replaceChildren(
      ...["from", "to"].map((key) => {
        const button = el("button", "pg-view", words[key], { type: "button", "data-key": key });
        button.onclick = () => {
          way = key;
          color();
        };
        return button;
      }),
    );
    passages = rows.map((row) => passageOf(row, payload, () => way, color));
    list.replaceChildren(...passages.map((passage) => passage.root));
    color();
    show(payload, { names: payload.names, lines: payload.lines });
  };
});
