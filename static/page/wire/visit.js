// The name by which the server knows this page, an unguessable secret. A reload hands it to the next page of the same
// browser tab, if there is work on the server to find again; while a page is open, no other one can take it.
import { pageState } from "../state.js";

const KEY = "playground-visit";
function handed() {
  try {
    const name = sessionStorage.getItem(KEY) ?? "";
    sessionStorage.removeItem(KEY);
    return /^[0-9a-f]{32}$/.test(name) ? name : "";
  } catch {
    return ""; // storage is unavailable
  }
}
const before = handed(),
  bytes = crypto.getRandomValues(new Uint8Array(16)); // `randomUUID` requires https or localhost

// True if this page has the name of the page before its reload.
export const returned = Boolean(before);
export const visit = before || Array.from(bytes, (each) => each.toString(16).padStart(2, "0")).join("");

export function forgetVisit() {
  try {
    sessionStorage.removeItem(KEY);
  } catch {
    /* storage is unavailable: there is no name to forget */
  }
}

// Register a function that returns whether leaving the page would lose work. Leaving then asks, and a reload hands on the
// page's name, by which it finds its runs again.
const reasons = [];
export const keepPage = (reason) => reasons.push(reason);
const isKept = () => reasons.some((reason) => reason());
window.addEventListener("pagehide", () => {
  try {
    if (isKept()) sessionStorage.setItem(KEY, visit);
  } catch {
    /* storage is unavailable: the next page cannot find the runs */
  }
});
// The page does not ask if it reloads itself. Gradio closes its connection on this event, which must not happen if the
// user stays.
window.addEventListener(
  "beforeunload",
  (event) => {
    if (pageState.leaving || !isKept()) return;
    event.preventDefault();
    event.stopImmediatePropagation();
  },
  { capture: true },
);
