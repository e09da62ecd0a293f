// The numbers of all heads as a table; a click on a column's name sorts, a click on a head selects it.
import { el, fill } from "../page/dom.js";
import { markSorted, tableOf } from "../parts/table.js";
import { ranked } from "./heads.js";
import { numberText, swatch } from "./looks.js";

// Return the numbers of the heads for a file: names of columns and lines, at full precision.
export function numbersOf({ doc, data, unit, words }) {
  const of = (number) => number.values[unit] ?? number.values.tokens;
  return {
    names: [
      words.layer,
      words.head_column,
      ...doc.numbers.map(({ label, unit: by }) => (by ? `${label} (${by})` : label)),
    ],
    lines: data.heads.map(([layer, head], at) => [
      layer + (doc.first_layer ?? 0),
      head,
      ...doc.numbers.map((number) => of(number)[at] ?? ""),
    ]),
  };
}

// Build the table. Returns { node, draw() }.
export function tablePanel(look, { pick }) {
  const { doc, words, data } = look,
    node = el("div", "pg-viewer-table"),
    holder = el("div", "pg-lab-scroll", "", { tabindex: 0, role: "region", "aria-label": words.panel_table });
  let by = "",
    down = true;
  node.append(el("p", "pg-about", words.about_table), holder);
  const of = (number) => number.values[look.unit] ?? number.values.tokens;
  const order = () => {
    const number = doc.numbers.find(({ key }) => key === by),
      all = number ? ranked(of(number)) : [...data.heads.keys()];
    return down ? all : all.reverse();
  };
  const rowOf = (at) => {
    const head = data.heads[at],
      chosen = look.heads.findIndex(([layer, each]) => layer === head[0] && each === head[1]),
      button = el("button", "pg-button pg-quiet", "", {
        type: "button",
        "aria-pressed": chosen >= 0,
        "aria-label": fill(words.head, { head: data.name(head) }),
        "data-index": at,
      });
    if (chosen >= 0) button.append(swatch(look.hue(chosen)));
    button.append(data.name(head));
    button.onclick = (event) => {
      pick(at, event.shiftKey || event.ctrlKey || event.metaKey);
      holder.querySelector(`[data-index="${at}"]`)?.focus({ preventScroll: true });
    };
    return [button, ...doc.numbers.map((number) => numberText(of(number)[at] ?? null, number.unit))];
  };
  const draw = () => {
    if (look.panel !== "table") return;
    const column = ({ key, label, unit, help = "" }) => ({
      text: label,
      sortTitle: help,
      "data-key": key,
      sort: () => {
        down = by === key ? !down : true;
        by = key;
        draw();
        holder.querySelector(`[data-key="${key}"] button`)?.focus({ preventScroll: true });
      },
      inside: unit && unit !== "%" ? [el("small", "", unit === "tokens" ? words[`unit_${look.unit}`] : unit)] : [],
    });
    const first = { key: "", label: words.head_column, unit: "" };
    const table = tableOf({
      look: "pg-lab-table",
      columns: [first, ...doc.numbers].map(column),
      rows: order().map(rowOf),
    });
    const { scrollTop, scrollLeft } = holder;
    holder.replaceChildren(table);
    Object.assign(holder, { scrollTop, scrollLeft });
    markSorted(table.querySelectorAll("thead th"), (head) => head.dataset.key === by, by ? down : !down, "none");
    node.dataset.drawn = by;
  };
  return { node, draw };
}
