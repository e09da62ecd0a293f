// Handling of an unreachable or busy server: the page shows a notice, keeps its content, and recovers automatically.
//
// A request waits until it can be answered. The page reloads only if a different server answers, and then restores the
// state in its address.
import { el } from "../dom.js";
import { pageState } from "../state.js";
import { visit } from "../wire/visit.js";
import { stay } from "./here.js";
import { identity, words } from "./identity.js";

const PAUSES = [1, 2, 3, 5]; // seconds between attempts to reach the server
const LOOK = 15_000; // milliseconds between checks of whether the server is still reachable
const MOST_TRIES = 24; // maximum number of attempts while the server is busy
const HEADER = "x-playground-server";
const never = new Promise(() => {});

// --- the notice ---

let box = null,
  kind = "",
  wake = () => {};
function say(next) {
  if (next === kind) return;
  kind = next;
  box ??= (document.querySelector(".gradio-container") ?? document.body).appendChild(
    el("div", "pg-connection", "", { role: "status", "aria-live": "polite" }),
  );
  box.dataset.kind = kind;
  const { documentElement: whole } = document;
  whole.toggleAttribute("data-pg-lost", kind === "lost");
  whole.style.setProperty("--pg-unopened", JSON.stringify(words.unopened)); // shown by a tab that was never opened
  const texts = [words[kind] ?? "", words[`${kind}_hint`] ?? ""].filter(Boolean);
  const items = texts.map((text, i) => el(i ? "span" : "strong", "", text));
  if (kind === "lost") {
    items.push(el("button", "pg-button", words.now, { type: "button" }));
    items.at(-1).onclick = () => wake();
  }
  box.replaceChildren(...items);
}
const calm = () => {
  if (kind && kind !== "back") say("");
};
const sleep = (seconds) => new Promise((resolve) => setTimeout(resolve, 1000 * seconds));
const aLittle = (limit) => limit * Math.random(); // spreads the requests of many pages over time
window.addEventListener("online", () => wake());

// --- recovery ---

async function probe(patience = 2500) {
  try {
    const answer = await fetch("playground/alive", { cache: "no-store", signal: AbortSignal.timeout(patience) });
    return answer.headers.get(HEADER) ?? "";
  } catch {
    return "";
  }
}

let reaching = null;
let leaving = false; // true while the page unloads: requests then end without a notice
window.addEventListener("pagehide", () => {
  leaving = true;
});
window.addEventListener("pageshow", () => {
  leaving = false;
});
// Resolve once this server answers again; reload the page if a different server answers.
export const reachable = () =>
  (reaching ??= (async () => {
    for (let n = 0; ; n++) {
      const server = await probe();
      if (server === identity.server) break;
      if (server) return reopen();
      if (!leaving) say("lost");
      const called = new Promise((resolve) => {
        wake = resolve;
      });
      await Promise.race([called, sleep(PAUSES[Math.min(n, PAUSES.length - 1)] + aLittle(0.5))]);
    }
    calm();
  })().finally(() => {
    reaching = null;
  }));

let keep = () => {};
// Register a listener that saves the page's state before a reload.
export const onReopen = (listener) => {
  keep = listener;
};

// Reload the page at most three times per minute: alternating servers would otherwise cause endless reloads.
export function reopen() {
  const now = Date.now(),
    key = "playground-reopened";
  let before = [];
  try {
    before = JSON.parse(sessionStorage.getItem(key) ?? "[]").filter((at) => now - at < 60_000);
  } catch {
    /* there is no valid record */
  }
  if (before.length >= 3) {
    say("lost");
    return never;
  }
  try {
    sessionStorage.setItem(key, JSON.stringify([...before, now]));
  } catch {
    /* storage is unavailable: this reload is not counted */
  }
  say("back");
  setTimeout(() => {
    keep();
    pageState.leaving = true;
    location.reload();
  }, 300 + aLittle(1200));
  return never;
}

const isOther = (answer) => (answer.headers.get(HEADER) ?? identity.server) !== identity.server;
const isGone = (answer) => answer.status >= 500 && !answer.headers.has(HEADER); // true if a proxy answered

// Repeat a request until the server is reachable and has capacity.
export async function reached(input, options) {
  for (let tries = 0; ; tries++) {
    let answer = null;
    try {
      answer = await fetch(input, options);
    } catch (error) {
      if (options?.signal?.aborted) throw error;
    }
    if (!answer || isGone(answer)) {
      await reachable();
      continue;
    }
    if (isOther(answer)) return reopen();
    if (![429, 503].includes(answer.status) || tries >= MOST_TRIES) {
      calm();
      return answer;
    }
    if (tries) say("busy");
    await sleep(Math.min(8, +answer.headers.get("retry-after") || 0.5 * 2 ** tries) + aLittle(0.5));
  }
}

// --- liveness ---

stay(visit, () => leaving || reachable());

// A stalled connection does not report an error, so the page also polls.
const look = async () => {
  if (!document.hidden && !reaching && (await probe(10_000)) !== identity.server) reachable();
};
setInterval(look, LOOK);
document.addEventListener("visibilitychange", look);
