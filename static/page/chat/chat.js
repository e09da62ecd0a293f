// The input of the model: the prompt as typed, or turns in the model's chat template, with an option to parse special
// tokens written in a prompt.
//
// payload: { offered, system, special, found: [text], roles: [[role, word]], most, words }
//  offered: the model has a chat template; system: its default system message, null if it accepts none
//  found: special tokens whose texts occur in the prompt
// value: see chat_value.js. Without a template, the value is kept, and the prompt box holds the last user message.

import { cross } from "../../parts/icons.js";
import { el, fill } from "../dom.js";
import { define } from "../mount.js";
import { promptText, setPrompt } from "../prompt/prompt.js";
import { pageState } from "../state.js";
import { chatState, checkedChat, firstTurns, isOpen, nextRole, ownText, withOwn } from "./chat_value.js";

const PAUSE = 200,
  LONG = 500; // milliseconds to wait after a key press: if runs are fast, and if they are slow

let current = null; // mounted part: { value, talking, replace(turns, at, begun), leave(begun), open(turns), close, words }
const heard = new Set();
export const onTalk = (listener) => heard.add(listener); // register a listener for every change of the conversation
// Return the displayed conversation as text; null for a plain prompt.
export function talkText() {
  if (!current?.talking()) return null;
  const { turns } = current.value();
  return turns.map(([role, text]) => `${role}: ${text}`).join("\n");
}
export const talk = () => current;

// Build one turn: role, text, and a remove button unless it is the only one. acts: say(at, turn), replace(turns), turns().
function turnField([role, text], at, turns, { words, roles, system }, acts) {
  const item = el("li", "pg-chat-turn", "", { "data-role": role }),
    who = el("select", "", "", { "aria-label": words.role }),
    said = el("textarea", "", "", { rows: 1, "aria-label": words.says });
  for (const [key, word] of roles) {
    if (key === "system" && system === null && role !== key) continue;
    who.append(new Option(word, key, key === role, key === role));
  }
  said.value = text;
  said.placeholder = isOpen(turns, at) ? words.open : words.empty;
  const now = () => acts.turns().with(at, [who.value, said.value]);
  said.oninput = () => acts.say(now());
  who.onchange = () => acts.replace(now());
  const drop = cross(words.remove, () => acts.replace(acts.turns().toSpliced(at, 1)));
  drop.hidden = turns.length === 1;
  item.append(who, said, drop);
  return item;
}

// Build the turns as text fields, with a button to add one. tell(change, pause) reports edits. Returns { node, draw,
// replace, name }.
function turnList(now, tell) {
  const node = el("div", "pg-chat-body"),
    list = el("ol", "pg-chat-turns"),
    add = el("button", "pg-button pg-quiet pg-chat-add", "", { type: "button" });
  node.append(list, add);
  const turns = () => now().value.turns,
    fields = () => [...list.querySelectorAll("textarea")],
    says = (item, [role, text]) => item.dataset.role === role && item.querySelector("textarea").value === text;
  // Fields are rebuilt only if their content differs, so that the text cursor stays in place while typing.
  const draw = () => {
    const { payload } = now(),
      all = turns(),
      same = fields().length === all.length && [...list.children].every((item, at) => says(item, all[at]));
    if (!same) list.replaceChildren(...all.map((turn, at) => turnField(turn, at, all, payload, acts)));
    add.disabled = all.length >= payload.most;
  };
  // Replace the turns; the focus moves to the one at index `at`.
  const replace = (next, at = null, begun = now().value.open) => {
    tell({ turns: next, open: begun });
    draw();
    if (at !== null) fields()[at]?.focus();
  };
  const acts = {
    turns,
    replace: (next) => replace(next),
    say: (next) => tell({ turns: next }, pageState.slow ? LONG : PAUSE),
  };
  add.onclick = () => replace([...turns(), [nextRole(turns()), ""]], turns().length);
  const name = (words) => {
    list.setAttribute("aria-label", words.turns);
    add.textContent = words.add;
  };
  return { node, draw, replace, name };
}

// Build the switch for parsing special tokens in a prompt. `set(on)` is called when it changes. Returns { node, found,
// show, hint }.
function specialChoice(set) {
  const node = el("label", "pg-chat-special"),
    box = el("input", "", "", { type: "checkbox" }),
    name = el("span"),
    found = el("p", "pg-chat-found", "", { role: "status" });
  node.append(box, name);
  box.onchange = () => set(box.checked);
  // Show a hint if the prompt contains special tokens that are not parsed as such.
  const hint = ({ words, found: texts }, talks) => {
    found.hidden = talks || box.checked || !texts.length;
    if (found.hidden) return;
    const button = el("button", "pg-button pg-quiet", words.found_on, { type: "button" });
    button.title = words.special_help;
    button.onclick = () => {
      box.checked = true;
      box.onchange();
    };
    found.replaceChildren(el("span", "", fill(words.found, { tokens: texts.join(" ") })), button);
  };
  const show = (payload, read, talks) => {
    name.textContent = payload.words.special;
    node.title = payload.words.special_help;
    node.hidden = talks || !payload.special || !(read || payload.found.length);
    box.checked = read;
  };
  return { node, found, show, hint };
}

// Build the two buttons that choose between a prompt and a conversation by calling choose(chats).
function modeButtons(root, { words, offered }, talks, choose) {
  root.setAttribute("aria-label", words.label);
  root.hidden = !offered;
  root.replaceChildren(
    ...[false, true].map((chats) => {
      const button = el("button", "pg-chat-mode", chats ? words.chat : words.text, {
        type: "button",
        "aria-pressed": chats === talks,
        title: chats ? words.chat_help : words.text_help,
      });
      button.onclick = () => {
        choose(chats);
        root.children[+chats].focus();
      };
      return button;
    }),
  );
}

define("chat", (root, props, ask) => {
  let payload = null,
    timer = null,
    held = checkedChat(props.value);
  const value = () => held;
  const hold = (next) => {
    held = checkedChat(next);
    props.value = held;
  };
  const talking = () => Boolean(payload?.offered) && held.on;
  const tell = (change, pause = 0) => {
    hold({ ...held, ...change });
    heard.forEach((listener) => listener());
    clearTimeout(timer);
    timer = setTimeout(() => ask("select"), pause);
  };
  const side = el("div", "pg-chat-side"),
    modes = el("div", "pg-chat-modes", "", { role: "group" }),
    special = specialChoice((on) => {
      tell({ special: on });
      special.hint(payload, talking());
    }),
    body = turnList(() => ({ payload, value: held }), tell);
  side.append(modes, special.node);
  root.append(side, body.node, special.found);

  const mode = (on) => {
    const { turns } = held;
    if (on === talking()) return;
    const prompt = promptText() ?? "";
    if (on) tell({ on, turns: turns.length ? withOwn(turns, prompt) : firstTurns(payload.system, prompt) });
    else tell({ on });
    if (!on && ownText(turns) !== prompt) setPrompt(ownText(turns));
    draw(payload);
  };
  const draw = (next) => {
    const first = payload?.offered !== next.offered;
    payload = next;
    const { on, turns, special: read } = held,
      talks = talking();
    modeButtons(modes, payload, talks, mode);
    special.show(payload, read, talks);
    root.hidden = modes.hidden && special.node.hidden;
    body.node.hidden = !talks;
    body.name(payload.words);
    document.body.classList.toggle("pg-chatting", talks);
    if (talks) body.draw();
    special.hint(payload, talks);
    if (on && !talks && first && ownText(turns) !== promptText()) setPrompt(ownText(turns));
  };
  // During a conversation, input in the prompt box replaces the last user message.
  document.addEventListener(
    "input",
    ({ target }) => {
      const { on, turns } = held;
      if (!on || !target.matches?.("#prompt textarea, #prompt input") || ownText(turns) === target.value) return;
      hold({ ...held, turns: withOwn(turns, target.value) });
      if (!talking()) return; // the prompt's own change event triggers the question
      tell({});
      body.draw();
    },
    true,
  );
  // Replace or close the conversation.
  const open = (turns) => {
    tell({ on: true, turns, open: false });
    draw(payload);
  };
  const close = () => {
    if (!talking()) return;
    tell({ on: false });
    draw(payload);
  };
  const leave = (begun) => tell({ open: begun });
  current = { value, talking, replace: body.replace, leave, open, close, words: () => payload?.words };
  draw.stateOf = chatState;
  draw.take = (sent) => {
    held = checkedChat(sent);
  };
  return draw;
});
