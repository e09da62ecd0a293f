// Places of the heads' thumbnails: by layer and head, or one after the other. This module does not depend on the page.
export const GAP = 2;
export const LABEL = 18;
const GROUP_GAP = 4;

// Layers run down, heads across. The column of layers wraps into bands side by side, which makes the cells larger.
export function byPlace({ layers, heads, group }, width, height) {
  let best = null;
  const gaps = group > 1 ? (heads / group - 1) * GROUP_GAP : 0;
  for (let bands = 1; bands <= layers; bands++) {
    const rows = Math.ceil(layers / bands);
    const across = (width / bands - LABEL - gaps) / heads - GAP;
    const down = (height - LABEL) / rows - GAP;
    const cell = Math.floor(Math.min(across, down, 88));
    if (!best || cell > best.cell) best = { rows, cell, bands };
  }
  const { rows, bands } = best,
    cell = Math.max(best.cell, 9),
    step = cell + GAP;
  const band = LABEL + heads * step + gaps;
  const place = (at) => {
    const layer = Math.floor(at / heads),
      head = at % heads;
    return {
      x: Math.floor(layer / rows) * band + LABEL + head * step + (group > 1 ? Math.floor(head / group) * GROUP_GAP : 0),
      y: LABEL + (layer % rows) * step,
    };
  };
  const walk = (at) => {
    const layer = Math.floor(at / heads),
      head = at % heads;
    const to = (l, h) => (l >= 0 && l < layers && h >= 0 && h < heads ? l * heads + h : null);
    return {
      ArrowRight: to(layer, head + 1),
      ArrowLeft: to(layer, head - 1),
      ArrowDown: to(layer + 1, head),
      ArrowUp: to(layer - 1, head),
    };
  };
  return { cell, place, walk, rows, axes: true, width: bands * band, height: LABEL + rows * step };
}

// Lay out the filtered heads one after the other, with a name below each.
export function inOrder(order, width, height) {
  let columns = 1,
    cell = 56;
  for (; cell > 22; cell -= 2) {
    columns = Math.max(1, Math.floor(width / (cell + GAP + 2)));
    if (Math.ceil(order.length / columns) * (cell + LABEL) <= height) break;
  }
  const at = new Map(order.map((head, i) => [head, i]));
  const place = (head) => ({
    x: (at.get(head) % columns) * (cell + GAP + 2),
    y: Math.floor(at.get(head) / columns) * (cell + LABEL),
  });
  const walk = (head) => {
    const i = at.get(head),
      to = (n) => order[n] ?? null;
    return { ArrowRight: to(i + 1), ArrowLeft: to(i - 1), ArrowDown: to(i + columns), ArrowUp: to(i - columns) };
  };
  return {
    cell,
    place,
    walk,
    columns,
    axes: false,
    width: columns * (cell + GAP + 2),
    height: Math.ceil(order.length / columns) * (cell + LABEL),
  };
}
