// The two columns of tokens, and what is shown of the hovered or picked one: the numbers beside its partners.
//
// `board`: the state of the lines, see lines.js.
import { el, fill, hint } from "../page/dom.js";
import { percent } from "../parts/percent.js";
import { grouped, partnersOf } from "../views/attention/lines_links.js";
import { active, settled, sizesOf } from "./lines_curves.js";
import { swatch } from "./looks.js";

const NUMBERS = 12, // maximum number of partners with numbers
  NAMED = 4, // maximum number of partners in the readout
  SHOWN = 3; // maximum number of heads with a number beside a partner

// Build one column of tokens. Each line is a button and the number beside it.
export function column(side, texts, label) {
  const node = el("div", `pg-viewer-column pg-viewer-${side}`, "", { role: "group", "aria-label": label });
  node.append(
    ...texts.map((text, at) => {
      const line = el("div", "pg-viewer-row"),
        button = el("button", "pg-lines-token", text, {
          type: "button",
          "data-side": side,
          "data-at": at,
          "aria-pressed": "false",
          "aria-label": `${text}, ${at}, ${label}`,
          tabindex: side === "query" && !at ? 0 : -1,
        });
      line.append(button, el("span", "pg-viewer-beside"));
      return line;
    }),
  );
  return node;
}
export const lineOf = ({ sides }, side, at) => sides[side].children[at];

// Say the partners of a token in the readout, `groups` in decreasing order.
function say({ look, readout }, now, groups, numbered) {
  const { data, words, unit } = look,
    { queries, keys } = data.labels(unit),
    [own, texts] = now.left ? [queries, keys] : [keys, queries],
    [at] = now.tokens;
  const said = groups.slice(0, NAMED).map(([other, items]) => {
    const item = el("span", "pg-viewer-partner");
    item.append(
      el("span", "pg-links-mono", `${texts[other]} (${other})`),
      ...items.slice(0, SHOWN).flatMap((each) => [" ", numbered(each)]),
    );
    return item;
  });
  readout.replaceChildren(
    el("strong", "pg-links-mono", `${own[at]} (${at})`),
    el("span", "pg-muted", groups.length ? words[now.left ? "reads" : "read_by"] : words.no_edge),
    ...said,
    ...(groups.length > NAMED ? [el("span", "pg-muted", fill(words.more, { n: groups.length - NAMED }))] : []),
  );
}

// Show the numbers of the hovered or picked token beside its partners, and dim all others.
export function isolate(board) {
  const { look, grid, readout, panels } = board,
    { words, picked } = look,
    now = active(board),
    groups = now ? grouped(partnersOf(settled(board), now)) : [],
    [near, far] = now?.left ? ["query", "key"] : ["key", "query"];
  grid.classList.toggle("pg-lines-alone", Boolean(now));
  for (const line of board.marked) {
    line.firstChild.classList.remove("pg-lines-on");
    line.lastChild.replaceChildren();
  }
  board.marked = [];
  for (const button of grid.querySelectorAll('[aria-pressed="true"]')) button.setAttribute("aria-pressed", "false");
  if (picked) lineOf(board, picked.side, picked.at)?.firstChild.setAttribute("aria-pressed", "true");
  readout.classList.toggle("pg-muted", !now);
  if (!now) {
    readout.textContent = `${words.about_lines} ${hint(words, "lines_help")}`;
    return;
  }
  const numbered = ({ panel, value }) => {
    const item = el("span", "pg-viewer-value", "", { title: value.toFixed(6), "data-head": panel.name });
    item.append(...(panels.length > 1 ? [swatch(look.hue(panel.index))] : []), percent(value));
    return item;
  };
  board.marked = [lineOf(board, near, now.tokens[0]), ...groups.map(([other]) => lineOf(board, far, other))];
  for (const line of board.marked) line.firstChild.classList.add("pg-lines-on");
  for (const [other, items] of groups.slice(0, NUMBERS))
    lineOf(board, far, other).lastChild.append(...items.slice(0, SHOWN).map(numbered));
  say(board, now, groups, numbered);
}

// Move between tokens and columns with the arrow keys.
export function moveAmong(board, event) {
  const token = event.target.closest?.(".pg-lines-token");
  if (!token) return;
  const { side } = token.dataset,
    at = +token.dataset.at,
    [queries, keys] = sizesOf(board);
  const to = {
    ArrowDown: [side, at + 1],
    ArrowUp: [side, at - 1],
    ArrowLeft: ["query", Math.min(at, queries - 1)],
    ArrowRight: ["key", Math.min(at, keys - 1)],
    Home: [side, 0],
    End: [side, (side === "query" ? queries : keys) - 1],
  }[event.key];
  const line = to && lineOf(board, ...to);
  if (!line) return;
  event.preventDefault();
  token.tabIndex = -1;
  line.firstChild.tabIndex = 0;
  line.firstChild.focus();
}
