// The page's questions: what it is set to and what it shows goes by POST, the answer comes as lines of JSON
// (viz/page/wire.py). A newer question closes the request of the one before, which ends its work.
//
// payload of "wire": { shown }: what the page came with.
import { caughtUp, define, mounted, showEarly } from "../mount.js";
import { promptText } from "../prompt/prompt.js";
import { asking } from "./asking.js";
import { joined, runBar } from "./connection.js";
import { eachLine } from "./lines.js";
import { visit } from "./visit.js";

const WITHOUT = new Set(["wire", "loaded", "done", "nav", "address", "selection", "chat"]); // each has a field of its own
let shown = {};
let number = 0; // of the newest question
let under = null; // its AbortController
let timer = 0;

const held = (name) => mounted.get(name)?.props.value;
function question() {
  const values = {};
  for (const [name, { props }] of mounted)
    if (!WITHOUT.has(name) && props.value !== undefined) values[name] = props.value;
  return {
    model: held("loaded")?.id,
    prompt: promptText(),
    chat: held("chat"),
    selection: held("selection"),
    tab: held("nav")?.tab,
    step: held("address")?.n,
    done: held("done") ?? "",
    values,
    shown,
  };
}

function take({ early, running, parts, ...rest }) {
  if (running) runBar.show(running);
  if (early) {
    // What is shown now may be of another run than the answer's: it has to come with the answer.
    for (const name of Object.keys(early)) delete shown.drawn?.[name];
    showEarly(early);
  }
  if (!parts) return;
  runBar.hide();
  caughtUp();
  ({ shown } = rest);
  for (const [name, payload] of Object.entries(parts)) mounted.get(name)?.show(payload);
}

async function send() {
  timer = 0;
  number += 1;
  const mine = number;
  under?.abort();
  under = new AbortController();
  const { signal } = under;
  const body = JSON.stringify({ visit: await visit, ...question() });
  const options = { method: "POST", body, signal, headers: { "content-type": "application/json" } };
  try {
    for (let whole = false; !whole; ) {
      const answer = await joined(`playground/view${location.search}`, options);
      if (!answer.ok) return;
      await eachLine(answer.body, (line) => {
        whole ||= Boolean(line.parts);
        if (mine === number) take(line);
      });
    }
  } catch (error) {
    if (!signal.aborted) throw error;
  }
}

// One question for all that changes in the same moment.
const ask = () => {
  if (!timer) timer = setTimeout(send);
};

define("wire", (root) => {
  root.hidden = true;
  return (payload) => {
    ({ shown } = payload);
    asking.ask = ask;
    ask();
  };
});
define("note", (root) => {
  root.hidden = true;
  return Object.assign(() => {}, { given: ask });
});
