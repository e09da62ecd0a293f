// Below the turns: the model writes the assistant's turn, which then is part of the conversation.
//
// payload of "answer": { tag, state, text, ended, tokens, ahead, error }; value { tag, strategy }

import { el, fill } from "../dom.js";
import { define, onDrawn } from "../mount.js";
import { onTalk, talk } from "./chat.js";

const bar = el("div", "pg-chat-answer"),
  button = el("button", "pg-button pg-primary", "", { type: "button" }),
  stop = el("button", "pg-button", "", { type: "button", hidden: "" });
const label = el("label", "pg-inline"),
  name = el("span", "pg-muted"),
  strategy = el("select"),
  told = el("span", "pg-muted", "", { role: "status" });
label.append(name, strategy);
bar.append(button, stop, label, told);

let channel = null, // { props, trigger }
  going = null, // { tag, turns } of the answer that is written
  number = 0;
const turns = () => talk().value().turns;
const same = (a, b) => JSON.stringify(a) === JSON.stringify(b);
const isAnswered = () => {
  const [role, text] = turns().at(-1) ?? ["", ""];
  return role === "assistant" && text !== "";
};
function paint() {
  const words = talk().words();
  button.hidden = Boolean(going);
  stop.hidden = !going;
  button.disabled = isAnswered();
  button.title = isAnswered() ? words.answer_first : words.answer_help;
}

button.onclick = () => {
  const open = turns().at(-1)[0] === "assistant" ? turns() : [...turns(), ["assistant", ""]];
  if (open.length !== turns().length) talk().replace(open);
  number += 1;
  going = { tag: String(number), turns: open };
  told.textContent = talk().words().writing;
  channel.props.value = { tag: going.tag, strategy: strategy.value };
  channel.trigger("start", { index: 0, value: going.tag });
  paint();
  stop.focus();
};
stop.onclick = () => channel.trigger("stop", { index: 0, value: going?.tag ?? "" });

// The text stands in its field while it is written; a conversation that was changed meanwhile is left alone.
function show(payload) {
  if (!payload || payload.tag !== going?.tag) return;
  const field = document.querySelector(".pg-chat-turn:last-child textarea"),
    ours = same(turns(), going.turns);
  if (payload.text !== undefined && field && ours) field.value = payload.text;
  if (payload.ahead) told.textContent = payload.ahead;
  if (!payload.error && payload.state !== "done") return;
  told.textContent = payload.error ? `${payload.error.text} ${payload.error.hint}` : "";
  if (payload.ended && payload.ended !== "end") told.textContent = fill(talk().words().cut, { n: payload.tokens });
  going = null;
  if (ours && payload.text) talk().replace(turns().with(-1, ["assistant", payload.text]));
  else if (ours && field) field.value = "";
  const held = document.activeElement === stop;
  paint();
  if (held) button.focus();
}
define("answer", (root, props, trigger) => {
  root.hidden = true;
  channel = { props, trigger };
  return show;
});

onDrawn((root, payload) => {
  if (root.dataset.part !== "chat" || !payload || !talk()) return;
  const { words } = payload;
  button.textContent = words.answer;
  stop.textContent = words.stop;
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
