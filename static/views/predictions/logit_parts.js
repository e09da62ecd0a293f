// The view "Which part wrote it": a map of the contributions of all components, with the strongest ones beside it.
import { el, fill, roving } from "../../page/dom.js";
import { define } from "../../page/mount.js";
import { headActions, headNames } from "../../page/selection/head_list.js";
import { ranking } from "../../page/selection/ranking.js";
import { adding, onSelect, pickHead, selection } from "../../page/selection/selection.js";
import { pageState } from "../../page/state.js";
import { mountPlot } from "../../parts/figure/figure.js";

const partOf = ({ kind, layer, head }) => [kind, layer, head].join(); // identity, independent of the current value
const same = (a, b) => JSON.stringify(a) === JSON.stringify(b);
const signed = (value) => {
  const size = Math.abs(value),
    text = size !== 0 && size < 1e-3 ? size.toExponential(1) : size.toPrecision(3);
  return size === 0 ? "0" : `${value < 0 ? "−" : "+"}${text}`;
};
const lane = (value, top, hues) => {
  const lane = el("span", "pg-effect-lane pg-effect-both", "", { "aria-hidden": "true" }),
    bar = el("span");
  Object.assign(bar.style, {
    width: `${(50 * Math.abs(value)) / top}%`,
    [value < 0 ? "right" : "left"]: "50%",
    background: hues[value < 0 ? 0 : 1],
  });
  lane.append(bar);
  return lane;
};

// value: { mlp, head }: the layer of the expanded MLP, valid while `head` is the selected head. Optional.
define("wrotemap", (root, props, ask) => {
  const plot = el("div"),
    side = el("div", "pg-wrote-side"),
    lists = el("div", "pg-wrote-lists");
  const field = el("label", "pg-control"),
    label = el("span", "pg-control-label"),
    inside = el("select");
  const sides = ["up", "down"].map((name) => {
    const [heading, about, actions] = [el("h3"), el("p", "pg-about"), headActions()],
      group = el("div", "pg-effect-list", "", { role: "group" }),
      box = el("section");
    box.append(heading, about, actions.root, group);
    lists.append(box);
    return { name, heading, about, actions, group };
  });
  const ranks = ranking(lists, () => take(payload));
  field.append(label, inside);
  side.append(field, ranks.node, lists);
  root.append(plot, side);
  let payload = null,
    mlp = null;
  const main = () => selection.heads.at(-1);
  const look = (layer) => {
    mlp = layer;
    props.value = layer === null ? {} : { mlp: layer, head: main() };
    paint();
    ask("select");
  };
  const pick = (layer, head, add) => {
    if (payload.stored_example) return;
    if (mlp !== null) look(null);
    pickHead(layer, head, add);
  };
  inside.onchange = () => look(inside.value === "" ? null : +inside.value);
  const draw = mountPlot(plot, { part: look });

  const paint = () => {
    if (!payload) return;
    const [layer, head] = main() ?? [0, 0];
    inside.options[0].textContent = fill(payload.words.inside_head, { layer, head });
    inside.value = mlp ?? "";
    for (const item of lists.querySelectorAll("button.pg-wrote-item")) {
      const { kind, layer, head } = JSON.parse(item.dataset.row);
      const picked =
        kind === "mlp" ? mlp === layer : mlp === null && selection.heads.some((each) => same(each, [layer, head]));
      item.setAttribute("aria-pressed", picked);
    }
  };
  let seen = "";
  onSelect(() => {
    const now = JSON.stringify(main());
    if (now !== seen) {
      // selecting another head collapses the MLP
      if (seen && mlp !== null && !pageState.restoring) {
        mlp = null;
        props.value = {};
      }
      seen = now;
    }
    paint();
  });
  roving(lists, (key, at, n) => ({ ArrowDown: at + 1, ArrowUp: at - 1, Home: 0, End: n - 1 })[key] ?? null);

  const item = (row, top) => {
    const name = fill(payload.words[`part_${row.kind}`], row),
      opens = row.kind === "head" || row.kind === "mlp";
    const node = opens
      ? el("button", "pg-effect-item pg-wrote-item", "", { type: "button" })
      : el("div", "pg-effect-item pg-wrote-item pg-wrote-still");
    if (opens) {
      node.dataset.of = partOf(row);
      node.dataset.row = JSON.stringify(row);
      node.onclick = (event) => {
        if (row.kind === "mlp") look(row.layer);
        else pick(row.layer, row.head, adding(event));
      };
      node.setAttribute("aria-label", fill(payload.words.part_value, { part: name, value: signed(row.value) }));
    }
    const called = el("span", "pg-wrote-name", name);
    if (row.kind === "head") called.append(headNames(row.layer, row.head));
    node.append(called, lane(row.value, top, payload.hues), el("span", "pg-effect-number", signed(row.value)));
    return node;
  };
  const take = (next) => {
    payload = next;
    mlp = payload.mlp;
    const { words } = payload,
      ranked = ranks.of(payload.ranked, payload.title),
      top = Math.max(...[...ranked.up, ...ranked.down].map(({ value }) => Math.abs(value)), 0) || 1;
    draw(payload);
    label.textContent = words.inside;
    inside.replaceChildren(
      new Option("", ""),
      ...Array.from({ length: payload.layers }, (_, layer) => new Option(fill(words.inside_mlp, { layer }), layer)),
    );
    const held = lists.contains(document.activeElement) ? document.activeElement.dataset.of : null; // the row with the keyboard focus
    for (const { name, heading, about, actions, group } of sides) {
      const rows = ranked[name];
      heading.textContent = words[name];
      about.textContent = words[`${name}_about`];
      group.setAttribute("aria-label", words[name]);
      group.replaceChildren(
        ...(rows.length ? rows.map((row) => item(row, top)) : [el("p", "pg-muted", words.nothing)]),
      );
      actions.show(rows.filter(({ kind }) => kind === "head").map(({ layer, head }) => [layer, head]));
    }
    lists.querySelectorAll("button.pg-wrote-item").forEach((button, index) => {
      button.dataset.index = index;
      button.tabIndex = index ? -1 : 0;
      if (held && button.dataset.of === held) button.focus({ preventScroll: true });
    });
    paint();
  };
  take.stateOf = (value) => value;
  return take;
});
