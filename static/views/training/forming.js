// Detection of the step at which heads acquire a behavior that a score measures, from the run's own snapshots.

const LEAST = 0.3; // minimum score for a head to count as formed
const highest = (scores) => Math.max(...scores.flat().filter(Number.isFinite), 0);

// Return the first saved step at which a head has half of the run's highest score, and twice the score on shuffled
// text; null if no head ever does, or if one does from the start. snapshots: {step, induction, previous_token,
// induction_baseline}, each score [layers][heads].
export function formed(snapshots, score) {
  const scores = snapshots.map((each) => highest(each[score]));
  const most = Math.max(...scores, 0);
  const above = (at) => score !== "induction" || scores[at] >= 2 * highest(snapshots[at].induction_baseline);
  const first = most < LEAST ? -1 : scores.findIndex((each, at) => each >= most / 2 && above(at));
  return first > 0 ? { step: snapshots[first].step, before: snapshots[first - 1].step } : null;
}
