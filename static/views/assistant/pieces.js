// Merging of a run's messages, whose figures arrive complete, into the page's record of the run.

// run: the current record, or null; piece: { run, from_report, reports, from_snapshot, snapshots, ... }. Returns the
// updated run with the number of reports and snapshots received; null if an earlier piece was missed.
export function joined(run, piece) {
  const { reports, snapshots } = run?.id === piece.run ? run : { reports: 0, snapshots: 0 };
  if (piece.from_report > reports || piece.from_snapshot > snapshots) return null;
  return {
    ...piece,
    id: piece.run,
    reports: Math.max(reports, piece.from_report + piece.reports.length),
    snapshots: Math.max(snapshots, piece.from_snapshot + piece.snapshots.length),
  };
}
