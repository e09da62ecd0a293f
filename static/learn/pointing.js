// The outline of the part of the page that a step speaks of.

const STARTS = 1_000; // milliseconds during which something else may stop the scrolling
const SETTLES = 6_000; // milliseconds during which a part is followed while views around it are drawn
let pointed = null,
  since = 0,
  place = "";

export const pointedAt = () => pointed;

export function pointAt(node) {
  if (node !== pointed) {
    pointed?.removeAttribute("data-pg-pointed");
    [pointed, since, place] = [node, Date.now(), ""];
  }
  if (!node) return;
  node.setAttribute("data-pg-pointed", "");
  // Scroll to it, again if what is drawn above it has moved it, but not where the visitor has scrolled.
  const { top, height } = node.getBoundingClientRect(),
    now = `${Math.round(top + scrollY)} ${Math.round(height)}`;
  const waited = Date.now() - since;
  if (waited < STARTS || (now !== place && waited < SETTLES))
    node.scrollIntoView({ block: "nearest", behavior: still() });
  place = now;
}
const still = () => (matchMedia("(prefers-reduced-motion: reduce)").matches ? "auto" : "smooth");
