import { el, fill } from "../../page/dom.js";

// The settings that select and sort the heads. props.value: { order: key of a metric, layer, least }, with only the
// entries that differ from the defaults.
export function picker(root, props, ask, changed) {
  const bar = el("div", "pg-bar");
  const order = el("select"),
    layer = el("select"),
    least = el("input", "", "", { type: "range", min: 0, max: 1, step: 0.01, value: 0 });
  const field = (input) => {
    const label = el("label", "pg-control");
    label.append(el("span", "pg-control-label"), input);
    bar.append(label);
    return label;
  };
  const fields = [field(order), field(layer), field(least)];
  const shown = el("output");
  const count = el("span", "pg-muted");
  fields[2].append(shown);
  bar.append(count);
  root.append(bar);
  let payload = null;
  const metric = () => (order.value === "" ? null : +order.value);
  const top = () => Math.max(0, ...payload.metrics.map((row) => row[metric()] ?? 0));
  const list = () => {
    const all = payload.metrics
      .map((_, at) => at)
      .filter((at) => layer.value === "" || Math.floor(at / payload.heads) === +layer.value);
    const m = metric();
    if (m === null) return all;
    const from = +least.value * top();
    const value = (at) => payload.metrics[at][m] ?? -Infinity;
    return all.filter((at) => +least.value === 0 || value(at) >= from).sort((a, b) => value(b) - value(a) || a - b);
  };
  const describe = () => {
    const m = metric();
    fields[2].hidden = m === null;
    shown.textContent = m === null ? "" : (+least.value * top()).toPrecision(2);
    const n = list().length,
      all = payload.metrics.length;
    count.textContent = n === 0 ? payload.words.none : n < all ? fill(payload.words.count, { n, all }) : "";
  };
  const take = () => {
    const { order: key, layer: only, least: from } = props.value ?? {};
    const at = payload.metric_names.findIndex((each) => each.key === key);
    order.value = at < 0 ? "" : at;
    layer.value = Number.isInteger(only) && only < payload.layers ? only : "";
    least.value = Number.isFinite(from) ? from : 0;
  };
  const keep = () => {
    props.value = {
      ...(metric() !== null && { order: payload.metric_names[metric()].key }),
      ...(layer.value !== "" && { layer: +layer.value }),
      ...(+least.value && { least: +least.value }),
    };
    ask("select");
  };
  const show = () => {
    describe();
    changed();
  };
  order.onchange = () => {
    least.value = 0;
    show();
    keep();
  };
  layer.onchange = () => {
    show();
    keep();
  };
  least.oninput = show;
  least.onchange = keep;
  return {
    list,
    asked: () => [payload.metric_names[metric()]?.key, layer.value, least.value, payload.words.by_metric],
    // Name the heads that are shown, if they are not all of them in their places.
    shown() {
      const m = metric(),
        name = ["shown", layer.value !== "" && "layer", m !== null && "sorted"].filter(Boolean).join("_");
      return fill(payload.words[name], {
        n: list().length,
        layer: layer.value,
        metric: payload.metric_names[m]?.label,
      });
    },
    plain: () => metric() === null && layer.value === "",
    fill(next, rebuild) {
      payload = next;
      if (rebuild) {
        const { words } = payload;
        [words.order, words.layer, words.least].forEach((text, i) => {
          fields[i].firstChild.textContent = text;
        });
        order.replaceChildren(
          new Option(words.by_place, ""),
          ...payload.metric_names.map(({ label }, i) => new Option(fill(words.by_metric, { metric: label }), i)),
        );
        layer.replaceChildren(
          new Option(words.all_layers, ""),
          ...Array.from({ length: payload.layers }, (_, i) => new Option(fill(words.one_layer, { layer: i }), i)),
        );
      }
      take();
      describe();
    },
  };
}
