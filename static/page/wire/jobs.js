// Jobs: each is one request, whose response lines report the progress. Closing the request ends the job.
import { mounted } from "../mount.js";
import { reachable } from "../server/connection.js";
import { post } from "./post.js";
import { page } from "./question.js";
import { ask } from "./view.js";
import { keepPage } from "./visit.js";

const LONG = 10_000; // milliseconds after which leaving the page would lose the work of a job
const running = new Map(); // part -> the AbortController of its request
const since = new WeakMap(); // AbortController -> time at which its job started
keepPage(() => [...running.values()].some((each) => performance.now() - since.get(each) > LONG));

async function start(part) {
  running.get(part)?.abort();
  const controller = new AbortController(),
    show = (payload) => payload && running.get(part) === controller && mounted.get(part)?.show(payload);
  running.set(part, controller);
  since.set(controller, performance.now());
  const { signal } = controller;
  let stopped = null;
  try {
    const take = (line) => {
      stopped ??= line.stopped;
      show(line.bar);
      if (!line.done) return;
      page.done = line.done;
      ask();
    };
    await post("job", { part }, take, signal);
  } catch (error) {
    if (!signal.aborted) await reachable(); // the server has stopped, and the job with it
    show(stopped);
    if (!signal.aborted && !stopped) throw error;
  } finally {
    if (running.get(part) === controller) running.delete(part);
  }
}

export function job(event, part) {
  if (event === "cancel") running.get(part)?.abort();
  else start(part);
}
