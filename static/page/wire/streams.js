// Events of streams: a part's script sends one and draws what its handler answers (viz/page/wire/streams.py).
import { mounted } from "../mount.js";
import { reachable, reopen } from "../server/connection.js";
import { choices, openModel } from "./models.js";
import { post } from "./post.js";

const busy = new Set(), // "part event" of those under way
  next = new Map(); // what is sent once they have ended
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
      if (payload?.error) busy.delete(key); // it is the last line: who reads it may try again at once
      if (payload) mounted.get(part)?.show(payload);
      if (models) choices(models);
      if (open) openModel(open);
    });
  } catch (error) {
    console.warn(error);
    await reachable(); // what was under way is gone with the connection
    await reopen();
  } finally {
    busy.delete(key);
  }
  if (!next.has(key)) return;
  const last = next.get(key);
  next.delete(key);
  stream(part, event, last);
}
