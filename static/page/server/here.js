// Reports to the server that this page is open, over the connection shared by all pages of a browser.
import { holdLock, line, onceFree, opener } from "./line.js";

const said = new Set();

// Register this page as open under the name `visit`. `lost()` is called when the connection ends, possibly because the
// server has stopped.
export function stay(visit, lost) {
  if (!visit || said.has(visit)) return;
  said.add(visit);
  const address = new URL("playground/here/", document.baseURI).href;
  let newest = null,
    own = null;
  const alone = () => {
    own ??= line(opener(address), lost);
    own.add(visit);
  };

  // The worker may end with the page that started it; if it does, start another one.
  function share() {
    const worker = new SharedWorker(new URL("./line_worker.js", import.meta.url), { type: "module", name: address });
    newest = worker;
    const ended = () => {
      if (worker === newest && !own) share();
    };
    worker.onerror = alone;
    worker.port.onmessage = ({ data }) => (data === "lost" ? lost() : onceFree(address, ended));
    worker.port.postMessage(visit);
  }

  // If the browser lacks shared workers, or locks to detect that a page has closed, this page holds its own connection.
  if (navigator.locks) holdLock(visit, share).catch(alone);
  else alone();
}
