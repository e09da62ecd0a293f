// The model as a picture with this prompt's numbers: one token on its way through the blocks, one head looked into.
//
// payload of "startway": { title, about, head: [layer, head], head_name, read: [{ index, text, share, percent }], left,
//   position, embedding, blocks: [{ layer, heads: [{ value, strength, text }], mlp, guess, share, percent, length }],
//   sum, hues: [lowers, raises], words, file, source, python, run }.
import { exporting } from "../../export/menu.js";
import { enter, state } from "../../page/address/address.js";
import { go } from "../../page/address/places.js";
import { el, fill } from "../../page/dom.js";
import { define } from "../../page/mount.js";
import { pickHead, pickToken } from "../../page/selection/selection.js";

// A heading that opens the view of what stands below it.
function heading(text, tab, view) {
  const node = el("button", "pg-way-heading", text, { type: "button" });
  node.onclick = () => go(tab, view);
  return node;
}

// The first norm of a block, in its view.
function normOf(norm) {
  const { values, ...rest } = state();
  const shown = { ...values, activations_view: { view: "one_norm" }, one_norm_form: { norm } };
  enter({ ...rest, tab: "activations", values: shown });
}

define("startway", (root) => {
  const title = el("h2"),
    about = el("p", "pg-about"),
    picture = el("div", "pg-way"),
    read = el("p", "pg-way-read", "", { role: "status" }),
    sum = el("p", "pg-way-sum"),
    foot = el("div");
  root.append(title, about, picture, read, sum, foot);
  const point = (event) => {
    const { text } = event.target.closest?.("[data-text]")?.dataset ?? {};
    if (text) read.textContent = text;
  };
  picture.addEventListener("pointerover", point);
  picture.addEventListener("focusin", point);
  return (payload) => {
    const { words, head, blocks, hues } = payload;
    const tint = (node, strength) => {
      const share = Math.round(100 * Math.min(1, Math.abs(strength)) ** 0.5);
      node.style.setProperty("--pg-tint", `${share}%`);
      node.style.setProperty("--pg-hue", hues[strength < 0 ? 0 : 1]);
    };
    const cell = (part, kind) => {
      const node = el("button", `pg-way-cell ${kind}`, "", { type: "button", "data-text": part.text });
      node.setAttribute("aria-label", part.text);
      node.tabIndex = -1;
      tint(node, part.strength);
      return node;
    };
    // What the head reads: the tokens.
    const tokens = el("div", "pg-way-tokens"),
      open = el("button", "pg-way-open", words.open_head, { type: "button" });
    open.onclick = () => go("attention", "map");
    tokens.append(
      heading(words.tokens, "anatomy", "tokenizers"),
      el("p", "pg-way-caption", payload.head_name),
      ...payload.read.map(({ index, text, share, percent }) => {
        const row = el("button", "pg-way-token", "", { type: "button", "data-text": `${text} (${index}): ${percent}` });
        const bar = el("i");
        bar.style.width = `${100 * share}%`;
        row.append(el("code", "", text), bar, el("span", "", percent));
        row.setAttribute("aria-pressed", index === payload.position);
        row.onclick = () => pickToken(index, false);
        return row;
      }),
      ...(payload.left ? [el("p", "pg-way-caption", payload.left)] : []),
      open,
    );
    // The blocks.
    const table = el("div", "pg-way-blocks");
    table.style.setProperty("--pg-heads", blocks[0].heads.length);
    table.style.setProperty("--pg-count", blocks.length);
    table.append(
      heading(words.embedding, "design", "position_vectors"),
      el("span", "pg-way-embedding", payload.embedding),
      el("span", "pg-way-corner", words.block),
      heading(fill(words.attention, { n: blocks[0].heads.length }), "predictions", "logit_parts"),
      heading(words.mlp, "activations", "neurons"),
      heading(words.guess, "predictions", "lens"),
      ...blocks.flatMap(({ layer, norm, heads, mlp, guess, share, percent }) => {
        const strip = el("span", "pg-way-heads");
        strip.append(
          ...heads.map((part, n) => {
            const node = cell(part, "pg-way-head");
            node.setAttribute("aria-pressed", head[0] === layer && head[1] === n);
            if (head[0] === layer && head[1] === n) node.tabIndex = 0;
            node.onclick = () => pickHead(layer, n, false);
            return node;
          }),
        );
        const feed = cell(mlp, "pg-way-mlp");
        feed.onclick = () => go("activations", "neurons");
        const said = el("button", "pg-way-guess", "", { type: "button", "data-text": `${guess}: ${percent}` });
        const bar = el("i");
        bar.style.width = `${100 * share}%`;
        said.append(bar, el("code", "", guess), el("span", "", percent));
        said.tabIndex = -1;
        said.onclick = () => go("predictions", "lens");
        const norms = el("button", "pg-way-layer", String(layer), {
          type: "button",
          title: fill(words.norms, { layer }),
        });
        norms.setAttribute("aria-label", norms.title);
        norms.onclick = () => normOf(norm);
        return [norms, strip, feed, said];
      }),
      heading(words.output, "sampling", "distribution"),
    );
    title.textContent = payload.title;
    about.textContent = payload.about;
    picture.replaceChildren(tokens, table);
    read.textContent = words.help;
    sum.textContent = payload.sum;
    const parts = blocks.flatMap(({ layer, heads, mlp }) => [
      ...heads.map(({ value }, n) => [fill(words.part_head, { layer, head: n }), value]),
      [fill(words.part_mlp, { layer }), mlp.value],
    ]);
    foot.replaceChildren(
      exporting(root, {
        file: payload.file,
        source: payload.source,
        python: payload.python,
        title: payload.title,
        note: payload.about,
        names: [words.column_part, words.column_value],
        lines: parts,
        table: true,
        words,
      }),
    );
    root.dataset.run = payload.run;
  };
});
