// Speculative decoding: the text call by call with every proposal, and what was measured beside what was predicted.
//
// payload of "drafttext": { title, note, prompt, turns, typed, before [text], cut, rounds [{ proposals, token, milliseconds }], same, plain,
//   source, file, run, python, words }; a proposal is [text, id, p, q, sum min(p, q), u, fate], a token
//   [text, id, chance, u, kind], see viz/views/sampling/speculative/figures.py. Of "draftnumbers": { title, verdict, slower, columns, rows
//   [[label, how, measured, predicted]], source, file, run, python, words }
import { exporting } from "../../export/menu.js";
import { el, fill, rests, roving } from "../../page/dom.js";
import { define } from "../../page/mount.js";
import { lookInside } from "../../page/prompt/look_inside.js";

const SIGNS = { accepted: "", rejected: "✕", unread: "", corrected: "↺", bonus: "+", alone: "" };
const short = (value) =>
  value === null
    ? "–"
    : value === 0 || value === 1
      ? String(value)
      : value < 0.001
        ? value.toExponential(1)
        : value.toPrecision(3);
const ratio = ([, , p, q]) => Math.min(1, p / q);

// What became of a forward's own token: "alone" where nothing had been proposed.
const kindOf = ({ proposals, token }) => (proposals.length ? token?.[4] : token && "alone");

// A bar from 0 to 1: filled as far as a proposal is accepted, and a tick where the random number fell.
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

define("drafttext", (root) => {
  const title = el("h2"),
    note = el("p", "pg-about"),
    key = el("ul", "pg-draft-key"),
    text = el("div", "pg-draft-text");
  const details = el("div", "pg-draft-told", "", { "aria-live": "polite" }),
    same = el("p", "pg-draft-same");
  const plain = el("details", "pg-draft-plain"),
    foot = el("div");
  root.append(title, note, key, details, text, same, plain, foot);
  let payload = null,
    cells = [];

  roving(text, (name, at, n) => ({ ArrowRight: at + 1, ArrowLeft: at - 1, Home: 0, End: n - 1 })[name] ?? null);

  const line = (...parts) => {
    const row = el("div");
    row.append(...parts);
    return row;
  };
  const explain = (at) => {
    const { words, rounds } = payload;
    if (at === null) return details.replaceChildren(line(el("span", "pg-muted", words.help)), line(), line());
    const { round, place, proposal } = cells[at],
      {
        proposals,
        token,
        milliseconds: [draft, check],
      } = rounds[round];
    const values = { call: round + 1, place: place + 1, n: proposals.length };
    const when = fill(words.told_call, { draft: short(draft), check: short(check) });
    if (proposal) {
      const [name, id, p, q, expected, u, fate] = proposal;
      const numbers = fill(words.told_proposal, { p: short(p), q: short(q), ratio: short(ratio(proposal)) });
      const compare =
        u === null
          ? words.told_unread
          : fill(words[fate === "accepted" ? "below" : "not_below"], { u: short(u), ratio: short(ratio(proposal)) });
      return details.replaceChildren(
        line(
          el("b", "pg-draft-name", name),
          el("span", "", ` (${id}) · ${words[fate]} · ${fill(words.call_label, values)}`),
        ),
        line(el("span", "", numbers), gauge(ratio(proposal), u), el("span", "", compare)),
        line(el("span", "pg-muted", `${fill(words.expects, { expected: short(expected) })} · ${when}`)),
      );
    }
    const [name, id, chance, u] = token,
      kind = kindOf(rounds[round]);
    details.replaceChildren(
      line(
        el("b", "pg-draft-name", name),
        el(
          "span",
          "",
          ` (${id}) · ${words[kind]} · ${fill(words.call_label, { ...values, place: proposals.length + 1, n: proposals.length + 1 })}`,
        ),
      ),
      line(el("span", "", words[`told_${kind}`])),
      line(el("span", "pg-muted", `${fill(words.drawn, { chance: short(chance), u: short(u) })} · ${when}`)),
    );
  };
  const show = (at) => {
    for (const [n, { node }] of cells.entries()) node.classList.toggle("pg-here", n === at);
    explain(at);
  };

  const button = (cell, fate, name, label) => {
    const node = el("button", `pg-draft-token pg-draft-${fate}`, "", {
      type: "button",
      "data-index": cells.length,
      "aria-label": label,
    });
    node.append(el("span", "", name));
    if (SIGNS[fate]) node.prepend(el("i", "", SIGNS[fate], { "aria-hidden": "true" }));
    node.tabIndex = cells.length ? -1 : 0;
    const at = cells.push({ ...cell, node }) - 1;
    node.onmouseover = (event) => {
      if (!rests(event)) show(at);
    };
    node.onfocus = node.onclick = () => show(at);
    return node;
  };
  const group = ({ proposals, token }, round) => {
    const box = el("span", "pg-draft-round");
    box.append(el("small", "", String(round + 1), { "aria-hidden": "true" }));
    const { words } = payload;
    proposals.forEach((proposal, place) => {
      const [name, , p, q, , , fate] = proposal;
      box.append(
        button({ round, place, proposal }, fate, name, `${name}, ${words[fate]}, p ${short(p)}, q ${short(q)}`),
      );
    });
    const kind = kindOf({ proposals, token });
    if (kind)
      box.append(
        button({ round, place: proposals.length, proposal: null }, kind, token[0], `${token[0]}, ${words[kind]}`),
      );
    return box;
  };

  const records = () =>
    payload.rounds.flatMap(({ proposals, token }, round) => [
      ...proposals.map((one, place) => [
        round + 1,
        place + 1,
        one[0],
        one[1],
        one[6],
        one[2],
        one[3],
        ratio(one),
        one[5] ?? "",
        "",
        one[4],
      ]),
      ...(token
        ? [
            [
              round + 1,
              proposals.length + 1,
              token[0],
              token[1],
              kindOf({ proposals, token }),
              "",
              "",
              "",
              token[3] ?? "",
              token[2],
              "",
            ],
          ]
        : []),
    ]);
  const names = ({ csv_call, csv_place, csv_token, csv_id, csv_fate, csv_chance, csv_expected }) => [
    csv_call,
    csv_place,
    csv_token,
    csv_id,
    csv_fate,
    "p",
    "q",
    "min(1, p/q)",
    "u",
    csv_chance,
    csv_expected,
  ];

  // A conversation that is not open is answered by no text, and has no prompt.
  const inside = () => {
    const { prompt, turns, typed } = payload;
    if (!typed || (prompt === null && turns === null)) return [];
    return [turns ? lookInside(typed, "", turns) : lookInside(prompt + typed, prompt)];
  };
  text.onmouseleave = () => {
    if (!text.contains(document.activeElement)) show(null);
  };
  return (next) => {
    payload = next;
    cells = [];
    const { words, file, rounds } = payload;
    title.textContent = payload.title;
    note.textContent = payload.note;
    const shown = Object.keys(SIGNS).filter((fate) =>
      rounds.some(
        ({ proposals, token }) => kindOf({ proposals, token }) === fate || proposals.some((one) => one[6] === fate),
      ),
    );
    key.replaceChildren(
      ...shown.map((fate) => {
        const item = el("li"),
          sample = el("span", `pg-draft-token pg-draft-${fate}`, "", { "aria-hidden": "true" });
        if (SIGNS[fate]) sample.append(el("i", "", SIGNS[fate]));
        sample.append(el("span", "", "abc"));
        item.append(sample, el("span", "", words[fate]));
        return item;
      }),
    );
    text.setAttribute("role", "group");
    text.setAttribute("aria-label", words.tokens_label);
    const lead = el("span", "pg-draft-before", `${payload.cut ? "… " : ""}${payload.before.join("")}`);
    text.replaceChildren(lead, ...rounds.map(group));
    same.replaceChildren(payload.same, " ", ...inside());
    plain.hidden = payload.plain === null;
    plain.replaceChildren(el("summary", "", words.plain_text), el("p", "pg-sample-text", payload.plain ?? ""));
    foot.replaceChildren(
      exporting(root, {
        file,
        source: payload.source,
        python: payload.python,
        title: payload.title,
        note: payload.note,
        names: () => names(words),
        lines: records,
      }),
    );
    show(null);
    root.dataset.run = payload.run;
  };
});

define("draftnumbers", (root) => {
  const title = el("h2"),
    verdict = el("div", "pg-draft-verdict"),
    grid = el("table", "pg-draft-table");
  const foot = el("div");
  root.append(title, verdict, grid, foot);
  return ({ words, ...payload }) => {
    title.textContent = payload.title;
    verdict.classList.toggle("pg-draft-slow", payload.slower);
    verdict.replaceChildren(...payload.verdict.map((text, at) => el(at ? "p" : "strong", "", text)));
    const head = el("tr"),
      body = el("tbody"),
      top = el("thead");
    head.append(...payload.columns.map((name) => el("th", "", name, { scope: "col" })));
    top.append(head);
    for (const [label, how, ...numbers] of payload.rows) {
      const row = el("tr"),
        name = el("th", "", label, { scope: "row" });
      name.append(el("small", "", how));
      row.append(name, ...numbers.map((text) => el("td", "", text)));
      body.append(row);
    }
    grid.replaceChildren(top, body);
    const lines = payload.rows.map(([label, how, ...numbers]) => [label, ...numbers, how]);
    foot.replaceChildren(
      exporting(root, {
        file: payload.file,
        source: payload.source,
        python: payload.python,
        title: payload.title,
        names: payload.columns,
        lines,
      }),
    );
    root.dataset.run = payload.run;
  };
});
