// The geometry of a beam search: one column per step, the candidates of each group from top to bottom by score.

const WIDE = { node: 108, root: 58, gap: 28 },
  NARROW = { node: 108, root: 52, gap: 20 };
export const HIGH = 25; // height of a node in pixels
const ROW = 31,
  BETWEEN = 18, // distance between groups
  TOP = 24; // room for the step numbers

// Place the nodes. Returns { places [{ x, y }] by node, root { x, y }, width, height, sizes, columns [x], blocks [y] }, where
// x is a left edge and y the middle of a node, and `blocks` are the tops of the groups.
export function layout(nodes, groups, narrow) {
  const sizes = narrow ? NARROW : WIDE,
    steps = Math.max(...nodes.map(({ step }) => step)),
    rows = Array.from({ length: groups }, () => Array(steps + 1).fill(0));
  const at = nodes.map(({ step, group }) => rows[group][step]++);
  const blocks = [];
  let bottom = TOP;
  for (const counts of rows) {
    blocks.push(bottom);
    bottom += ROW * Math.max(...counts) + BETWEEN;
  }
  const height = bottom - BETWEEN,
    x = (step) => sizes.root + sizes.gap + (step - 1) * (sizes.node + sizes.gap);
  return {
    sizes,
    blocks,
    height,
    width: x(steps) + sizes.node + 4,
    columns: Array.from({ length: steps }, (_, n) => x(n + 1)),
    root: { x: 0, y: (TOP + (groups > 1 ? blocks[1] - BETWEEN : height)) / 2 },
    places: nodes.map(({ step, group }, n) => ({ x: x(step), y: blocks[group] + ROW * (at[n] + 0.5) })),
  };
}

// The nodes from the first token of a text to its last.
export function pathTo(nodes, at) {
  const found = [];
  for (let n = at; n >= 0; n = nodes[n].parent) found.unshift(n);
  return found;
}

// The next node for an arrow key: the best child, the parent, or a neighbor in the same column.
export function stepOf(nodes, key, at) {
  const child = () => {
    const own = nodes.map((_, n) => n).filter((n) => nodes[n].parent === at);
    return own.find((n) => nodes[n].state !== "pruned") ?? own[0] ?? null;
  };
  const beside = (n) => (nodes[n]?.step === nodes[at].step ? n : null);
  if (key === "ArrowRight") return child();
  if (key === "ArrowLeft") return nodes[at].parent < 0 ? null : nodes[at].parent;
  if (key === "ArrowDown") return beside(at + 1);
  if (key === "ArrowUp") return beside(at - 1);
  return { Home: 0, End: nodes.length - 1 }[key] ?? null;
}
