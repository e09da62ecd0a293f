// Speculative decoding: the text, call by call, with every proposal, and measured values beside predicted ones.
//
// payload of "drafttext": { title, note, prompt, turns, typed, before [text], cut, rounds [{ proposals, token, milliseconds }], same, plain,
//   source, file, run, python, words }; a proposal is [text, id, p, q, sum min(p, q), u, fate], a token
//   [text, id, chance, u, kind], see viz/views/sampling/speculative/figures.py
import { alongRow, el, fill, rests, roving } from "../../page/dom.js";
import { define } from "../../page/mount.js";
import { lookInside } from "../../page/prompt/look_inside.js";
import { icon } from "../../parts/icons.js";
import { titled } from "../../parts/titled.js";

// Describe the outcome of a proposal, with its icon.
const SIGNS = { accepted: "", rejected: "cross", unread: "", corrected: "again", bonus: "plus", alone: "" };
const short = (value) =>
  value === null
    ? "–"
    : value === 0 || value === 1
      ? String(value)
      : value < 0.001
        ? value.toExponential(1)
        : value.toPrecision(3);
const ratio = ([, , p, q]) => Math.min(1, p / q);

// Return the kind of a forward pass's own token; it is "alone" if nothing was proposed.
const kindOf = ({ proposals, token }) => (proposals.length ? token?.[4] : token && "alone");

// Build a bar from 0 to 1 that is filled to the acceptance probability and has a tick at the random number.
function gauge(share, u) {
  const bar = el("span", "pg-draft-gauge", "", { "aria-hidden": "true" });
  const filled = el("span", "pg-draft-filled"),
    tick = el("span", "pg-draft-tick");
  filled.style.width = `${100 * share}%`;
  bar.append(filled);
  if (u !== null) {
    tick.style.left = `${100 * u}%`;
    bar.append(tick);
  }
  return bar;
}

function draftToken(tag, fate, name, attributes) {
  const node = el(tag, `pg-draft-token pg-draft-${fate}`, "", attributes);
  if (SIGNS[fate]) {
    const sign = el("i", "", "", { "aria-hidden": "true" });
    sign.append(icon(SIGNS[fate]));
    node.append(sign);
  }
  node.append(el("span", "", name));
  return node;
}

// Describe one token in three lines: token, decision, effect. `cell`: { round, place, proposal }, or null.
function explained({ words, rounds }, cell) {
  const line = (...parts) => {
    const row = el("div");
    row.append(...parts);
    return row;
  };
  if (!cell) return [line(el("span", "pg-muted", words.help)), line(), line()];
  const { round, place, proposal } = cell,
    { proposals, token, milliseconds } = rounds[round],
    [draft, check] = milliseconds,
    when = fill(words.told_call, { draft: short(draft), check: short(check) });
  const head = (name, id, what, n) => {
    const call = fill(words.call_label, { call: round + 1, place: place + 1, n });
    return line(el("b", "pg-draft-name", name), el("span", "", ` (${id}) · ${what} · ${call}`));
  };
  if (!proposal) {
    const [name, id, chance, u] = token,
      kind = kindOf(rounds[round]);
    return [
      head(name, id, words[kind], proposals.length + 1),
      line(el("span", "", words[`told_${kind}`])),
      line(el("span", "pg-muted", `${fill(words.drawn, { chance: short(chance), u: short(u) })} · ${when}`)),
    ];
  }
  const [name, id, p, q, expected, u, fate] = proposal,
    least = short(ratio(proposal)),
    numbers = fill(words.told_proposal, { p: short(p), q: short(q), ratio: least }),
    below = fill(words[fate === "accepted" ? "below" : "not_below"], { u: short(u), ratio: least });
  return [
    head(name, id, words[fate], proposals.length),
    line(el("span", "", numbers), gauge(ratio(proposal), u), el("span", "", u === null ? words.told_unread : below)),
    line(el("span", "pg-muted", `${fill(words.expects, { expected: short(expected) })} · ${when}`)),
  ];
}

// Build the legend for the token styles that occur.
function keyOf({ words, rounds }) {
  const shown = Object.keys(SIGNS).filter((fate) =>
    rounds.some((round) => kindOf(round) === fate || round.proposals.some((one) => one[6] === fate)),
  );
  return shown.map((fate) => {
    const item = el("li");
    item.append(draftToken("span", fate, "abc", { "aria-hidden": "true" }), el("span", "", words[fate]));
    return item;
  });
}

// Return the export: one row per token.
const records = ({ rounds }) =>
  rounds.flatMap((round, n) => {
    const { proposals, token } = round;
    const lines = proposals.map((one, place) => {
      const [name, id, p, q, expected, u, fate] = one;
      return [n + 1, place + 1, name, id, fate, p, q, ratio(one), u ?? "", "", expected];
    });
    if (!token) return lines;
    const [name, id, chance, u] = token;
    return [...lines, [n + 1, proposals.length + 1, name, id, kindOf(round), "", "", "", u ?? "", chance, ""]];
  });
const columnsOf = (words) => [
  ...["call", "place", "token", "id", "fate"].map((name) => words[`csv_${name}`]),
  "p",
  "q",
  "min(1, p/q)",
  "u",
  words.csv_chance,
  words.csv_expected,
];

// A conversation that does not await an answer has no prompt to continue.
function inside({ prompt, turns, typed }) {
  if (!typed || (prompt === null && turns === null)) return [];
  return [turns ? lookInside(typed, "", turns) : lookInside(prompt + typed, prompt)];
}

define("drafttext", (root) => {
  const key = el("ul", "pg-draft-key"),
    details = el("div", "pg-draft-told", "", { "aria-live": "polite" }),
    text = el("div", "pg-draft-text", "", { role: "group" }),
    same = el("p", "pg-draft-same"),
    plain = el("details", "pg-draft-plain"),
    frame = titled(root, text, key, details, same, plain);
  let payload = null,
    cells = [];
  roving(text, alongRow);
  const show = (at) => {
    for (const [n, { node }] of cells.entries()) node.classList.toggle("pg-here", n === at);
    details.replaceChildren(...explained(payload, cells[at]));
  };
  const button = (cell, fate, name, label) => {
    const at = cells.length,
      node = draftToken("button", fate, name, { type: "button", "data-index": at, "aria-label": label });
    node.tabIndex = at ? -1 : 0;
    cells.push({ ...cell, node });
    node.onmouseover = (event) => {
      if (!rests(event)) show(at);
    };
    node.onfocus = node.onclick = () => show(at);
    return node;
  };
  const group = (one, round) => {
    const { proposals, token } = one,
      { words } = payload,
      box = el("span", "pg-draft-round"),
      kind = kindOf(one);
    box.append(el("small", "", String(round + 1), { "aria-hidden": "true" }));
    proposals.forEach((proposal, place) => {
      const [name, , p, q, , , fate] = proposal,
        label = `${name}, ${words[fate]}, p ${short(p)}, q ${short(q)}`;
      box.append(button({ round, place, proposal }, fate, name, label));
    });
    if (kind) {
      const cell = { round, place: proposals.length, proposal: null };
      box.append(button(cell, kind, token[0], `${token[0]}, ${words[kind]}`));
    }
    return box;
  };
  text.onmouseleave = () => {
    if (!text.contains(document.activeElement)) show(null);
  };
  return (next) => {
    payload = next;
    cells = [];
    const { words, rounds } = payload,
      lead = el("span", "pg-draft-before", `${payload.cut ? "… " : ""}${payload.before.join("")}`);
    key.replaceChildren(...keyOf(payload));
    text.setAttribute("aria-label", words.tokens_label);
    text.replaceChildren(lead, ...rounds.map(group));
    same.replaceChildren(payload.same, " ", ...inside(payload));
    plain.hidden = payload.plain === null;
    plain.replaceChildren(el("summary", "", words.plain_text), el("p", "pg-sample-text", payload.plain ?? ""));
    show(null);
    frame(payload, { names: () => columnsOf(words), lines: () => records(payload) });
  };
});
