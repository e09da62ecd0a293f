// The viewer of a document: attention of any model as arrays, with the numbers of its heads. The page opens it over
// itself (overlay.js); a file of its own opens it alone (alone.js). See data.js for the document.
import { csv, save } from "../export/files.js";
import { el, fill } from "../page/dom.js";
import { tools } from "../parts/figure/tools.js";
import { cross } from "../parts/icons.js";
import { switcher } from "../parts/switcher.js";
import { dataOf } from "./data.js";
import { headsGrid } from "./heads.js";
import { imagePanel } from "./image.js";
import { linesPanel } from "./lines.js";
import { swatch } from "./looks.js";
import { mapPanel } from "./map.js";
import { numbersOf, tablePanel } from "./table.js";
import { textPanel } from "./text.js";

const MOST = 8, // maximum number of selected heads, one hue each
  FIRST = ["induction", "previous_token", "previous"], // numbers whose largest head is selected at first
  PANELS = { map: mapPanel, lines: linesPanel, text: textPanel, image: imagePanel, table: tablePanel };

// Choose the head that is selected at first: one with a visible pattern, if a number tells.
function firstHead({ numbers, heads, layers }, all) {
  const of = FIRST.map((key) => numbers.find((number) => number.key === key)).find(Boolean),
    values = of?.values.tokens ?? [],
    best = values.reduce((top, value, at) => (value !== null && !(value <= values[top]) ? at : top), -1);
  return all[best >= 0 ? best : Math.floor(layers / 2) * heads];
}

function header(look, set, close) {
  const { doc, words, data } = look,
    node = el("header", "pg-viewer-head"),
    name = el("div", "pg-viewer-name"),
    acts = el("div", "pg-viewer-acts"),
    facts = el("p", "pg-viewer-facts"),
    counted = (what, n) => fill(words[`count_${what}${n === 1 ? "_one" : ""}`], { n });
  const texts = [
    `${counted("layers", doc.layers)} × ${counted("heads", doc.heads)}`,
    data.same ? counted("tokens", data.T) : fill(words.count_cross, { n: data.T, m: data.S }),
    words[`mask_${doc.mask.replace("-", "_")}`],
  ];
  facts.append(...texts.map((text) => el("span", "", text)));
  name.append(el("h1", "", doc.title, { dir: "auto" }), facts);
  if (data.units.length > 1) {
    const units = data.units.map((unit) => [unit, words[`unit_${unit}`]]),
      group = switcher(words.unit, units, look.unit, (unit) => set({ unit }));
    group.title = words.unit_help;
    acts.append(group);
  }
  if (close) acts.append(cross(words.close, close, { look: "pg-viewer-close", title: words.close_help }));
  node.append(name, acts);
  if (doc.notes.length) {
    const notes = el("ul", "pg-viewer-notes");
    notes.append(...doc.notes.map((note) => el("li", "", note)));
    node.append(notes);
  }
  return node;
}

// Build the row of the selected heads, each with its hue.
function selectedHeads(look, set) {
  const node = el("div", "pg-viewer-selected", "", { role: "group", "aria-label": look.words.selected });
  return {
    node,
    draw() {
      node.replaceChildren(
        ...look.heads.map((head, i) => {
          const chip = el("span", "pg-viewer-chip"),
            text = fill(look.words.head, { head: look.data.name(head) });
          chip.append(swatch(look.hue(i)), text);
          if (look.heads.length > 1) {
            const remove = () => set({ heads: look.heads.filter((other) => other !== head), only: null });
            chip.append(cross(`${look.words.remove}: ${text}`, remove));
          }
          return chip;
        }),
      );
    },
  };
}

// Return the shown weights as a table, at full precision.
function weightsOf({ data, heads, unit, words }) {
  const { queries, keys } = data.labels(unit),
    lines = [];
  for (const head of heads) {
    const { rows, columns, values } = data.matrix(unit, head);
    for (let q = 0; q < rows; q++)
      for (let k = 0; k < columns; k++) {
        const value = values[q * columns + k];
        if (!Number.isNaN(value)) lines.push([data.name(head), q, queries[q], k, keys[k], value]);
      }
  }
  const names = ["head_column", "query_position", `queries_${unit}`, "key_position", `keys_${unit}`, "weight"];
  return { names: names.map((name) => words[name]), lines };
}

function detail(look, { set, pick }) {
  const { words, doc } = look,
    node = el("section", "pg-viewer-detail", "", { "aria-label": words.detail }),
    top = el("div", "pg-viewer-detail-top"),
    places = el("div", "pg-viewer-panels"),
    foot = el("div", "pg-viewer-foot"),
    selected = selectedHeads(look, set),
    keys = Object.keys(PANELS).filter(
      (key) => (key !== "image" || doc.image) && (key !== "table" || doc.numbers.length),
    ),
    panels = Object.fromEntries(keys.map((key) => [key, PANELS[key](look, { set, pick })])),
    tabs = switcher(
      words.panels,
      keys.map((key) => [key, words[`panel_${key}`]]),
      look.panel,
      (panel) => set({ panel }),
    );
  const file = (end) =>
      `${doc.title}-${look.panel === "table" ? "heads" : look.heads.map(look.data.name).join("-")}.${end}`,
    saveNumbers = () => {
      const table = look.panel === "table" ? numbersOf(look) : weightsOf(look);
      save(file("csv"), csv({ ...table, title: doc.title, source: words[`unit_${look.unit}`] }, words.csv_about));
    },
    savePicture = async () => save(file("png"), await panels[look.panel].picture());
  const exports = tools([
    [words.save_numbers, saveNumbers],
    [words.save_picture, savePicture],
  ]);
  tabs.classList.add("pg-viewer-tabs");
  top.append(tabs, selected.node);
  for (const [key, panel] of Object.entries(panels)) {
    panel.node.dataset.panel = key;
    places.append(panel.node);
  }
  foot.append(el("span", "pg-muted", words.precision), exports);
  node.append(top, places, foot);
  return {
    node,
    draw(changes) {
      selected.draw();
      selected.node.hidden = look.panel === "table";
      exports.children[1].hidden = !panels[look.panel].picture;
      for (const [key, panel] of Object.entries(panels)) panel.node.hidden = key !== look.panel;
      panels[look.panel].draw(changes);
    },
  };
}

// The unit that holds the token where another unit begins, so that the picked token stays picked.
function moved({ picked, unit: before, data }, unit) {
  if (!picked) return null;
  const side = picked.side === "query" ? "queries" : "keys",
    [token] = data.spans(before)[side][picked.at];
  return { ...picked, at: data.spans(unit)[side].findIndex(([start, end]) => token >= start && token < end) };
}

// Show a document in `root`. `close`: the action of the close button, which is absent without it. Resolves when it
// is drawn.
export async function mount(root, doc, { close = null } = {}) {
  const data = await dataOf(doc),
    look = {
      doc,
      data,
      words: doc.words,
      unit: "tokens",
      heads: [firstHead(doc, data.heads)],
      number: doc.numbers[0]?.key ?? "",
      adds: false, // whether a tap adds to the selected heads
      grid: "maps", // the picture of the overview: maps, values, or sorted
      panel: doc.image ? "image" : "map",
      picked: null, // { side: "query" or "key", at }: the token that the lines, the text and the picture are about
      pair: null, // [query, key]: the chosen cell of the map
      only: null, // the index of the selected head that the text and the picture show; null for the mean
      hue: (i) => doc.hues[i % doc.hues.length],
    };
  const set = (changes) => {
    const more = "unit" in changes ? { picked: moved(look, changes.unit), pair: null } : {};
    Object.assign(look, more, changes);
    for (const part of parts) part.draw({ ...more, ...changes });
  };
  const pick = (index, add) => {
    const head = data.heads[index],
      others = look.heads.filter((other) => other !== head),
      has = others.length < look.heads.length;
    if (!add && !look.adds) return set({ heads: [head], only: null });
    if (has && !others.length) return;
    set({ heads: has ? others : [...look.heads, head].slice(-MOST), only: null });
  };
  const grid = headsGrid(look, { set, pick }),
    shown = detail(look, { set, pick }),
    parts = [grid, shown],
    columns = el("div", "pg-viewer-columns");
  columns.append(grid.node, shown.node);
  root.classList.add("pg-viewer");
  root.lang = doc.language;
  root.replaceChildren(header(look, set, close), columns);
  root.addEventListener("keydown", (event) => {
    if (event.key !== "Escape" || !look.picked) return;
    event.stopPropagation(); // the first Escape clears what is picked, the next one closes
    event.preventDefault();
    set({ picked: null, pair: null });
  });
  set({});
  root.dataset.run = doc.title;
}
