// Cards of the heads that have a name, in groups by name. A click on a head selects it everywhere; its switch ablates it.
//
// payload: { title, note, groups [{ name, label, does, hue, cards [{ head, numbers [score, error, baseline], texts (the
//   same), example [sentence, query, keys, weight] or null, weight }] }], sentences [[token]], sequences, source, file,
//   run, python, words }, or { absent: true } before the heads were surveyed
import { el, fill } from "../../page/dom.js";
import { define } from "../../page/mount.js";
import { changeBeside } from "../../page/selection/edited.js";
import { canSwitch, isOff, switched, tooMany } from "../../page/selection/off.js";
import { adding, onSelect, pickHead, select, selection } from "../../page/selection/selection.js";
import { piece } from "../../parts/next_tokens.js";
import { titled } from "../../parts/titled.js";
import { chooseName, chosenName, onName } from "./chosen_name.js";

const FEW = 4, // cards of a name until "Show all"
  BEFORE = 4, // tokens shown before the query
  AROUND = 2; // tokens shown on each side of a key

// Return the places of the tokens to show, in order; null stands for a gap.
export function shownPlaces(query, keys) {
  const near = new Set();
  for (let at = Math.max(0, query - BEFORE); at <= query; at++) near.add(at);
  for (const key of keys)
    for (let at = Math.max(0, key - AROUND); at <= Math.min(query, key + AROUND); at++) near.add(at);
  const places = [...near].sort((a, b) => a - b),
    shown = places[0] > 0 ? [null] : [];
  places.forEach((at, n) => {
    const gap = n ? at - places[n - 1] - 1 : 0;
    if (gap === 1) shown.push(at - 1);
    else if (gap > 1) shown.push(null);
    shown.push(at);
  });
  return shown;
}

function exampleOf({ example, weight }, { sentences, words }) {
  const node = el("p", "pg-card-example");
  if (!example) return node;
  const [sentence, query, keys] = example,
    tokens = sentences[sentence],
    roleOf = (at) => [keys.includes(at) && "pg-card-key", at === query && "pg-card-query"].filter(Boolean).join(" ");
  for (const at of shownPlaces(query, keys))
    node.append(at === null ? el("span", "pg-muted", "…") : piece(el("span", roleOf(at)), tokens[at]));
  node.append(" ", el("small", "", weight));
  node.title = fill(words.example_help, { query: tokens[query], key: keys.map((at) => tokens[at]).join(" "), weight });
  return node;
}

// Build the bar from 0 to 1: the score, its interval, and the baseline as a tick.
function barOf([score, error, baseline]) {
  const bar = el("span", "pg-card-bar", "", { "aria-hidden": "true" });
  for (const [name, value] of Object.entries({ score, low: score - error, high: score + error, baseline }))
    bar.style.setProperty(`--pg-${name}`, `${100 * Math.min(1, Math.max(0, value))}%`);
  bar.append(el("i", "pg-card-score"), el("i", "pg-card-error"), el("i", "pg-card-baseline"));
  return bar;
}

function cardOf(card, group, payload) {
  const { words, sequences } = payload,
    [layer, head] = card.head,
    [score, error, baseline] = card.texts,
    at = `${layer}.${head}`;
  const root = el("article", "pg-head-card", "", { "data-head": at }),
    top = el("header"),
    name = el("button", "pg-card-head", at, { type: "button", "aria-label": fill(words.button, { layer, head }) }),
    called = el("span", "", group.label),
    state = el("b", "pg-card-off", words.off),
    off = el("button", "pg-button pg-quiet pg-card-switch", "", { type: "button" });
  root.style.setProperty("--pg-hue", group.hue);
  name.onclick = (event) => payload.stored_example || pickHead(layer, head, adding(event));
  off.onclick = () => select({ edits: switched([card.head]) });
  top.append(name, called, state, changeBeside(off), off);
  const evidence = el("p", "pg-card-evidence", fill(words.evidence, { score, error, baseline, n: sequences }));
  evidence.title = words.evidence_help;
  root.append(top, barOf(card.numbers), evidence, exampleOf(card, payload));
  const mark = () => {
    const gone = isOff(card.head);
    root.classList.toggle("pg-head-off", gone);
    state.hidden = !gone;
    root.classList.toggle(
      "pg-picked",
      selection.heads.some(([l, h]) => l === layer && h === head),
    );
    off.textContent = gone ? words.switch_on : words.switch_off;
    off.setAttribute("aria-pressed", gone);
    off.disabled = !canSwitch([card.head]);
    off.title = off.disabled ? tooMany() : "";
    off.setAttribute("aria-label", `${off.textContent}: ${fill(words.button, { layer, head })}`);
  };
  return { root, mark };
}

const lines = ({ groups, sentences }) =>
  groups.flatMap(({ name, cards }) =>
    cards.map(({ head, numbers, example }) => {
      const [sentence, query, keys, weight] = example ?? ["", "", [], ""];
      return [...head, name, ...numbers, example ? sentences[sentence].join("|") : "", query, keys.join(" "), weight];
    }),
  );
const COLUMNS = [
  "layer",
  "head",
  "name",
  "score",
  "two_standard_errors",
  "baseline",
  "sentence",
  "query",
  "keys",
  "weight",
];

define("headcards", (root) => {
  const bar = el("div", "pg-card-names", "", { role: "group" }),
    list = el("div", "pg-card-groups"),
    show = titled(root, bar, list);
  const open = new Set(); // names with all their cards
  let now = null,
    cards = [];
  const mark = () => cards.forEach((card) => card.mark());
  const names = () => {
    const { groups, words } = now,
      known = groups.some(({ name }) => name === chosenName()),
      all = ["", words.all, "", groups.reduce((n, group) => n + group.cards.length, 0)];
    const buttons = [all, ...groups.map(({ name, label, hue, cards }) => [name, label, hue, cards.length])];
    bar.replaceChildren(
      ...buttons.map(([name, label, hue, n]) => {
        const on = name === (known ? chosenName() : ""),
          button = el("button", "pg-view", "", { type: "button", "aria-pressed": on, "data-name": name });
        const text = el("span", hue ? "pg-name" : "", label);
        if (hue) text.style.setProperty("--pg-hue", hue);
        button.append(text, el("small", "", String(n)));
        button.onclick = () => chooseName(name);
        return button;
      }),
    );
    return known ? chosenName() : "";
  };
  const groupOf = (group) => {
    const { words } = now,
      node = el("section", "pg-card-group"),
      row = el("div", "pg-card-row"),
      all = open.has(group.name) || group.cards.length <= FEW + 1,
      made = (all ? group.cards : group.cards.slice(0, FEW)).map((card) => cardOf(card, group, now));
    const title = el("h3", "pg-name", group.label),
      top = el("div", "pg-card-about");
    title.style.setProperty("--pg-hue", group.hue);
    top.append(title, el("span", "pg-muted", group.does));
    if (group.cards.length > FEW + 1) {
      const more = el("button", "pg-button pg-quiet", "", { type: "button", "aria-expanded": all });
      more.textContent = all ? words.fewer : fill(words.more, { n: group.cards.length });
      more.onclick = () => {
        if (!open.delete(group.name)) open.add(group.name);
        arrange();
        list.querySelector(`[data-name="${group.name}"] .pg-card-about button`)?.focus({ preventScroll: true });
      };
      top.append(more);
    }
    node.dataset.name = group.name;
    row.append(...made.map((card) => card.root));
    node.append(top, row);
    cards.push(...made);
    return node;
  };
  const arrange = () => {
    if (!now) return;
    const chosen = names();
    cards = [];
    list.replaceChildren(...now.groups.filter(({ name }) => !chosen || name === chosen).map(groupOf));
    if (!now.groups.length) list.append(el("p", "pg-muted", now.words.none));
    mark();
  };
  onSelect(mark);
  onName(arrange);
  return (payload) => {
    root.classList.toggle("pg-absent", Boolean(payload.absent));
    now = payload.absent ? null : payload;
    if (!now) return;
    bar.setAttribute("aria-label", payload.words.names);
    bar.hidden = !payload.groups.length;
    arrange();
    show(payload, { names: COLUMNS, lines: () => lines(payload) });
  };
});
