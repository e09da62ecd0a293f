// The registry of exportable figures, with everything that an export needs to know about each.
import { onDrawn } from "../page/mount.js";
import { arraysOf } from "./files.js";

export const sources = new Map(); // root -> source, for everything on the page
let words = null,
  status = ""; // the page's status line, which describes the run for figures without a source of their own
export const resolved = (value, ...more) => (typeof value === "function" ? value(...more) : value);

// The words arrive with the page's header; only then do menus created earlier get their labels.
const waiting = new Set();
export const label = (node, key) => {
  node.dataset.word = key;
  if (words) node.textContent = words[key];
  else waiting.add(node);
  return node;
};
onDrawn((root, payload) => {
  if (!payload?.exports) return;
  words = payload.exports;
  status = payload.status.join(" · ");
  for (const node of [...waiting, ...document.querySelectorAll(".pg-export [data-word]")])
    node.textContent = words[node.dataset.word];
  waiting.clear();
});

export const exportWords = () => words;

// Evaluate the entries of a figure's source in the current state; an entry may be a function.
export function sourceOf(root) {
  const source = sources.get(root),
    has = (name) => source[name] !== undefined && source[name] !== null;
  return {
    root,
    words,
    has,
    figure: source.figure,
    own: source.picture,
    file: resolved(source.file),
    title: resolved(source.title) ?? "",
    note: resolved(source.note) ?? "",
    source: resolved(source.source) || status,
    python: resolved(source.python) ?? "",
    numbers: async () => ({
      names: resolved(source.names),
      lines: resolved(source.lines),
      ...(await source.all?.()),
      title: resolved(source.title) ?? "",
      source: resolved(source.source) || status,
    }),
    arrays: (table) => (has("arrays") ? resolved(source.arrays) : arraysOf(table)),
    json: () => resolved(source.json),
  };
}
