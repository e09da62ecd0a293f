// The connection that tells the server which pages are open. Work started by a page continues while it is connected.
//
// A browser allows six connections to a server for all pages, so one connection represents all of them. When a page
// joins, the next connection opens before the previous one closes, so that the other pages never appear to leave.
const PAUSE = 1000, // milliseconds until a closed connection is reopened
  MOST = 256; // maximum number of pages per connection, as in viz/server/here.py; the newest are kept

// Create a connection. `open(visits, signal)` resolves to the server's response, which lasts as long as the connection;
// `lost()` is called whenever a connection ends unexpectedly or cannot be opened.
export function line(open, lost, pause = PAUSE) {
  const visits = new Set();
  let now = null; // the controller of the newest connection

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
        while (!(await reader.read()).done); // the content is irrelevant
      } catch {
        /* an error is treated like a closed connection */
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

// Return a function that opens connections at an address.
export const opener = (address) => (visits, signal) => fetch(address + visits.join(","), { signal, cache: "no-store" });

// Locks, which the browser releases no matter how their holder ends.
const named = (name) => `playground ${name}`;
export const holdLock = (name, then) =>
  navigator.locks.request(named(name), () => {
    then();
    return new Promise(() => {});
  });
export const onceFree = (name, then) => navigator.locks.request(named(name), then);
