// The table of all heads, one row per head, with sorting and filtering. A click on a row selects its head everywhere.
//
// payload: { index [[layer, head]], columns [{ key, label, help, unit, kind, missing }], values and spread (arrays
//   [heads, columns] as Plotly sends them; spread may be null), names [[[name, score, baseline]]] or null,
//   names_of [[name, text, help, hue]], caption, source, file, run, python, words }
import { alongColumn, el, fill, hint, roving } from "../../page/dom.js";
import { define } from "../../page/mount.js";
import { headActions } from "../../page/selection/head_list.js";
import { crossedOut } from "../../page/selection/off.js";
import { ranking } from "../../page/selection/ranking.js";
import { adding, onSelect, pickHead, selection } from "../../page/selection/selection.js";
import { pageState } from "../../page/state.js";
import { decoded } from "../../parts/figure/figure_numbers.js";
import { headOf, markSorted, rowOf, tableOf } from "../../parts/table.js";
import { titled } from "../../parts/titled.js";
import { chooseName, chosenName, onName } from "./chosen_name.js";

const DIGITS = { share: 3, size: 1, signed: 2 };
const NAMES = -2,
  HEAD = -1; // index for the column of head names, which is not in `columns`

const number = (value, kind) => {
  const text = value.toFixed(DIGITS[kind]);
  return (kind === "signed" && value > 0 ? `+${text}` : text).replace("-", "−");
};

// Build one cell: the number, its spread and, for a bounded quantity, a bar.
function numberCell(value, spread, column) {
  const cell = el("td", "pg-number");
  if (!Number.isFinite(value)) {
    cell.append(el("span", "pg-muted", "–", { title: column.missing }));
    return cell;
  }
  cell.append(el("b", "", number(value, column.kind)));
  if (Number.isFinite(spread)) cell.append(el("small", "", `±${spread.toFixed(DIGITS[column.kind])}`));
  if (column.kind === "share") cell.style.setProperty("--pg-share", `${100 * value}%`);
  if (column.kind === "signed") {
    const wide = 50 * Math.abs(value); // measured from the middle, which represents 0
    cell.classList.add(value < 0 ? "pg-below" : "pg-above");
    cell.style.setProperty("--pg-share", `${wide}%`);
    cell.style.setProperty("--pg-from", `${(100 * (value < 0 ? 50 - wide : 50)) / (100 - wide)}%`);
  }
  return cell;
}

function nameCell(names, about, words) {
  const cell = el("td", "pg-names");
  for (const [name, score, baseline] of names) {
    const [, text, , hue] = about.get(name);
    const hint = fill(words.score_of, { score: score.toPrecision(3), baseline: baseline.toPrecision(2) });
    const chip = el("span", "pg-name", `${text} ${score.toFixed(2)}`, { title: hint });
    chip.style.setProperty("--pg-hue", hue);
    cell.append(chip);
  }
  return cell;
}

// Return the export at full precision: one row per head for CSV, one array per column for NPZ.
function lines({ payload, values, spread }) {
  const { columns, index, names } = payload,
    C = columns.length;
  const head = [
    "layer",
    "head",
    ...(names ? ["names"] : []),
    ...columns.flatMap(({ key }) => (spread ? [key, `${key}_sd`] : [key])),
  ];
  return [
    head,
    ...index.map(([layer, number], at) => [
      layer,
      number,
      ...(names ? [names[at].map(([name]) => name).join(" ")] : []),
      ...columns.flatMap((_, c) => {
        const here = at * C + c,
          value = values.data[here];
        return [value, ...(spread ? [spread.data[here]] : [])].map((v) => (Number.isFinite(v) ? v : ""));
      }),
    ]),
  ];
}

function arrays({ payload, values, spread }) {
  const { columns, index, names } = payload,
    N = index.length;
  const column = ({ data }, c) => ({ data: data.filter((_, i) => i % columns.length === c), shape: [N] });
  const out = {
    layer: { data: Int32Array.from(index, ([layer]) => layer), shape: [N] },
    head: { data: Int32Array.from(index, ([, head]) => head), shape: [N] },
  };
  if (names) out.names = names.map((each) => each.map(([name]) => name).join(" "));
  columns.forEach(({ key }, c) => {
    out[key] = column(values, c);
    if (spread) out[`${key}_sd`] = column(spread, c);
  });
  return out;
}

// Sort indices by their keys with a stable sort; NaN comes last in both directions.
export function sorted(places, keys, down) {
  const last = (at) => (Number.isNaN(keys[at]) ? 1 : 0);
  const by = (a, b) => (last(a) ? 0 : (keys[a] - keys[b]) * (down ? -1 : 1));
  return [...places].sort((a, b) => last(a) - last(b) || by(a, b) || a - b);
}

// Return whether a head passes the filter.
function fits({ index, names }, at, { layer, name }) {
  const labels = names?.[at] ?? [];
  if (layer !== "" && index[at][0] !== +layer) return false;
  if (name === "" || !names) return true;
  if (name === "any") return labels.length > 0;
  return name === "none" ? !labels.length : labels.some(([each]) => each === name);
}
// Return the sort key of a row; NaN comes last in both directions.
function rankOf({ payload, values }, at, by) {
  if (by === HEAD) return at;
  if (by !== NAMES) return values.data[at * payload.columns.length + by];
  if (!payload.names?.[at].length) return NaN;
  const [name, score] = payload.names[at][0];
  return payload.names_of.findIndex(([key]) => key === name) + 1 - score;
}

// Build the column headers; a click calls sortBy(column, up), where `up` is the initial direction.
function headings({ words, names, columns }, sortBy) {
  const column = (by, text, help, unit, up) => ({
    text,
    help,
    look: by >= 0 ? "pg-number" : by === NAMES ? "pg-names" : "",
    "data-by": by,
    sort: () => sortBy(by, up),
    sortLabel: fill(words.sort, { column: unit ? `${text} (${unit})` : text }),
  });
  return [
    column(HEAD, words.head, "", "", true),
    ...(names ? [column(NAMES, words.names, words.rule, "", true)] : []),
    ...columns.map(({ label, help, unit }, c) => column(c, label, `${help} (${unit})`, unit, false)),
  ];
}

// Build a row for each head.
function headRows({ payload, values, spread }) {
  const { words, index, columns, names } = payload,
    about = new Map(payload.names_of.map((each) => [each[0], each]));
  return index.map(([layer, head], i) => {
    const button = el("button", "", `${layer}.${head}`, {
      type: "button",
      "data-index": i,
      "aria-label": fill(words.button, { layer, head }),
    });
    crossedOut(button, layer, head);
    const number = (column, c) => {
      const at = i * columns.length + c;
      return numberCell(values.data[at], spread ? spread.data[at] : NaN, column);
    };
    const named = names ? [nameCell(names[i], about, words)] : [];
    return rowOf([button, ...named, ...columns.map(number)], { "data-at": i });
  });
}

// Build the filter fields for layer and name, with the state { layer, name } in `chosen`. The cards have the same name.
function headFilter(change) {
  const chosen = { layer: "", name: "" };
  const choice = (name, label, options) => {
    const field = el("label", "pg-control"),
      select = el("select", "", "", { name });
    for (const [value, text] of options) select.append(new Option(text, value, false, value === chosen[name]));
    chosen[name] = select.value; // this resets a layer that the model lacks
    select.onchange = () => {
      chosen[name] = select.value;
      if (name === "name") chooseName(["any", "none"].includes(select.value) ? "" : select.value);
      change();
    };
    field.append(el("span", "pg-control-label", label), select);
    return field;
  };
  const fields = ({ words, index, names, names_of: all }) => {
    const layers = [...new Set(index.map(([layer]) => String(layer)))],
      used = all.filter(([name]) => names?.some((each) => each.some(([key]) => key === name)));
    const named = [
      ["", words.every],
      ["any", words.any_name],
      ["none", words.nameless],
      ...used.map(([name, text]) => [name, text]),
    ];
    return [
      choice("layer", words.filter_layer, [["", words.every], ...layers.map((layer) => [layer, layer])]),
      ...(names ? [choice("name", words.filter_name, named)] : []),
    ];
  };
  return { chosen, fields };
}

// Mark the selected rows, and scroll the main one into view if `follow` is true.
function markRows(rows, index, box, headHeight, follow) {
  const hues = pageState.hues ?? [],
    places = new Map(selection.heads.map(([layer, number], n) => [`${layer}.${number}`, n])),
    main = selection.heads.at(-1)?.join(".");
  index.forEach((pair, at) => {
    const key = pair.join("."),
      place = places.get(key),
      row = rows[at];
    row.classList.toggle("pg-picked", place !== undefined);
    row.classList.toggle("pg-main", key === main);
    row.firstChild.firstChild.setAttribute("aria-pressed", place !== undefined);
    if (place !== undefined) row.style.setProperty("--pg-hue", hues[place % hues.length]);
    if (key !== main || !follow || !row.isConnected || !box.clientHeight) return;
    const top = row.offsetTop - headHeight,
      low = row.offsetTop + row.offsetHeight - box.clientHeight;
    if (box.scrollTop > top) box.scrollTop = top;
    else if (box.scrollTop < low) box.scrollTop = low;
  });
}

define("headtable", (root) => {
  const bar = el("div", "pg-table-bar"),
    box = el("div", "pg-head-box", "", { tabindex: 0, role: "region" }),
    grid = tableOf({ columns: [] }),
    [head, body] = grid.children,
    count = el("span", "pg-muted", "", { "aria-live": "polite" }),
    actions = headActions(),
    filter = headFilter(() => now && arrange()),
    ranks = ranking(box, () => now && arrange()),
    show = titled(root, bar, ranks.node, box);
  box.append(grid);
  let now = null,
    rows = [],
    clicked = false,
    sort = null; // at first by name, or by head without names

  const arrange = () => {
    const { payload } = now,
      keys = rows.map((_, at) => rankOf(now, at, sort.by)),
      latest = sorted(
        [...rows.keys()].filter((at) => fits(payload, at, filter.chosen)),
        keys,
        sort.down,
      ),
      order = ranks.of(latest, JSON.stringify([payload.words.title, rows.length, sort, filter.chosen]));
    body.replaceChildren(...order.map((at) => rows[at]));
    markSorted(head.querySelectorAll("th"), (cell) => +cell.dataset.by === sort.by, sort.down, "none");
    count.textContent = fill(payload.words.shown, { shown: order.length, all: rows.length });
    // If all heads are shown, selecting all of them has no use.
    actions.show(order.length < rows.length ? order.map((at) => payload.index[at]) : []);
    reach(order.find((at) => rows[at].classList.contains("pg-main")) ?? order[0]);
  };
  // Put exactly one row in the Tab order.
  const reach = (place) =>
    rows.forEach((row, at) => {
      row.firstChild.firstChild.tabIndex = at === place ? 0 : -1;
    });
  const mark = () => {
    if (!now) return;
    markRows(rows, now.payload.index, box, head.offsetHeight, !clicked);
    clicked = false;
  };
  const sortBy = (by, up) => {
    sort = { by, down: sort.by === by ? !sort.down : !up };
    arrange();
    box.scrollTop = 0; // scroll to the top of the sorted list
  };
  body.addEventListener("click", (event) => {
    const place = event.target.closest("tr")?.dataset.at;
    if (place === undefined || now.payload.stored_example) return;
    clicked = true;
    reach(+place);
    pickHead(...now.payload.index[place], adding(event));
  });
  body.addEventListener("mousedown", (event) => {
    if (event.shiftKey) event.preventDefault();
  }); // prevent text selection
  roving(body, alongColumn);
  onSelect(mark);
  onName(() => {
    if (chosenName() || !["any", "none"].includes(filter.chosen.name)) filter.chosen.name = chosenName();
    if (!now) return;
    const field = bar.querySelector("select[name=name]");
    if (field) field.value = filter.chosen.name;
    arrange();
  });

  return (payload) => {
    const { words, columns, names } = payload;
    sort ??= { by: names ? NAMES : HEAD, down: false };
    const scrolled = box.scrollTop,
      focused = body.contains(document.activeElement) && document.activeElement.dataset.index,
      gone = now && now.payload.columns.length !== columns.length && sort.by >= columns.length;
    if (gone || (!names && sort.by === NAMES)) sort = { by: HEAD, down: false };
    now = { payload, values: decoded(payload.values), spread: payload.spread && decoded(payload.spread) };
    box.setAttribute("aria-label", words.title);
    rows = headRows(now);
    head.replaceChildren(headOf(headings(payload, sortBy)));
    grid.classList.toggle("pg-named", Boolean(names)); // this class determines the width of the grid
    grid.style.setProperty("--pg-numbers", columns.length);
    bar.replaceChildren(...filter.fields(payload), count, actions.root);
    clicked = true; // a new payload then does not scroll the table
    mark();
    arrange();
    box.scrollTop = scrolled;
    if (focused) rows[focused]?.querySelector("button").focus({ preventScroll: true });
    show(
      { ...payload, title: words.title, about: `${payload.caption} ${hint(words, "hint")}`, note: payload.caption },
      { names: () => lines(now)[0], lines: () => lines(now).slice(1), arrays: () => arrays(now) },
    );
  };
});
