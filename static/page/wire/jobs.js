// Jobs: each is one request, whose response lines report the progress. Closing the request ends the job, unless the server
// was told to keep it: a reload finds it again.
import { mounted } from "../mount.js";
import { reachable } from "../server/connection.js";
import { post, tell } from "./post.js";
import { page } from "./question.js";
import { ask } from "./view.js";
import { handJobs, jobsBefore, keepPage } from "./visit.js";

const LONG = 10_000; // milliseconds after which leaving the page would lose the work of a job
const running = new Map(); // part -> the AbortController of its request
const since = new WeakMap(); // AbortController -> time at which its job started; below 0 for one of the page before
const long = () => [...running.keys()].filter((part) => performance.now() - since.get(running.get(part)) > LONG);
const keep = (parts, value) => parts.forEach((part) => tell("job", { part, keep: value }));
keepPage(
  () => long().length > 0,
  () => keep(long(), true),
);
handJobs(long);

async function start(part, more = {}) {
  running.get(part)?.abort();
  const controller = new AbortController(),
    show = (payload) => payload && running.get(part) === controller && mounted.get(part)?.show(payload);
  running.set(part, controller);
  since.set(controller, more.resume ? -LONG : performance.now());
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
    await post("job", { part, ...more }, take, signal);
  } catch (error) {
    if (!signal.aborted) await reachable(); // the server has stopped, and the job with it
    show(stopped);
    if (!signal.aborted && !stopped) throw error;
  } finally {
    if (running.get(part) === controller) running.delete(part);
  }
}

export function job(event, part) {
  if (event !== "cancel") start(part);
  else if (running.has(part)) {
    keep([part], false); // the user stayed, although leaving was announced
    running.get(part).abort();
  }
}

for (const part of jobsBefore) start(part, { resume: true });
