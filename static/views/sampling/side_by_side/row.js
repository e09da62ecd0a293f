// One row: its text as selectable tokens, its colors, and an explanation of how it differs from another row.
import { alongRow, el, fill, roving } from "../../../page/dom.js";
import { lookInside } from "../../../page/prompt/look_inside.js";
import { isDark } from "../../../page/theme.js";
import { ink, lookup } from "../../../parts/colors.js";
import { cross } from "../../../parts/icons.js";
import { piece } from "../../../parts/next_tokens.js";
import { percent } from "../../../parts/percent.js";
import {
  bits,
  breaks,
  ended,
  isForced,
  leaves,
  NAT,
  probability,
  reference,
  remove,
  share,
  stale,
  state,
  tell,
  text,
  whose,
} from "./state.js";

const TAIL = 8; // maximum number of prompt tokens shown before each text
const CHIP = 44,
  LINE = 29; // approximate width and height of a token in pixels, to reserve space for rows before they are generated

// --- colors --------------------------------------------------------------------------------------

const place = (record) => {
  const { top } = state.payload.scales;
  const value = {
    probability: probability(record),
    surprisal: bits(record) / top,
    rank: Math.log2(record[2]) / top,
    entropy: record[3] / NAT / top,
  }[state.color];
  return Math.min(1, Math.max(0, value));
};
// The color stops of the ramp without its last quarter, on which text would be hard to read.
export const stops = () => {
  const all = state.payload.scales.ramps[isDark() ? "dark" : "light"];
  return all.slice(0, Math.ceil(all.length * 0.8));
};
export const painter = (root) => {
  const ramp = lookup(stops()),
    plain = getComputedStyle(root).getPropertyValue("--pg-text").trim();
  return (chip, record) => {
    const ground = ramp[Math.round(place(record) * (ramp.length - 1))];
    chip.style.backgroundColor = `rgb(${ground})`;
    chip.style.color = ink(ground, plain);
  };
};
export const hueOf = (row) => state.payload.scales.hues[row.hue % state.payload.scales.hues.length];

// --- one row --------------------------------------------------------------------------------------

const writtenOf = (row, ids) =>
  ids
    .map((id) => text(row, id))
    .join("")
    .replace(/·/g, " ");

// Build the header of a row: name, description, length; a branch has a remove button. Returns { node, show(row) }.
function rowHead(row, words) {
  const node = el("div", "pg-race-head"),
    fork = el("span", "pg-race-fork"),
    facts = el("span", "pg-race-facts"),
    inside = el("span", "pg-race-inside");
  let shown = null;
  node.append(
    el("i", "pg-race-swatch", "", { "aria-hidden": true }),
    el("strong", "", row.name),
    el("span", "pg-race-about", row.about),
    fork,
    facts,
  );
  if (row.parent !== null) {
    const gone = () => {
      remove(row);
      tell("rows");
    };
    node.append(cross(fill(words.remove_branch, { name: row.name }), gone, { title: words.remove }));
  }
  node.append(inside);
  const show = () => {
    const { payload } = state,
      old = words[whose(row, payload)],
      forced = row.records.filter(isForced).length,
      texts = [
        fill(words.n_tokens, { n: row.records.length }),
        forced && fill(row.saved ? words.n_forced_saved : words.n_forced, { n: forced, saved: row.saved }),
        ended(row) && words[`ended_${row.ended}`],
        old,
      ];
    facts.replaceChildren(
      ...texts.filter(Boolean).map((each) => el("span", each === old ? "pg-race-stale" : "", each)),
    );
    const found = row.turns ? row.model === payload.model && row.own : row.whole;
    if (found !== shown) {
      shown = found;
      inside.replaceChildren(...(found ? [lookInside(found, row.turns ? "" : row.asked, row.turns)] : []));
    }
    if (row.parent !== null && row.records[row.at]) fork.textContent = forked(row);
  };
  return { node, show };
}

// Build the tokens of a row after the end of the prompt; only changes are redrawn.
function rowText(row, words, stage) {
  const node = el("div", "pg-race-text", "", { role: "group", "aria-label": fill(words.text_of, { name: row.name }) }),
    before = el("span", "pg-race-prompt", "", { title: words.prompt_end });
  let chips = [],
    ids = [];
  before.textContent = (row.prompt.length > TAIL ? "… " : "") + writtenOf(row, row.prompt.slice(-TAIL)).trimStart();
  node.append(before);
  roving(node, alongRow);
  const chip = (record, at) => {
    const name = text(row, record[0]),
      token = el("button", "pg-reading-token", "", {
        type: "button",
        "data-index": at,
        tabindex: at ? -1 : 0,
        "aria-label": fill(words.token_name, { token: name, n: at + 1, share: percent(probability(record)) }),
      });
    piece(token, name);
    token.classList.toggle("pg-race-forced", isForced(record));
    const lines = Array.from({ length: breaks(row, record[0]) }, () => el("br"));
    if (row.at !== null && at < row.at) token.classList.add("pg-race-before");
    else stage.paint(token, record);
    node.append(token, ...lines);
    return { token, lines };
  };
  return {
    node,
    at: (index) => chips[index]?.token,
    // `apart`: the index of the first token that differs from another row, or null.
    show(apart) {
      let same = 0;
      while (same < ids.length && same < row.records.length && ids[same] === row.records[same][0]) same++;
      for (const { token, lines } of chips.splice(same)) {
        token.remove();
        lines.forEach((each) => each.remove());
      }
      for (let at = same; at < row.records.length; at++) chips.push(chip(row.records[at], at));
      ids = row.records.map((record) => record[0]);
      const marked = state.pinned?.row === row.id ? state.pinned.at : null;
      chips.forEach(({ token }, n) => {
        token.classList.toggle("pg-race-parts", n === apart);
        if (token.ariaPressed !== String(n === marked)) token.ariaPressed = String(n === marked);
      });
    },
    color() {
      chips.forEach(({ token }, at) => {
        if (!token.classList.contains("pg-race-before")) stage.paint(token, row.records[at]);
      });
    },
    // Reserve space for the complete text, so that the rows below do not move.
    reserve(on) {
      const lines = Math.ceil(((row.limit + TAIL) * CHIP) / node.clientWidth);
      node.style.minHeight = on && node.clientWidth ? `${LINE * lines + 12}px` : "";
    },
  };
}

// Build the list of the other finished beams with their scores.
function otherEnds(row) {
  const list = el("ol");
  for (const [ids, score] of row.others) {
    const item = el("li");
    item.append(el("b", "", score.toFixed(3)), el("span", "", writtenOf(row, ids)));
    list.append(item);
  }
  return [el("summary", "", fill(state.payload.words.others, { n: row.others.length })), list];
}

export function rowView(row, stage) {
  const { words } = state.payload,
    node = el("section", `pg-race-row${row.depth ? " pg-race-branch" : ""}`, "", { "data-row": row.id }),
    head = rowHead(row, words),
    line = rowText(row, words, stage),
    note = el("p", "pg-race-note"),
    others = el("details", "pg-race-others");
  node.style.setProperty("--pg-hue", hueOf(row));
  node.style.setProperty("--pg-depth", Math.min(row.depth, 4));
  others.hidden = true;
  node.append(head.node, line.node, note, others);
  const update = () => {
    const from = reference(),
      at = row.at ?? (from && from !== row && from.key === row.key ? leaves(row, from) : null),
      summary = sentence(row, from, at);
    line.show(at);
    head.show();
    node.classList.toggle("pg-race-old", stale(row));
    if (note.textContent !== summary) note.textContent = summary;
    if (!row.others || !others.hidden) return;
    others.hidden = false;
    others.replaceChildren(...otherEnds(row));
  };
  return { node, row, update, color: line.color, chip: line.at, reserve: line.reserve };
}

// Return the name of a branch without that of its strategy.
export const forked = (row) =>
  fill(state.payload.words.tree_branch, {
    n: row.at + 1,
    token: row.records[row.at] ? text(row, row.records[row.at][0]) : "",
  });

// Explain why a row differs from another.
function sentence(row, from, at) {
  const { words } = state.payload;
  if (row.parent !== null) {
    const parent = state.rows.get(row.parent),
      other = parent?.records[row.at],
      record = row.records[row.at];
    return record
      ? fill(words.branched, {
          name: row.name,
          n: row.at + 1,
          token: text(row, record[0]),
          other: other ? text(row, other[0]) : "–",
        })
      : "";
  }
  if (!from || from === row || !row.records.length || from.key !== row.key) return "";
  const name = from.name;
  if (at === null)
    return row.ended && from.ended
      ? fill(words.parts_never, { name, n: Math.min(row.records.length, from.records.length) })
      : fill(words.parts_not_yet, { name });
  const mine = row.records[at],
    theirs = from.records[at],
    shared = mine[6] !== null && theirs[6] === mine[6];
  const describe = (whose, record) => {
    const token = text(whose, record[0]),
      range = share(whose, record);
    if (record[5] === 1) return fill(words.told_alone, { token });
    if (range && shared)
      return fill(words.told_range, {
        token,
        low: range[0].toFixed(3),
        high: Math.min(1, range[1]).toFixed(3),
        kept: record[5].toLocaleString("en"),
      });
    return fill(words.told_share, { token, share: percent(record[4] ?? probability(record)) });
  };
  return fill(words[shared ? "parts_shared" : "parts"], {
    name,
    n: at + 1,
    u: mine[6]?.toFixed(3),
    mine: describe(row, mine),
    theirs: describe(from, theirs),
  });
}
