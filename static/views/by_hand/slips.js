// The view "What would give your number?": a calculation, the reader's result, and the slips that give it.
//
// payload: { calculation, calculations [[key, label]], fields [{ name, label, text, usual }], result, words, title, source,
//   file, right, tried, found [[label, formula, value]], steps [[formula, value]] }, or problem_here [what, got, hint]
// value: { calculation, inputs { name: text }, result }
import { el, fill } from "../../page/dom.js";
import { define } from "../../page/mount.js";
import { icon } from "../../parts/icons.js";
import { titled } from "../../parts/titled.js";

const PAUSE = 300; // milliseconds between questions while the user types

// Build a line with a formula and its value.
function line(look, name, formula, value) {
  const row = el("div", `pg-slip-line ${look}`.trim());
  row.append(el("span", "pg-muted", name), el("code", "", formula), el("output", "", value));
  return row;
}

define("handslips", (root, props, send) => {
  let payload = null,
    timer = 0;
  const head = el("div", "pg-hand-head"),
    inputs = el("div", "pg-slip-inputs"),
    told = el("div", "pg-slip-told", "", { role: "status" }),
    right = el("div", "pg-slip-right"),
    both = el("div", "pg-slip-both");
  both.append(told, right);
  const show = titled(root, head, inputs, both);
  const ask = (value, pause = 0) => {
    props.value = value;
    clearTimeout(timer);
    timer = setTimeout(() => send("select"), pause);
  };
  const current = () => ({
    calculation: payload.calculation,
    inputs: Object.fromEntries(
      [...inputs.querySelectorAll("[data-input]")].map((box) => [box.dataset.input, box.value]),
    ),
    result: inputs.querySelector("[data-name=result]").value,
  });
  const box = (text, label, attributes, look = "") => {
    const field = el("label", `pg-control ${look}`.trim()),
      input = el("input", "", "", { type: "text", spellcheck: "false", autocomplete: "off", ...attributes });
    input.value = text;
    input.size = Math.min(Math.max(text.length + 2, 8), 46);
    input.oninput = () => ask(current(), PAUSE);
    field.append(el("span", "pg-control-label", label), input);
    return field;
  };
  const form = () => {
    const field = el("label", "pg-control"),
      list = el("select", "", "", { "data-name": "calculation" }),
      back = el("button", "pg-button pg-quiet", payload.words.back, { type: "button" });
    for (const [key, text] of payload.calculations)
      list.append(new Option(text, key, false, key === payload.calculation));
    list.onchange = () => ask({ calculation: list.value });
    back.onclick = () => ask({ calculation: payload.calculation });
    field.append(el("span", "pg-control-label", payload.words.calculation), list);
    head.replaceChildren(field, back);
    inputs.replaceChildren(
      ...payload.fields.map(({ name, label, text }) => box(text, label, { "data-input": name })),
      box(payload.result, payload.words.result, { "data-name": "result" }, "pg-slip-result"),
    );
  };
  const answer = () => {
    const { words: w, problem_here: problem, found, steps } = payload;
    told.replaceChildren();
    right.replaceChildren();
    told.className = "pg-slip-told";
    if (problem) {
      told.append(el("strong", "", problem[0]), el("code", "", problem[1]), el("span", "", problem[2]));
      return;
    }
    const [formula, value] = steps.at(-1),
      verdict = el("strong"),
      name = payload.right ? "tick" : found.length ? "cross" : "bang";
    const text = payload.right
      ? w.is_right
      : found.length
        ? fill(w.found, { n: found.length })
        : fill(w.none, { n: payload.tried });
    verdict.append(icon(name), ` ${text}`);
    told.classList.add(payload.right ? "pg-slip-yes" : found.length ? "pg-slip-no" : "pg-slip-open");
    told.append(verdict);
    for (const [label, wrong, made] of payload.right ? [] : found) {
      const slip = el("div", "pg-slip");
      slip.append(
        el("p", "", label),
        line("pg-slip-wrong", w.yours, wrong, made),
        line("pg-slip-fine", w.instead, formula, value),
      );
      told.append(slip);
    }
    const list = el("ol", "pg-slip-steps");
    for (const [how, made] of steps) {
      const item = el("li");
      item.append(el("code", "", how), el("output", "", made));
      list.append(item);
    }
    right.append(el("h3", "", w.right_way), list);
  };
  const draw = (next) => {
    const typing = payload?.calculation === next.calculation && inputs.contains(document.activeElement);
    payload = next;
    if (!typing) form(); // a redrawn field would lose the caret
    answer();
    const { words: w } = payload;
    show(payload, {
      names: [w.column_what, w.column_formula, w.column_value],
      lines: [
        ...(payload.found ?? []).map((each) => each),
        ...(payload.steps ?? []).map(([how, made]) => [w.right_way, how, made]),
      ],
    });
    root.dataset.run = `${payload.calculation} ${payload.result}`;
  };
  draw.stateOf = (sent) => sent;
  return draw;
});
