// The line by which the server knows which pages are open: what a page had begun goes on while a line names it.
//
// A browser has six connections to a server for all its pages, so that one line speaks for all of them. The next one is
// open before the last is let go: who stays on it never seems to leave.
const PAUSE = 1000, // milliseconds before a line that ended is opened again
  MOST = 256; // pages of one line, as in viz/server/here.py; the newest of more

// `open(visits, signal)` resolves to the server's response, which lasts as long as the line; `lost()` is told each time
// that a line ended by itself or could not be opened.
export function line(open, lost, pause = PAUSE) {
  const visits = new Set();
  let now = null; // the controller of the newest line

  async function hold() {
    const before = now,
      mine = new AbortController();
    now = mine;
    if (!visits.size) before?.abort();
    while (visits.size && now === mine) {
      try {
        const reader = (await open([...visits].slice(-MOST), mine.signal)).body.getReader();
        await reader.read();
        before?.abort();
        while (!(await reader.read()).done); // it says nothing that matters
      } catch {
        /* the same as its end */
      }
      before?.abort();
      if (now !== mine) return;
      lost();
      await new Promise((done) => setTimeout(done, pause));
    }
  }

  return {
    add(visit) {
      if (visits.has(visit)) return;
      visits.add(visit);
      hold();
    },
    remove(visit) {
      if (visits.delete(visit)) hold();
    },
  };
}

// What opens lines at an address, that of a line for no page.
export const opener = (address) => (visits, signal) => fetch(address + visits.join(","), { signal, cache: "no-store" });

// A lock, which goes with whoever holds it, however that ends.
const named = (name) => `playground ${name}`;
export const holdLock = (name, then) =>
  navigator.locks.request(named(name), () => {
    then();
    return new Promise(() => {});
  });
export const onceFree = (name, then) => navigator.locks.request(named(name), then);
