// When heads of a run came to do what a score measures: a step of the replay, from the run's own numbers.

const LEAST = 0.3; // a run with no head above this has formed none
const highest = (scores) => Math.max(...scores.flat().filter(Number.isFinite), 0);

// The first saved step at which some head has half of the run's highest score, and twice what shuffled text gives.
// null where no head gets there, or one had it from the start. snapshots: {step, induction, previous_token,
// induction_baseline}, each score [layers][heads].
export function formed(snapshots, score) {
  const scores = snapshots.map((each) => highest(each[score]));
  const most = Math.max(...scores, 0);
  const above = (at) => score !== "induction" || scores[at] >= 2 * highest(snapshots[at].induction_baseline);
  const first = most < LEAST ? -1 : scores.findIndex((each, at) => each >= most / 2 && above(at));
  return first > 0 ? { step: snapshots[first].step, before: snapshots[first - 1].step } : null;
}
