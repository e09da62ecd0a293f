// Tells the server that this page is open, by the line that all pages of a browser share.
import { holdLock, line, onceFree, opener } from "./line.js";

const said = new Set();

// From now on this page is open as `visit`; `lost()` is called when the line ends, which may mean that the server has.
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

  // The worker may end with the page that began it: then there is another one.
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

  // A browser may have no such workers, or a frame none; and without locks nobody would notice the end of a page.
  if (navigator.locks) holdLock(visit, share).catch(alone);
  else alone();
}
