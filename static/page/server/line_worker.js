// One line for all pages of a browser: a worker that they share, and that goes when the last of them does.
import { holdLock, line, onceFree, opener } from "./line.js";

const ports = new Set();
const shared = line(opener(self.name), () => ports.forEach((port) => port.postMessage("lost")));

// The pages know by its lock whether this worker is still there: it may end with the page that began it.
let held = false;
holdLock(self.name, () => {
  held = true;
  for (const port of ports) port.postMessage("held");
});

// A page that holds its lock says who it is; however it ends, the lock is free then.
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
