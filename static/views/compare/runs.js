// The compare tab: two token rows above each other, figures that may be absent, next tokens of two runs.
import { exporting } from "../../export/menu.js";
import { el, fill, roving } from "../../page/dom.js";
import { define } from "../../page/mount.js";
import { adding, onSelect, select, selection } from "../../page/selection/selection.js";
import { watchRow } from "../../page/selection/watched.js";
import { mountPlot } from "../../parts/figure.js";

// A figure like "figure" and "plot", or { absent: true } for nothing at all.
// payload.places: for a picture of B, the position in A of each of its tokens, null where there is none.
define("compared", (root) => {
  const chart = el("div");
  root.append(chart);
  let places = null,
    next = 0;
  const inA = (token) => (places ? (places[token] ?? null) : token);
  const draw = mountPlot(chart, {
    marked: () =>
      places ? selection.tokens.map((token) => places.indexOf(token)).filter((at) => at >= 0) : selection.tokens,
    pick: (query, key, block) => {
      const tokens = [...new Set([inA(query), inA(key)])].filter((token) => token !== null);
      const pair = [inA(query), inA(key)];
      if (tokens.length)
        select({ tokens, pair: block === 1 && !pair.includes(null) && pair[1] <= pair[0] ? pair : null });
    },
  });
  return (payload) => {
    root.classList.toggle("pg-absent", Boolean(payload.absent));
    chart.hidden = Boolean(payload.absent);
    places = payload.places ?? null;
    clearTimeout(next); // a task for each figure: several at once would hold up the page
    if (payload.absent) delete chart.dataset.run;
    else next = setTimeout(draw, 0, payload);
  };
});

const SIGNS = { same: "=", replaced: "≠", only_a: "−", only_b: "+" };

define("alignment", (root) => {
  const title = el("h2"),
    note = el("p", "pg-about"),
    legend = el("p", "pg-align-legend");
  const strip = el("div", "pg-align", "", { role: "group" }),
    foot = el("div");
  root.append(title, legend, strip, note, foot);
  const paint = () => {
    for (const step of strip.querySelectorAll("button"))
      step.setAttribute("aria-pressed", selection.tokens.includes(+step.dataset.at));
  };
  strip.addEventListener("click", (event) => {
    const at = event.target.closest("button")?.dataset.at;
    if (at === undefined) return;
    const was = selection.tokens.includes(+at),
      others = selection.tokens.filter((token) => token !== +at);
    select({ tokens: adding(event) ? (was ? others : [...others, +at]) : was && !others.length ? [] : [+at] });
  });
  roving(strip, (key, at, n) => ({ ArrowRight: at + 1, ArrowLeft: at - 1, Home: 0, End: n - 1 })[key] ?? null);
  onSelect(paint);
  return ({ steps, counts, words, note: noteText, run }) => {
    title.textContent = words.title;
    strip.setAttribute("aria-label", words.title);
    legend.replaceChildren(
      el("span", "pg-align-sides", words.sides),
      ...Object.entries(counts ? SIGNS : {}).map(([kind, sign]) => {
        const item = el("span", `pg-align-key pg-align-${kind}`);
        item.append(el("b", "", sign), el("span", "", `${words[kind]}: ${counts[kind]}`));
        return item;
      }),
    );
    let index = 0;
    strip.replaceChildren(
      ...steps.map(([kind, a, textA, b, textB]) => {
        const step =
          a === null ? el("span") : el("button", "", "", { type: "button", "data-at": a, "data-index": index });
        if (a !== null) step.tabIndex = index++ ? -1 : 0;
        step.className = `pg-align-step pg-align-${kind}`;
        step.setAttribute("aria-label", fill(words.step, { a: textA ?? "–", b: textB ?? "–", kind: words[kind] }));
        if (a === null) step.setAttribute("role", "img");
        step.append(
          el("span", "pg-align-token", textA ?? " "),
          el("b", "", SIGNS[kind], { "aria-hidden": true }),
          el("span", "pg-align-token", textB ?? " "),
        );
        return step;
      }),
    );
    note.textContent = noteText;
    note.hidden = !noteText;
    foot.replaceChildren(
      exporting(root, {
        file: "alignment",
        title: words.title,
        note: noteText,
        names: ["kind", "position A", "token A", "position B", "token B"],
        lines: steps.map(([kind, ...rest]) => [words[kind], ...rest]),
      }),
    );
    root.dataset.run = run;
    paint();
  };
});

// An empty field shows a suggestion, which becomes its text on focus.
document.addEventListener("focusin", ({ target }) => {
  if (!target.matches?.("#pg-run_b textarea") || target.value !== "") return;
  target.value = target.placeholder;
  target.select(); // as where one comes by Tab; a click sets the caret all the same
});
document.addEventListener("focusout", ({ target }) => {
  if (target.matches?.("#pg-run_b textarea") && target.value === target.placeholder) target.value = "";
});

// payload.lists: one list of { token, shares, percents, change }, of A and B in this order, or two of one share each.
define("compare_next", (root) => {
  const title = el("h2"),
    note = el("p", "pg-about"),
    lists = el("div", "pg-next-lists"),
    foot = el("div");
  root.append(title, note, lists, foot);
  const bar = (share, text, side) => {
    const cell = el("td", `pg-next-share pg-next-${side}`);
    const fillBar = el("span", "pg-next-bar", "", { "aria-hidden": true });
    fillBar.style.width = `${100 * share}%`;
    cell.append(el("span", "pg-next-track"), el("span", "pg-next-number", text));
    cell.firstChild.append(fillBar);
    return cell;
  };
  const grid = (names, lines, sides) => {
    const table = el("table", "pg-next-table"),
      head = el("tr"),
      body = el("tbody");
    head.append(...names.map((name) => el("th", "", name, { scope: "col" })));
    for (const { id, token, shares, percents, change } of lines) {
      const row = el("tr"),
        name = el("th", "pg-next-token", token, { scope: "row" });
      if (id !== undefined) watchRow(row, name, id, token); // of the model that is loaded
      row.append(name, ...shares.map((share, i) => bar(share, percents[i], sides[i])));
      if (change) row.append(el("td", "pg-next-change", change));
      body.append(row);
    }
    const top = el("thead");
    top.append(head);
    table.append(top, body);
    return table;
  };
  return (payload) => {
    root.classList.toggle("pg-absent", Boolean(payload.absent));
    if (payload.absent) return;
    const { names } = payload,
      both = payload.lists.length === 1;
    title.textContent = payload.title;
    note.textContent = payload.note;
    lists.replaceChildren(
      ...(both
        ? [grid([names.token, names.in_a, names.in_b, names.change], payload.lists[0], ["a", "b"])]
        : payload.lists.map((list, i) => grid([names.token, i ? names.in_b : names.in_a], list, i ? ["b"] : ["a"]))),
    );
    const columns = both ? [names.token, names.in_a, names.in_b] : ["", names.token, names.probability],
      lines = payload.lists.flatMap((list, i) =>
        list.map(({ token, shares }) => [...(both ? [] : ["AB"[i]]), token, ...shares]),
      ),
      { title: named, note: noteText, source, file, python } = payload;
    foot.replaceChildren(
      exporting(root, { file, source, python, title: named, note: noteText, names: columns, lines }),
    );
    root.dataset.run = payload.run;
  };
});
