// One text in several vocabularies as chips side by side, and the merges of byte-pair encoding step by step.
//
// payload of "vocabchips": { title, about, rows [{ name, count, chips [[text, id, bytes, broken, part]], frames, more,
//   problem }], words, file, source, run, python }; of "mergesteps": { title, about, pieces [{ text, bytes [text], merges [[at, rank,
//   text, pairs]], ids, tokens [text], added, whole }], words, file, source, run, python }; pairs: [[left, right, rank]]
//   of the neighbours that could be merged, the one that is first
import { exporting } from "../../export/menu.js";
import { framed, onJoin } from "../../page/characters.js";
import { el, fill, roving } from "../../page/dom.js";
import { define } from "../../page/mount.js";

define("vocabchips", (root) => {
  let last = null;
  const draw = (payload) => {
    last = payload;
    const { words } = payload;
    const list = el("div", "pg-vocab-rows");
    for (const { name, count, chips, frames, more, problem } of payload.rows) {
      const row = el("div", "pg-vocab-row"),
        line = el("div", "pg-vocab-chips", "", { role: "list", "aria-label": `${name}: ${count}` });
      const nodes = chips.map(([text, id, bytes, broken, part]) => {
        const chip = el("span", `pg-vocab-chip${broken ? " pg-vocab-broken" : ""}`, text, { role: "listitem" });
        chip.title = [fill(words.chip, { id: id ?? "–", bytes }), part].filter(Boolean).join(" · ");
        return [chip];
      });
      line.append(
        ...framed(
          nodes,
          frames,
          chips.map(([, id]) => id),
        ),
      );
      if (more) line.append(el("span", "pg-muted", more));
      if (problem) line.append(el("span", "pg-muted", problem));
      row.append(el("b", "pg-vocab-name", name), el("span", "pg-vocab-count", count), line);
      list.append(row);
    }
    root.replaceChildren(
      el("h2", "", payload.title),
      el("p", "pg-about", payload.about),
      list,
      exporting(root, {
        file: payload.file,
        title: payload.title,
        note: payload.about,
        source: payload.source,
        python: payload.python,
        names: [words.vocabulary, words.place, words.token, "id", words.bytes],
        lines: () =>
          payload.rows.flatMap(({ name, chips }) =>
            chips.map(([text, id, bytes], at) => [name, at, text, id ?? "", bytes]),
          ),
      }),
    );
    root.dataset.run = payload.run;
  };
  onJoin(() => last && draw(last));
  return draw;
});

define("mergesteps", (root) => {
  const title = el("h2"),
    about = el("p", "pg-about"),
    pieces = el("div", "pg-merge-pieces");
  const bar = el("label", "pg-merge-bar"),
    named = el("span", "pg-control-label"),
    slider = el("input", "", "", { type: "range", min: 0, step: 1 });
  const shown = el("output"),
    parts = el("div", "pg-merge-parts"),
    status = el("p", "pg-merge-told", "", { "aria-live": "polite" });
  const pairs = el("div", "pg-merge-pairs"),
    foot = el("div");
  let payload = null,
    piece = 0,
    step = 0;
  bar.append(named, slider, shown);
  root.append(title, about, pieces, bar, parts, status, pairs, foot);
  roving(
    pieces,
    (key, at, n) => ({ ArrowRight: (at + 1) % n, ArrowLeft: (at - 1 + n) % n, Home: 0, End: n - 1 })[key] ?? null,
  );

  // The parts after so many merges, and where the last one was.
  const after = ({ bytes, merges }, count) => {
    const now = [...bytes];
    for (const [at, , text] of merges.slice(0, count)) now.splice(at, 2, text);
    return now;
  };
  const draw = () => {
    const { words } = payload,
      one = payload.pieces[piece],
      { merges } = one,
      n = merges.length;
    const now = after(one, step),
      last = step ? merges[step - 1] : null,
      next = merges[step];
    const done = step === n;
    slider.max = n;
    slider.value = step;
    slider.disabled = n === 0;
    shown.textContent = fill(words.step, { step, n });
    slider.setAttribute("aria-valuetext", shown.textContent);
    parts.replaceChildren(
      ...(one.whole || one.added ? [one.text] : now).map((text, at) => {
        const box = el("span", "pg-merge-part");
        if (last && at === last[0]) box.classList.add("pg-merge-made");
        if (next && (at === next[0] || at === next[0] + 1)) box.classList.add("pg-merge-next");
        box.append(el("span", "", text));
        if (done) box.append(el("small", "", String(one.ids[at])));
        return box;
      }),
    );
    if (one.added) status.textContent = fill(words.added, { id: one.ids[0] });
    else if (one.whole) status.textContent = fill(words.whole, { id: one.ids[0] });
    else if (done)
      status.textContent = fill(n ? words.done : words.nothing, {
        tokens: one.ids.length,
        bytes: one.bytes.length,
        merges: n,
        ids: one.ids.slice(0, 12).join(", ") + (one.ids.length > 12 ? ", …" : ""),
      });
    else status.textContent = fill(words.next, { left: now[next[0]], right: now[next[0] + 1], rank: next[1] });
    pairs.replaceChildren();
    if (next && next[3].length > 0) {
      pairs.append(el("span", "pg-muted", words.pairs));
      next[3].forEach(([left, right, rank], at) => {
        const pair = el("span", `pg-merge-pair${at ? "" : " pg-merge-best"}`);
        pair.append(el("span", "", `${left} + ${right}`), el("small", "", String(rank)));
        pairs.append(pair);
      });
      if (next[4]) pairs.append(el("span", "pg-muted", fill(words.more, { n: next[4] })));
    }
    root.dataset.piece = piece;
    root.dataset.step = step;
  };
  slider.oninput = () => {
    step = +slider.value;
    draw();
  };
  const choose = (at) => {
    piece = at;
    step = 0;
    for (const button of pieces.children) {
      const on = +button.dataset.index === at;
      button.setAttribute("aria-pressed", on);
      button.tabIndex = on ? 0 : -1;
    }
    draw();
  };
  const lines = () =>
    payload.pieces.flatMap((one, at) =>
      one.merges.map(([place, rank, text], index) => {
        const before = after(one, index);
        return [at, one.text, index + 1, before[place], before[place + 1], text, rank];
      }),
    );
  return (next) => {
    payload = next;
    const { words } = payload;
    title.textContent = payload.title;
    about.textContent = payload.about;
    named.textContent = words.slider;
    pieces.setAttribute("role", "group");
    pieces.setAttribute("aria-label", words.pieces);
    pieces.replaceChildren(
      ...payload.pieces.map((one, at) => {
        const button = el("button", "pg-chip pg-merge-piece", "", {
          type: "button",
          "data-index": at,
          "aria-label": fill(words.piece, { text: one.text, merges: one.merges.length, tokens: one.ids.length }),
        });
        button.append(el("span", "", one.text), el("small", "", String(one.ids.length)));
        button.onclick = () => choose(at);
        return button;
      }),
    );
    foot.replaceChildren(
      exporting(root, {
        file: payload.file,
        title: payload.title,
        note: payload.about,
        source: payload.source,
        python: payload.python,
        table: true,
        names: [
          words.csv_piece,
          words.csv_text,
          words.csv_step,
          words.csv_left,
          words.csv_right,
          words.csv_made,
          words.csv_rank,
        ],
        lines,
      }),
    );
    choose(payload.first);
    root.dataset.run = payload.run;
  };
});
