// Three lens grids: the run that gives a vector, the one that receives it, and that one with the vector in its place.
// value: { source: [layers passed, position], target: [layers passed, position] }
//
// payload: { title, about, grids: { source, target, after }, ramps, top, words, python, file, source }; a grid is the
// lens's table with `values`, which color it up to `top`, and `cell`, the picked one; `after` has `reach`, whether a
// cell could change
import { el, fill, roving } from "../../page/dom.js";
import { define } from "../../page/mount.js";
import { isDark, onTheme } from "../../page/theme.js";
import { lookup } from "../../parts/colors.js";
import { decoded } from "../../parts/figure/figure_numbers.js";
import { titled } from "../../parts/titled.js";
import { ink, lensGrid, PLACES, placeOf, read, readoutOf, walk } from "./lens.js";

const NAMES = ["source", "target", "after"];

// Build one grid in its frame. `pick(cell)` is called with a clicked cell, `tell(nodes)` with the description of one.
function frameOf(name, pick, tell) {
  const root = el("section", "pg-place-grid"),
    title = el("h3"),
    note = el("p", "pg-about"),
    box = el("div", "pg-lens-box", "", { role: "region" });
  let now = null,
    buttons = [];
  root.append(title, note, box);
  const cellOf = (index) => {
    const [row, column] = placeOf(now, index);
    return [now.payload.layers[row], now.payload.positions[column]];
  };
  const indexOf = (event) => event.target.closest?.("button[data-index]")?.dataset.index;
  const say = (event) => {
    const index = indexOf(event);
    if (index !== undefined) tell(readoutOf(now, +index));
  };
  box.addEventListener("mouseover", say);
  box.addEventListener("focusin", say);
  box.addEventListener("click", (event) => {
    const index = indexOf(event);
    if (index !== undefined && pick) pick(cellOf(+index));
  });
  roving(box, (key, at) => walk(now, key, at));
  const paint = (ramps) => {
    const ramp = lookup(ramps[isDark() ? "dark" : "light"]),
      { top } = now.payload;
    buttons.forEach((button, index) => {
      const still = now.payload.reach && !now.payload.reach[index],
        rgb = ramp[Math.round(254 * PLACES.sqrt(Math.min(now.values[index], top), top))];
      button.style.background = still ? "" : `rgb(${rgb})`;
      button.style.color = still ? "" : ink(rgb);
    });
  };
  const draw = (payload, ramps, text) => {
    const [row, position] = payload.cell,
      { words } = payload;
    now = read(payload);
    now.values = decoded(payload.values).data;
    title.textContent = text.title;
    note.textContent = text.note;
    box.setAttribute("aria-label", text.title);
    box.replaceChildren(lensGrid(now));
    buttons = [...box.querySelectorAll("tbody button")];
    buttons.forEach((button, index) => {
      const [at, column] = cellOf(index),
        own = at === row && column === position,
        still = payload.reach && !payload.reach[index];
      button.setAttribute("aria-pressed", own);
      button.tabIndex = own ? 0 : -1;
      button.classList.toggle("pg-place-still", Boolean(still));
      if (still) button.setAttribute("aria-label", `${button.getAttribute("aria-label")}, ${words.still}`);
      if (name === "target" && at === 0) {
        button.setAttribute("aria-disabled", "true");
        button.title = words.no_embedding;
      }
    });
    paint(ramps);
    const picked = box.querySelector('[aria-pressed="true"]');
    if (picked) {
      box.scrollLeft = picked.offsetLeft + picked.offsetWidth - box.clientWidth;
      box.scrollTop = picked.offsetTop - box.clientHeight / 2;
    }
  };
  const focus = () => box.querySelector('[aria-pressed="true"]')?.focus({ preventScroll: true });
  return {
    root,
    draw,
    paint,
    focus,
    here: () =>
      readoutOf(
        now,
        buttons.findIndex((one) => one.tabIndex === 0),
      ),
  };
}

define("placegrids", (root, props, ask) => {
  const readout = el("div", "pg-lens-readout", "", { "aria-live": "polite" }),
    all = el("div", "pg-place-grids"),
    tell = (nodes) => readout.replaceChildren(...nodes);
  let shown = null;
  const pick = (name) => (cell) => {
    if (name === "target" && cell[0] === 0) return;
    props.value = { ...props.value, [name]: cell };
    ask("select");
  };
  const grids = Object.fromEntries(
    NAMES.map((name) => [name, frameOf(name, name === "after" ? null : pick(name), tell)]),
  );
  all.append(...NAMES.map((name) => grids[name].root));
  const frame = titled(root, all, readout);
  onTheme(() => {
    if (shown) for (const name of NAMES) grids[name].paint(shown.ramps);
  });
  const lines = () => {
    const { words } = shown,
      made = NAMES.flatMap((name) => {
        const now = read(shown.grids[name]);
        return Array.from({ length: now.K * now.P }, (_, index) => {
          const cell = now.at(...placeOf(now, index));
          return [words[`grid_${name}`], cell.layer, cell.position, cell.top[0].text, cell.top[0].p];
        });
      });
    return [[words.column_grid, words.column_layer, words.column_position, words.column_top, words.column_share], made];
  };
  return (payload) => {
    const held = NAMES.find((name) => grids[name].root.contains(document.activeElement));
    shown = payload;
    for (const name of NAMES) {
      const text = {
        title: payload.words[`grid_${name}`],
        note: fill(payload.words[`note_${name}`], { top: payload.top }),
      };
      grids[name].draw({ ...payload.grids[name], words: payload.words, title: text.title }, payload.ramps, text);
    }
    if (held) grids[held].focus();
    tell(grids.after.here());
    frame(payload, { names: () => lines()[0], lines: () => lines()[1] });
  };
});
