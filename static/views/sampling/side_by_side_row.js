// One row: its text as tokens that can be picked, its colours, and how it came to differ from another.
import { el, fill, roving } from "../../page/dom.js";
import { lookInside } from "../../page/prompt/look_inside.js";
import { isDark } from "../../page/theme.js";
import { ink, lookup } from "../../parts/colours.js";
import { piece } from "../../parts/next_tokens.js";
import {
  bits,
  breaks,
  ended,
  leaves,
  NAT,
  percent,
  probability,
  reference,
  remove,
  share,
  stale,
  state,
  tell,
  text,
  whose,
} from "./side_by_side_state.js";

const TAIL = 8; // tokens of the prompt that stand before each text
const CHIP = 44,
  LINE = 29; // about how wide and high a token is drawn, so that rows need not grow while they are written

// --- colours --------------------------------------------------------------------------------------

const place = (record) => {
  const { top } = state.payload.scales;
  const value = {
    probability: probability(record),
    surprisal: bits(record) / top,
    rank: Math.log2(record[2]) / top,
    entropy: record[3] / NAT / top,
  }[state.colour];
  return Math.min(1, Math.max(0, value));
};
// Stops of the ramp; its last quarter is left out, in which text has no room for a quiet ground.
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

export function rowView(row, stage) {
  const { words } = state.payload,
    node = el("section", `pg-race-row${row.depth ? " pg-race-branch" : ""}`, "", { "data-row": row.id });
  const head = el("div", "pg-race-head"),
    fork = el("span", "pg-race-fork"),
    facts = el("span", "pg-race-facts"),
    line = el("div", "pg-race-text", "", { role: "group", "aria-label": fill(words.text_of, { name: row.name }) });
  const note = el("p", "pg-race-note"),
    others = el("details", "pg-race-others"),
    inside = el("span", "pg-race-inside"),
    before = el("span", "pg-race-prompt", "", { title: words.prompt_end });
  node.style.setProperty("--pg-hue", hueOf(row));
  node.style.setProperty("--pg-depth", Math.min(row.depth, 4));
  head.append(
    el("i", "pg-race-swatch", "", { "aria-hidden": true }),
    el("strong", "", row.name),
    el("span", "pg-race-about", row.about),
    fork,
    facts,
  );
  if (row.parent !== null) {
    const gone = el("button", "pg-cross", "×", {
      type: "button",
      "aria-label": fill(words.remove_branch, { name: row.name }),
      title: words.remove,
    });
    gone.onclick = () => {
      remove(row);
      tell("rows");
    };
    head.append(gone);
  }
  head.append(inside);
  const tail = row.prompt.slice(-TAIL);
  before.textContent =
    (row.prompt.length > TAIL ? "… " : "") +
    tail
      .map((id) => text(row, id))
      .join("")
      .replace(/·/g, " ")
      .trimStart();
  line.append(before);
  others.hidden = true;
  node.append(head, line, note, others);
  roving(line, (key, at, n) => ({ ArrowRight: at + 1, ArrowLeft: at - 1, Home: 0, End: n - 1 })[key] ?? null);
  let chips = [],
    ids = [],
    shown = null;
  const chip = (record, at) => {
    const name = text(row, record[0]),
      node = el("button", "pg-reading-token", "", {
        type: "button",
        "data-index": at,
        tabindex: at ? -1 : 0,
        "aria-label": fill(words.token_name, { token: name, n: at + 1, share: percent(probability(record)) }),
      });
    piece(node, name);
    const lines = Array.from({ length: breaks(row, record[0]) }, () => el("br"));
    if (row.at !== null && at < row.at) node.classList.add("pg-race-before");
    else stage.paint(node, record);
    line.append(node, ...lines);
    return { node, lines };
  };
  const view = { node, row };
  view.update = () => {
    let same = 0;
    while (same < ids.length && same < row.records.length && ids[same] === row.records[same][0]) same++;
    for (const { node, lines } of chips.splice(same)) {
      node.remove();
      lines.forEach((each) => each.remove());
    }
    for (let at = same; at < row.records.length; at++) chips.push(chip(row.records[at], at));
    ids = row.records.map((record) => record[0]);
    const marked = state.pinned?.row === row.id ? state.pinned.at : null,
      from = reference();
    const at = row.at ?? (from && from !== row && from.key === row.key ? leaves(row, from) : null);
    chips.forEach(({ node }, n) => {
      node.classList.toggle("pg-race-parts", n === at);
      if (node.ariaPressed !== String(n === marked)) node.ariaPressed = String(n === marked);
    });
    const old = words[whose(row, state.payload)];
    facts.replaceChildren(
      ...[fill(words.n_tokens, { n: row.records.length }), ended(row) && words[`ended_${row.ended}`], old]
        .filter(Boolean)
        .map((each) => el("span", each === old ? "pg-race-stale" : "", each)),
    );
    const found = row.turns ? row.model === state.payload.model && row.own : row.whole;
    if (found !== shown) {
      shown = found;
      inside.replaceChildren(...(found ? [lookInside(found, row.turns ? "" : row.asked, row.turns)] : []));
    }
    node.classList.toggle("pg-race-old", stale(row));
    if (row.parent !== null && row.records[row.at]) fork.textContent = forked(row);
    const summary = sentence(row, from, at);
    if (note.textContent !== summary) note.textContent = summary;
    if (row.others && others.hidden) best(row);
  };
  view.colour = () =>
    chips.forEach(({ node }, at) => {
      if (!node.classList.contains("pg-race-before")) stage.paint(node, row.records[at]);
    });
  view.chip = (at) => chips[at]?.node;
  // Room for all that is to come, so that the rows below stay where they are.
  view.reserve = (on) => {
    line.style.minHeight =
      on && line.clientWidth ? `${LINE * Math.ceil(((row.limit + TAIL) * CHIP) / line.clientWidth) + 12}px` : "";
  };
  const best = () => {
    const list = el("ol");
    for (const [ids, score] of row.others) {
      const item = el("li");
      item.append(
        el("b", "", score.toFixed(3)),
        el(
          "span",
          "",
          ids
            .map((id) => text(row, id))
            .join("")
            .replace(/·/g, " "),
        ),
      );
      list.append(item);
    }
    others.hidden = false;
    others.replaceChildren(el("summary", "", fill(words.others, { n: row.others.length })), list);
  };
  return view;
}

// What a branch is called besides its strategy.
export const forked = (row) =>
  fill(state.payload.words.tree_branch, {
    n: row.at + 1,
    token: row.records[row.at] ? text(row, row.records[row.at][0]) : "",
  });

// How a row came to differ, in words.
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
