// A map in which a click selects a token, and a row that the figures beside it show.
//
// payload: the fields of "figure", and rows [[what, layer]], names (names of the rows), row (the selected one), left
//  (the index of the first column in the figure's window), cells [[token]] if the columns are not tokens, labels,
//  opens { part, setting, options }: the form of another view in which a row is selected as an option
// value: { what, layer } of the selected row
import { el, roving } from "../../page/dom.js";
import { define, mounted } from "../../page/mount.js";
import { onSelect, select, selection } from "../../page/selection/selection.js";
import { mountPlot } from "../../parts/figure/figure.js";
import { iconButton } from "../../parts/icons.js";
import { tableOf } from "../../parts/table.js";
import { titled } from "../../parts/titled.js";

define("gridmap", (root, props, ask) => {
  const chart = el("div"),
    bar = el("div", "pg-gridrow"),
    field = el("label", "pg-gridrow-field"),
    rows = el("select");
  const label = el("span", "pg-muted"),
    before = iconButton("up", "", () => look(row - 1, {})),
    after = iconButton("down", "", () => look(row + 1, {}));
  field.append(label, rows);
  bar.append(field, before, after);
  root.append(chart, bar);
  let payload = null,
    row = 0;

  const paint = () => {
    rows.value = row;
    before.disabled = row === 0;
    after.disabled = row === payload.rows.length - 1;
  };
  const look = (next, change) => {
    const [what, layer] = payload.rows[next];
    row = next;
    paint();
    handOn();
    props.value = { what, layer };
    select(change); // this also frames the row
    ask("select");
  };
  // Open the other view with the current row.
  const handOn = () => {
    const { part, setting, options } = payload.opens,
      form = mounted.get(part);
    if (!form || options[row] === null) return;
    form.props.value = { ...form.props.value, [setting]: options[row] };
    form.redraw();
  };
  rows.onchange = () => look(+rows.value, {});
  const draw = mountPlot(chart, {
    marked: () => (payload ? [...(payload.cells ? [] : selection.tokens), row - payload.rows.length] : []),
    pick: (r, c) => {
      const at = r + payload.rows.length,
        column = c - payload.left;
      look(at, { tokens: [payload.cells ? payload.cells[at][column] : column] });
    },
  });
  const take = (next) => {
    payload = next;
    row = next.row;
    label.textContent = next.labels.looked_at;
    rows.replaceChildren(...next.names.map((name, n) => new Option(name, n)));
    before.setAttribute("aria-label", next.labels.row_before);
    after.setAttribute("aria-label", next.labels.row_after);
    before.title = next.labels.row_before;
    after.title = next.labels.row_after;
    draw(next);
    paint();
  };
  take.stateOf = (value) => value;
  return take;
});

// Two tables, of tokens with outliers and of outlier dimensions; a click on a token selects it.
define("outlierlist", (root) => {
  const none = el("p"),
    attention = el("p", "pg-hint-line"),
    carriers = el("div", "pg-table pg-outliers", "", { tabindex: -1 }),
    list = el("div", "pg-table pg-outliers", "", { tabindex: -1 }),
    show = titled(root, none, carriers, attention, list);
  for (const grid of [carriers, list])
    roving(grid, (key, at, n) => ({ ArrowDown: at + 1, ArrowUp: at - 1, Home: 0, End: n - 1 })[key] ?? null);
  const paint = () => {
    for (const chip of root.querySelectorAll("[data-token]"))
      chip.setAttribute("aria-pressed", selection.tokens.includes(+chip.dataset.token));
  };
  onSelect(paint);
  const token = (each, index) => {
    const chip = el("button", "pg-chip", each.text, { type: "button", "data-index": index, "data-token": each.token });
    chip.tabIndex = index ? -1 : 0;
    chip.onclick = () => select({ tokens: [each.token] });
    return chip;
  };
  const number = (text) => ({ look: "pg-number", text });
  const fillTable = (grid, caption, columns, rows) => {
    grid.replaceChildren(tableOf({ caption, columns, rows, named: -1 }));
    grid.hidden = !rows.length;
  };
  return (payload) => {
    const { names, rows } = payload;
    for (const [node, text] of [
      [none, payload.none],
      [attention, payload.attention],
    ]) {
      node.textContent = text;
      node.hidden = !text;
    }
    fillTable(
      carriers,
      payload.caption_carriers,
      [names.token, names.entries, names.norms],
      payload.carriers.map((each, index) => [token(each, index), ...each.shown.map(number)]),
    );
    const columns = [names.norm, names.dimension, names.token, names.value, names.ratio];
    fillTable(
      list,
      payload.caption,
      columns,
      rows.map((each, index) => [each.row, String(each.dimension), token(each, index), ...each.shown.map(number)]),
    );
    show(payload, {
      names: columns,
      lines: rows.map((each) => [each.row, each.dimension, each.text, each.value, each.ratio]),
    });
    paint();
  };
});
