// Side by side: one token, its alternatives, and branches that replace it by another token.
import { el, fill } from "../../../page/dom.js";
import { facts } from "../../../parts/next_tokens.js";
import { ruleOf } from "./state.js";

// Build the bar from 0 to 1 on which the random number falls: the remaining tokens in decreasing order of probability.
function paintLuck(luck, { row, record }, words, { text, share }) {
  const u = record[6],
    top = record[7];
  luck.hidden = u === null;
  if (luck.hidden) return luck.replaceChildren();
  const track = el("div", "pg-race-track", "", { "aria-hidden": true }),
    mark = el("b"),
    range = share(row, record);
  if (row.ordered)
    for (let i = 0; i < top.length; i += 3) {
      if (!top[i + 2]) continue;
      const part = el("i", top[i] === record[0] ? "pg-race-mine" : "");
      part.style.width = `${100 * top[i + 2]}%`;
      part.append(el("span", "", text(row, top[i])));
      track.append(part);
    }
  mark.style.left = `${100 * u}%`;
  track.append(mark);
  const told = range
    ? fill(words.luck_range, { u: u.toFixed(4), low: range[0].toFixed(4), high: Math.min(1, range[1]).toFixed(4) })
    : fill(words.luck, { u: u.toFixed(4) });
  luck.replaceChildren(track, el("p", "pg-muted", told));
}

// Say what the rule forbade before this token, and what could have come.
function paintRule(rule, { row, record }, words, { text, percent }) {
  const said = ruleOf(record);
  rule.hidden = !said;
  if (!said) return rule.replaceChildren();
  const [forbidden, allowed, mayEnd, forced, instead, likeliest] = said,
    names = [];
  for (let i = 0; i < likeliest.length; i += 2) names.push(`“${text(row, likeliest[i])}” ${percent(likeliest[i + 1])}`);
  const came = [forced || instead, mayEnd && words.rule_end].filter(Boolean).join(" · ");
  rule.replaceChildren(
    el("strong", "", fill(words.rule_forbidden, { share: percent(forbidden), n: allowed.toLocaleString("en") })),
    el("span", "", fill(words[allowed === 1 ? "rule_forced" : "rule_may"], { characters: came })),
    ...(names.length ? [el("span", "pg-muted", fill(words.rule_likeliest, { tokens: names.join(", ") }))] : []),
  );
}

// Build the most likely tokens as buttons, with probabilities before and after the warps; a click starts a branch.
function choicesOf({ row, record, at }, usable, words, { text, percent, branch }) {
  const top = record[7],
    rows = [];
  for (let i = 0; i < top.length; i += 3) rows.push([top[i], top[i + 1], top[i + 2]]);
  if (!rows.some(([id]) => id === record[0])) rows.push([record[0], Math.exp(record[1]), record[4]]);
  return rows.map(([id, p, after], index) => {
    const isChosen = id === record[0],
      title = isChosen ? words.written : usable ? fill(words.choose, { token: text(row, id) }) : "",
      line = el("button", `pg-race-choice${isChosen ? " pg-race-own" : ""}`, "", {
        type: "button",
        "data-index": index,
        title,
      });
    const model = el("i"),
      left = el("i", "pg-race-after"),
      bars = el("span", "pg-race-bars", "", { "aria-hidden": true });
    model.style.width = `${100 * p}%`;
    left.style.width = `${100 * (after ?? 0)}%`;
    bars.append(model, left);
    line.append(
      el("span", "pg-race-name", text(row, id)),
      bars,
      el("span", "pg-race-number", percent(p)),
      el("span", "pg-race-number", after === null ? "–" : percent(after)),
    );
    line.disabled = !usable || isChosen;
    line.onclick = () => branch(row, at, { token: id });
    return line;
  });
}

// Build a field for any other text to replace the token; it calls branch(text).
function typedForm(words, branch) {
  const form = el("form", "pg-race-typed"),
    typed = el("input", "", "", {
      type: "text",
      "aria-label": words.typed,
      placeholder: words.typed,
      maxlength: 200,
    }),
    go = el("button", "pg-button", words.branch, { type: "submit" });
  form.append(typed, go);
  form.onsubmit = (event) => {
    event.preventDefault();
    if (typed.value && branch(typed.value)) typed.value = "";
  };
  const enable = (usable) => {
    typed.disabled = go.disabled = !usable;
  };
  return { node: form, enable };
}

function factsOf(record, words, { percent, probability, bits, NAT }) {
  const [, , rank, entropy, after, left, u] = record;
  return [
    [words.fact_model, percent(probability(record)), words.help_model],
    [words.fact_after, percent(after), words.help_after],
    [words.fact_rank, rank.toLocaleString("en"), words.help_rank],
    [words.fact_kept, left.toLocaleString("en"), words.help_kept],
    [words.fact_surprisal, `${bits(record).toFixed(2)} ${words.bits}`, words.help_surprisal],
    [words.fact_entropy, `${(entropy / NAT).toFixed(2)} ${words.bits}`, words.help_entropy],
    [words.fact_uniform, u === null ? "–" : u.toFixed(4), words.help_uniform],
  ];
}

export function chosenToken(root, { words }, api) {
  const { state, text } = api;
  const title = el("h3"),
    where = el("p", "pg-race-where"),
    details = el("div", "pg-surprise-facts"),
    luck = el("div", "pg-race-luck"),
    rule = el("p", "pg-race-rule"),
    columns = el("div", "pg-race-columns"),
    list = el("div", "pg-race-list", "", { role: "group" }),
    hint = el("p", "pg-muted");
  const key = (name, label) => {
    const item = el("span");
    item.append(el("i", name), label);
    return item;
  };
  const form = typedForm(words, (typed) => {
    const { pinned } = state,
      row = pinned && state.rows.get(pinned.row);
    if (row) api.branch(row, pinned.at, { typed });
    return Boolean(row);
  });
  columns.append(key("pg-race-key", words.column_model), key("pg-race-key pg-race-after", words.column_after));
  const parts = [where, details, rule, luck, columns, list, form.node];
  root.replaceChildren(title, ...parts, hint);
  root.setAttribute("aria-label", words.token_panel);
  let shown = "";

  const located = () => {
    const at = state.hovered ?? state.pinned,
      row = at && state.rows.get(at.row),
      record = row?.records[at.at];
    return record ? { row, record, at: at.at } : null;
  };
  const update = () => {
    const now = located(),
      pinned = Boolean(now && state.pinned && state.pinned.row === now.row.id && state.pinned.at === now.at),
      { key: shownKey, model } = api.payload();
    const looks = now
      ? `${now.row.id} ${now.at} ${now.record[0]} ${pinned} ${now.row.records.length > now.at} ${shownKey}`
      : "";
    if (looks === shown && looks) return;
    shown = looks;
    root.classList.toggle("pg-race-none", !now);
    root.classList.toggle("pg-race-pinned", pinned);
    for (const part of parts) part.hidden = !now;
    if (!now) {
      title.textContent = words.token_panel;
      hint.textContent = words.token_hint;
      return;
    }
    const { row, record, at } = now,
      [id] = record,
      same = row.model === model,
      usable = pinned && same;
    title.textContent = `“${text(row, id)}”`;
    where.textContent = fill(words.token_where, { n: at + 1, name: row.name, id });
    facts(details, factsOf(record, words, api));
    list.setAttribute("aria-label", words.instead);
    paintLuck(luck, now, words, api);
    paintRule(rule, now, words, api);
    list.replaceChildren(...choicesOf(now, usable, words, api));
    form.enable(usable);
    hint.textContent = same ? (pinned ? words.pinned_hint : words.click_hint) : words.no_branch;
  };
  update();
  return update;
}
