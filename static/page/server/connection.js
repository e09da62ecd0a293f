// While the server cannot be reached, or is too busy: the page says so, keeps what it shows, and goes on by itself.
//
// A request waits here until it can be answered. Only another server than the one that made this page takes a new page;
// what is in the address comes back with it.
import { el } from "../dom.js";
import { pageState } from "../state.js";
import { visit } from "../wire/visit.js";
import { stay } from "./here.js";
import { identity, words } from "./identity.js";

const PAUSES = [1, 2, 3, 5]; // seconds between two attempts to reach the server
const LOOK = 15_000; // milliseconds between two looks for a server that seems to be there
const MOST_TRIES = 24; // of a question to a server that is busy
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
const aLittle = (limit) => limit * Math.random(); // so that not all pages send at the same moment
window.addEventListener("online", () => wake());

// --- reaching the server ---

async function probe(patience = 2500) {
  try {
    const answer = await fetch("playground/alive", { cache: "no-store", signal: AbortSignal.timeout(patience) });
    return answer.headers.get(HEADER) ?? "";
  } catch {
    return "";
  }
}

let reaching = null;
let leaving = false; // then every request ends, without a message
window.addEventListener("pagehide", () => {
  leaving = true;
});
window.addEventListener("pageshow", () => {
  leaving = false;
});
// Resolves once this server answers again; where another one does, the page is opened anew.
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
// Called before the page is opened anew, to keep what it shows.
export const onReopen = (listener) => {
  keep = listener;
};

// Servers that take turns behind one address would have a page opened for ever: three times a minute at most.
export function reopen() {
  const now = Date.now(),
    key = "playground-reopened";
  let before = [];
  try {
    before = JSON.parse(sessionStorage.getItem(key) ?? "[]").filter((at) => now - at < 60_000);
  } catch {
    /* none */
  }
  if (before.length >= 3) {
    say("lost");
    return never;
  }
  try {
    sessionStorage.setItem(key, JSON.stringify([...before, now]));
  } catch {
    /* then it is not counted */
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
const isGone = (answer) => answer.status >= 500 && !answer.headers.has(HEADER); // a proxy answers in its place

// A request that is repeated until the server is there and has room for it.
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

// --- signs of life ---

stay(visit, () => leaving || reachable());

// A connection that hangs does not end, so the page also looks for itself.
const look = async () => {
  if (!document.hidden && !reaching && (await probe(10_000)) !== identity.server) reachable();
};
setInterval(look, LOOK);
document.addEventListener("visibilitychange", look);
