// The panel of the lessons, and its requests to the server.
import { el } from "../page/dom.js";
import { cross } from "../parts/icons.js";

let panel = null,
  body = null,
  title = null,
  live = null,
  from = null;

export async function fetched(path = "", sent = null) {
  const lang = new URLSearchParams(location.search).get("lang");
  const options = sent
    ? { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(sent) }
    : {};
  const answer = await fetch(`playground/lessons${path}${lang ? `?lang=${encodeURIComponent(lang)}` : ""}`, options);
  const found = await answer.json();
  if (found.problem) throw Object.assign(new Error(found.problem.text), found.problem);
  return found;
}

// Fetch all lessons with the words of the panel, once.
let listed = null;
export async function listing() {
  listed ??= await fetched();
  return listed;
}

export function button(text, act, kind = "") {
  const node = el("button", `pg-button ${kind}`.trim(), text, { type: "button" });
  node.onclick = act;
  return node;
}
export const say = (text) => {
  if (live) live.textContent = text;
};
export const focus = () => panel?.focus({ preventScroll: true });
const widths = () => window.dispatchEvent(new Event("resize")); // make figures adapt to the remaining width

// `shut`: the action of the close button, or null if the panel cannot be closed.
export function open(words, shut) {
  if (panel) return;
  from = document.activeElement;
  panel = el("section", "pg-learn", "", { role: "complementary", "aria-label": words.title, tabindex: -1 });
  const head = el("div", "pg-learn-head"),
    fold = el("button", "pg-learn-fold", "", { type: "button" });
  title = el("h2", "pg-learn-title");
  body = el("div", "pg-learn-body");
  live = el("p", "pg-tour-live", "", { "aria-live": "polite" });
  const turn = (opened) => {
    panel.classList.toggle("pg-folded", !opened);
    document.documentElement.dataset.pgLearn = opened ? "open" : "folded";
    fold.setAttribute("aria-expanded", opened);
    fold.setAttribute("aria-label", opened ? words.fold : words.unfold);
  };
  fold.onclick = () => turn(panel.classList.contains("pg-folded"));
  head.append(fold, title, ...(shut ? [cross(words.close, shut)] : []));
  panel.append(head, body, live);
  panel.addEventListener("keydown", (event) => {
    if (event.key === "/" || event.key === "Escape") event.stopPropagation(); // these keys are shortcuts of the page
    if (event.key === "Escape") shut?.();
  });
  document.querySelector(".gradio-container").append(panel);
  turn(true);
  widths();
}
export function close() {
  panel?.remove();
  panel = body = live = null;
  delete document.documentElement.dataset.pgLearn;
  widths();
  const places = [from, ...document.querySelectorAll(".pg-learn-open, .pg-group[data-group=learn]")];
  const back = places.find((each) => each?.offsetParent && each !== document.body);
  back?.focus({ preventScroll: true });
}

// Keep the keyboard focus in the panel: on the button that replaced the focused one, or else on the panel.
export function show(name, ...nodes) {
  if (!panel) return;
  const held = panel.contains(document.activeElement) ? document.activeElement : null;
  title.textContent = name;
  body.replaceChildren(...nodes);
  body.scrollTop = 0;
  if (!held || held.isConnected) return;
  const same = held.matches("button") && body.getElementsByClassName(held.className)[0];
  (same || panel).focus({ preventScroll: true });
}
