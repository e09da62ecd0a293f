// The neurons of a layer as a list and on all tokens, and one of them on the text.
import { exporting } from "../../export/menu.js";
import { el, fill, roving } from "../../page/dom.js";
import { define } from "../../page/mount.js";
import { adding, onSelect, select, selection } from "../../page/selection/selection.js";
import { isDark, onTheme } from "../../page/theme.js";
import { lookup } from "../../parts/colours.js";
import { mountPlot } from "../../parts/figure.js";

const PAUSE = 250; // milliseconds after the last digit of a number

// --- the first neurons of an order ---
//
// payload: { title, note, rows: [{ neuron, value, peak, shown: { value, peak }, at, token, toward }], of, last, map, run, words }
//   map: a figure's payload, and neurons: the rows' numbers. The value is { of, neuron }.
define("neurontop", (root, props, trigger) => {
  const title = el("h2"),
    note = el("p", "pg-about"),
    field = el("label", "pg-control pg-neuron-number"),
    label = el("span", "pg-control-label");
  const box = el("input", "", "", { type: "number", min: 0, step: 1 }),
    frame = el("div", "pg-neuron-table"),
    map = el("div", "pg-neuron-map"),
    foot = el("div");
  field.append(label, box);
  root.append(title, note, field, frame, foot, map);
  let payload = null,
    timer = null;
  const chosen = () =>
    payload && props.value?.of === payload.of && Number.isInteger(props.value.neuron)
      ? props.value.neuron
      : payload?.rows[0].neuron;
  const place = () => payload?.map.neurons.indexOf(chosen()) ?? -1;

  const paint = () => {
    if (document.activeElement !== box) box.value = chosen();
    for (const button of frame.querySelectorAll("button"))
      button.setAttribute("aria-pressed", +button.dataset.neuron === chosen());
  };
  const choose = (neuron, tokens) => {
    props.value = { of: payload.of, neuron };
    paint();
    trigger("select", { index: 0, value: JSON.stringify(props.value) });
    select(tokens ? { tokens } : {}); // the map frames the row anew
  };
  const draw = mountPlot(map, {
    // The window's rows lie below 0 (see map_figure): a picked token is a column, the chosen neuron a row.
    marked: () => [...selection.tokens, ...(place() < 0 ? [] : [place() - payload.map.neurons.length])],
    pick: (row, token) => choose(payload.map.neurons[row + payload.map.neurons.length], [token]),
  });
  box.oninput = () => {
    clearTimeout(timer);
    const neuron = Number(box.value);
    if (box.value === "" || !Number.isInteger(neuron) || neuron < 0 || neuron > payload.last) return;
    timer = setTimeout(() => choose(neuron), PAUSE);
  };
  box.onblur = paint;
  roving(frame, (key, at, n) => ({ ArrowDown: at + 1, ArrowUp: at - 1, Home: 0, End: n - 1 })[key] ?? null);

  const line = (row, index, largest) => {
    const { words } = payload,
      tr = el("tr"),
      value = el("td", "pg-neuron-value"),
      lane = el("span", "pg-neuron-lane", "", { "aria-hidden": "true" }),
      bar = el("i");
    const button = el("button", "pg-neuron-pick", String(row.neuron), {
      type: "button",
      "data-index": index,
      "data-neuron": row.neuron,
    });
    button.setAttribute("aria-label", fill(words.row_name, { ...row, ...row.shown }));
    button.tabIndex = index ? -1 : 0;
    bar.className = row.value < 0 ? "pg-neuron-below" : "";
    bar.style.width = `${(100 * Math.abs(row.value)) / largest}%`;
    lane.append(bar);
    value.append(el("b", "", row.shown.value), lane);
    const head = el("th", "", "", { scope: "row" }),
      peak = el("td", "", "", { title: `${row.token} ${row.at}` }); // a cell may be too narrow for a token
    head.append(button);
    peak.append(el("span", "pg-neuron-token", row.token), el("span", "pg-muted", ` ${row.at}`));
    const toward = el("td", "", "", { title: row.toward });
    toward.append(el("span", "pg-neuron-token", row.toward));
    tr.append(head, value, peak, toward);
    tr.onclick = () => choose(row.neuron);
    return tr;
  };
  const take = (next) => {
    payload = next;
    const { words, rows, last } = payload,
      largest = Math.max(...rows.map(({ value }) => Math.abs(value))) || 1;
    title.textContent = payload.title;
    note.textContent = payload.note;
    label.textContent = fill(words.number, { last });
    box.max = last;
    const grid = el("table"),
      head = el("tr"),
      thead = el("thead"),
      body = el("tbody");
    head.append(
      ...[words.column_neuron, words.column_value, words.column_peak, words.column_toward].map((text) =>
        el("th", "", text, { scope: "col" }),
      ),
    );
    thead.append(head);
    body.append(...rows.map((row, index) => line(row, index, largest)));
    grid.append(thead, body);
    const focused = frame.contains(document.activeElement) ? document.activeElement.dataset.index : null;
    frame.replaceChildren(grid);
    if (focused) frame.querySelector(`button[data-index="${focused}"]`)?.focus({ preventScroll: true });
    paint();
    const { column_neuron, column_value, column_peak, column_toward } = words;
    foot.replaceChildren(
      exporting(root, {
        file: "neurons",
        title: payload.title,
        note: payload.note,
        source: payload.map.source,
        names: [column_neuron, column_value, column_peak, "position", "token", column_toward],
        lines: rows.map(({ neuron, value, peak, at, token, toward }) => [neuron, value, peak, at, token, toward]),
      }),
    );
    draw({ ...payload.map, run: payload.run });
    root.dataset.run = payload.run;
  };
  take.stateOf = (value) => value;
  return take;
});

// --- one neuron ---
//
// payload: { title, note, tokens, breaks, at, columns: { pre, post, up }, shown (texts of post), ends, facts: [[label, value]],
//            pushes: { up: [[token, score, text]], down }, ramps, source, file, run, python, words }
define("neuronone", (root) => {
  const title = el("h2"),
    note = el("p", "pg-about"),
    facts = el("div", "pg-neuron-facts"),
    text = el("div", "pg-reading-text pg-neuron-text", "", { role: "group" });
  const scale = el("p", "pg-reading-scale"),
    lists = el("div", "pg-neuron-lists"),
    about = el("p", "pg-about");
  const foot = el("div");
  root.append(title, note, facts, text, scale, lists, about, foot);
  let payload = null,
    shown = "";

  const largest = () => payload.columns.post.reduce((a, b) => Math.max(a, Math.abs(b)), 0) || 1;
  // Black or white, whichever is read better on a colour; WCAG 2.2, relative luminance.
  const ink = (rgb) => {
    const part = rgb.map((v) => v / 255).map((v) => (v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4));
    return 0.2126 * part[0] + 0.7152 * part[1] + 0.0722 * part[2] > 0.179 ? "#000000" : "#ffffff";
  };
  const paint = () => {
    if (!payload) return;
    const colours = lookup(payload.ramps[isDark() ? "dark" : "light"]),
      top = largest(),
      picked = new Set(selection.tokens.length ? selection.tokens : [payload.at]);
    for (const token of text.querySelectorAll("button")) {
      const value = payload.columns.post[+token.dataset.index];
      const rgb = colours[Math.round(127 + 127 * Math.sign(value) * Math.sqrt(Math.abs(value) / top))];
      token.style.backgroundColor = `rgb(${rgb})`;
      token.style.color = ink(rgb);
      token.setAttribute("aria-pressed", picked.has(+token.dataset.index));
    }
    const bar = el("i", "pg-reading-ramp", "", { "aria-hidden": "true" });
    bar.style.background = `linear-gradient(to right, ${[0, 1, 2, 3, 4, 5, 6, 7, 8].map((i) => `rgb(${colours[Math.round(31.75 * i)]}) ${12.5 * i}%`).join(", ")})`;
    scale.replaceChildren(
      el("b", "", payload.ends[0]),
      bar,
      el("b", "", payload.ends[1]),
      el("span", "", `(${payload.words.scale})`),
    );
  };
  const name = (at) => {
    const { words, tokens, shown: values } = payload;
    return fill(words.token_name, { token: tokens[at], position: at, value: values[at] });
  };
  const build = () => {
    const breaks = new Set(payload.breaks);
    text.replaceChildren(
      ...payload.tokens.flatMap((token, at) => {
        const button = el("button", "pg-reading-token", token, {
          type: "button",
          "data-index": at,
          tabindex: at ? -1 : 0,
        });
        return breaks.has(at) ? [button, el("br")] : [button];
      }),
    );
  };
  const list = (side, label) => {
    const part = el("div"),
      items = el("ol", "pg-neuron-pushes");
    for (const [token, , score] of payload.pushes[side]) {
      const item = el("li");
      item.append(el("span", "pg-neuron-token", token), el("span", "pg-muted", score));
      items.append(item);
    }
    part.append(el("h3", "", label), items);
    return part;
  };
  const footer = () => {
    const { words, columns, tokens, file, source, python, title: named, note } = payload,
      gated = Boolean(columns.up);
    const names = [
      words.column_position,
      words.column_token,
      gated ? words.column_gate : words.column_pre,
      ...(gated ? [words.column_up] : []),
      words.column_post,
    ];
    const lines = tokens.map((token, at) => [
      at,
      token,
      columns.pre[at],
      ...(gated ? [columns.up[at]] : []),
      columns.post[at],
    ]);
    foot.replaceChildren(exporting(root, { file, source, python, title: named, note, names, lines, table: true }));
  };
  text.addEventListener("click", (event) => {
    const token = event.target.closest(".pg-reading-token");
    if (!token) return;
    const at = +token.dataset.index,
      others = selection.tokens.filter((other) => other !== at);
    select({ tokens: adding(event) ? (others.length < selection.tokens.length ? others : [...others, at]) : [at] });
  });
  roving(text, (key, at, n) => ({ ArrowRight: at + 1, ArrowLeft: at - 1, Home: 0, End: n - 1 })[key] ?? null);
  onTheme(paint);
  onSelect(paint);
  return (next) => {
    payload = next;
    const { words } = payload,
      now = JSON.stringify(payload.tokens);
    title.textContent = payload.title;
    note.textContent = payload.note;
    facts.replaceChildren(
      ...payload.facts.map(([label, value]) => {
        const item = el("span");
        item.append(
          ...(value ? [el("span", "pg-muted", `${label} `), el("b", "", value)] : [el("span", "pg-neuron-at", label)]),
        );
        return item;
      }),
    );
    text.setAttribute("aria-label", words.text);
    if (now !== shown) build(); // else the buttons stay where they are, and so does the focus
    shown = now;
    for (const token of text.querySelectorAll("button")) {
      const label = name(+token.dataset.index);
      token.setAttribute("aria-label", label);
      token.title = label;
    }
    lists.replaceChildren(list("up", words.promotes), list("down", words.suppresses));
    about.textContent = words.pushes_about;
    footer();
    paint();
    root.dataset.run = payload.run;
  };
});
