// Format a probability as viz/numbers.py does: 34.2%, 1.23%, 0.20%, 0.012%.
export function percent(share) {
  if (share === null) return "–";
  const points = 100 * share;
  if (!points) return "0%";
  if (points < 0.001) return "< 0.001%";
  return `${points < 0.1 ? points.toPrecision(2) : points.toFixed(points >= 10 ? 1 : 2)}%`;
}
