// The next tokens before and after the edits.
import { el } from "../../page/dom.js";
import { define } from "../../page/mount.js";
import { watchRow } from "../../page/selection/watched.js";
import { rowOf, tableOf } from "../../parts/table.js";
import { titled } from "../../parts/titled.js";

const fact = (label, value, help) => {
  const item = el("span", "", "", { title: help });
  item.append(el("span", "pg-muted", `${label} `), el("b", "", value));
  return item;
};
function bars({ p_before, p_after }, top, edited) {
  const both = el("span", "pg-effect-bars", "", { "aria-hidden": "true" });
  for (const [name, p] of [...(edited ? [["before", p_before]] : []), ["after", p_after]]) {
    const bar = el("span", `pg-effect-bar pg-effect-${name}`);
    bar.style.width = `${(100 * p) / top}%`;
    both.append(bar);
  }
  return both;
}
const change = (before, after, edited, ...more) => ({
  look: "pg-effect-number",
  inside: [
    ...(edited ? [el("span", "pg-effect-old", before), el("span", "pg-muted", " → ")] : []),
    el("span", "", after),
    ...more,
  ],
});
function line(row, top, edited) {
  const { texts, text, id } = row;
  const tr = rowOf([
    { inside: el("span", "pg-effect-token", text), help: `${text} (${id})` },
    change(texts.p_before, texts.p_after, edited, bars(row, top, edited)),
    ...(edited ? [{ look: "pg-effect-number", text: texts.change }] : []),
    change(texts.logit_before, texts.logit_after, edited),
  ]);
  watchRow(tr, tr.firstChild, id, text);
  return tr;
}

define("beforeafter", (root) => {
  const facts = el("div", "pg-effect-facts"),
    frame = el("div", "pg-effect-table", "", { tabindex: 0 }),
    show = titled(root, facts, frame);
  return (payload) => {
    const { words, rows, edited, texts } = payload;
    const undecided = `${edited ? `${texts.before} → ` : ""}${texts.after} ${words.bits}`;
    facts.replaceChildren(fact(words.entropy, undecided, words.entropy_help));
    if (edited) {
      facts.append(fact(words.kl, `${texts.kl} ${words.nats}`, words.kl_help));
      for (const name of ["before", "after"])
        facts.append(el("span", `pg-effect-key pg-effect-key-${name}`, words[`column_${name}`]));
    }
    const top = Math.max(...rows.flatMap((row) => [row.p_before, row.p_after])) || 1,
      names = ["token", "probability", ...(edited ? ["change"] : []), "logit"];
    frame.replaceChildren(
      tableOf({
        columns: names.map((name) => words[`column_${name}`]),
        rows: rows.map((row) => line(row, top, edited)),
      }),
    );
    frame.setAttribute("aria-label", payload.title);
    show(payload, {
      names: payload.columns,
      lines: rows.map((row) => [row.id, row.text, row.p_before, row.p_after, row.logit_before, row.logit_after]),
    });
  };
});
