// The table of all heads: a row a head. Sorting and filtering happen here; a click on a row picks its head everywhere.
//
// payload: { index [[layer, head]], columns [{ key, label, help, unit, kind, missing }], values and spread (arrays
//   [heads, columns] as Plotly sends them; spread may be null), names [[[name, score, baseline]]] or null,
//   names_of [[name, text, help, hue]], caption, source, file, run, python, words }
import { exporting } from "../../export/menu.js";
import { el, fill, hint, roving } from "../../page/dom.js";
import { define } from "../../page/mount.js";
import { headActions } from "../../page/selection/head_list.js";
import { adding, onSelect, pickHead, selection } from "../../page/selection/selection.js";
import { pageState } from "../../page/state.js";
import { mountPlot } from "../../parts/figure.js";
import { decoded, ownFigure } from "../../parts/figure_numbers.js";

const DIGITS = { share: 3, size: 1, signed: 2 };
const NAMES = -2,
  HEAD = -1; // columns that are not a number of `columns`

const number = (value, kind) => {
  const text = value.toFixed(DIGITS[kind]);
  return (kind === "signed" && value > 0 ? `+${text}` : text).replace("-", "−");
};

// One cell: the number, its spread, and for what has bounds a bar as long as its share.
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
    const wide = 50 * Math.abs(value); // from the middle, where 0 is
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

// Everything with every digit: a line a head for CSV, an array a column for NPZ.
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

// Places in the order of their keys; NaN goes last either way, and what is equal stays as it was.
export function sorted(places, keys, down) {
  const last = (at) => (Number.isNaN(keys[at]) ? 1 : 0);
  const by = (a, b) => (last(a) ? 0 : (keys[a] - keys[b]) * (down ? -1 : 1));
  return [...places].sort((a, b) => last(a) - last(b) || by(a, b) || a - b);
}

define("headtable", (root) => {
  const title = el("h2"),
    caption = el("p", "pg-about"),
    bar = el("div", "pg-table-bar");
  const box = el("div", "pg-head-box", "", { tabindex: 0, role: "region" });
  const grid = el("table"),
    head = el("thead"),
    body = el("tbody");
  const foot = el("div");
  const count = el("span", "pg-muted", "", { "aria-live": "polite" }),
    actions = headActions();
  grid.append(head, body);
  box.append(grid);
  root.append(title, caption, bar, box, foot);

  let now = null,
    rows = [],
    clicked = false;
  let sort = { by: HEAD, down: false };
  const filter = { layer: "", name: "" };

  // What a row is sorted by; NaN goes last either way.
  const rank = (at) => {
    const { payload, values } = now;
    if (sort.by === HEAD) return at;
    if (sort.by !== NAMES) return values.data[at * payload.columns.length + sort.by];
    if (!payload.names?.[at].length) return NaN;
    const [name, score] = payload.names[at][0];
    return payload.names_of.findIndex(([key]) => key === name) + 1 - score;
  };
  const fits = (at) => {
    const { index, names } = now.payload,
      labels = names?.[at] ?? [];
    if (filter.layer !== "" && index[at][0] !== +filter.layer) return false;
    if (filter.name === "" || !names) return true;
    return filter.name === "any"
      ? labels.length > 0
      : filter.name === "none"
        ? !labels.length
        : labels.some(([name]) => name === filter.name);
  };

  const arrange = () => {
    const keys = rows.map((_, at) => rank(at));
    const order = sorted([...rows.keys()].filter(fits), keys, sort.down);
    body.replaceChildren(...order.map((at) => rows[at]));
    for (const cell of head.querySelectorAll("th")) {
      cell.setAttribute("aria-sort", +cell.dataset.by !== sort.by ? "none" : sort.down ? "descending" : "ascending");
    }
    count.textContent = fill(now.payload.words.shown, { shown: order.length, all: rows.length });
    // Of all heads there is nothing to choose from.
    actions.show(order.length < rows.length ? order.map((at) => now.payload.index[at]) : []);
    reach(order.find((at) => rows[at].classList.contains("pg-main")) ?? order[0]);
  };
  // The one row that Tab goes to.
  const reach = (place) =>
    rows.forEach((row, at) => {
      row.firstChild.firstChild.tabIndex = at === place ? 0 : -1;
    });

  const mark = () => {
    if (!now) return;
    const hues = pageState.hues ?? [];
    const places = new Map(selection.heads.map(([layer, number], n) => [`${layer}.${number}`, n]));
    const main = selection.heads.at(-1)?.join(".");
    now.payload.index.forEach((pair, at) => {
      const key = pair.join("."),
        place = places.get(key),
        row = rows[at];
      row.classList.toggle("pg-picked", place !== undefined);
      row.classList.toggle("pg-main", key === main);
      row.firstChild.firstChild.setAttribute("aria-pressed", place !== undefined);
      if (place !== undefined) row.style.setProperty("--pg-hue", hues[place % hues.length]);
      if (key === main && !clicked && row.isConnected && box.clientHeight) {
        const top = row.offsetTop - head.offsetHeight,
          low = row.offsetTop + row.offsetHeight - box.clientHeight;
        if (box.scrollTop > top) box.scrollTop = top;
        else if (box.scrollTop < low) box.scrollTop = low;
      }
    });
    clicked = false;
  };

  const header = () => {
    const { payload } = now,
      { words } = payload,
      line = el("tr");
    const add = (by, label, help, unit, up) => {
      const cell = el("th", by >= 0 ? "pg-number" : by === NAMES ? "pg-names" : "", "", {
        scope: "col",
        "data-by": by,
        title: help,
      });
      const button = el("button", "", label, {
        type: "button",
        "aria-label": fill(words.sort, { column: unit ? `${label} (${unit})` : label }),
      });
      button.onclick = () => {
        sort = { by, down: sort.by === by ? !sort.down : !up };
        arrange();
        box.scrollTop = 0; // where the sorted list begins
      };
      cell.append(button);
      line.append(cell);
    };
    add(HEAD, words.head, "", "", true);
    if (payload.names) add(NAMES, words.names, words.rule, "", true);
    payload.columns.forEach(({ label, help, unit }, c) => add(c, label, `${help} (${unit})`, unit, false));
    head.replaceChildren(line);
    grid.classList.toggle("pg-named", Boolean(payload.names)); // what its width is worked out from
    grid.style.setProperty("--pg-numbers", payload.columns.length);
  };

  const filters = () => {
    const { payload } = now,
      { words } = payload;
    const choice = (name, label, options) => {
      const field = el("label", "pg-control"),
        select = el("select", "", "", { name });
      for (const [value, text] of options) select.append(new Option(text, value, false, value === filter[name]));
      filter[name] = select.value; // a layer that the model lacks is gone
      select.onchange = () => {
        filter[name] = select.value;
        arrange();
      };
      field.append(el("span", "pg-control-label", label), select);
      return field;
    };
    const layers = [...new Set(payload.index.map(([layer]) => String(layer)))];
    const items = [choice("layer", words.filter_layer, [["", words.every], ...layers.map((layer) => [layer, layer])])];
    if (payload.names) {
      const used = payload.names_of.filter(([name]) =>
        payload.names.some((each) => each.some(([key]) => key === name)),
      );
      items.push(
        choice("name", words.filter_name, [
          ["", words.every],
          ["any", words.any_name],
          ["none", words.nameless],
          ...used.map(([name, text]) => [name, text]),
        ]),
      );
    }
    bar.replaceChildren(...items, count, actions.root);
  };

  const footer = () => {
    const { file, words, source, python, caption: note } = now.payload;
    foot.replaceChildren(
      exporting(root, {
        file,
        source,
        python,
        note,
        title: words.title,
        names: () => lines(now)[0],
        lines: () => lines(now).slice(1),
        arrays: () => arrays(now),
      }),
    );
  };

  body.addEventListener("click", (event) => {
    const place = event.target.closest("tr")?.dataset.at;
    if (place === undefined) return;
    clicked = true;
    reach(+place);
    pickHead(...now.payload.index[place], adding(event));
  });
  body.addEventListener("mousedown", (event) => {
    if (event.shiftKey) event.preventDefault();
  }); // marks no text
  roving(body, (key, place, n) => ({ ArrowDown: place + 1, ArrowUp: place - 1, Home: 0, End: n - 1 })[key] ?? null);
  onSelect(mark);

  return (payload) => {
    const { words, index, columns } = payload,
      C = columns.length;
    const scrolled = box.scrollTop,
      focused = body.contains(document.activeElement) && document.activeElement.dataset.index;
    if (now && now.payload.columns.length !== C && sort.by >= C) sort = { by: HEAD, down: false };
    if (!payload.names && sort.by === NAMES) sort = { by: HEAD, down: false };
    now = { payload, values: decoded(payload.values), spread: payload.spread && decoded(payload.spread) };
    const about = new Map(payload.names_of.map((each) => [each[0], each]));
    title.textContent = words.title;
    caption.textContent = `${payload.caption} ${hint(words, "hint")}`;
    box.setAttribute("aria-label", words.title);
    rows = index.map(([layer, number], i) => {
      const row = el("tr", "", "", { "data-at": i }),
        first = el("th", "", "", { scope: "row" });
      first.append(
        el("button", "", `${layer}.${number}`, {
          type: "button",
          "data-index": i,
          "aria-label": fill(words.button, { layer, head: number }),
        }),
      );
      row.append(first);
      if (payload.names) row.append(nameCell(payload.names[i], about, words));
      for (let c = 0; c < C; c++)
        row.append(numberCell(now.values.data[i * C + c], now.spread ? now.spread.data[i * C + c] : NaN, columns[c]));
      return row;
    });
    header();
    filters();
    clicked = true; // a new payload does not scroll
    mark();
    arrange();
    box.scrollTop = scrolled;
    if (focused) rows[focused]?.querySelector("button").focus({ preventScroll: true });
    footer();
    root.dataset.run = payload.run;
  };
});

// A figure with a second layout, payload.wide, for where there is room for its panels side by side.
define("panels", (root) => {
  const draw = mountPlot(root, {});
  let payload = null,
    wide = null;
  const show = () => {
    const room = root.clientWidth >= 860;
    if (!payload || !root.clientWidth || room === wide) return;
    wide = room;
    const figure = room ? { ...ownFigure(payload), layout: payload.wide } : payload.figure;
    draw({ ...payload, figure });
  };
  new ResizeObserver(show).observe(root);
  return (next) => {
    payload = next;
    wide = null;
    show();
  };
});
