// The glossary: terms in the page's own texts that open their definitions, and the list of all terms.
//
// terms: { id: { name, about, formula, source, forms, common } }, in the order of the list. Only the page's own text is
// searched, never the prompt or generated text; `common` terms are marked only in explanations.
import { el, fill } from "../page/dom.js";
import { headerItem } from "../page/header_items.js";
import { mounted, onDrawn } from "../page/mount.js";
import { pageState } from "../page/state.js";
import { cross } from "../parts/icons.js";

const OURS = ".pg-howto p, .pg-question, .pg-about, .pg-control-help span, .pg-empty, h2, h3, th[scope=col]";
const PLAIN = new Set(["howto", "question", "about"]); // kinds of parts that consist entirely of explanations
const AVOID =
  "button, a, input, select, textarea, label, svg, pre, code, .pg-term, .pg-chip, [class*='-token'], [class*='-text'], [class*='-mono'], [class*='-chip']";
const QUOTED = /[“「][^”」]*[”」]/gu; // a token or text quoted in a sentence
let terms = {},
  words = null,
  find = null,
  byForm = new Map();

const escaped = (text) => text.replace(/[.*+?^${}()|[\]\\]/g, "\\$&");
// A form in Latin letters must match a complete word. Chinese has no spaces, so the longest matching form wins.
const bounded = (form) =>
  `${/^\w/.test(form) ? "(?<![\\w-])" : ""}${escaped(form)}${/\w$/.test(form) ? "(?!\\w)" : ""}`;

export function learn(entries, catalogue) {
  ({ terms, words } = { terms: entries, words: catalogue });
  byForm = new Map(Object.entries(terms).flatMap(([id, { forms }]) => forms.map((form) => [form.toLowerCase(), id])));
  const forms = [...byForm.keys()].sort((a, b) => b.length - a.length);
  find = forms.length ? new RegExp(forms.map(bounded).join("|"), "giu") : null;
  dialog?.remove();
  dialog = null;
  shut();
  mounted.forEach(({ root }) => later(root));
}

// --- terms in texts -------------------------------------------------------------------------------

function termOf(id, text) {
  const node = el("span", "pg-term", text, {
    role: "doc-glossref",
    tabindex: -1,
    "aria-haspopup": "dialog",
    "data-term": id,
    title: fill(words.open, { term: terms[id].name }),
  });
  return node;
}

// Make the first occurrence of each term clickable; the text itself does not change.
function mark(node, seen, allowed) {
  const text = node.data,
    quotes = [...text.matchAll(QUOTED)].map((match) => [match.index, match.index + match[0].length]);
  const matches = [];
  for (const match of text.matchAll(find)) {
    const id = byForm.get(match[0].toLowerCase()),
      at = match.index;
    if (!id || seen.has(id) || !allowed(id, match[0]) || quotes.some(([from, to]) => at >= from && at < to)) continue;
    seen.add(id);
    matches.push([at, match[0], id]);
  }
  for (const [at, form, id] of matches.reverse()) {
    const rest = node.splitText(at);
    rest.splitText(form.length);
    rest.replaceWith(termOf(id, form));
  }
  return matches.length;
}

const textsOf = (box, avoid) => {
  const out = [],
    walker = document.createTreeWalker(box, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) if (!walker.currentNode.parentElement.closest(avoid)) out.push(walker.currentNode);
  return out;
};

function link(root) {
  if (!find || !root.isConnected || !mounted.has(root.dataset.part)) return;
  const plain = PLAIN.has(mounted.get(root.dataset.part).kind);
  const boxes = [...(root.matches(OURS) ? [root] : []), ...root.querySelectorAll(OURS)];
  if (root.previousElementSibling?.matches(".pg-quiet-box:not([hidden])"))
    boxes.push(...root.previousElementSibling.querySelectorAll("span"));
  const seen = new Set([...root.querySelectorAll(".pg-term")].map((term) => term.dataset.term));
  const prompt = new Set((pageState.tokens ?? []).map(({ text }) => text.replace(/^[·\s]+/, "").toLowerCase()));
  // The text below a figure may mention a token of the prompt without quotation marks.
  const allowed = plain ? () => true : (id, form) => !terms[id].common && !prompt.has(form.toLowerCase());
  let count = 0;
  for (const box of boxes) for (const node of textsOf(box, AVOID)) count += mark(node, seen, allowed);
  if (count) reach(root);
}

// Only one term of each part is in the Tab order; the arrow keys reach the others.
const reach = (root) =>
  [...root.querySelectorAll(".pg-term")].forEach((term, n) => {
    term.tabIndex = n ? -1 : 0;
  });

// Runs after each drawing, once the page is idle: parts that decode their numbers set their titles slightly later.
const waiting = new Set(),
  again = new Set();
let timer = null;
const idle = window.requestIdleCallback ?? ((work) => setTimeout(work, 30));
function later(root, twice = true) {
  waiting.add(root);
  if (twice) again.add(root);
  if (timer) return;
  timer = setTimeout(() => idle(run), 60);
}
function run() {
  timer = null;
  const [root] = waiting;
  if (!root) return;
  waiting.delete(root);
  link(root);
  if (again.delete(root)) setTimeout(() => later(root, false), 700);
  if (waiting.size) timer = setTimeout(() => idle(run));
}
onDrawn((root) => {
  if (find) later(root);
});

// --- the definition of a term -----------------------------------------------------------------------

let card = null,
  anchor = null;

function entry(id, title) {
  const term = terms[id],
    about = el("p", "pg-term-about", term.about),
    facts = el("dl", "pg-term-facts");
  const seen = new Set([id]);
  mark(about.firstChild, seen, () => true);
  for (const [name, value, kind] of [
    [words.formula, term.formula, "pg-term-formula"],
    [words.source, term.source, ""],
  ]) {
    facts.append(el("dt", "", name), el("dd", kind, value));
  }
  return [title, about, facts];
}

function show(id, from) {
  anchor = from ?? anchor;
  card ??= el("div", "pg-term-card", "", { role: "dialog", tabindex: -1 });
  const all = el("button", "pg-button pg-quiet", words.all, { type: "button" }),
    head = el("div", "pg-term-head"),
    text = el("div");
  all.onclick = () => {
    shut();
    open(id);
  };
  head.append(
    el("strong", "", terms[id].name),
    cross(words.close, () => shut(true)),
  );
  text.append(...entry(id, head));
  card.replaceChildren(...text.childNodes, all);
  card.setAttribute("aria-label", terms[id].name);
  card.querySelectorAll(".pg-term").forEach((term) => {
    term.tabIndex = 0;
  });
  (anchor.closest("dialog") ?? frame()).append(card);
  place();
  card.focus({ preventScroll: true });
}

const frame = () => document.querySelector(".gradio-container") ?? document.body;

// Place the popup below the term, or above it if there is no room, always within the window.
function place() {
  if (!card?.isConnected) return;
  if (!anchor.isConnected) return shut();
  const at = anchor.getBoundingClientRect(),
    width = document.documentElement.clientWidth,
    height = window.innerHeight;
  const { offsetWidth: w, offsetHeight: h } = card;
  const below = at.bottom + 6 + h <= height || at.top < h + 6;
  card.style.left = `${Math.max(8, Math.min(at.left, width - w - 8))}px`;
  card.style.top = `${Math.max(8, Math.min(below ? at.bottom + 6 : at.top - h - 6, height - h - 8))}px`;
  if (at.bottom < 0 || at.top > height) shut();
}

function shut(back = false) {
  if (!card?.isConnected) return;
  const inside = card.contains(document.activeElement);
  card.remove();
  if (back || inside) anchor?.focus?.({ preventScroll: true });
}

window.addEventListener("scroll", place, { passive: true, capture: true });
window.addEventListener("resize", place);
document.addEventListener("pointerdown", ({ target }) => {
  if (!card?.contains(target) && !target.closest?.(".pg-term")) shut();
});
document.addEventListener("focusin", ({ target }) => {
  if (card?.isConnected && !card.contains(target) && target !== anchor) shut();
});

document.addEventListener("click", ({ target }) => {
  const term = target.closest?.(".pg-term");
  if (term) choose(term);
});
function choose(term) {
  const { term: id } = term.dataset;
  if (term.closest(".pg-glossary-list")) return reveal(id);
  show(id, card?.contains(term) ? null : term);
}

// Runs before the page's own shortcuts, so that Escape closes the popup and keeps the selection.
window.addEventListener(
  "keydown",
  (event) => {
    const term = event.target.closest?.(".pg-term"),
      { key } = event;
    if (key === "Escape" && card?.isConnected) {
      event.preventDefault();
      event.stopPropagation();
      shut(true);
    } else if (term && (key === "Enter" || key === " ")) {
      event.preventDefault();
      choose(term);
    } else if (term && /^Arrow(Left|Right)$/.test(key)) {
      const all = [...(term.closest("[data-part], .pg-term-card, dialog")?.querySelectorAll(".pg-term") ?? [])];
      const to = all[all.indexOf(term) + (key === "ArrowRight" ? 1 : -1)];
      if (!to) return;
      event.preventDefault();
      term.tabIndex = -1;
      to.tabIndex = 0;
      to.focus();
    }
  },
  true,
);

// --- all terms ------------------------------------------------------------------------------------

let dialog = null;

function build() {
  const box = el("dialog", "pg-glossary", "", { "aria-label": words.title });
  const head = el("div", "pg-glossary-head"),
    list = el("div", "pg-glossary-list", "", { tabindex: 0, role: "group", "aria-label": words.title });
  const search = el("input", "", "", {
    type: "search",
    placeholder: words.placeholder,
    "aria-label": words.search,
    spellcheck: "false",
    autocomplete: "off",
  });
  const count = el("p", "pg-muted", "", { role: "status" }),
    close = el("button", "pg-button", words.close, { type: "button" }),
    none = el("p", "pg-empty", words.none);
  const all = Object.entries(terms).map(([id, { name, forms, about, source }]) => {
    const node = el("section", "pg-glossary-term", "", { "data-id": id, tabindex: -1 });
    node.append(...entry(id, el("h3", "", name)));
    return { node, text: [name, ...forms, about, source].join(" ").toLowerCase() };
  });
  const filter = () => {
    const query = search.value.trim().toLowerCase();
    for (const { node, text } of all) node.hidden = !text.includes(query);
    const n = all.filter(({ node }) => !node.hidden).length;
    count.textContent = fill(words.count, { n, all: all.length });
    none.hidden = n > 0;
  };
  search.oninput = filter;
  close.onclick = () => box.close();
  box.addEventListener("keydown", (event) => {
    event.stopPropagation();
    if (event.key !== "Escape") return;
    event.preventDefault(); // by default the browser would only clear the search field
    box.close();
  });
  box.addEventListener("click", (event) => {
    if (event.target === box) box.close();
  }); // beside it
  box.addEventListener("close", () => document.querySelector(".pg-glossary-open")?.focus({ preventScroll: true }));
  head.append(el("h2", "", words.title), close, el("p", "pg-muted", words.about), search, count);
  list.append(...all.map(({ node }) => node), none);
  box.append(head, list);
  filter();
  return Object.assign(box, {
    reset: () => {
      search.value = "";
      filter();
    },
  });
}

// List every term with its name, definition and other forms, for the search.
export const named = () => Object.entries(terms).map(([id, { name, about, forms }]) => ({ id, name, about, forms }));

export function open(id = null) {
  if (!words) return;
  if (!dialog) {
    dialog = build();
    frame().append(dialog);
  }
  dialog.reset();
  if (!dialog.open) dialog.showModal();
  if (id) reveal(id);
  else {
    dialog.querySelector(".pg-glossary-list").scrollTop = 0;
    dialog.querySelector("input").focus();
  }
}

function reveal(id) {
  dialog.reset();
  const node = dialog.querySelector(`[data-id="${id}"]`),
    list = node.parentElement;
  list.scrollTop = node.offsetTop - list.offsetTop - 8;
  node.focus({ preventScroll: true });
}

headerItem(20, (catalogue) => {
  const button = el("button", "pg-button pg-quiet pg-glossary-open", catalogue.glossary, {
    type: "button",
    "aria-haspopup": "dialog",
  });
  button.onclick = () => open();
  return button;
});
