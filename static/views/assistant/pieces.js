// The pieces of a run whose pictures come whole: what the page knows once a piece is there.

// run: what is known, or null; piece: { run, from_report, reports, from_snapshot, snapshots, ... }. The run as the piece
// has it, with how many reports and snapshots were heard of; null where a piece before it was lost.
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
