// Stream events: a part's script sends an event and draws the responses of its handler (viz/page/wire/streams.py).
import { mounted } from "../mount.js";
import { reachable, reopen } from "../server/connection.js";
import { choices, openModel } from "./models.js";
import { post } from "./post.js";

const busy = new Set(), // "part event" of the streams in progress
  next = new Map(); // events to send once these have ended
let modes = {}; // { part: { event: "once" | "multiple" | "always_last" } }
export const setModes = (given) => {
  modes = given;
};
export const isStream = (part) => Object.hasOwn(modes, part);

export async function stream(part, event, sent) {
  const mode = modes[part][event],
    key = `${part} ${event}`;
  if (mode !== "multiple" && busy.has(key)) {
    if (mode === "always_last") next.set(key, sent);
    return;
  }
  busy.add(key);
  try {
    await post("stream", { part, event, sent }, ({ payload, models, open }) => {
      if (payload?.error) busy.delete(key); // an error is the last line, so the event may be retried at once
      if (payload) mounted.get(part)?.show(payload);
      if (models) choices(models);
      if (open) openModel(open);
    });
  } catch (error) {
    console.warn(error);
    await reachable(); // work in progress is lost with the connection
    await reopen();
  } finally {
    busy.delete(key);
  }
  if (!next.has(key)) return;
  const last = next.get(key);
  next.delete(key);
  stream(part, event, last);
}
