// Settings of other tools in the pipeline editor: a pasted text becomes steps, and the steps are written for a tool.
//
// spec: { tools [{ key, label, example }], most, words }. Everything that comes from a pasted text is shown as text.
import { go } from "../../page/address/places.js";
import { el, fill } from "../../page/dom.js";
import { feed } from "../../parts/feed.js";

const LOOK = 50, // milliseconds between two looks for the strategies of Side by side
  LOOKS = 200;

const waiting = new Map(); // tag -> what to do with the answer
let count = 0;
const send = feed("distribution_tools", (answer) => {
  waiting.get(answer.tag)?.(answer);
  waiting.delete(answer.tag);
});
const ask = (event, sent, then) => {
  const tag = `${event} ${++count}`;
  waiting.set(tag, then);
  send(event, { tag, ...sent });
};

const listed = (title, lines) => {
  const list = el("ul");
  list.append(...lines.map((line) => el("li", "", line)));
  return lines.length ? [el("p", "pg-pipe-other-title", title), list] : [];
};
const failed = ({ text, hint }) => el("p", "pg-pipe-other-error", `${text} ${hint ?? ""}`, { role: "alert" });

// Build a select of the tools, with a first option that stands for none.
function toolSelect({ tools }, first, label) {
  const select = el("select", "", "", { "aria-label": label });
  select.append(new Option(first, ""), ...tools.map(({ key, label: name }) => new Option(name, key)));
  return select;
}

// Build the field for a pasted text; use(steps) puts them into the editor.
function takeSettings(spec, fold, use) {
  const { words, tools, most } = spec,
    text = el("textarea", "", "", { rows: 4, maxlength: most, spellcheck: "false", "aria-label": words.text }),
    select = toolSelect(spec, words.recognize, words.tool),
    button = el("button", "pg-button pg-primary", words.take, { type: "button" }),
    said = el("div", "pg-pipe-other-said", "", { role: "status", tabindex: "-1" }),
    row = el("div", "pg-pipe-other-row"),
    label = el("label", "pg-pipe-from");
  text.placeholder = tools[0].example;
  text.value = fold.text;
  select.value = fold.tool;
  const paint = () => {
    button.disabled = !text.value.trim();
    text.placeholder = tools.find(({ key }) => key === select.value)?.example ?? tools[0].example;
  };
  text.oninput = () => {
    fold.text = text.value;
    paint();
  };
  select.onchange = () => {
    fold.tool = select.value;
    paint();
  };
  button.onclick = () => {
    button.disabled = true;
    ask("read", { text: text.value, tool: select.value }, (answer) => {
      fold.answer = answer;
      if (answer.error) show();
      else use(answer.steps); // this draws the fold again, with the answer
    });
  };
  const show = () => {
    const { answer } = fold;
    paint();
    if (!answer) return;
    if (answer.error) return said.replaceChildren(failed(answer.error));
    const n = answer.steps.length,
      how = n > 1 ? words.taken : n ? words.taken_one : words.taken_none;
    said.replaceChildren(
      el("p", "pg-pipe-other-title", fill(how, { tool: answer.label, n })),
      ...listed(words.notes, answer.notes),
      ...(answer.unused.length ? [el("p", "pg-muted", fill(words.unused, { names: answer.unused.join(", ") }))] : []),
    );
  };
  label.append(el("span", "pg-muted", words.tool), select);
  row.append(label, button);
  show();
  return [text, row, said];
}

// Build the list of tools for which the steps are written; steps() returns the editor's.
function giveSettings(spec, steps) {
  const { words, tools } = spec,
    select = toolSelect(spec, words.choose, words.give),
    said = el("div", "pg-pipe-other-said", "", { role: "status" }),
    label = el("label", "pg-pipe-from");
  const show = (answer, tool) => {
    if (answer.error) return said.replaceChildren(failed(answer.error));
    const name = tools.find(({ key }) => key === tool).label,
      rows = Math.min(Math.max(answer.text.split("\n").length, 2), 10),
      box = el("textarea", "", "", { rows, readonly: "", "aria-label": fill(words.given, { tool: name }) }),
      copy = el("button", "pg-button", words.copy, { type: "button" }),
      told = el("span", "pg-muted", "", { role: "status" }),
      row = el("div", "pg-pipe-other-row");
    box.value = answer.text;
    copy.onclick = async () => {
      try {
        await navigator.clipboard.writeText(answer.text);
        told.textContent = words.copied;
      } catch {
        box.select();
        told.textContent = words.not_copied; // the clipboard requires https and permission
      }
    };
    row.append(copy, told);
    said.replaceChildren(box, row, ...listed(words.given_notes, answer.notes));
  };
  select.onchange = () => {
    const tool = select.value;
    said.replaceChildren();
    if (tool) ask("write", { tool, steps: steps() }, (answer) => select.value === tool && show(answer, tool));
  };
  label.append(el("span", "pg-muted", words.give), select);
  return {
    nodes: [label, said],
    forget() {
      select.value = "";
      said.replaceChildren();
    },
  };
}

// Build the fold. `fold` keeps { open, text, tool, answer }; acts: steps(), use(steps). Returns { node, forget() }, where
// forget() drops what was written for a tool, since the steps have changed.
export function toolFold(spec, fold, acts) {
  const node = el("details", "pg-pipe-uses pg-pipe-other"),
    give = giveSettings(spec, acts.steps);
  node.append(
    el("summary", "", spec.words.fold),
    el("p", "pg-muted", spec.words.about),
    ...takeSettings(spec, fold, acts.use),
    ...give.nodes,
  );
  node.open = fold.open;
  node.ontoggle = () => {
    fold.open = node.open;
  };
  return { node, forget: give.forget };
}

// Call act(node) as soon as an element can be seen.
function whenSeen(selector, act, tries = LOOKS) {
  const node = document.querySelector(selector);
  if (node?.getClientRects().length) act(node);
  else if (tries) setTimeout(() => whenSeen(selector, act, tries - 1), LOOK);
}

// Build the button that continues the prompt with the steps and greedily, in Side by side.
export function compareButton({ words }, steps) {
  const button = el("button", "pg-button pg-pipe-compare", words.compare, {
    type: "button",
    title: words.compare_help,
  });
  button.onclick = () => {
    const detail = { name: words.mine, steps: steps() };
    go("sampling", "side_by_side");
    whenSeen("[data-part=strategies] .pg-strat", (line) =>
      line.closest("[data-part]").dispatchEvent(new CustomEvent("pg-compare", { detail })),
    );
  };
  return button;
}
