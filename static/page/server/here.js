// Tells the server that this page is open, by the line that all pages of a browser share.
import { holdLock, line, onceFree, opener } from "./line.js";

const said = new Set();

// From now on this page is open as `visit`; `lost()` is called when the line ends, which may mean that the server has.
export function stay(visit, lost) {
  if (!visit || said.has(visit)) return;
  said.add(visit);
  const address = new URL("gradio_api/heartbeat/", document.baseURI).href;
  let worker = null,
    locked = false,
    own = null;
  const tell = (here) => worker?.port.postMessage({ visit, here, locked });
  const alone = () => {
    own ??= line(opener(address), lost);
    own.add(visit);
  };

  // The worker may end with the page that began it: then there is another one.
  function share() {
    const from = new URL("./line_worker.js", import.meta.url);
    const mine = new SharedWorker(from, { type: "module", name: address });
    worker = mine;
    const ended = () => {
      if (mine === worker && !own) share();
    };
    mine.onerror = alone;
    mine.port.onmessage = ({ data }) => (data === "lost" ? lost() : onceFree(address, ended));
    tell(true);
  }

  try {
    if (!navigator.locks) return alone(); // nobody would notice the end of a page or of the worker
    share();
  } catch {
    return alone(); // a browser without such workers, or a frame that may have none
  }
  holdLock(visit, () => {
    locked = true;
    tell(true);
  });
  window.addEventListener("pagehide", () => tell(false));
  window.addEventListener("pageshow", ({ persisted }) => persisted && tell(true));
}
