// A text split by several tokenizers, as chips side by side, and the sequence of byte-pair encoding merges.
//
// payload of "vocabchips": { title, about, ids: whether chips show their ids, rows [{ name, count, chips [[text, id, bytes, broken, part]],
//   frames, more, problem }], words, file, source, run, python }; of "mergesteps": { title, about, pieces [{ text, bytes [text], merges [[at, rank,
//   text, pairs]], ids, tokens [text], added, whole, lattice (lattice.js) or null }], words, file, source, run, python }; pairs: [[left, right, rank]]
//  of the adjacent parts that could be merged, in increasing order of rank
import { exporting } from "../../export/menu.js";
import { framed, onJoin } from "../../page/characters.js";
import { el, fill, roving } from "../../page/dom.js";
import { define } from "../../page/mount.js";
import { titled } from "../../parts/titled.js";
import { consideredBoxes, drawLattice, latticeSentence, partsOfPath } from "./lattice.js";

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
        if (payload.ids && id !== null) chip.append(el("small", "", String(id)));
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

// --- the merges ---

// Return the parts of a piece after a number of merges.
function partsAfter({ bytes, merges }, count) {
  const now = [...bytes];
  for (const [at, , text] of merges.slice(0, count)) now.splice(at, 2, text);
  return now;
}

// Return the number of steps of a piece.
function stepsOf({ merges, lattice }) {
  return lattice ? lattice.steps.length : merges.length;
}

// Build the parts as boxes; mark the newest one and the pair to merge next, and show the token ids at the end.
function partBoxes(piece, step) {
  if (piece.lattice)
    return partsOfPath(piece.lattice, step).map(([part, id]) => {
      const box = el("span", `pg-merge-part${id === null ? "" : " pg-merge-made"}`);
      box.append(el("span", "", part));
      if (id !== null) box.append(el("small", "", String(id)));
      return box;
    });
  const { merges, ids, whole, added, text } = piece,
    last = merges[step - 1],
    next = merges[step],
    texts = whole || added ? [text] : partsAfter(piece, step);
  return texts.map((part, at) => {
    const box = el("span", "pg-merge-part");
    if (last && at === last[0]) box.classList.add("pg-merge-made");
    if (next && (at === next[0] || at === next[0] + 1)) box.classList.add("pg-merge-next");
    box.append(el("span", "", part));
    if (!next) box.append(el("small", "", String(ids[at])));
    return box;
  });
}

// Describe the next merge, or the result after the last one.
function mergeSentence(piece, step, words) {
  if (piece.lattice) return latticeSentence(piece, step, words);
  const { merges, ids, bytes, added, whole } = piece,
    n = merges.length,
    next = merges[step];
  if (added) return fill(words.added, { id: ids[0] });
  if (whole) return fill(words.whole, { id: ids[0] });
  if (next) {
    const now = partsAfter(piece, step);
    return fill(words.next, { left: now[next[0]], right: now[next[0] + 1], rank: next[1] });
  }
  return fill(n ? words.done : words.nothing, {
    tokens: ids.length,
    bytes: bytes.length,
    merges: n,
    ids: ids.slice(0, 12).join(", ") + (ids.length > 12 ? ", …" : ""),
  });
}

// List the adjacent parts that could be merged, in increasing order of rank.
function pairBoxes(next, words) {
  if (!next?.[3].length) return [];
  const pairs = next[3].map(([left, right, rank], at) => {
    const pair = el("span", `pg-merge-pair${at ? "" : " pg-merge-best"}`);
    pair.append(el("span", "", `${left} + ${right}`), el("small", "", String(rank)));
    return pair;
  });
  const more = next[4] ? [el("span", "pg-muted", fill(words.more, { n: next[4] }))] : [];
  return [el("span", "pg-muted", words.pairs), ...pairs, ...more];
}

// Return the export: one row per merge.
function mergeRecords({ words, pieces }) {
  const names = ["piece", "text", "step", "left", "right", "made", "rank"].map((name) => words[`csv_${name}`]);
  const lines = () =>
    pieces.flatMap((one, at) =>
      one.lattice
        ? one.lattice.steps.map(([, , [[arc, total]]], index) => {
            const [, , made] = one.lattice.arcs[arc];
            return [at, one.text, index + 1, "", "", made, total];
          })
        : one.merges.map(([place, rank, text], index) => {
            const before = partsAfter(one, index);
            return [at, one.text, index + 1, before[place], before[place + 1], text, rank];
          }),
    );
  return { names, lines, table: true };
}

define("mergesteps", (root) => {
  const pieces = el("div", "pg-merge-pieces", "", { role: "group" }),
    bar = el("label", "pg-merge-bar"),
    named = el("span", "pg-control-label"),
    slider = el("input", "", "", { type: "range", min: 0, step: 1 }),
    shown = el("output"),
    parts = el("div", "pg-merge-parts"),
    status = el("p", "pg-merge-told", "", { "aria-live": "polite" }),
    pairs = el("div", "pg-merge-pairs"),
    picture = el("div", "pg-lattice-frame", "", { tabindex: 0 }),
    show = titled(root, pieces, bar, parts, status, pairs, picture);
  let payload = null,
    piece = 0,
    step = 0;
  bar.append(named, slider, shown);
  const turning = (key, at, n) =>
    ({ ArrowRight: (at + 1) % n, ArrowLeft: (at - 1 + n) % n, Home: 0, End: n - 1 })[key] ?? null;
  roving(pieces, turning);
  const draw = () => {
    const { words } = payload,
      one = payload.pieces[piece],
      n = stepsOf(one);
    slider.max = n;
    slider.value = step;
    slider.disabled = n === 0;
    shown.textContent = fill(words.step, { step, n });
    slider.setAttribute("aria-valuetext", shown.textContent);
    parts.replaceChildren(...partBoxes(one, step));
    status.textContent = mergeSentence(one, step, words);
    pairs.replaceChildren(
      ...(one.lattice ? consideredBoxes(one.lattice, step, words) : pairBoxes(one.merges[step], words)),
    );
    picture.hidden = !one.lattice;
    picture.replaceChildren(...(one.lattice ? [drawLattice(one.lattice, step, words)] : []));
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
  const pieceButton = (one, at) => {
    const { text, ids } = one,
      label = fill(payload.words.piece, { text, merges: stepsOf(one), tokens: ids.length }),
      button = el("button", "pg-chip pg-merge-piece", "", { type: "button", "data-index": at, "aria-label": label });
    button.append(el("span", "", text), el("small", "", String(ids.length)));
    button.onclick = () => choose(at);
    return button;
  };
  return (next) => {
    payload = next;
    const { words } = payload;
    named.textContent = words.slider;
    pieces.setAttribute("aria-label", words.pieces);
    pieces.replaceChildren(...payload.pieces.map(pieceButton));
    show(payload, mergeRecords(payload));
    choose(payload.first);
  };
});
