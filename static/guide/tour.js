// The guided tour: steps that point at the page's own controls and are checked off when done.
//
// payload: { steps: [{ id, tab, label, view, at, done, title, text }], terms, words: { tour, glossary } }; the
// entries of a step are described in viz/tour.toml.

import { go as openTab } from "../page/address/places.js";
import { el, fill } from "../page/dom.js";
import { headerItem } from "../page/header_items.js";
import { define } from "../page/mount.js";
import { selection } from "../page/selection/selection.js";
import { cross, tickedText } from "../parts/icons.js";
import { watchFor } from "./deeds.js";
import * as glossary from "./glossary.js";
import { nameBack } from "./last_good.js";
import { first, shown, tabOpen, target, viewButton, viewOpen } from "./tour_places.js";

const KEY = "playground-tour";
const EVERY = 250; // milliseconds between checks of the controls' positions
const SEEN = 1000; // milliseconds for which a check mark is shown before the next step
let steps = [],
  words = null;
let at = 0,
  done = new Set(),
  known = false; // true if the tour was opened or dismissed before
let panel = null,
  unwatch = () => {}, // stops watching for the current step's action
  awaited = null,
  timer = null,
  going = null,
  pointed = null,
  from = null;

// --- stored progress, if the browser allows storage -------------------------------------------------

function recall() {
  try {
    const stored = JSON.parse(localStorage.getItem(KEY)) ?? {};
    known = stored.known === true;
    done = new Set(Array.isArray(stored.done) ? stored.done : []);
    at = Number.isInteger(stored.at) && stored.at >= 0 ? stored.at : 0;
  } catch {
    /* private browsing, or storage that is full or blocked */
  }
}
function keep() {
  try {
    localStorage.setItem(KEY, JSON.stringify({ known, at, done: [...done] }));
  } catch {
    /* as above */
  }
}
// Return whether the tour was open before a reload; if so, it continues.
const stay = (open) => {
  try {
    if (open) sessionStorage.setItem(KEY, "open");
    else sessionStorage.removeItem(KEY);
  } catch {
    /* as above */
  }
};
const stayed = () => {
  try {
    return sessionStorage.getItem(KEY) === "open";
  } catch {
    return false;
  }
};
recall();

// --- visibility ---

// Take one step of navigation towards the control; the next one follows when the page has responded.
function walk(step) {
  if (!tabOpen(step)) return openTab(step.tab);
  if (!viewOpen(step)) return viewButton(step)?.click();
  awaited = null;
  bring(first(step.at));
}

const still = () => matchMedia("(prefers-reduced-motion: reduce)").matches;
const low = () => document.documentElement.clientWidth < 700; // true if the panel is at the bottom

// Scroll a control into the part of the window that the panel does not cover.
function bring(node) {
  if (!node) return;
  const { top, bottom, height } = node.getBoundingClientRect();
  const free = window.innerHeight - (low() && panel ? panel.offsetHeight + 12 : 0);
  if (top >= 8 && bottom <= free - 8) return;
  const to = height > free - 24 ? top - 12 : top - (free - height) / 2;
  window.scrollBy({ top: to, behavior: still() ? "auto" : "smooth" });
}

// Place the panel in a corner where it does not cover its target.
const CORNERS = ["br", "bl", "tr", "tl"];
function dodge(node) {
  if (!node || !panel) return;
  const { left, top, right, bottom } = node.getBoundingClientRect(),
    width = document.documentElement.clientWidth,
    height = window.innerHeight;
  const covered = (corner) => {
    const { offsetWidth: w, offsetHeight: h } = panel,
      x = corner[1] === "r" ? width - w - 16 : 16,
      y = corner[0] === "b" ? height - h - 16 : 16;
    return (
      Math.max(0, Math.min(right, x + w) - Math.max(left, x)) * Math.max(0, Math.min(bottom, y + h) - Math.max(top, y))
    );
  };
  const corners = low() ? ["br", "tr"] : CORNERS;
  const best = corners.reduce((a, b) => (covered(b) < covered(a) ? b : a));
  if (covered(panel.dataset.corner) > covered(best) || !corners.includes(panel.dataset.corner))
    panel.dataset.corner = best;
}

function look() {
  const step = steps[at];
  if (awaited && awaited === step) walk(step);
  const node = step ? target(step) : null;
  if (node !== pointed) {
    pointed?.removeAttribute("data-pg-pointed");
    pointed = node;
  }
  node?.setAttribute("data-pg-pointed", "");
  dodge(node);
}

// --- completion of a step ---------------------------------------------------------------------------

function tick(step) {
  if (step !== steps[at] || done.has(step.id)) return;
  done.add(step.id);
  keep();
  draw();
  say(fill(words.told, { title: step.title }));
  clearTimeout(going);
  going = setTimeout(() => {
    if (panel && steps[at] === step) go(at + 1);
  }, SEEN);
}
function watch() {
  unwatch();
  const step = steps[at];
  unwatch = step && panel ? watchFor(step.done, () => tick(step)) : () => {};
}

// --- the panel ------------------------------------------------------------------------------------

const button = (text, act, kind = "") => {
  const node = el("button", `pg-button ${kind}`.trim(), text, { type: "button" });
  node.onclick = act;
  return node;
};
const live = el("p", "pg-tour-live", "", { "aria-live": "polite" });
const say = (text) => {
  live.textContent = text;
};

// Draw the current step; the focus stays on the button with the same name.
function draw() {
  const last = document.activeElement?.closest?.(".pg-tour [data-do]")?.dataset.do;
  const step = steps[at],
    over = step && done.has(step.id);
  const head = el("div", "pg-tour-head"),
    body = el("div", "pg-tour-body"),
    marks = el("ol", "pg-tour-marks", "", { "aria-label": words.progress });
  head.append(
    el(
      "span",
      "pg-muted",
      step ? `${words.title} · ${fill(words.step, { n: at + 1, all: steps.length })}` : words.title,
    ),
    cross(words.close, () => end(true)),
  );
  steps.forEach(({ id, title }, n) => {
    const text = fill(done.has(id) ? words.mark_done : words.mark, { n: n + 1, title }),
      mark = el("li", "", "", { title: text });
    mark.classList.toggle("pg-tour-ticked", done.has(id));
    if (n === at) mark.setAttribute("aria-current", "step");
    mark.append(el("span", "pg-tour-live", text));
    marks.append(mark);
  });
  const acts = el("div", "pg-buttons"),
    named = (name, node) => {
      node.dataset.do = name;
      return node;
    };
  if (step) {
    const back = named(
      "back",
      button(words.back, () => go(at - 1)),
    );
    back.disabled = at === 0;
    acts.append(
      back,
      named(
        "on",
        button(over ? words.next : words.skip, () => go(at + 1)),
      ),
      named(
        "show",
        button(
          words.show,
          () => {
            awaited = step;
            look();
          },
          "pg-primary",
        ),
      ),
    );
    body.append(
      el("h2", "", step.title),
      el("p", "", step.text),
      over ? tickedText("p", "pg-tour-state pg-tour-ticked", words.ticked) : el("p", "pg-tour-state", words.waiting),
    );
  } else {
    acts.append(
      named(
        "again",
        button(words.again, () => {
          done.clear();
          go(0);
        }),
      ),
      named(
        "terms",
        button(words.glossary, () => glossary.open()),
      ),
      named(
        "finish",
        button(words.finish, () => end(true), "pg-primary"),
      ),
    );
    body.append(
      el("h2", "", words.end_title),
      el("p", "", words.end_text),
      ...(selection.edits.length ? [el("p", "pg-muted", words.end_edits)] : []),
    );
  }
  panel.replaceChildren(head, body, marks, acts, live);
  if (last) (panel.querySelector(`[data-do="${last}"]:not(:disabled)`) ?? panel).focus({ preventScroll: true });
}

function go(to) {
  clearTimeout(going);
  at = Math.max(0, Math.min(to, steps.length));
  awaited = null;
  panel.dataset.corner = "br";
  keep();
  watch();
  draw();
  const step = steps[at];
  say(
    step
      ? `${fill(words.step, { n: at + 1, all: steps.length })}. ${step.title}. ${step.text}`
      : `${words.end_title}. ${words.end_text}`,
  );
  look();
  if (step && tabOpen(step)) bring(target(step));
}

function start(focus = true) {
  if (!words || !steps.length) return;
  if (!panel) {
    from = document.activeElement;
    stay(true);
    panel = el("section", "pg-tour", "", {
      role: "dialog",
      "aria-modal": "false",
      "aria-label": words.title,
      tabindex: -1,
      "data-corner": "br",
    });
    panel.addEventListener("keydown", (event) => {
      if (event.key === "Escape") end(true);
      if (event.key === "Escape" || event.key === "/") event.stopPropagation();
    });
    document.querySelector(".gradio-container").append(panel);
    timer = setInterval(look, EVERY);
  }
  known = true;
  hint();
  go(at >= steps.length ? 0 : at);
  if (focus) panel.focus({ preventScroll: true });
}

function end(back = false) {
  unwatch();
  clearInterval(timer);
  clearTimeout(going);
  pointed?.removeAttribute("data-pg-pointed");
  panel?.remove();
  panel = pointed = awaited = null;
  stay(false);
  keep();
  if (back)
    (from?.isConnected && from !== document.body ? from : document.querySelector(".pg-tour-open"))?.focus({
      preventScroll: true,
    });
}

// --- the header: an extra line at the first visit, until the tour is started or dismissed ------------

function hint() {
  for (const box of document.querySelectorAll(".pg-tour-item")) {
    const { all, short } = box.dataset,
      open = box.querySelector(".pg-tour-open"),
      away = box.querySelector(".pg-cross");
    open.textContent = known ? short : all;
    if (away) away.hidden = known;
  }
}
headerItem(10, (catalogue) => {
  const box = el("span", "pg-tour-item", "", { "data-all": catalogue.tour_first, "data-short": catalogue.tour });
  const open = el("button", "pg-button pg-quiet pg-tour-open", known ? catalogue.tour : catalogue.tour_first, {
    type: "button",
    "aria-haspopup": "dialog",
  });
  const away = cross(catalogue.tour_away, () => {
    known = true;
    keep();
    hint();
    open.focus();
  });
  open.onclick = () => start();
  away.hidden = known;
  box.append(open, away);
  return box;
});

// Build the first element in the Tab order, a link that skips the page's header.
function skipLink() {
  const link = document.querySelector(".pg-skip") ?? el("button", "pg-skip", "", { type: "button" });
  link.textContent = words.to_view;
  link.onclick = () => {
    const view = [...document.querySelectorAll("[role=tabpanel]")].find(shown);
    if (!view) return;
    view.tabIndex = -1;
    view.focus({ preventScroll: true });
    view.scrollIntoView({ block: "start" });
  };
  document.querySelector(".gradio-container").prepend(link);
}

define("guide", (root) => (payload) => {
  root.hidden = true;
  ({ steps } = payload);
  words = payload.words.tour;
  nameBack(payload.words.states.back);
  glossary.learn(payload.terms, payload.words.glossary);
  skipLink();
  if (panel) {
    watch();
    draw();
  } else if (stayed()) start(false);
});
