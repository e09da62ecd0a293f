// Side by side: one token, what else could have stood there, and another one in its place.
import { el, fill } from "../../page/dom.js";

export function chosenToken(root, payload, api) {
  const { words } = payload,
    { state, text, percent, NAT } = api;
  const title = el("h3"),
    where = el("p", "pg-race-where"),
    facts = el("div", "pg-surprise-facts"),
    luck = el("div", "pg-race-luck");
  const key = (name, text) => {
    const item = el("span");
    item.append(el("i", name), text);
    return item;
  };
  const columns = el("div", "pg-race-columns");
  columns.append(key("pg-race-key", words.column_model), key("pg-race-key pg-race-after", words.column_after));
  const list = el("div", "pg-race-list", "", { role: "group" }),
    form = el("form", "pg-race-typed"),
    hint = el("p", "pg-muted");
  const typed = el("input", "", "", {
      type: "text",
      "aria-label": words.typed,
      placeholder: words.typed,
      maxlength: 200,
    }),
    go = el("button", "pg-button", words.branch, { type: "submit" });
  form.append(typed, go);
  root.replaceChildren(title, where, facts, luck, columns, list, form, hint);
  root.setAttribute("aria-label", words.token_panel);
  let shown = "";

  const chosen = () => state.hovered ?? state.pinned;
  const located = () => {
    const at = chosen(),
      row = at && state.rows.get(at.row),
      record = row?.records[at.at];
    return record ? { row, record, at: at.at } : null;
  };
  form.onsubmit = (event) => {
    event.preventDefault();
    const pinned = state.pinned,
      row = pinned && state.rows.get(pinned.row);
    if (row && typed.value) {
      api.branch(row, pinned.at, { typed: typed.value });
      typed.value = "";
    }
  };

  const fact = (name, value, help) => {
    const item = el("span", "pg-surprise-fact", "", { title: help });
    item.append(el("span", "pg-muted", name), el("b", "", value));
    return item;
  };
  // The bar from 0 to 1 that the random number falls on: the tokens left, the likeliest first.
  const bar = ({ row, record }) => {
    const u = record[6],
      top = record[7];
    luck.hidden = u === null;
    if (luck.hidden) return luck.replaceChildren();
    const track = el("div", "pg-race-track", "", { "aria-hidden": true }),
      name = el("p", "pg-muted");
    if (row.ordered)
      for (let i = 0; i < top.length; i += 3) {
        if (!top[i + 2]) continue;
        const part = el("i", top[i] === record[0] ? "pg-race-mine" : "");
        part.style.width = `${100 * top[i + 2]}%`;
        part.append(el("span", "", text(row, top[i])));
        track.append(part);
      }
    const mark = el("b");
    mark.style.left = `${100 * u}%`;
    track.append(mark);
    const range = api.share(row, record);
    name.textContent = range
      ? fill(words.luck_range, { u: u.toFixed(4), low: range[0].toFixed(4), high: Math.min(1, range[1]).toFixed(4) })
      : fill(words.luck, { u: u.toFixed(4) });
    luck.replaceChildren(track, name);
  };
  const choices = ({ row, record, at }, pinned) => {
    const top = record[7],
      rows = [];
    for (let i = 0; i < top.length; i += 3) rows.push([top[i], top[i + 1], top[i + 2]]);
    if (!rows.some(([id]) => id === record[0])) rows.push([record[0], Math.exp(record[1]), record[4]]);
    const usable = pinned && row.model === api.payload().model;
    list.replaceChildren(
      ...rows.map(([id, p, after], index) => {
        const isChosen = id === record[0],
          line = el("button", `pg-race-choice${isChosen ? " pg-race-own" : ""}`, "", {
            type: "button",
            "data-index": index,
            title: isChosen ? words.written : usable ? fill(words.choose, { token: text(row, id) }) : "",
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
        line.onclick = () => api.branch(row, at, { token: id });
        return line;
      }),
    );
  };
  const update = () => {
    const now = located(),
      pinned = Boolean(now && state.pinned && state.pinned.row === now.row.id && state.pinned.at === now.at);
    const looks = now
      ? `${now.row.id} ${now.at} ${now.record[0]} ${pinned} ${now.row.records.length > now.at} ${api.payload().key}`
      : "";
    if (looks === shown && looks) return;
    shown = looks;
    root.classList.toggle("pg-race-none", !now);
    root.classList.toggle("pg-race-pinned", pinned);
    for (const part of [where, facts, luck, columns, list, form]) part.hidden = !now;
    if (!now) {
      title.textContent = words.token_panel;
      hint.textContent = words.token_hint;
      return;
    }
    const { row, record, at } = now,
      [id, , rank, entropy, after, left, u] = record;
    title.textContent = `“${text(row, id)}”`;
    where.textContent = fill(words.token_where, { n: at + 1, name: row.name, id });
    facts.replaceChildren(
      fact(words.fact_model, percent(api.probability(record)), words.help_model),
      fact(words.fact_after, percent(after), words.help_after),
      fact(words.fact_rank, rank.toLocaleString("en"), words.help_rank),
      fact(words.fact_kept, left.toLocaleString("en"), words.help_kept),
      fact(words.fact_surprisal, `${api.bits(record).toFixed(2)} ${words.bits}`, words.help_surprisal),
      fact(words.fact_entropy, `${(entropy / NAT).toFixed(2)} ${words.bits}`, words.help_entropy),
      fact(words.fact_uniform, u === null ? "–" : u.toFixed(4), words.help_uniform),
    );
    list.setAttribute("aria-label", words.instead);
    bar(now);
    choices(now, pinned);
    typed.disabled = go.disabled = !pinned || row.model !== api.payload().model;
    hint.textContent =
      row.model !== api.payload().model ? words.no_branch : pinned ? words.pinned_hint : words.click_hint;
  };
  update();
  return update;
}
