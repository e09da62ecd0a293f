// The name by which the server knows this page, an unguessable secret. A reload hands it to the next page of the same
// browser tab, if there is work on the server to find again; while a page is open, no other one can take it.
import { pageState } from "../state.js";

const KEY = "playground-visit";
const JOBS = "playground-jobs";
function handed(key) {
  try {
    const text = sessionStorage.getItem(key) ?? "";
    sessionStorage.removeItem(key);
    return text;
  } catch {
    return ""; // storage is unavailable
  }
}
const name = handed(KEY),
  before = /^[0-9a-f]{32}$/.test(name) ? name : "",
  bytes = crypto.getRandomValues(new Uint8Array(16)); // `randomUUID` requires https or localhost

// True if this page has the name of the page before its reload.
export const returned = Boolean(before);
// The jobs that were running on the page before, by part.
export const jobsBefore = handed(JOBS).split(" ").filter(Boolean);
export const visit = before || Array.from(bytes, (each) => each.toString(16).padStart(2, "0")).join("");

export function forgetVisit() {
  try {
    sessionStorage.removeItem(KEY);
  } catch {
    /* storage is unavailable: there is no name to forget */
  }
}

// Register a function that returns whether leaving the page would lose work. Leaving then asks, and a reload hands on the
// page's name, by which it finds its runs again. `announce` is called before the page may be left.
const reasons = [];
const announcements = [];
export function keepPage(reason, announce) {
  reasons.push(reason);
  if (announce) announcements.push(announce);
}
const isKept = () => reasons.some((reason) => reason());
let jobs = () => [];
// Set the function that returns the jobs to hand on, by part.
export const handJobs = (running) => {
  jobs = running;
};
window.addEventListener("pagehide", () => {
  try {
    if (!isKept()) return;
    sessionStorage.setItem(KEY, visit);
    sessionStorage.setItem(JOBS, jobs().join(" "));
  } catch {
    /* storage is unavailable: the next page cannot find the runs */
  }
});
// The page does not ask if it reloads itself. Gradio closes its connection on this event, which must not happen if the
// user stays.
window.addEventListener(
  "beforeunload",
  (event) => {
    if (!isKept()) return;
    for (const announce of announcements) announce();
    if (pageState.leaving) return;
    event.preventDefault();
    event.stopImmediatePropagation();
  },
  { capture: true },
);
