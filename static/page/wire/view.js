// The page's questions: what it is set to and what it shows goes by POST, the answer comes as lines of JSON
// (viz/page/wire/view.py). A newer question closes the request of the one before, which ends its work.
//
// payload of "wire": { shown }: what the page came with.
import { caughtUp, define, mounted, showEarly } from "../mount.js";
import { reachable, runBar } from "../server/connection.js";
import { asking } from "./asking.js";
import { job } from "./jobs.js";
import { followLink } from "./link.js";
import { again, cancel, choose, onPut, pickerUpdate } from "./models.js";
import { ask as post } from "./post.js";
import { page } from "./question.js";
import { isStream, setModes, stream } from "./streams.js";

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
  for (let whole = false; !whole && mine === number; ) {
    const shown = (line) => {
      whole ||= Boolean(line.parts);
      if (mine === number) take(line);
    };
    try {
      await post("view", {}, shown, signal);
      if (!whole) return; // it was refused
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

// What a part's script asks for beside its pictures.
const events = { select: ask, cancel, retry: again, follow: again, restore: followLink };
const event = (part, name, value) => (isStream(part) ? stream(part, name, value) : events[name](value));

define("wire", (root, _props, trigger) => {
  root.hidden = true;
  onPut(() => trigger("put", { index: 0, value: "" }));
  return (payload) => {
    page.shown = payload.shown;
    setModes(payload.modes);
    Object.assign(asking, { ask, job, event, pickerUpdate, choose });
    ask();
  };
});
define("note", (root) => {
  root.hidden = true;
  return () => {};
});
