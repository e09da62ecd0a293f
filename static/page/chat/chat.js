// What the model reads: the prompt as it stands, or turns in the model's chat template; and whether special tokens that
// are written in a prompt are read as such.
//
// payload: { offered, system, special, found: [text], roles: [[role, word]], most, words }
//   offered: the model has a chat template; system: its own system message, null where it takes none
//   found: special tokens whose texts stand in the prompt
// value: see chat_value.js. Without a template it is kept, and the prompt's box holds the last text of a user.

import { el, fill } from "../dom.js";
import { define } from "../mount.js";
import { promptText, setPrompt } from "../prompt/prompt.js";
import { onPush } from "../screen.js";
import { pageState } from "../state.js";
import { chatState, checkedChat, firstTurns, isOpen, nextRole, ownText, withOwn } from "./chat_value.js";

const PAUSE = 200,
  LONG = 500; // milliseconds after a key, where runs are quick and where they are slow

let current = null; // { value, talking, replace(turns, at, begun), leave(begun), open(turns), close, words } of the part
const heard = new Set();
export const onTalk = (listener) => heard.add(listener); // told of every change of it
// The conversation that the page shows, as text; null for a bare prompt.
export function talkText() {
  if (!current?.talking()) return null;
  const { turns } = current.value();
  return turns.map(([role, text]) => `${role}: ${text}`).join("\n");
}
export const talk = () => current;

define("chat", (root, props, ask) => {
  let payload = null,
    timer = null;
  let held = checkedChat(props.value); // Gradio gives the component its first value once more after it is there
  const value = () => held;
  const hold = (next) => {
    held = checkedChat(next);
    props.value = held;
  };
  onPush(() => hold(held));
  const talking = () => Boolean(payload?.offered) && value().on;
  const tell = (change, pause = 0) => {
    hold({ ...held, ...change });
    heard.forEach((listener) => listener());
    clearTimeout(timer);
    timer = setTimeout(() => {
      hold(held);
      ask("select", { index: 0, value: JSON.stringify(held) });
    }, pause);
  };
  const modes = el("div", "pg-chat-modes", "", { role: "group" });
  const special = el("label", "pg-chat-special"),
    box = el("input", "", "", { type: "checkbox" }),
    name = el("span");
  special.append(box, name);
  box.onchange = () => {
    tell({ special: box.checked });
    hint();
  };
  const list = el("ol", "pg-chat-turns"),
    add = el("button", "pg-button pg-quiet pg-chat-add", "", { type: "button" });
  const found = el("p", "pg-chat-found", "", { role: "status" });
  const side = el("div", "pg-chat-side"),
    body = el("div", "pg-chat-body");
  side.append(modes, special);
  body.append(list, add);
  root.append(side, body, found);

  const mode = (on) => {
    const { turns } = value();
    if (on === talking()) return;
    const prompt = promptText() ?? "";
    if (on) tell({ on, turns: turns.length ? withOwn(turns, prompt) : firstTurns(payload.system, prompt) });
    else tell({ on });
    if (!on && ownText(turns) !== prompt) setPrompt(ownText(turns));
    draw(payload);
  };
  const turn = ([role, text], at, turns) => {
    const item = el("li", "pg-chat-turn"),
      said = el("textarea", "", "", { rows: 1, "aria-label": payload.words.says });
    const who = el("select", "", "", { "aria-label": payload.words.role }),
      drop = el("button", "pg-cross", "×", { type: "button", "aria-label": payload.words.remove });
    for (const [key, word] of payload.roles) {
      if (key === "system" && payload.system === null && role !== key) continue;
      who.append(new Option(word, key, key === role, key === role));
    }
    item.dataset.role = role;
    said.value = text;
    said.placeholder = isOpen(turns, at) ? payload.words.open : payload.words.empty;
    said.oninput = () => {
      tell({ turns: value().turns.with(at, [who.value, said.value]) }, pageState.slow ? LONG : PAUSE);
    };
    who.onchange = () => replace(value().turns.with(at, [who.value, said.value]));
    drop.hidden = turns.length === 1;
    drop.onclick = () => replace(value().turns.toSpliced(at, 1));
    item.append(who, said, drop);
    return item;
  };
  const fields = () => [...list.querySelectorAll("textarea")];
  // Other turns than those that are typed into; the focus goes to the one at `at`.
  const replace = (turns, at = null, begun = held.open) => {
    tell({ turns, open: begun });
    drawTurns();
    if (at !== null) fields()[at]?.focus();
  };
  add.onclick = () => {
    const { turns } = value();
    replace([...turns, [nextRole(turns), ""]], turns.length);
  };
  // The fields are made again only where they say something else: who types keeps the place.
  const drawTurns = () => {
    const { turns } = value();
    const same = fields().length === turns.length && [...list.children].every((item, at) => says(item, turns[at]));
    if (!same) list.replaceChildren(...turns.map(turn));
    add.disabled = turns.length >= payload.most;
  };
  const says = (item, [role, text]) => item.dataset.role === role && item.querySelector("textarea").value === text;

  const hint = () => {
    const on = !talking() && !box.checked && payload.found.length > 0;
    found.hidden = !on;
    if (!on) return;
    const button = el("button", "pg-button pg-quiet", payload.words.found_on, { type: "button" });
    button.title = payload.words.special_help;
    button.onclick = () => {
      box.checked = true;
      box.onchange();
    };
    found.replaceChildren(el("span", "", fill(payload.words.found, { tokens: payload.found.join(" ") })), button);
  };
  const draw = (next) => {
    const first = payload?.offered !== next.offered;
    payload = next;
    const { words } = payload,
      { on, turns, special: read } = value(),
      talks = talking();
    modes.setAttribute("aria-label", words.label);
    modes.hidden = !payload.offered;
    modes.replaceChildren(
      ...[false, true].map((chats) => {
        const button = el("button", "pg-chat-mode", chats ? words.chat : words.text, {
          type: "button",
          "aria-pressed": chats === talks,
        });
        button.title = chats ? words.chat_help : words.text_help;
        button.onclick = () => {
          mode(chats);
          modes.children[+chats].focus();
        };
        return button;
      }),
    );
    name.textContent = words.special;
    special.title = words.special_help;
    special.hidden = talks || !payload.special || !(read || payload.found.length);
    box.checked = read;
    root.hidden = modes.hidden && special.hidden;
    body.hidden = !talks;
    list.setAttribute("aria-label", words.turns);
    add.textContent = words.add;
    document.body.classList.toggle("pg-chatting", talks);
    if (talks) drawTurns();
    hint();
    if (on && !talks && first && ownText(turns) !== promptText()) setPrompt(ownText(turns));
  };
  // What is typed or put into the prompt's box while there is a conversation is its last text of a user.
  document.addEventListener(
    "input",
    ({ target }) => {
      const { on, turns } = value();
      if (!on || !target.matches?.("#prompt textarea, #prompt input") || ownText(turns) === target.value) return;
      hold({ ...held, turns: withOwn(turns, target.value) });
      if (!talking()) return; // the prompt's own change asks
      tell({});
      drawTurns();
    },
    true,
  );
  // Another conversation than the one that stands there, and none.
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
  current = { value, talking, replace, leave, open, close, words: () => payload?.words };
  draw.stateOf = chatState;
  draw.take = (sent) => {
    held = checkedChat(sent);
  };
  return draw;
});
