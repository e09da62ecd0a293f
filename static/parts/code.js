// The lines of code behind a number, collapsed: their location, source text, and the resulting shapes.
//
// payload: { sets [[name, excerpts [{ caption, pieces [[line, text]], shapes { line: text } }]]], words }, see viz/seam/code.py
import { el } from "../page/dom.js";
import { define } from "../page/mount.js";
import { icon } from "./icons.js";
import { switcher } from "./switcher.js";

const KEYWORDS =
  "False None True and as assert break class continue def del elif else except finally for from if import in is lambda not or pass raise return try while with yield";
const KINDS = ["string", "comment", "keyword", "number"];
const PIECE = new RegExp(
  [
    String.raw`("""[\s\S]*?"""|"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*')`,
    "(#.*)",
    String.raw`\b(${KEYWORDS.replaceAll(" ", "|")})\b`,
    String.raw`\b(\d[\d_.]*)`,
  ].join("|"),
  "g",
);

// Convert the lines of a text to spans.
function colored(text) {
  const lines = [[]];
  const put = (kind, piece) =>
    piece.split("\n").forEach((part, i) => {
      if (i) lines.push([]);
      if (part) lines.at(-1).push(kind ? el("span", `pg-excerpt-${kind}`, part) : part);
    });
  let at = 0;
  for (const match of text.matchAll(PIECE)) {
    put("", text.slice(at, match.index));
    put(KINDS[match.slice(1).findIndex((group) => group !== undefined)], match[0]);
    at = match.index + match[0].length;
  }
  put("", text.slice(at));
  return lines;
}

const gap = () => {
  const row = el("div", "pg-excerpt-gap", "", { "aria-hidden": "true" });
  row.append(icon("gap"));
  return row;
};
function excerptOf({ caption, pieces, shapes }) {
  const figure = el("figure", "pg-excerpt"),
    scroll = el("div", "pg-excerpt-box", "", { tabindex: 0, role: "group", "aria-label": caption }),
    grid = el("div");
  pieces.forEach(([first, text], i) => {
    if (i) grid.append(gap());
    colored(text).forEach((spans, n) => {
      const row = el("div", "pg-excerpt-row"),
        code = el("code");
      code.append(...spans);
      row.append(el("span", "", String(first + n), { "aria-hidden": "true" }), code);
      if (shapes[first + n]) row.append(el("em", "", shapes[first + n]));
      grid.append(row);
    });
  });
  scroll.append(grid);
  figure.append(el("figcaption", "", caption), scroll);
  return figure;
}

const textOf = (excerpts) =>
  excerpts.map(({ caption, pieces }) => [`# ${caption}`, ...pieces.map(([, text]) => text)].join("\n")).join("\n\n");

// `state`, { open, set }, holds the user's choices, which persist when the content changes.
export function codeBox({ sets, words }, state) {
  if (!sets.length) return null; // the installation does not contain the sources
  const box = el("details", "pg-excerpts pg-no-export"),
    top = el("div", "pg-excerpt-top"),
    list = el("div", "pg-excerpt-list"),
    said = el("span", "pg-muted", "", { role: "status" }),
    copy = el("button", "pg-button pg-quiet", words.copy, { type: "button" });
  const chosen = () => sets.find(([name]) => name === state.set) ?? sets[0];
  const show = () => list.replaceChildren(...chosen()[1].map(excerptOf));
  copy.onclick = async () => {
    try {
      await navigator.clipboard.writeText(textOf(chosen()[1]));
      said.textContent = words.copied;
    } catch {
      said.textContent = words.not_copied; // the clipboard requires https and permission
    }
  };
  const choose = (name) => {
    state.set = name;
    said.textContent = "";
    show();
  };
  if (sets.length > 1)
    top.append(
      switcher(
        words.whose,
        sets.map(([name]) => [name, name]),
        chosen()[0],
        choose,
      ),
    );
  top.append(copy, said);
  box.append(el("summary", "", words.title), el("p", "pg-muted", words.about), top, list);
  box.open = Boolean(state.open);
  if (box.open) show();
  box.ontoggle = () => {
    state.open = box.open;
    if (box.open) show();
  };
  return box;
}

define("codelines", (root) => {
  const state = {};
  return (payload) => {
    root.replaceChildren(codeBox(payload, state) ?? "");
    root.dataset.run = payload.run;
  };
});
