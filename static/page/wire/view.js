// The page's questions: settings and content are sent by POST, and the answer arrives as lines of JSON
// (viz/page/wire/view.py). A newer question closes the previous request, which ends the computation on the server.
import { caughtUp, showEarly, showParts } from "../mount.js";
import { reachable } from "../server/connection.js";
import { runBar } from "../server/running.js";
import { post } from "./post.js";
import { isWhole, page } from "./question.js";

const LOOK = 20; // milliseconds between checks that the page is complete
let number = 0, // sequence number of the newest question
  under = null, // its AbortController
  timer = 0,
  due = null; // a promise shared by all callers waiting for the newest answer

function take({ early, running, parts, shown }) {
  if (running) runBar.show(running);
  if (early) {
    // The current content may come from another run than the answer, so the answer must include all of it.
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
      break; // the question was answered or rejected
    } catch (error) {
      if (signal.aborted) return;
      console.warn(error);
      await reachable(); // repeat a question whose answer was cut off
      if (mine !== number) return;
    }
  }
  if (mine !== number) return;
  runBar.hide();
  caughtUp(); // also after a rejected question
  if (timer) return; // a newer question is pending
  due?.resolve();
  due = null;
}

// Request everything that has changed, with a single question per event-loop task. Resolves when it or a newer question
// has been answered.
export function ask() {
  timer ||= setTimeout(send);
  due ??= Promise.withResolvers();
  return due.promise;
}
