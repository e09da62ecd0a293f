// The fields of a rule for "only what fits": its kind, its text, and examples to begin with.
//
// rules: { ready, most, words, kinds [[kind, label, help]], examples [{ label, kind, text }] }; a step has rule { kind, text }
import { el } from "../../page/dom.js";

const LINES = 12; // maximum height of the text field

export const firstRule = ({ examples }) => ({ kind: examples[0].kind, text: examples[0].text });

// Build the fields; tell(settled) is called after a change of step.rule.
export function ruleField(warp, step, { rules }, tell) {
  const { words } = rules,
    box = el("span", "pg-rule"),
    help = el("small", "pg-muted"),
    label = (name) => ({ "aria-label": `${warp.label}: ${name}` }),
    kind = el("select", "", "", label(words.kind)),
    example = el("select", "", "", label(words.example)),
    text = el("textarea", "", "", { spellcheck: "false", maxlength: rules.most, ...label(words.text) });
  if (!rules.ready) {
    box.append(el("p", "pg-rule-missing", words.missing, { role: "note" }));
    return box;
  }
  kind.append(...rules.kinds.map(([key, name]) => new Option(name, key)));
  example.append(new Option(words.example, "", true, true));
  example.append(...rules.examples.map((each, n) => new Option(each.label, n)));
  const paint = () => {
    kind.value = step.rule.kind;
    if (text.value !== step.rule.text) text.value = step.rule.text;
    text.rows = Math.min(LINES, Math.max(2, step.rule.text.split("\n").length));
    help.textContent = rules.kinds.find(([key]) => key === step.rule.kind)?.[2] ?? "";
  };
  const set = (rule, settled) => {
    step.rule = { ...step.rule, ...rule };
    paint();
    tell(settled);
  };
  step.rule = { ...(step.rule ?? firstRule(rules)) };
  kind.onchange = () => set({ kind: kind.value }, true);
  text.oninput = () => set({ text: text.value }, false);
  example.onchange = () => {
    const { kind: key, text: own } = rules.examples[+example.value];
    example.value = "";
    set({ kind: key, text: own }, true);
  };
  paint();
  const row = el("span", "pg-rule-row");
  row.append(kind, example);
  box.append(row, text, help);
  return box;
}
