// The footer of every figure: the source of its numbers, and a menu with all export formats.
//
// exporting(root, source) -> the element. Each entry of `source` is a value or a function that returns it:
//  file, title, source   describe the numbers
//  note                  one sentence about the figure
//  names, lines          the numbers as a table at full precision; if absent, no numbers are exported
//  all                   a promise of { names, lines }, if they must be requested from the server
//   arrays                { name: { data: typed array, shape } or [texts] } for NPZ; else the columns of the lines
//  json                  an object, if a table cannot represent the numbers
//   table                 true, or { names, lines, note }: a button that shows the numbers below
//  figure                { data, layout } of Plotly; otherwise pictures and pages show a copy of `root`
//  picture               (format) -> blob, for parts that draw their own
//  python                code that reproduces the numbers
//  extra                 elements placed before the buttons
import { el, fill } from "../page/dom.js";
import { tools } from "../parts/figure/tools.js";
import { tableOf } from "../parts/table.js";
import { csv, json, npz, parquet, save } from "./files.js";
import * as onefile from "./onefile.js";
import { picture } from "./picture.js";
import { exportWords, label, resolved, sourceOf, sources } from "./sources.js";

const MOST = 100; // maximum number of rows of a table below a figure
const MAKE = {
  png: (one) => picture(one, "png"),
  svg: (one) => picture(one, "svg"),
  html: (one) => onefile.figure(one),
  csv: async (one) => csv(await one.numbers(), exportWords().column),
  parquet: async (one) => parquet(await one.numbers()),
  npz: async (one) => {
    const table = await one.numbers();
    return npz(one.arrays(table), table);
  },
  json: (one) => json(one.json(), one),
};
function groups(one) {
  const numbers = one.has("lines") || one.has("all") ? ["csv", "parquet", "npz"] : [];
  return [
    ["picture", ["png", "svg"]],
    ["page", ["html"]],
    ["numbers", [...numbers, ...(one.has("json") ? ["json"] : [])]],
    ["code", one.python ? ["copy"] : []],
  ];
}

// --- the menu: in the browser's top layer, so that it is never clipped ---

function menu(button, root, done) {
  const words = exportWords();
  const list = el("div", "pg-export-menu", "", { role: "menu", popover: "auto" }),
    one = sourceOf(root);
  list.setAttribute("aria-label", words.open);
  for (const [name, keys] of groups(one)) {
    if (!keys.length) continue;
    const group = el("div", "pg-export-group", "", { role: "group", "aria-label": words[name] });
    if (name !== "code") group.append(el("span", "pg-muted", words[name], { "aria-hidden": "true" }));
    for (const key of keys) {
      const item = el("button", "pg-export-item", words[key], { type: "button", role: "menuitem", "data-format": key });
      item.tabIndex = -1;
      item.onclick = () => {
        close(true);
        done(key);
      };
      group.append(item);
    }
    list.append(group);
  }
  const items = [...list.querySelectorAll("button")];
  const close = (back) => {
    if (back) button.focus({ preventScroll: true });
    list.hidePopover();
  };
  list.onkeydown = (event) => {
    const at = items.indexOf(document.activeElement),
      n = items.length;
    const to = {
      ArrowDown: (at + 1) % n,
      ArrowRight: (at + 1) % n,
      ArrowUp: (at + n - 1) % n,
      ArrowLeft: (at + n - 1) % n,
      Home: 0,
      End: n - 1,
    }[event.key];
    if (event.key === "Escape" || event.key === "Tab") {
      if (event.key === "Escape") event.preventDefault();
      event.stopPropagation(); // close only the menu
      close(true);
    } else if (to !== undefined) {
      event.preventDefault();
      items[to].focus();
    }
  };
  // Keep the menu beside its button while the page scrolls; close it once the button is out of view.
  const place = () => {
    const { left, right, top, bottom } = button.getBoundingClientRect(),
      { offsetWidth: wide, offsetHeight: high } = list,
      gap = 4;
    if (bottom < 0 || top > window.innerHeight) return close(false);
    const below = bottom + gap + high <= window.innerHeight || top < high + gap;
    list.style.left = `${Math.max(gap, Math.min(Math.max(left, right - wide), window.innerWidth - wide - gap))}px`;
    list.style.top = `${Math.max(gap, Math.min(below ? bottom + gap : top - gap - high, window.innerHeight - high - gap))}px`;
  };
  list.addEventListener("toggle", ({ newState }) => {
    if (newState !== "closed") return;
    window.removeEventListener("scroll", place, true);
    window.removeEventListener("resize", place);
    button.setAttribute("aria-expanded", "false");
    list.remove();
  });
  button.after(list);
  list.showPopover();
  button.setAttribute("aria-expanded", "true");
  place();
  items[0].focus({ preventScroll: true });
  window.addEventListener("scroll", place, { passive: true, capture: true });
  window.addEventListener("resize", place);
}

// Show Python lines with a button that copies them; a second call hides them again.
function code(root, text) {
  const words = exportWords();
  root.hidden = !root.hidden;
  if (root.hidden) return;
  const copy = el("button", "pg-button pg-quiet", words.copy_short, { type: "button" });
  copy.onclick = async () => {
    try {
      await navigator.clipboard.writeText(text);
      copy.textContent = words.copied;
    } catch {
      getSelection().selectAllChildren(lines);
    }
  };
  const lines = el("pre", "", text, { tabindex: 0 });
  root.replaceChildren(lines, copy);
}

// Scroll to what has opened: below the fold, it would look as if nothing had happened.
const reveal = (node) => {
  if (!node.hidden) node.scrollIntoView({ block: "nearest" });
};

// Show a table below the figure: at most MOST rows in decreasing order; exported files contain all rows.
function table(root, { names, lines, note }) {
  const words = exportWords();
  root.hidden = !root.hidden;
  if (root.hidden) return;
  const size = (line) => (typeof line.at(-1) === "number" ? Math.abs(line.at(-1)) : -1);
  const shown = note ? lines : [...lines].sort((a, b) => size(b) - size(a)).slice(0, MOST);
  const written = (value) => (typeof value === "number" ? String(+value.toPrecision(6)) : value);
  root.replaceChildren(
    tableOf({
      caption: note ?? fill(words.table_note, { n: shown.length }),
      columns: names,
      rows: shown.map((line) => line.map(written)),
      named: -1,
    }),
  );
}

export function exporting(root, source) {
  sources.set(root, source);
  const whole = el("div", "pg-export"),
    foot = el("div", "pg-foot"),
    row = tools([]),
    status = el("span", "pg-export-said pg-muted", "", { role: "status" });
  const grid = el("div", "pg-table", "", { tabindex: 0 }),
    python = el("div", "pg-code");
  grid.hidden = python.hidden = true;
  const button = (key, action) => {
    const node = label(el("button", "pg-button pg-quiet", "", { type: "button" }), key);
    node.onclick = action;
    row.append(node);
    return node;
  };
  row.append(...(source.extra ?? []), status);
  if (source.table)
    button("table", async () => {
      const { names, lines } = await sourceOf(root).numbers();
      table(grid, source.table === true ? { names, lines } : resolved(source.table));
      reveal(grid);
    });
  if (source.python)
    button("python", () => {
      code(python, sourceOf(root).python);
      reveal(python);
    });
  // Show one picture in full screen; the same button or Escape restores the page.
  if (document.fullscreenEnabled) {
    const wide = button("full", () =>
      document.fullscreenElement ? document.exitFullscreen() : root.requestFullscreen(),
    );
    wide.classList.add("pg-full");
  }
  const take = async (key) => {
    const one = sourceOf(root);
    const { words } = one;
    if (key === "copy") {
      try {
        await navigator.clipboard.writeText(one.python);
        status.textContent = words.copied;
      } catch {
        python.hidden = true;
        code(python, one.python);
      }
      return;
    }
    status.textContent = words.making;
    open.disabled = true;
    await new Promise((ready) => setTimeout(ready));
    try {
      save(`${one.file}.${key}`, await MAKE[key](one));
      status.textContent = "";
    } catch (error) {
      status.textContent = words.failed;
      console.warn(error);
    }
    open.disabled = false;
  };
  const open = button("open", () => {
    status.textContent = "";
    menu(open, root, take);
  });
  open.classList.add("pg-export-open");
  open.setAttribute("aria-haspopup", "menu");
  open.setAttribute("aria-expanded", "false");
  foot.append(el("span", "pg-source", resolved(source.source) ?? ""), row);
  whole.append(foot, grid, python);
  return whole;
}
