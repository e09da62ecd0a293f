// Derivation of one attention weight in numbered steps, each with its formula in symbols and in numbers.
//
// payload: see viz/views/attention/cell/figures.py and viz/views/attention/cell/view.py. The title of every number
// shown gives all of its digits.
import { exporting } from "../../export/menu.js";
import { el } from "../../page/dom.js";
import { define } from "../../page/mount.js";
import { select, selection } from "../../page/selection/selection.js";
import { onTheme } from "../../page/theme.js";
import { codeBox } from "../../parts/code.js";
import { iconButton } from "../../parts/icons.js";
import { asArrays, asLines, byDimension } from "./cell_numbers.js";
import { dimensions, painter } from "./cell_pieces.js";
import { checkStep, maskStep, productsStep, scoreStep, softmaxStep, valueStep, vectorsStep } from "./cell_steps.js";

// --- the token pickers ---

function pickers(go) {
  const row = el("div", "pg-why-pickers");
  const fields = ["query", "key"].map((name) => {
    const field = el("div", "pg-why-picker"),
      label = el("label", "pg-control-label"),
      list = el("select");
    const before = iconButton("back", "", null),
      after = iconButton("on", "", null);
    list.id = `pg-why-${name}`;
    label.htmlFor = list.id;
    list.dataset.name = name;
    const inside = el("div");
    inside.append(before, list, after);
    field.append(label, inside);
    row.append(field);
    return { name, label, list, before, after };
  });
  const [query, key] = fields;
  let texts = null,
    cell = [0, 0];
  const move = (n, to) => {
    const next = n ? [cell[0], to] : [to, Math.min(cell[1], to)];
    if (to < 0 || to >= texts.length || next[1] > next[0]) return;
    show(next);
    go(...next);
  };
  fields.forEach(({ list, before, after }, n) => {
    list.onchange = () => move(n, +list.value);
    before.onclick = () => move(n, cell[n] - 1);
    after.onclick = () => move(n, cell[n] + 1);
  });
  const show = (next) => {
    cell = next;
    while (key.list.options.length > cell[0] + 1) key.list.remove(key.list.options.length - 1);
    for (let at = key.list.options.length; at <= cell[0]; at++) key.list.append(new Option(`${at} ${texts[at]}`, at));
    fields.forEach(({ list, before, after }, n) => {
      list.value = cell[n];
      before.disabled = cell[n] === 0;
      after.disabled = cell[n] === (n ? cell[0] : texts.length - 1);
    });
  };
  return {
    row,
    draw(payload) {
      const { words: w, tokens } = payload,
        same = texts && JSON.stringify(texts) === JSON.stringify(tokens);
      for (const { name, label, before, after } of fields) {
        label.textContent = w[name];
        before.setAttribute("aria-label", `${w[name]}: ${w.before}`);
        after.setAttribute("aria-label", `${w[name]}: ${w.after}`);
      }
      texts = tokens;
      if (!same) {
        key.list.replaceChildren();
        query.list.replaceChildren(...texts.map((text, at) => new Option(`${at} ${text}`, at)));
      }
      // The steps for a newer selection are pending, so keep that selection.
      const pending = selection.pair && JSON.stringify(selection.pair) !== JSON.stringify(payload.cell) && same;
      show(pending ? cell : payload.cell);
    },
  };
}

define("why", (root) => {
  const go = (query, key) => select({ tokens: [...new Set([query, key])], pair: [query, key] });
  const title = el("h2"),
    picking = pickers(go),
    steps = el("ol", "pg-why-steps");
  const foot = el("div");
  root.append(title, picking.row, steps, foot);
  const choices = { stage: "", order: "dimension" }; // display options, which persist across cells
  const folds = {}; // the open code sections, which also persist
  let payload = null;
  const step = (name, content) => {
    folds[name] ??= {};
    const item = el("li"),
      code = codeBox(payload.code[name], folds[name]);
    item.dataset.step = name;
    item.append(el("h3", "", payload.words[`step_${name}`]), ...content, ...(code ? [code] : []));
    return item;
  };
  const paintSteps = () => {
    const walk = dimensions(steps, payload),
      paint = painter(payload);
    steps.replaceChildren(
      step("vectors", vectorsStep(payload, walk, paint, choices)),
      step("products", productsStep(payload, walk, paint, choices)),
      step("score", scoreStep(payload)),
      step("mask", maskStep(payload)),
      step("softmax", softmaxStep(payload, go)),
      step("value", valueStep(payload, walk, paint)),
      step("check", checkStep(payload)),
    );
  };
  const footer = () => {
    const { words: w, file, source } = payload;
    const names = [w.quantity, w.index, w.column_token, w.number];
    foot.replaceChildren(
      exporting(root, {
        file,
        source,
        python: payload.python,
        title: payload.title,
        note: payload.note,
        names,
        lines: () => asLines(payload),
        arrays: () => asArrays(payload),
        table: () => byDimension(payload),
      }),
    );
  };
  onTheme(() => {
    if (payload) paintSteps();
  });
  return (next) => {
    payload = next;
    title.textContent = payload.title;
    picking.draw(payload);
    const chosen = steps.contains(document.activeElement);
    paintSteps();
    if (chosen) steps.querySelector("[aria-current]")?.focus();
    footer();
    root.dataset.run = payload.run;
  };
});
