// The next tokens before and after the edits.
import { exporting } from "../../export/menu.js";
import { el } from "../../page/dom.js";
import { define } from "../../page/mount.js";
import { watchRow } from "../../page/selection/watched.js";

define("beforeafter", (root) => {
  const title = el("h2"),
    note = el("p", "pg-about"),
    facts = el("div", "pg-effect-facts"),
    frame = el("div", "pg-effect-table", "", { tabindex: 0 });
  const foot = el("div");
  root.append(title, note, facts, frame, foot);

  const fact = (label, value, help) => {
    const item = el("span", "", "", { title: help });
    item.append(el("span", "pg-muted", `${label} `), el("b", "", value));
    return item;
  };
  const bars = ({ p_before, p_after }, top, edited) => {
    const both = el("span", "pg-effect-bars", "", { "aria-hidden": "true" });
    for (const [name, p] of [
      ["before", p_before],
      ["after", p_after],
    ]) {
      if (name === "before" && !edited) continue;
      const bar = el("span", `pg-effect-bar pg-effect-${name}`);
      bar.style.width = `${(100 * p) / top}%`;
      both.append(bar);
    }
    return both;
  };
  const change = (before, after, edited) => {
    const cell = el("td", "pg-effect-number");
    if (edited) cell.append(el("span", "pg-effect-old", before), el("span", "pg-muted", " → "));
    cell.append(el("span", "", after));
    return cell;
  };
  const line = (row, top, edited) => {
    const tr = el("tr"),
      token = el("th", "", "", { scope: "row", title: `${row.text} (${row.id})` });
    token.append(el("span", "pg-effect-token", row.text));
    watchRow(tr, token, row.id, row.text);
    const { texts } = row,
      share = change(texts.p_before, texts.p_after, edited);
    share.append(bars(row, top, edited));
    tr.append(token, share);
    if (edited) tr.append(el("td", "pg-effect-number", texts.change));
    tr.append(change(texts.logit_before, texts.logit_after, edited));
    return tr;
  };
  return (payload) => {
    const { words, rows, edited, texts } = payload;
    title.textContent = payload.title;
    note.textContent = payload.note;
    const undecided = `${edited ? `${texts.before} → ` : ""}${texts.after} ${words.bits}`;
    facts.replaceChildren(fact(words.entropy, undecided, words.entropy_help));
    if (edited) {
      facts.append(fact(words.kl, `${texts.kl} ${words.nats}`, words.kl_help));
      for (const name of ["before", "after"])
        facts.append(el("span", `pg-effect-key pg-effect-key-${name}`, words[`column_${name}`]));
    }
    const top = Math.max(...rows.flatMap((row) => [row.p_before, row.p_after])) || 1;
    const grid = el("table"),
      head = el("tr"),
      body = el("tbody"),
      thead = el("thead");
    const names = [
      words.column_token,
      words.column_probability,
      ...(edited ? [words.column_change] : []),
      words.column_logit,
    ];
    head.append(...names.map((name) => el("th", "", name, { scope: "col" })));
    thead.append(head);
    body.append(...rows.map((row) => line(row, top, edited)));
    grid.append(thead, body);
    frame.replaceChildren(grid);
    frame.setAttribute("aria-label", payload.title);
    const lines = rows.map((row) => [row.id, row.text, row.p_before, row.p_after, row.logit_before, row.logit_after]);
    foot.replaceChildren(
      exporting(root, {
        file: payload.file,
        source: payload.source,
        python: payload.python,
        title: payload.title,
        note: payload.note,
        names: payload.columns,
        lines,
      }),
    );
    root.dataset.run = payload.run;
  };
});
