// Many samples: a table of what the texts of each strategy have in common, and the texts themselves.
import { exporting } from "../../export/menu.js";
import { el, fill } from "../../page/dom.js";
import { define } from "../../page/mount.js";
import { lookInside } from "../../page/prompt/look_inside.js";
import { mountPlot } from "../../parts/figure.js";

// The measure that is looked at is chosen in the table; the list of texts is sorted by it.
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
// Of several line breaks in a row all but the last are signs: many texts shall fit in the list.
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
define("manytable", (root, props, trigger) => {
  let payload = null,
    shown = "mean";
  const title = el("h2"),
    note = el("p", "pg-about"),
    bar = el("div", "pg-many-bar"),
    foot = el("div");
  const box = el("div", "pg-many-box", "", { tabindex: 0, role: "region" });
  root.append(title, note, bar, box, foot);

  const pick = (key) => {
    if (key === chosen) return;
    look(key);
    mark();
    props.value = { measure: key };
    trigger("select", { index: 0, value: JSON.stringify(props.value) });
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
  // The chosen column comes into sight where the table is wider than the page.
  const seen = () => {
    const on = box.querySelector("thead .pg-many-on"),
      first = box.querySelector("thead th");
    if (!on) return;
    const left = on.offsetLeft - first.offsetWidth,
      right = on.offsetLeft + on.offsetWidth - box.clientWidth;
    if (left < box.scrollLeft || right > box.scrollLeft)
      box.scrollLeft = Math.min(left, Math.max(right, box.scrollLeft));
  };

  // From the first to the third quartile on the column's scale, and the mean.
  const glyph = ([mean, , low, , high], [from, to], hue) => {
    const track = el("span", "pg-many-track", "", { "aria-hidden": "true" });
    if (mean === null) return track;
    const place = (value) => (to > from ? (100 * (value - from)) / (to - from) : 50);
    const range = el("i"),
      dot = el("b");
    Object.assign(range.style, { left: `${place(low)}%`, width: `${place(high) - place(low)}%`, background: hue });
    Object.assign(dot.style, { left: `${place(mean)}%`, background: hue });
    track.append(range, dot);
    return track;
  };
  const numbers = ([mean, sd, low, median, high], digits) => {
    const main = el("span", "pg-many-number", text(shown === "mean" ? mean : median, digits));
    const both =
      shown === "mean"
        ? sd === null
          ? ""
          : `± ${text(sd, digits)}`
        : low === null || sd === null
          ? ""
          : `${text(low, digits)} – ${text(high, digits)}`;
    return [main, el("small", "", both)];
  };
  const scale = (key) => {
    const all = payload.rows
      .flatMap(({ spread }) => [spread[key][0], spread[key][2], spread[key][4]])
      .filter((v) => v !== null);
    return [Math.min(...all), Math.max(...all)];
  };
  const heading = (name, help, unit, key) => {
    const cell = el("th", "", "", { scope: "col" });
    name = name.replaceAll("-", "\u2011"); // a line does not break there
    if (!key) {
      cell.textContent = name;
      cell.title = help ?? "";
      return cell;
    }
    cell.dataset.measure = key;
    const button = el("button", "", name, { type: "button", title: help });
    if (unit) button.append(el("small", "", unit));
    button.onclick = () => pick(key);
    cell.append(button);
    return cell;
  };
  const line = (row, scales) => {
    const { words } = payload,
      tr = el("tr"),
      head = el("th", "", "", { scope: "row" });
    head.style.setProperty("--pg-hue", row.hue);
    head.append(el("span", "pg-many-name", row.name), el("small", "", row.about));
    head.title = `${row.name}: ${row.about}`;
    const plain = (value, small) => {
      const cell = el("td");
      cell.append(el("span", "pg-many-number", value), el("small", "", small));
      return cell;
    };
    const share = (n) => (row.texts > 1 ? `${Math.round((100 * n) / row.texts)} %` : "");
    tr.append(
      head,
      plain(String(row.texts), row.once ? words.always : ""),
      plain(String(row.ended), share(row.ended)),
      plain(row.once ? "–" : String(row.different), row.once ? "" : share(row.different)),
      plain(text(row.together, 3), ""),
    );
    payload.measures.forEach(({ key, digits }, i) => {
      const cell = el("td");
      cell.dataset.measure = key;
      cell.append(...numbers(row.spread[key], digits), glyph(row.spread[key], scales[i], row.hue));
      tr.append(cell);
    });
    return tr;
  };
  const table = () => {
    const { words, measures, rows } = payload,
      head = el("tr"),
      grid = el("table"),
      top = el("thead"),
      body = el("tbody");
    head.append(
      heading(words.strategy),
      heading(words.texts, words.texts_help),
      heading(words.ended, words.ended_help),
      heading(words.different, words.different_help),
      heading(words.together, words.together_help),
      ...measures.map(({ key, label, unit, help }) => heading(label, help, unit, key)),
    );
    top.append(head);
    const scales = measures.map(({ key }) => scale(key));
    body.append(...rows.map((row) => line(row, scales)));
    grid.append(top, body);
    box.replaceChildren(grid);
    mark();
  };
  const taken = () => {
    const { words, measures, rows, file, source, title: named, note } = payload;
    const names = ["mean", "sd", "low", "median", "high"].map((name) => words[name]);
    const columns = measures.flatMap(({ label }) => names.map((name) => `${label}, ${name}`));
    const lines = rows.map((row) => [
      row.name,
      row.about,
      row.texts,
      row.ended,
      row.different,
      row.together ?? "",
      ...measures.flatMap(({ key }) => row.spread[key].map((v) => v ?? "")),
    ]);
    return {
      file,
      source,
      title: named,
      note,
      names: [words.strategy, words.how, words.texts, words.ended, words.different, words.together, ...columns],
      lines,
    };
  };
  const draw = (next) => {
    payload = next;
    const { words, measures } = payload;
    const sent = props.value?.measure;
    const of = measures.some(({ key }) => key === sent) ? sent : measures[0].key;
    if (of !== chosen) look(of);
    title.textContent = payload.title;
    note.textContent = payload.note;
    box.setAttribute("aria-label", payload.title);
    bar.replaceChildren(
      choice(
        words.measure,
        measures.map(({ key, label }) => [key, label]),
        chosen,
        pick,
      ),
      choice(
        words.shown,
        [
          ["mean", words.shown_mean],
          ["median", words.shown_median],
        ],
        shown,
        (value) => {
          shown = value;
          table();
        },
      ),
    );
    table();
    foot.replaceChildren(exporting(root, taken()));
    root.dataset.run = payload.run;
  };
  draw.stateOf = (value) => value;
  return draw;
});

// Every text a dot: a click has the list show it.
define("manyplot", (root) => mountPlot(root, { part: (number) => readers.forEach((read) => read(number)) }));

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
    const { turns, about } = payload; // of a conversation that is none to answer, no turns
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
