// Side by side: the tree of branches, the statistics of each text, the entropy by token, and the export.

import { exporting } from "../../../export/menu.js";
import { el, fill, svg } from "../../../page/dom.js";
import { mountPlot } from "../../../parts/figure/figure.js";
import { ownFigure } from "../../../parts/figure/figure_numbers.js";
import { cross } from "../../../parts/icons.js";
import { tableOf } from "../../../parts/table.js";
import { chosenToken } from "./token.js";

const HEIGHT = 28; // height of a row of the tree in pixels

// Build the names of all rows; each toggles its row, and a branch has a remove button.
function treeNames(names, rows, words, api) {
  const focused = document.activeElement?.dataset.branch;
  const gone = (row) => () => {
    api.remove(row);
    api.tell("rows");
  };
  names.replaceChildren(
    ...rows.map((row) => {
      const line = el("div", "pg-race-name-line"),
        button = el("button", "pg-race-toggle", "", {
          type: "button",
          "aria-pressed": row.shown,
          "data-branch": row.id,
          title: row.shown ? words.hide : words.show,
        });
      button.style.setProperty("--pg-hue", api.hueOf(row));
      button.style.paddingLeft = `${6 + 12 * Math.min(row.depth, 4)}px`;
      button.append(
        el("i", "pg-race-swatch", "", { "aria-hidden": true }),
        el("span", "", row.parent === null ? row.name : api.forked(row)),
      );
      button.onclick = () => api.show(row, !row.shown);
      line.append(button);
      if (row.parent !== null)
        line.append(cross(fill(words.remove_branch, { name: row.name }), gone(row), { title: words.remove }));
      return line;
    }),
  );
  if (focused) names.querySelector(`[data-branch="${CSS.escape(focused)}"]`)?.focus({ preventScroll: true });
}

// Draw the lines beside the names, each below its parent row and from its fork to its end.
function treeLines(rows, width, words, api) {
  const longest = Math.max(1, ...rows.map((row) => Math.max(row.limit, row.records.length))),
    high = HEIGHT * rows.length,
    room = Math.max(60, width - 46),
    x = (at) => 6 + (at / longest) * room,
    y = (i) => HEIGHT * (i + 0.5),
    place = new Map(rows.map((row, i) => [row.id, i])),
    picture = svg("svg", { width, height: high + 18, role: "img", "aria-label": words.tree_about });
  const text = (value, left, top, more = {}) =>
    svg("text", { x: left, y: top, class: "pg-race-tick", ...more }, String(value));
  for (let at = 0; at <= longest; at += Math.max(1, 10 ** Math.floor(Math.log10(longest)) / (longest < 40 ? 2 : 1)))
    picture.append(
      svg("line", { x1: x(at), x2: x(at), y1: 0, y2: high, class: "pg-race-rule" }),
      text(Math.round(at), x(at), high + 13, { "text-anchor": "middle" }),
    );
  rows.forEach((row, i) => {
    const stroke = api.hueOf(row),
      from = row.at ?? 0,
      end = row.records.length,
      begin = row.parent === null ? x(0) : x(from) + 8,
      tip = Math.max(begin, x(end)),
      pen = { stroke, "stroke-opacity": row.shown ? 1 : 0.35 };
    if (row.parent !== null && place.has(row.parent)) {
      const up = y(place.get(row.parent)),
        d = `M ${x(from)} ${up} V ${y(i) - 8} q 0 8 8 8`;
      picture.append(
        svg("path", { d, fill: "none", ...pen, "stroke-width": 2 }),
        svg("circle", { cx: x(from), cy: up, r: 3.5, fill: stroke }),
      );
    }
    const line = { x1: begin, x2: tip, y1: y(i), y2: y(i), "stroke-width": 3, "stroke-linecap": "round" };
    picture.append(svg("line", { ...line, ...pen }), text(end, tip + 7, y(i) + 4));
    if (row.ended && row.ended !== "length") {
      const after = tip + 11 + 7 * String(end).length; // a square marks a text that ended by itself
      picture.append(svg("rect", { x: after, y: y(i) - 3, width: 7, height: 7, class: "pg-race-end" }));
    }
  });
  return picture;
}

// Draw every row as a line from its fork to its end, with its name.
function tree(root, { words }, api) {
  const board = el("div", "pg-race-tree"),
    names = el("div", "pg-race-names", "", { role: "group", "aria-label": words.tree }),
    chart = el("div", "pg-race-lines");
  board.append(names, chart);
  root.append(el("h2", "", words.tree), el("p", "pg-about", words.tree_about), board);
  let width = 0;
  const draw = () => {
    const rows = api.inOrder();
    root.hidden = !rows.some((row) => row.parent !== null);
    if (root.hidden) return;
    treeNames(names, rows, words, api);
    width = chart.clientWidth;
    chart.replaceChildren(treeLines(rows, width, words, api));
  };
  new ResizeObserver(() => {
    if (chart.clientWidth && chart.clientWidth !== width) draw();
  }).observe(chart);
  return draw;
}

// Return the export: one row per text.
function numbers(root, { words }, api) {
  const title = el("h2", "", words.table),
    about = el("p", "pg-about", words.table_about),
    frame = el("div", "pg-table pg-race-table", "", { tabindex: 0, "aria-label": words.table });
  root.append(title, about, frame);
  const columns = [
    ["length", 0],
    ["log_probability", 3],
    ["perplexity", 2],
    ["entropy", 2],
    ["distinct_1", 3],
    ["distinct_2", 3],
    ["repeated_3", 3],
    ["repeated_4", 3],
  ];
  return () => {
    const rows = api.inOrder().filter((row) => row.shown);
    root.hidden = !rows.some((row) => row.measured);
    if (root.hidden) return;
    const line = (row) => {
      const swatch = el("i", "pg-race-swatch", "", { "aria-hidden": true }),
        name = row.parent === null ? row.name : `${row.name} · ${api.forked(row)}`;
      const numbers = columns.map(([key, digits]) => {
        const value = row.measured?.[key] ?? null;
        return value === null ? "–" : (key === "entropy" ? value / api.NAT : value).toFixed(digits);
      });
      const end = row.measured ? (row.ended ? words[`ended_${row.ended}`] : words.stopped_here) : "–";
      return [{ inside: [swatch, name], style: `--pg-hue: ${api.hueOf(row)}` }, ...numbers, end];
    };
    const heads = [
      words.column_name,
      ...columns.map(([name]) => ({ text: words[`column_${name}`], help: words[`help_${name}`] })),
      words.column_ended,
    ];
    frame.replaceChildren(tableOf({ columns: heads, rows: rows.map(line) }));
  };
}

function exported(api) {
  const names = [
    "row",
    "strategy",
    "parent",
    "branch_at",
    "token",
    "id",
    "text",
    "ln_p",
    "rank",
    "entropy_bits",
    "p_after",
    "tokens_left",
    "random_number",
  ];
  const bits = (nats) => (nats === null ? null : nats / api.NAT);
  const rows = api.inOrder(),
    number = new Map(rows.map((row, i) => [row.id, i]));
  const lines = rows.flatMap((row, i) =>
    row.records.map((r, at) => [
      i,
      row.name,
      row.parent === null ? "" : number.get(row.parent),
      row.at === null ? "" : row.at + 1,
      at + 1,
      r[0],
      api.text(row, r[0]),
      ...r.slice(1, 7).map((v, n) => (n === 2 ? bits(v) : v) ?? ""),
    ]),
  );
  const all = () =>
    rows.map((row, i) => ({
      row: i,
      strategy: row.name,
      about: row.about,
      chosen: row.strategy,
      parent: row.parent === null ? null : number.get(row.parent),
      branch_at: row.at === null ? null : row.at + 1,
      model: row.model,
      prompt_ids: row.prompt,
      settings: row.settings,
      ended: row.ended,
      measured: row.measured && { ...row.measured, entropy: bits(row.measured.entropy) },
      tokens: row.records.map((r) => ({
        id: r[0],
        text: api.text(row, r[0]),
        ln_p: r[1],
        rank: r[2],
        entropy_bits: bits(r[3]),
        p_after: r[4],
        tokens_left: r[5],
        random_number: r[6],
        alternatives: Array.from({ length: r[7].length / 3 }, (_, k) => ({
          id: r[7][3 * k],
          text: api.text(row, r[7][3 * k]),
          p: r[7][3 * k + 1],
          p_after: r[7][3 * k + 2],
        })),
      })),
      ...(row.others
        ? { others: row.others.map(([ids, score]) => ({ ids, score, text: ids.map((id) => api.text(row, id)) })) }
        : {}),
    }));
  return { names, lines, all, python: () => [...new Set(rows.flatMap((row) => row.python))].join("\n\n\n") };
}

export function partsBeside(side, below, payload, api) {
  const { words } = payload,
    token = chosenToken(side, payload, api);
  const branches = el("section"),
    table = el("section"),
    figure = el("section", "pg-figure"),
    foot = el("div");
  const draw = {
    tree: tree(branches, payload, api),
    table: numbers(table, payload, api),
    figure: mountPlot(figure, {}),
  };
  below.replaceChildren(branches, table, figure, foot);
  let last = "",
    due = null;
  const line = () => {
    const rows = api.inOrder().filter((row) => row.shown && row.records.length);
    figure.hidden = !rows.length;
    const looks = rows.map((row) => `${row.id} ${row.records.length}`).join();
    if (!rows.length || looks === last) return;
    last = looks;
    const drawing = ownFigure({ figure: payload.blank }),
      plain = (name) => name.replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;");
    drawing.data = rows.map((row) => {
      const from = row.at ?? 0,
        records = row.records.slice(from),
        name = plain(row.parent === null ? row.name : `${row.name} · ${api.forked(row)}`);
      return {
        type: "scatter",
        mode: "lines",
        name,
        x: records.map((_, i) => from + i + 1),
        y: records.map((r) => r[3] / api.NAT),
        text: records.map((r) => plain(api.text(row, r[0]))),
        line: { color: api.hueOf(row), width: 1.8, dash: row.parent === null ? "solid" : "dot" },
        hovertemplate: `${name} %{x}: %{text}<br>%{y:.3f} ${plain(words.bits)}<extra></extra>`,
      };
    });
    draw.figure({
      figure: drawing,
      title: words.figure,
      note: words.figure_note,
      source: rows[0].source,
      file: "entropy-side-by-side",
      run: api.state.current?.id ?? "",
      columns: [words.strategy, words.token, words.axis_token, words.axis_entropy],
      words: words.plot,
    });
  };
  const footer = () => {
    const rows = api.inOrder();
    foot.hidden = !rows.length;
    if (foot.childElementCount || !rows.length) return;
    foot.append(
      exporting(below.parentElement, {
        file: "side-by-side",
        title: words.view,
        source: () => [...new Set(api.inOrder().map((row) => row.source))].join(" · "),
        extra: [el("span", "pg-muted", words.take)],
        names: () => exported(api).names,
        lines: () => exported(api).lines,
        json: () => ({ texts: exported(api).all() }),
        python: () => exported(api).python(),
      }),
    );
  };
  return {
    token,
    update(running) {
      token();
      if (api.state.current && foot.dataset.run !== api.state.current.id) {
        foot.dataset.run = api.state.current.id;
        foot.replaceChildren();
      }
      footer();
      draw.tree();
      draw.table();
      // The lines are redrawn less often than tokens arrive.
      if (!running) line();
      else if (due === null)
        due = setTimeout(() => {
          due = null;
          line();
        }, 3000);
    },
  };
}
