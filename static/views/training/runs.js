// The training runs of this page: their data so far, and the selection of displayed runs.
import { noteRun } from "../../page/state.js";
import { keepPage, returned } from "../../page/wire/visit.js";
import { feed } from "../../parts/feed.js";

export const runs = new Map(); // id -> run, with all data received from the server
const listeners = new Set();
export const lab = { runs, current: null, other: null, head: null, error: null, words: null, send: null };
const tell = (what) => listeners.forEach((listener) => listener(what));
// Register a listener for new data ("data") and for changes of the displayed run ("choice").
export const changed = (listener) => listeners.add(listener);
export const choose = (change) => {
  Object.assign(lab, change);
  tell("choice");
};

keepPage(() => [...runs.values()].some(({ over, reports, note }) => !note && (!over || reports.length)));

export function decode(base64, type) {
  return new type(Uint8Array.from(atob(base64), (c) => c.charCodeAt(0)).buffer);
}

// Store the pieces in order; if any were missed, request them.
export function take(piece) {
  lab.error = piece.error ?? null;
  if (piece.run) {
    const run = runs.get(piece.run) ?? { id: piece.run, reports: [], snapshots: [] };
    if (piece.from_report > run.reports.length || piece.from_snapshot > run.snapshots.length) {
      lab.send("again", { run: run.id, reports: run.reports.length, snapshots: run.snapshots.length });
      return;
    }
    run.reports.push(...piece.reports.slice(run.reports.length - piece.from_report));
    for (const snapshot of piece.snapshots.slice(run.snapshots.length - piece.from_snapshot)) {
      snapshot.weights = decode(snapshot.patterns, Uint16Array); // [L, H, T, T], where 65535 stands for 1
      delete snapshot.patterns;
      run.snapshots.push(snapshot);
    }
    const { reports, snapshots, ...rest } = piece;
    if (!run.note && !piece.note) for (const { id, note } of [...runs.values()]) if (note) runs.delete(id);
    const fresh = !runs.has(run.id);
    Object.assign(run, rest);
    runs.set(run.id, run);
    if (!run.note) noteRun("training_lab", run); // only a stored run has a note, about its origin
    if (fresh) lab.current = run.id;
  }
  tell("data");
}

lab.send = feed("training_run", take);
if (returned) lab.send("return");
