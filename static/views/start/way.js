// A moving picture of the model with this prompt's numbers: one token's path from the tokens through the blocks to the
// answer, and what one head reads on the way.
//
// payload of "startway": { title, about, head: [layer, head], head_name, read: [{ index, text, share, percent }], left,
//   position, embedding, stream: [{ guess, share, percent, size, text }] after the embedding and each block,
//   blocks: [{ layer, norm, heads: [{ value, strength, text }], mlp }], answer, steps: [text], sum,
//   hues: [lowers, raises], words, file, source, python, run }.
import { enter, state } from "../../page/address/address.js";
import { go } from "../../page/address/places.js";
import { el, fill } from "../../page/dom.js";
import { define } from "../../page/mount.js";
import { crossedOut } from "../../page/selection/off.js";
import { pickHead, pickToken } from "../../page/selection/selection.js";
import { titled } from "../../parts/titled.js";
import { player } from "./player.js";
import { wires } from "./wires.js";

const DENSE = 16; // number of layers above which the rows are as low as their text

// Build a heading that opens the view of the content below it.
function heading(text, tab, view) {
  const node = el("button", "pg-way-heading", text, { type: "button" });
  node.onclick = () => go(tab, view);
  return node;
}

// Open the first norm of a block in its view.
function normOf(norm) {
  const { values, ...rest } = state();
  const shown = { ...values, activations_view: { view: "one_norm" }, one_norm_form: { norm } };
  enter({ ...rest, tab: "activations", values: shown });
}

// Build a labeled cell, tinted by its strength. hues: [lowers, raises].
function partCell(part, kind, hues, act) {
  const node = el("button", `pg-way-cell ${kind}`, "", {
      type: "button",
      "data-text": part.text,
      "aria-label": part.text,
      tabindex: -1,
    }),
    share = Math.round(100 * Math.min(1, Math.abs(part.strength)) ** 0.5);
  node.style.setProperty("--pg-tint", `${share}%`);
  node.style.setProperty("--pg-hue", hues[part.strength < 0 ? 0 : 1]);
  node.onclick = act;
  return node;
}
// Build a token with a bar, and its percentage beside the bar.
function shareBar(look, text, share, percent, told) {
  const row = el("button", look, "", { type: "button", "data-text": told }),
    track = el("span", "pg-way-track"),
    bar = el("i");
  bar.style.width = `${100 * share}%`;
  track.append(bar, el("code", "", text));
  row.append(track, el("span", "pg-way-share", percent));
  return row;
}

// Build the tokens that the head attends to.
function tokensRead({ words, read, left, position, head_name: name }) {
  const node = el("div", "pg-way-tokens"),
    open = el("button", "pg-way-open", words.open_head, { type: "button" });
  open.onclick = () => go("attention", "map");
  node.append(
    heading(words.tokens, "anatomy", "tokenizers"),
    el("p", "pg-way-caption", name),
    ...read.map(({ index, text, share, percent }) => {
      const row = shareBar("pg-way-token", text, share, percent, `${text} (${index}): ${percent}`);
      row.setAttribute("aria-pressed", index === position);
      row.onclick = () => pickToken(index, false);
      return row;
    }),
    ...(left ? [el("p", "pg-way-caption", left)] : []),
    open,
  );
  return node;
}

// Build a row that is drawn as time reaches it.
function rowOf(...inside) {
  const row = el("div", "pg-way-row");
  row.append(...inside);
  return row;
}

// Build a place of the residual stream, and the model's prediction from it.
function streamAt({ guess, share, percent, text }) {
  const said = shareBar("pg-way-guess", guess, share, percent, `${guess}: ${percent}`);
  said.tabIndex = -1;
  said.onclick = () => go("predictions", "lens");
  return [el("span", "pg-way-stream", "", { "data-text": text }), said];
}

// Build a block: its norms, heads and MLP, and the stream after it.
function blockRow({ layer, norm, heads, mlp }, { words, head, hues, stream }) {
  const strip = el("span", "pg-way-heads");
  strip.append(
    ...heads.map((part, n) => {
      const here = head[0] === layer && head[1] === n,
        node = partCell(part, "pg-way-head", hues, () => pickHead(layer, n, false));
      node.setAttribute("aria-pressed", here);
      if (here) node.tabIndex = 0;
      return crossedOut(node, layer, n);
    }),
  );
  const title = fill(words.norms, { layer }),
    norms = el("button", "pg-way-layer", String(layer), { type: "button", title, "aria-label": title }),
    added = partCell(mlp, "pg-way-mlp", hues, () => go("activations", "neurons"));
  norms.onclick = () => normOf(norm);
  return rowOf(norms, strip, added, ...streamAt(stream[layer + 1]));
}

// Build the answer at the end of the stream.
function answerRow({ words, answer, stream }) {
  const { share, percent } = stream.at(-1),
    said = shareBar("pg-way-guess pg-way-answer", answer, share, percent, `${answer}: ${percent}`);
  said.onclick = () => go("sampling", "distribution");
  return rowOf(heading(words.output, "sampling", "distribution"), el("span", "pg-way-stream"), said);
}

function blocksTable(payload) {
  const { words, blocks, stream } = payload,
    n = blocks[0].heads.length,
    table = el("div", blocks.length > DENSE ? "pg-way-blocks pg-way-dense" : "pg-way-blocks");
  table.style.setProperty("--pg-heads", n);
  table.style.setProperty("--pg-count", blocks.length);
  table.append(
    el("span", "pg-way-corner", words.block),
    heading(fill(words.attention, { n }), "predictions", "logit_parts"),
    heading(words.mlp, "activations", "neurons"),
    el("span"),
    heading(words.guess, "predictions", "lens"),
    rowOf(
      heading(words.embedding, "design", "position_vectors"),
      el("span", "pg-way-embedding", payload.embedding),
      ...streamAt(stream[0]),
    ),
    ...blocks.map((block) => blockRow(block, payload)),
    answerRow(payload),
  );
  return table;
}

define("startway", (root) => {
  const picture = el("div", "pg-way"),
    read = el("p", "pg-way-read", "", { role: "status" }),
    sum = el("p", "pg-way-sum"),
    lines = wires(picture);
  let payload = null,
    rows = [],
    now = 0; // the painted time
  const paint = (at) => {
    now = at;
    rows.forEach((row, n) => {
      row.style.setProperty("--pg-on", Math.max(0, Math.min(1, at - n)));
    });
    lines.paint(at);
  };
  const time = player(root, paint),
    show = titled(root, time.node, picture, read, sum);
  const point = (event) => {
    const { text } = event.target.closest?.("[data-text]")?.dataset ?? {};
    if (text) read.textContent = text;
  };
  picture.addEventListener("pointerover", point);
  picture.addEventListener("focusin", point);
  picture.addEventListener("click", time.pause);
  new ResizeObserver(() => {
    if (!payload || !picture.clientWidth) return;
    lines.measure(payload);
    lines.paint(now);
  }).observe(picture);
  return (next) => {
    payload = next;
    const { words, blocks } = payload;
    picture.replaceChildren(tokensRead(payload), blocksTable(payload), lines.layer);
    rows = [...picture.querySelectorAll(".pg-way-row")];
    if (picture.clientWidth) lines.measure(payload);
    read.textContent = words.help;
    sum.textContent = payload.sum;
    const parts = blocks.flatMap(({ layer, heads, mlp }) => [
      ...heads.map(({ value }, n) => [fill(words.part_head, { layer, head: n }), value]),
      [fill(words.part_mlp, { layer }), mlp.value],
    ]);
    show(payload, { names: [words.column_part, words.column_value], lines: parts, table: true, words });
    time.follow(payload);
  };
});
