// The lattice of a piece of text: all tokens that fit into it, and the path through them up to a step.
//
// lattice: { characters [text], arcs [[start, end, text, id, score]], steps [[characters covered, path [arc], considered [[arc, total]], more]] }
import { el, fill } from "../../page/dom.js";

// Build the parts after a number of steps as [text, id]: the tokens of the path, then the characters that are left.
export function partsOfPath({ characters, arcs, steps }, step) {
  const [covered, path] = step ? steps[step - 1] : [0, []];
  return [
    ...path.map((at) => [arcs[at][2], arcs[at][3]]),
    ...characters.slice(covered).map((character) => [character, null]),
  ];
}

// Draw the lattice: a column for each character, a box for each token over the characters that it covers.
export function drawLattice({ characters, arcs, steps }, step, words) {
  const box = el("div", "pg-lattice", "", { role: "img", "aria-label": fill(words.lattice, { n: arcs.length }) });
  box.style.gridTemplateColumns = `repeat(${characters.length}, minmax(46px, max-content))`;
  const path = new Set(step ? steps[step - 1][1] : []),
    considered = new Set((steps[step]?.[2] ?? []).map(([at]) => at));
  box.append(...characters.map((character) => el("b", "pg-lattice-character", character)));
  const order = arcs.map((_, at) => at).sort((a, b) => arcs[a][1] - arcs[a][0] - (arcs[b][1] - arcs[b][0]) || a - b);
  for (const at of order) {
    const [start, end, text, id, score] = arcs[at],
      token = el("span", "pg-lattice-token");
    token.style.gridColumn = `${start + 1} / ${end + 1}`;
    token.classList.toggle("pg-merge-made", path.has(at));
    token.classList.toggle("pg-merge-next", considered.has(at));
    token.title = `${text} · id ${id}`;
    token.append(el("span", "", text), el("small", "", score || String(id)));
    box.append(token);
  }
  return box;
}

// List the tokens considered at a step, the best first.
export function consideredBoxes({ arcs, steps }, step, words) {
  if (!steps[step]) return [];
  const [, , considered, more] = steps[step];
  const boxes = considered.map(([at, total], rank) => {
    const box = el("span", `pg-merge-pair${rank ? "" : " pg-merge-best"}`);
    box.append(el("span", "", arcs[at][2]), el("small", "", total || String(arcs[at][3])));
    return box;
  });
  return [
    el("span", "pg-muted", words.pairs),
    ...boxes,
    ...(more ? [el("span", "pg-muted", fill(words.more, { n: more }))] : []),
  ];
}

// Describe the next step, or the result after the last one.
export function latticeSentence({ ids, lattice }, step, words) {
  const { characters, arcs, steps } = lattice,
    next = steps[step];
  if (next) {
    const [covered, , considered] = next,
      [best, total] = considered[0];
    return fill(words.next, { at: covered, token: arcs[best][2], total, n: considered.length + next[3] });
  }
  return fill(words.done, {
    characters: characters.length,
    total: steps.at(-1)?.[2][0][1] ?? "",
    tokens: ids.length,
    ids: ids.slice(0, 12).join(", ") + (ids.length > 12 ? ", …" : ""),
  });
}
