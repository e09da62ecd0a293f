// A picture of the model with this prompt's numbers: the path of one token through the blocks, and one head in detail.
//
// payload of "startway": { title, about, head: [layer, head], head_name, read: [{ index, text, share, percent }], left,
//   position, embedding, blocks: [{ layer, heads: [{ value, strength, text }], mlp, guess, share, percent, length }],
//   sum, hues: [lowers, raises], words, file, source, python, run }.
import { enter, state } from "../../page/address/address.js";
import { go } from "../../page/address/places.js";
import { el, fill } from "../../page/dom.js";
import { define } from "../../page/mount.js";
import { crossedOut } from "../../page/selection/off.js";
import { pickHead, pickToken } from "../../page/selection/selection.js";
import { titled } from "../../parts/titled.js";

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
function shareBar(look, text, share, percent, told) {
  const row = el("button", look, "", { type: "button", "data-text": told }),
    bar = el("i");
  bar.style.width = `${100 * share}%`;
  row.append(bar, el("span", "", percent));
  bar[look === "pg-way-token" ? "before" : "after"](el("code", "", text));
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

// Build a block: its norms, heads and MLP, and the model's prediction after it.
function blockRow({ layer, norm, heads, mlp, guess, share, percent }, { words, head, hues }) {
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
  const said = shareBar("pg-way-guess", guess, share, percent, `${guess}: ${percent}`),
    title = fill(words.norms, { layer }),
    norms = el("button", "pg-way-layer", String(layer), { type: "button", title, "aria-label": title });
  said.tabIndex = -1;
  said.onclick = () => go("predictions", "lens");
  norms.onclick = () => normOf(norm);
  return [norms, strip, partCell(mlp, "pg-way-mlp", hues, () => go("activations", "neurons")), said];
}
function blocksTable(payload) {
  const { words, blocks } = payload,
    n = blocks[0].heads.length,
    table = el("div", "pg-way-blocks");
  table.style.setProperty("--pg-heads", n);
  table.style.setProperty("--pg-count", blocks.length);
  table.append(
    heading(words.embedding, "design", "position_vectors"),
    el("span", "pg-way-embedding", payload.embedding),
    el("span", "pg-way-corner", words.block),
    heading(fill(words.attention, { n }), "predictions", "logit_parts"),
    heading(words.mlp, "activations", "neurons"),
    heading(words.guess, "predictions", "lens"),
    ...blocks.flatMap((block) => blockRow(block, payload)),
    heading(words.output, "sampling", "distribution"),
  );
  return table;
}

define("startway", (root) => {
  const picture = el("div", "pg-way"),
    read = el("p", "pg-way-read", "", { role: "status" }),
    sum = el("p", "pg-way-sum"),
    show = titled(root, picture, read, sum);
  const point = (event) => {
    const { text } = event.target.closest?.("[data-text]")?.dataset ?? {};
    if (text) read.textContent = text;
  };
  picture.addEventListener("pointerover", point);
  picture.addEventListener("focusin", point);
  return (payload) => {
    const { words, blocks } = payload;
    picture.replaceChildren(tokensRead(payload), blocksTable(payload));
    read.textContent = words.help;
    sum.textContent = payload.sum;
    const parts = blocks.flatMap(({ layer, heads, mlp }) => [
      ...heads.map(({ value }, n) => [fill(words.part_head, { layer, head: n }), value]),
      [fill(words.part_mlp, { layer }), mlp.value],
    ]);
    show(payload, { names: [words.column_part, words.column_value], lines: parts, table: true, words });
  };
});
