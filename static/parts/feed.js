// Invisible channels to the server: a script sends events and receives the responses.
import { define } from "../page/mount.js";

const takers = new Map(); // part name -> { take, send, unsent }

// Open the channel of this name: `take(payload)` receives responses. Returns send(event, value); without a value, the
// previous one is sent. Events sent before the channel is mounted are queued.
export function feed(name, take) {
  const one = { take, send: (...given) => one.unsent.push(given), unsent: [] };
  takers.set(name, one);
  return (event, value) => one.send(event, value);
}

define("feed", (root, props, ask) => {
  const one = takers.get(root.dataset.part);
  one.send = (event, value) => {
    if (value) props.value = value;
    ask(event);
  };
  setTimeout(() => one.unsent.splice(0).forEach((given) => one.send(...given)));
  return (payload) => payload && one.take(payload);
});
