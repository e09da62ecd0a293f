// The view "Find the mistake": tables with one wrong number, to be selected by mouse or keyboard; the server checks it.
//
// payload: { exercise, exercises [[key, label]], task, rows [{ symbol, label, about, texts }], picked [line, column] or null,
//   answer { found, text, why, formula } or null, words, title }
// value: { exercise, cell: [line, column], optional }
import { el, fill } from "../../page/dom.js";
import { define } from "../../page/mount.js";
import { icon } from "../../parts/icons.js";
import { tableOf } from "../../parts/table.js";
import { foundSoFar, nowFound } from "./found.js";
import { symbol } from "./symbols.js";

define("handmistake", (root, props, send) => {
  let found = foundSoFar();
  let payload = null;
  const head = el("div", "pg-hand-head"),
    task = el("p", "pg-about"),
    scroll = el("div", "pg-hand-scroll"),
    told = el("div", "pg-hand-verdict", "", { role: "status" });
  const verdict = ({ found: right, text }) => {
    const line = el("strong");
    line.append(icon(right ? "tick" : "cross"), ` ${text}`);
    return line;
  };
  root.append(head, task, scroll, told);
  const ask = (value) => {
    props.value = value;
    send("select");
  };
  const pick = (line, column) => ask({ exercise: payload.exercise, cell: [line, column] });
  const buttonAt = (line, column) => scroll.querySelector(`[data-cell="${line} ${column}"]`);
  const cell = (line, column) => {
    const { picked, answer, words: w, rows } = payload,
      { symbol: sign, label, texts } = rows[line],
      text = texts[column].replace("-", "−"),
      here = picked?.[0] === line && picked[1] === column;
    const button = el("button", "", text, {
      type: "button",
      "data-cell": `${line} ${column}`,
      "aria-label": fill(w.cell, { name: `${sign} ${label}`.trim(), n: column + 1, text }),
      "aria-pressed": here,
    });
    if (here) button.classList.add(answer.found ? "pg-hand-found" : "pg-hand-fine");
    button.tabIndex = (picked ? here : !line && !column) ? 0 : -1;
    button.onclick = () => pick(line, column);
    button.onkeydown = (event) => {
      const moves = { ArrowDown: [1, 0], ArrowUp: [-1, 0], ArrowRight: [0, 1], ArrowLeft: [0, -1] },
        [down, right] = moves[event.key] ?? [0, 0];
      if (!down && !right) return;
      const near = rows[line + down]?.texts.length,
        next = near && buttonAt(line + down, right ? column + right : Math.min(column, near - 1));
      if (!next) return;
      event.preventDefault();
      button.tabIndex = -1;
      next.tabIndex = 0;
      next.focus();
    };
    return button;
  };
  const table = () =>
    tableOf({
      look: "pg-hand-grid pg-hand-choose",
      rows: payload.rows.map(({ symbol: sign, label, about, texts }, line) => [
        [symbol(sign), ` ${[about, label].filter(Boolean).join(" · ")}`],
        ...texts.map((_, column) => cell(line, column)),
      ]),
    });
  const draw = (next) => {
    const at = document.activeElement?.dataset?.cell,
      other = payload?.exercise !== next.exercise,
      first = !payload;
    payload = next;
    const { words: w, answer, exercises, exercise } = payload;
    if (answer?.found && !found.has(exercise)) found = nowFound(exercise, found);
    const field = el("label", "pg-control"),
      list = el("select", "", "", { "data-name": "exercise" });
    exercises.forEach(([key, text], n) => {
      list.append(new Option(`${found.has(key) ? "✓ " : ""}${n + 1}. ${text}`, key, false, key === exercise));
    });
    list.onchange = () => ask({ exercise: list.value });
    field.append(el("span", "pg-control-label", w.exercise), list);
    const last = exercises.findIndex(([key]) => key === exercise),
      button = el("button", "pg-button", w.next, { type: "button" });
    button.onclick = () => ask({ exercise: exercises[(last + 1) % exercises.length][0] });
    head.replaceChildren(
      field,
      button,
      el(
        "span",
        "pg-muted",
        fill(w.found, { n: exercises.filter(([key]) => found.has(key)).length, all: exercises.length }),
      ),
    );
    task.textContent = payload.task;
    const held = root.contains(document.activeElement);
    scroll.replaceChildren(table());
    told.replaceChildren();
    told.className = "pg-hand-verdict";
    if (answer) {
      told.classList.add(answer.found ? "pg-hand-yes" : "pg-hand-no");
      told.append(verdict(answer), el("span", "", answer.why));
      if (answer.formula) told.append(el("code", "", answer.formula));
    }
    if (at && !other) buttonAt(...at.split(" "))?.focus();
    else if (other && !first && (held || document.activeElement === document.body)) buttonAt(0, 0)?.focus();
    root.dataset.run = `${exercise} ${payload.picked ?? ""}`;
  };
  draw.stateOf = (sent) => (payload && !sent.cell && sent.exercise === payload.exercises[0][0] ? {} : sent);
  return draw;
});
