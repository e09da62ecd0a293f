// While the server cannot be reached, or is too busy: the page says so, keeps what it shows, and goes on by itself.
//
// Everything Gradio asks goes through `fetch`. Here a question waits until it can be answered, so that Gradio, which
// would give up at the first failure, never sees one. Only another server than the one that made this page, or an
// answer that was cut off, takes a new page; what is in the address comes back with it.
import { link, state } from "../address/address.js";
import { el } from "../dom.js";
import { promptText } from "../prompt/prompt.js";
import { pageState } from "../state.js";
import { asking } from "../wire/asking.js";
import { nameVisit } from "../wire/visit.js";
import { stay } from "./here.js";
import { goingOn, pending } from "./pending.js";
import { tellOfRuns } from "./running.js";

const identity = JSON.parse(document.getElementById("pg-connection-words").content); // { server, words: { en, zh } }
const PAUSES = [1, 2, 3, 5]; // seconds between two attempts to reach the server
const LOOK = 15_000; // milliseconds between two looks for a server that seems to be there
const MOST_TRIES = 24; // of a question to a server that is busy
const HEADER = "x-playground-server";
const SESSION = /"session_hash":"([\w-]+)"/;
const ask = window.fetch.bind(window);
const never = new Promise(() => {});
const questions = pending();

// As viz/words.py:pick_language: "pt-br" where there are such words, else "pt".
const languages = [new URLSearchParams(location.search).get("lang") ?? "", ...navigator.languages]
  .map((tag) => tag.toLowerCase().replaceAll("_", "-"))
  .flatMap((tag) => tag.split("-").map((_, i, parts) => parts.slice(0, parts.length - i).join("-")));
const language = languages.find((tag) => Object.hasOwn(identity.words, tag)) ?? "en";
const words = identity.words[language];

const runs = tellOfRuns(questions.waiting, ask, words);
export const runBar = runs.bar;

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
    const answer = await ask("playground/alive", { cache: "no-store", signal: AbortSignal.timeout(patience) });
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

// What was typed meanwhile was never drawn, so the address does not hold it yet.
function keep() {
  const typed = promptText();
  if (typed === undefined || !pageState.shown || typed === pageState.shown.prompt) return;
  pageState.shown = { ...pageState.shown, prompt: typed };
  const address = link();
  const here = address ? history.state : { ...history.state, playground: state() };
  history.replaceState(here, "", address ?? location.pathname + location.search);
}

const isOther = (answer) => (answer.headers.get(HEADER) ?? identity.server) !== identity.server;
const isGone = (answer) => answer.status >= 500 && !answer.headers.has(HEADER); // a proxy answers in its place

// --- Gradio's requests ---

// A question with its number: two that are asked in the same moment may arrive in any order (viz/page/turns.py).
let asked = Date.now(); // beyond what the server counted of a page before this script ran
function numbered(input, options) {
  const headers = new Headers(options?.headers ?? input.headers);
  headers.set("x-playground-question", ++asked);
  return { ...options, headers };
}

// A request that is repeated until the server is there and has room for it.
export async function joined(input, options) {
  for (let tries = 0; ; tries++) {
    let answer = null;
    try {
      answer = await ask(input, options);
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

// The answers: one that is cut off does not come a second time.
async function answers(input, options) {
  for (;;) {
    let answer = null;
    try {
      answer = await ask(input, options);
    } catch (error) {
      if (options?.signal?.aborted) throw error;
    }
    if (!answer || isGone(answer)) {
      await reachable();
      continue;
    }
    if (isOther(answer)) return reopen();
    if (!answer.ok || !answer.body) return answer;
    // An end by Gradio itself is no failure.
    const broken = async (error) => {
      if (error && options?.signal?.aborted) return;
      await reachable();
      await reopen();
    };
    const body = goingOn(answer, () => ask(input, options), questions, broken);
    return new Response(body, { status: answer.status, headers: answer.headers });
  }
}

window.fetch = (input, options) => {
  // Gradio puts the signal by which it ends a stream into a Request: such an end is no failure.
  if (input instanceof Request) options = { ...options, signal: options?.signal ?? input.signal };
  const { origin, pathname } = new URL(input?.url ?? input, document.baseURI);
  const name = origin === location.origin ? (pathname.split("/gradio_api/")[1] ?? "") : "";
  if (name === "queue/join") {
    const whole = numbered(input, options);
    const [, session_hash = ""] = SESSION.exec(options?.body) ?? [];
    nameVisit(session_hash);
    if (!asking.ask) runs.asked({ session_hash, question: asked });
    stay(session_hash, () => leaving || reachable());
    return questions.ask(() => joined(input, whole));
  }
  if (name === "queue/data") return answers(input, options);
  return ask(input, options);
};

// --- signs of life ---

// Gradio would hold a connection for each page to tell the server that it is there (./here.js).
if (window.gradio_config) window.gradio_config.connect_heartbeat = false;

// A connection that hangs does not end, so the page also looks for itself.
const look = async () => {
  if (!document.hidden && !reaching && (await probe(10_000)) !== identity.server) reachable();
};
setInterval(look, LOOK);
document.addEventListener("visibilitychange", look);
