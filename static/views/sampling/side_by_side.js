// Side by side: the bar and the rows. In side_by_side/, state.js holds the state; bar.js draws the bar, row.js a row,
// token.js a token, and tree.js everything below the rows.
import { el, rests } from "../../page/dom.js";
import { define } from "../../page/mount.js";
import { pageState } from "../../page/state.js";
import { onTheme } from "../../page/theme.js";
import { percent } from "../../parts/percent.js";
import { colorChoices, paintChatPrompt, runBar, runStatus } from "./side_by_side/bar.js";
import { forked, hueOf, painter, rowView } from "./side_by_side/row.js";
import {
  ask,
  bits,
  branch,
  changed,
  childrenOf,
  going,
  inOrder,
  leaves,
  NAT,
  probability,
  reference,
  remove,
  share,
  show,
  stale,
  state,
  tell,
  text,
} from "./side_by_side/state.js";
import { partsBeside } from "./side_by_side/tree.js";

const PAUSE = 400; // milliseconds before the first texts start by themselves

const api = {
  payload: () => state.payload,
  state,
  text,
  forked,
  probability,
  bits,
  percent,
  share,
  inOrder,
  childrenOf,
  reference,
  hueOf,
  branch,
  remove,
  show,
  going,
  stale,
  tell,
  leaves,
  NAT,
};

// Draw the rows, reusing existing ones; `stage`: the coloring of the tokens.
function rowList(stage) {
  const node = el("div", "pg-race-rows");
  let views = new Map();
  return {
    node,
    each: (act) => views.forEach(act),
    of: (id) => views.get(id),
    forget() {
      views = new Map();
    },
    arrange() {
      const all = inOrder().filter((row) => row.shown);
      views = new Map(all.map((row) => [row.id, views.get(row.id) ?? rowView(row, stage)]));
      const nodes = [...views.values()].map((view) => view.node);
      if (nodes.length !== node.children.length || nodes.some((each, at) => node.children[at] !== each)) {
        const focused = document.activeElement;
        node.replaceChildren(...nodes);
        if (focused !== document.activeElement && node.contains(focused)) focused.focus({ preventScroll: true });
      }
      views.forEach((view) => view.reserve(going() && state.current?.rows.includes(view.row)));
    },
  };
}

// The settings above the texts may fill the screen, so scroll to the texts once there are any.
function revealing(rows, bar) {
  let wanted = false;
  new ResizeObserver(() => {
    if (!wanted || rows.clientHeight < 40) return;
    wanted = false;
    if (rows.getBoundingClientRect().top > innerHeight / 2) bar.scrollIntoView({ block: "start" });
  }).observe(rows);
  return () => {
    wanted = true;
  };
}

// On a narrow screen, the panel covers the bottom of the window, so keep the selected token visible.
function uncover(chip, side) {
  const over = side.getBoundingClientRect(),
    chipBox = chip.getBoundingClientRect();
  if (getComputedStyle(side).bottom === "0px" && chipBox.bottom > over.top - 8)
    scrollBy({ top: chipBox.bottom - over.top + 40 });
}

// Describe the hovered token in `side`; a click pins it and Escape releases it.
function listenToTokens(root, rows, side, { describe, update }) {
  const at = (event) => {
    const chip = event.target.closest?.(".pg-reading-token"),
      row = chip?.closest("[data-row]");
    return chip ? { row: row.dataset.row, at: +chip.dataset.index } : null;
  };
  const hover = (event) => {
    const place = at(event);
    if (!place || rests(event)) return;
    state.hovered = place;
    describe();
  };
  rows.node.addEventListener("mouseover", hover);
  rows.node.addEventListener("focusin", hover);
  rows.node.addEventListener("mouseleave", () => {
    if (!state.pinned) return;
    state.hovered = null;
    describe();
  });
  rows.node.addEventListener("click", (event) => {
    const place = at(event);
    if (!place) return;
    const again = state.pinned?.row === place.row && state.pinned.at === place.at;
    Object.assign(state, { pinned: again ? null : place, hovered: place });
    update();
    if (!again) uncover(event.target.closest(".pg-reading-token"), side);
    if (!again && event.detail === 0) side.querySelector("button:not(:disabled)")?.focus(); // selected by keyboard
  });
  root.addEventListener("keydown", (event) => {
    if (event.key !== "Escape" || !state.pinned) return;
    const { row, at: index } = state.pinned;
    state.pinned = null;
    update();
    rows.of(row)?.chip(index)?.focus();
  });
}

define("race", (root) => {
  const stage = { paint: () => {} },
    line = el("div", "pg-race-top"),
    bar = el("div", "pg-race-bar pg-no-export"),
    notes = el("p", "pg-race-edited"),
    chat = el("details", "pg-race-chat pg-no-export"),
    grid = el("div", "pg-race-grid"),
    side = el("aside", "pg-race-side pg-no-export"),
    below = el("div", "pg-race-below"),
    rows = rowList(stage),
    reveal = revealing(rows.node, bar),
    buttons = runBar(reveal),
    status = runStatus(),
    choices = colorChoices({ recolor: () => recolor(), update: () => update() });
  let parts = null,
    itself = 0, // timer of the first texts, which a small model writes without a click
    due = null;
  // Wait briefly: a link may change the settings first.
  const begin = () => {
    if (pageState.restoring) itself = setTimeout(begin, PAUSE);
    else if (root.offsetParent && !state.rows.size && !going()) ask("start");
  };
  bar.append(buttons.node, status.node);
  grid.append(rows.node, side);
  line.append(bar, choices.node);
  root.append(line, status.problem, notes, chat, grid, below);

  const recolor = () => {
    stage.paint = painter(root);
    rows.each((view) => view.color());
  };
  const update = () => {
    rows.each((view) => view.update());
    parts.update(going());
  };
  const arrange = () => {
    root.classList.toggle("pg-race-empty", !state.rows.size);
    root.classList.toggle("pg-race-going", going());
    rows.arrange();
    choices.paint();
    paintChatPrompt(chat);
  };
  const paint = (what) => {
    if (!state.payload) return;
    const { edited, words } = state.payload;
    notes.textContent = [edited ? words.edited : "", state.current?.eight ?? ""].filter(Boolean).join(" ");
    buttons.paint();
    status.paint();
    if (what === "rows" || what === "over") arrange();
    update();
    if (what === "over") root.dataset.over = state.current?.id ?? "";
  };
  changed((what) => {
    if (what !== "data") return paint(what);
    if (due === null)
      due = requestAnimationFrame(() => {
        due = null;
        paint("data");
      });
  });
  listenToTokens(root, rows, side, { describe: () => parts?.token(), update });
  onTheme(() => {
    if (!state.payload) return;
    choices.paintLegend();
    recolor();
  });
  return (next) => {
    const first = !state.payload;
    state.payload = next;
    buttons.forget();
    if (first || parts.language !== next.words.start) {
      parts = partsBeside(side, below, next, api);
      parts.language = next.words.start;
      rows.forget();
    }
    recolor();
    choices.paintLegend();
    arrange();
    paint("rows");
    root.dataset.run = next.key;
    clearTimeout(itself);
    if (next.auto) itself = setTimeout(begin, PAUSE);
  };
});
