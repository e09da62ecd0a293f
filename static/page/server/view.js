// The page's questions: what it is set to and what it shows goes by POST, the answer comes as lines of JSON
// (viz/page/wire.py). A newer question closes the request of the one before, which ends its work.
//
// payload of "wire": { shown }: what the page came with.
import { caughtUp, define, mounted, showEarly } from "../mount.js";
import { asking } from "./asking.js";
import { joined, reachable, runBar } from "./connection.js";
import { job } from "./jobs.js";
import { eachLine } from "./lines.js";
import { page, question } from "./question.js";

let number = 0; // of the newest question
let under = null; // its AbortController
let timer = 0;

function take({ early, running, parts, ...rest }) {
  if (running) runBar.show(running);
  if (early) {
    // What is shown now may be of another run than the answer's: it has to come with the answer.
    for (const name of Object.keys(early)) delete page.shown.drawn?.[name];
    showEarly(early);
  }
  if (!parts) return;
  runBar.hide();
  caughtUp();
  page.shown = rest.shown;
  for (const [name, payload] of Object.entries(parts)) mounted.get(name)?.show(payload);
}

async function send() {
  timer = 0;
  number += 1;
  const mine = number;
  under?.abort();
  under = new AbortController();
  const { signal } = under;
  const body = JSON.stringify(await question());
  const options = { method: "POST", body, signal, headers: { "content-type": "application/json" } };
  for (let whole = false; !whole && mine === number; ) {
    try {
      const answer = await joined(`playground/view${location.search}`, options);
      if (!answer.ok) return;
      await eachLine(answer.body, (line) => {
        whole ||= Boolean(line.parts);
        if (mine === number) take(line);
      });
    } catch (error) {
      if (signal.aborted) return;
      console.warn(error);
      await reachable(); // an answer that was cut off is asked for again
    }
  }
}

// One question for all that changes in the same moment.
const ask = () => {
  if (!timer) timer = setTimeout(send);
};

define("wire", (root) => {
  root.hidden = true;
  return (payload) => {
    page.shown = payload.shown;
    Object.assign(asking, { ask, job });
    ask();
  };
});
define("note", (root) => {
  root.hidden = true;
  return Object.assign(() => {}, { given: ask });
});
