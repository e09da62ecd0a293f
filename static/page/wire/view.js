// The page's questions: what it is set to and what it shows goes by POST, the answer comes as lines of JSON
// (viz/page/wire/view.py). A newer question closes the request of the one before, which ends its work.
import { caughtUp, showEarly, showParts } from "../mount.js";
import { reachable } from "../server/connection.js";
import { runBar } from "../server/running.js";
import { post } from "./post.js";
import { isWhole, page } from "./question.js";

const LOOK = 20; // milliseconds between two looks whether the page is there
let number = 0, // of the newest question
  under = null, // its AbortController
  timer = 0,
  due = null; // a promise for all who wait for the newest answer

function take({ early, running, parts, shown }) {
  if (running) runBar.show(running);
  if (early) {
    // What is shown now may be of another run than the answer's: it has to come with the answer.
    for (const name of Object.keys(early)) delete page.shown.drawn?.[name];
    showEarly(early);
  }
  if (!parts) return;
  caughtUp();
  page.shown = shown;
  showParts(parts);
}

async function send() {
  timer = isWhole() ? 0 : setTimeout(send, LOOK);
  if (timer) return;
  number += 1;
  under?.abort();
  under = new AbortController();
  const mine = number,
    { signal } = under;
  for (let whole = false; !whole; ) {
    const heard = (line) => {
      whole ||= Boolean(line.parts);
      if (mine === number) take(line);
    };
    try {
      await post("view", {}, heard, signal);
      break; // answered, or refused
    } catch (error) {
      if (signal.aborted) return;
      console.warn(error);
      await reachable(); // an answer that was cut off is asked for again
      if (mine !== number) return;
    }
  }
  if (mine !== number) return;
  runBar.hide();
  caughtUp(); // of a question that was refused
  if (timer) return; // a newer one is on its way
  due?.resolve();
  due = null;
}

// Ask for what has changed: one question for all that changes in the same moment. Resolves once it is answered, or a
// newer one is.
export function ask() {
  timer ||= setTimeout(send);
  due ??= Promise.withResolvers();
  return due.promise;
}
