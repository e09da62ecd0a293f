// Boxes around parts: one whose parts are all hidden, and in which no problem stands in place of one, takes no room.
//
// A style sheet could ask for it with :has(:not([hidden])), but the browser would then look through a box again each
// time anything within it is drawn, for a figure hundreds of times.
const AROUND = ".pg-block, .pg-row, .block:not(:has([data-screen])), .row";

const held = new Map(); // box -> [[root of a part, its problem]]
const boxesOf = new Map(); // root or problem -> boxes

const shows = ([root, problem]) => !root.hidden || !problem.hidden;
const fold = (box) => box.toggleAttribute("data-folded", !held.get(box).some(shows));

function take(records) {
  for (const box of new Set(records.flatMap(({ target }) => boxesOf.get(target) ?? []))) fold(box);
}

const observer = new MutationObserver(take);

// Keep the boxes around a part, up to its screen, folded as it and its problem are hidden and shown.
export function foldWith(root, problem) {
  const boxes = [];
  for (let at = root.parentElement?.closest(AROUND); at; at = at.parentElement.closest(AROUND)) boxes.push(at);
  for (const box of boxes) {
    if (!held.has(box)) held.set(box, []);
    held.get(box).push([root, problem]);
    fold(box);
  }
  for (const node of [root, problem]) {
    boxesOf.set(node, boxes);
    observer.observe(node, { attributes: true, attributeFilter: ["hidden"] });
  }
}

// At once, for what is measured in the same moment; otherwise it is done when the script that hides or shows has ended.
export const foldNow = () => take(observer.takeRecords());
