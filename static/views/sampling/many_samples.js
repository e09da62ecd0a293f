// Many samples: a table of statistics over each strategy's texts, and the texts themselves.
import { exporting } from "../../export/menu.js";
import { el, fill } from "../../page/dom.js";
import { define } from "../../page/mount.js";
import { lookInside } from "../../page/prompt/look_inside.js";
import { tableOf } from "../../parts/table.js";
import { titled } from "../../parts/titled.js";

// The metric selected in the table, by which the list of texts is sorted.
let chosen = null;
const listeners = new Set(),
  readers = new Set();
const look = (key) => {
  chosen = key;
  listeners.forEach((listener) => listener());
};

const text = (value, digits) => {
  if (value === null || value === undefined) return "–";
  return Math.abs(value) >= 1e5 ? value.toExponential(1) : value.toFixed(Math.abs(value) >= 1000 ? 0 : digits);
};
// Show consecutive line breaks except the last as symbols, so that many texts fit in the list.
const compact = (text) => text.replace(/\n{2,}/g, (breaks) => `${" ↵".repeat(breaks.length - 1)}\n`);
const choice = (label, options, value, change) => {
  const both = el("label", "pg-inline"),
    select = el("select");
  select.append(...options.map(([key, name]) => new Option(name, key)));
  select.value = value;
  select.onchange = () => change(select.value);
  both.append(el("span", "pg-muted", label), select);
  return both;
};

// --- the table ---
//
// payload: { title, note, rows [{ name, about, hue, texts, once, ended, different, together, spread: { measure: [mean,
//   sd, low, median, high] } }], measures [{ key, label, unit, help, digits }], words, file, source, run }
// Draw the interquartile range and the mean on the column's scale.
function spreadGlyph([mean, , low, , high], [from, to], hue) {
  const track = el("span", "pg-many-track", "", { "aria-hidden": "true" });
  if (mean === null) return track;
  const place = (value) => (to > from ? (100 * (value - from)) / (to - from) : 50);
  const range = el("i"),
    dot = el("b");
  Object.assign(range.style, { left: `${place(low)}%`, width: `${place(high) - place(low)}%`, background: hue });
  Object.assign(dot.style, { left: `${place(mean)}%`, background: hue });
  track.append(range, dot);
  return track;
}
// Format a column's numbers: mean and standard deviation, or median and quartiles.
function spreadNumbers([mean, sd, low, median, high], digits, shown) {
  const both =
    shown === "mean"
      ? sd === null
        ? ""
        : `± ${text(sd, digits)}`
      : low === null || sd === null
        ? ""
        : `${text(low, digits)} – ${text(high, digits)}`;
  return [el("span", "pg-many-number", text(shown === "mean" ? mean : median, digits)), el("small", "", both)];
}
function scaleOf(rows, key) {
  const all = rows
    .flatMap(({ spread }) => [spread[key][0], spread[key][2], spread[key][4]])
    .filter((value) => value !== null);
  return [Math.min(...all), Math.max(...all)];
}

// Build the table of all strategies; pick(key) selects a metric.
function samplesTable({ words, measures, rows }, shown, pick) {
  const unbroken = (name) => name.replaceAll("-", "\u2011"), // non-breaking hyphens prevent a line break
    scales = measures.map(({ key }) => scaleOf(rows, key));
  const heading = ({ key, label, unit, help }) => {
    const button = el("button", "", unbroken(label), { type: "button", title: help });
    if (unit) button.append(el("small", "", unit));
    button.onclick = () => pick(key);
    return { inside: button, "data-measure": key };
  };
  const plain = (value, small) => [el("span", "pg-many-number", value), el("small", "", small)];
  const line = (row) => {
    const share = (n) => (row.texts > 1 ? `${Math.round((100 * n) / row.texts)}%` : "");
    return [
      {
        inside: [el("span", "pg-many-name", row.name), el("small", "", row.about)],
        help: `${row.name}: ${row.about}`,
        style: `--pg-hue: ${row.hue}`,
      },
      plain(String(row.texts), row.once ? words.always : ""),
      plain(String(row.ended), share(row.ended)),
      plain(row.once ? "–" : String(row.different), row.once ? "" : share(row.different)),
      plain(text(row.together, 3), ""),
      ...measures.map(({ key, digits }, i) => ({
        inside: [...spreadNumbers(row.spread[key], digits, shown), spreadGlyph(row.spread[key], scales[i], row.hue)],
        "data-measure": key,
      })),
    ];
  };
  const facts = ["texts", "ended", "different", "together"].map((name) => ({
    text: unbroken(words[name]),
    help: words[`${name}_help`],
  }));
  return tableOf({ columns: [unbroken(words.strategy), ...facts, ...measures.map(heading)], rows: rows.map(line) });
}

// Return the export of the table at full precision.
function takenOf({ words, measures, rows }) {
  const names = ["mean", "sd", "low", "median", "high"].map((name) => words[name]),
    columns = measures.flatMap(({ label }) => names.map((name) => `${label}, ${name}`));
  return {
    names: [words.strategy, words.how, words.texts, words.ended, words.different, words.together, ...columns],
    lines: rows.map((row) => [
      row.name,
      row.about,
      row.texts,
      row.ended,
      row.different,
      row.together ?? "",
      ...measures.flatMap(({ key }) => row.spread[key].map((value) => value ?? "")),
    ]),
  };
}

define("manytable", (root, props, ask) => {
  const bar = el("div", "pg-many-bar"),
    box = el("div", "pg-many-box", "", { tabindex: 0, role: "region" }),
    show = titled(root, bar, box);
  let payload = null,
    shown = "mean";

  const pick = (key) => {
    if (key === chosen) return;
    look(key);
    mark();
    props.value = { measure: key };
    ask("select");
  };
  const mark = () => {
    for (const cell of box.querySelectorAll("[data-measure]"))
      cell.classList.toggle("pg-many-on", cell.dataset.measure === chosen);
    for (const button of box.querySelectorAll("thead button"))
      button.setAttribute("aria-pressed", button.parentNode.dataset.measure === chosen);
    const select = bar.querySelector("select");
    if (select) select.value = chosen;
    seen();
  };
  // Scroll the selected column into view if the table is wider than the page.
  const seen = () => {
    const on = box.querySelector("thead .pg-many-on"),
      first = box.querySelector("thead th");
    if (!on) return;
    const left = on.offsetLeft - first.offsetWidth,
      right = on.offsetLeft + on.offsetWidth - box.clientWidth;
    if (left < box.scrollLeft || right > box.scrollLeft)
      box.scrollLeft = Math.min(left, Math.max(right, box.scrollLeft));
  };
  const table = () => {
    box.replaceChildren(samplesTable(payload, shown, pick));
    mark();
  };
  const draw = (next) => {
    payload = next;
    const { words, measures } = payload,
      sent = props.value?.measure,
      of = measures.some(({ key }) => key === sent) ? sent : measures[0].key;
    if (of !== chosen) look(of);
    box.setAttribute("aria-label", payload.title);
    const kinds = [
        ["mean", words.shown_mean],
        ["median", words.shown_median],
      ],
      labels = measures.map(({ key, label }) => [key, label]);
    bar.replaceChildren(
      choice(words.measure, labels, chosen, pick),
      choice(words.shown, kinds, shown, (value) => {
        shown = value;
        table();
      }),
    );
    table();
    show(payload, takenOf(payload));
  };
  draw.stateOf = (value) => value;
  return draw;
});

// Each text is a dot in the figure; a click on it shows the text in the list.
document.addEventListener("pg-part", ({ target, detail }) => {
  if (target.dataset.part === "many_samples_plot") readers.forEach((read) => read(detail));
});

// --- the texts ---
//
// payload: { title, samples [{ strategy, sample, text, ended, ids, typed, measured }], turns, names, measures, hues, about, python,
//   file, source, words, run }
define("manytexts", (root) => {
  let payload = null,
    of = "all",
    order = "high",
    items = [];
  const head = el("div", "pg-many-bar"),
    list = el("ol", "pg-many-texts", "", { tabindex: 0 }),
    foot = el("div");
  root.append(head, list, foot);

  const item = (sample) => {
    const { words, names, hues } = payload,
      node = el("li", "pg-many-text", "", { tabindex: -1 });
    node.style.setProperty("--pg-hue", hues[sample.strategy % hues.length]);
    const line = el("div", "pg-many-told");
    line.append(
      el("b", "", names[sample.strategy]),
      el("span", "", fill(words.sample, { n: sample.sample })),
      el("span", "pg-many-value"),
      el("span", "", words[`why_${sample.ended}`] ?? ""),
    );
    const { turns, about } = payload; // a conversation that does not await an answer has no turns
    if (sample.typed && turns && sample.text) line.append(lookInside(sample.text, "", turns));
    if (sample.typed && !about.chat) line.append(lookInside(about.prompt + sample.text, about.prompt));
    node.append(line, el("p", "pg-many-words", compact(sample.text) || words.no_text));
    return { node, sample };
  };
  const sort = () => {
    const measure = payload.measures.find(({ key }) => key === chosen) ?? payload.measures[0];
    const value = ({ sample }) => sample.measured[measure.key];
    const sign = order === "high" ? -1 : 1;
    const sorted = items
      .filter(({ sample }) => of === "all" || sample.strategy === +of)
      .sort((a, b) => (value(a) === null) - (value(b) === null) || sign * (value(a) - value(b)));
    for (const each of items)
      each.node.querySelector(".pg-many-value").textContent = `${measure.label} ${text(value(each), measure.digits)}`;
    list.replaceChildren(...sorted.map(({ node }) => node));
  };
  listeners.add(() => {
    if (payload) sort();
  });
  readers.add((number) => {
    if (of !== "all" && payload.samples[number].strategy !== +of) {
      of = "all";
      top();
      sort();
    }
    const { node } = items[number];
    for (const each of items) each.node.classList.toggle("pg-many-picked", each.node === node);
    list.scrollTop += node.getBoundingClientRect().top - list.getBoundingClientRect().top - 8;
    list.scrollIntoView({ block: "nearest" });
    node.focus({ preventScroll: true });
  });
  const top = () => {
    const { words, names, title } = payload;
    head.replaceChildren(
      el("h2", "", title),
      choice(words.of, [["all", words.all], ...names.map((name, i) => [String(i), name])], of, (value) => {
        of = value;
        sort();
        list.scrollTop = 0;
      }),
      choice(
        words.order,
        [
          ["high", words.order_high],
          ["low", words.order_low],
        ],
        order,
        (value) => {
          order = value;
          sort();
          list.scrollTop = 0;
        },
      ),
    );
  };
  const taken = () => {
    const { words, measures, names, samples, file, source, python, title, about } = payload;
    const unit = ({ label, unit }) => (unit ? `${label} (${unit})` : label);
    return {
      file,
      source,
      python,
      title,
      json: { ...about, names, samples },
      names: [words.strategy, words.csv_sample, words.csv_ended, ...measures.map(unit), words.csv_text, words.csv_ids],
      lines: samples.map(({ strategy, sample, ended, measured, text: written, ids }) => [
        names[strategy],
        sample,
        ended,
        ...measures.map(({ key }) => measured[key] ?? ""),
        written,
        ids.join(" "),
      ]),
    };
  };
  return (next) => {
    payload = next;
    if (of !== "all" && +of >= payload.names.length) of = "all";
    items = payload.samples.map(item);
    list.setAttribute("aria-label", payload.title);
    top();
    sort();
    list.scrollTop = 0;
    foot.replaceChildren(exporting(root, taken()));
    root.dataset.run = payload.run;
  };
});
