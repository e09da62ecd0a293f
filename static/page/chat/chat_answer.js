// Generation of an answer below the turns: the model generates the assistant's turn or continues an unfinished one, and
// the result becomes part of the conversation.
//
// payload of "answer": { tag, state, text, ended, tokens, ahead, error }; value { tag, strategy, edits }

import { el, fill } from "../dom.js";
import { define, onDrawn } from "../mount.js";
import { selection } from "../selection/selection.js";
import { onTalk, talk } from "./chat.js";
import { isBegun } from "./chat_value.js";

const bar = el("div", "pg-chat-answer"),
  button = el("button", "pg-button pg-primary", "", { type: "button" }),
  stop = el("button", "pg-button", "", { type: "button", hidden: "" });
const label = el("label", "pg-inline"),
  name = el("span", "pg-muted"),
  strategy = el("select"),
  told = el("span", "pg-muted", "", { role: "status" });
const leave = el("label", "pg-inline pg-chat-begun"),
  begun = el("input", "", "", { type: "checkbox" }),
  said = el("span");
label.append(name, strategy);
leave.append(begun, said);
bar.append(button, stop, label, leave, told);

let channel = null, // the mounted part: { props, ask }
  going = null, // the answer being generated: { tag, turns }
  number = 0;
const turns = () => talk().value().turns;
const same = (a, b) => JSON.stringify(a) === JSON.stringify(b);
function paint() {
  const words = talk().words(),
    goesOn = isBegun(turns());
  button.hidden = Boolean(going);
  stop.hidden = !going;
  button.textContent = goesOn ? words.go_on : words.answer;
  button.title = goesOn ? words.go_on_help : words.answer_help;
  leave.hidden = !goesOn;
  begun.checked = talk().value().open;
  begun.disabled = Boolean(going);
}
begun.onchange = () => talk().leave(begun.checked);

button.onclick = () => {
  const open = turns().at(-1)[0] === "assistant" ? turns() : [...turns(), ["assistant", ""]];
  talk().replace(open, null, true);
  number += 1;
  going = { tag: String(number), turns: open };
  told.textContent = talk().words().writing;
  channel.props.value = { tag: going.tag, strategy: strategy.value, edits: selection.edits };
  channel.ask("start");
  paint();
  stop.focus();
};
stop.onclick = () => channel.ask("stop");

// Show the text in its field during generation; a conversation that has since been edited stays unchanged.
function show(payload) {
  if (!payload || payload.tag !== going?.tag) return;
  const field = document.querySelector(".pg-chat-turn:last-child textarea"),
    ours = same(turns(), going.turns);
  if (payload.text !== undefined && field && ours) field.value = payload.text;
  if (payload.ahead) told.textContent = payload.ahead;
  if (!payload.error && payload.state !== "done") return;
  told.textContent = payload.error ? `${payload.error.text} ${payload.error.hint}` : "";
  if (payload.ended && payload.ended !== "end") told.textContent = fill(talk().words().cut, { n: payload.tokens });
  const [, before] = going.turns.at(-1);
  going = null;
  // An answer that ended early stays unfinished if it continued an existing text.
  if (ours && payload.text)
    talk().replace(turns().with(-1, ["assistant", payload.text]), null, before !== "" && payload.ended !== "end");
  else if (ours && field) field.value = before;
  const held = document.activeElement === stop;
  paint();
  if (held) button.focus();
}
define("answer", (root, props, ask) => {
  root.hidden = true;
  channel = { props, ask };
  return show;
});

onDrawn((root, payload) => {
  if (root.dataset.part !== "chat" || !payload || !talk()) return;
  const { words } = payload;
  stop.textContent = words.stop;
  said.textContent = words.begun;
  leave.title = words.begun_help;
  name.textContent = words.strategy;
  const chosen = strategy.value;
  strategy.replaceChildren(...payload.strategies.map(([key, text]) => new Option(text, key)));
  if (chosen) strategy.value = chosen;
  if (!bar.isConnected) root.querySelector(".pg-chat-body").append(bar);
  paint();
});
onTalk(() => {
  if (talk()?.talking()) paint();
});
