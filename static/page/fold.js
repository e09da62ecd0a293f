// Boxes around parts: a box collapses if all of its parts are hidden and none is replaced by an error message.
//
// A style sheet could do this with :has(:not([hidden])), but the browser would then re-evaluate a box whenever anything
// inside it is drawn, which happens hundreds of times for a figure.
const AROUND = ".pg-block, .pg-row, .pg-column, .block:not(:has([data-screen])), .row";

const held = new Map(); // box -> [[root of a part, element of its error message]]
const boxesOf = new Map(); // root or error message -> boxes

const shows = ([root, problem]) => !root.hidden || !problem.hidden;
const fold = (box) => box.toggleAttribute("data-folded", !held.get(box).some(shows));

function take(records) {
  for (const box of new Set(records.flatMap(({ target }) => boxesOf.get(target) ?? []))) fold(box);
}

const observer = new MutationObserver(take);

// Collapse and expand the boxes around a part, up to its screen, as the part and its error message change.
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

// Update the boxes at once, for elements that are measured immediately; otherwise they update after the current script.
export const foldNow = () => take(observer.takeRecords());
