// A shared worker that holds one presence connection for all pages of a browser. It ends with the last page.
import { holdLock, line, onceFree, opener } from "./line.js";

const ports = new Set();
const shared = line(opener(self.name), () => ports.forEach((port) => port.postMessage("lost")));

// The worker's lock tells the pages whether it is alive: it may end with the page that started it.
let held = false;
holdLock(self.name, () => {
  held = true;
  for (const port of ports) port.postMessage("held");
});

// Each page holds a lock and sends the lock's name; the browser releases it no matter how the page ends.
self.onconnect = ({ ports: [port] }) => {
  ports.add(port);
  if (held) port.postMessage("held");
  port.onmessage = ({ data: visit }) => {
    shared.add(visit);
    onceFree(visit, () => {
      ports.delete(port);
      shared.remove(visit);
    });
  };
};
