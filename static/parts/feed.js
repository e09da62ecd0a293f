// Channels to the server, of which nothing is seen: a script sends events and takes what is answered.
import { define } from "../page/mount.js";

const takers = new Map(); // name of a part -> { take, send, unsent }

// The channel of this name: `take(payload)` hears what comes. Returns send(event, value); without a value the one sent
// before stays. What is sent before the channel is on the page waits for it.
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
