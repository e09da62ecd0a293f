"""The kinds of jobs that the workshop runs (viz/work/processes/training_process.py), by the type of the job.

Another kind joins in four steps:
1. The job: a frozen dataclass of plain values with `minutes`, which travels to a process of its own (it pickles). With
   a field `source`, the `Resolved` of the model that it starts from (`playground.weights_of`).
2. Three types for its messages: what is known at the start, a report of each step (with `step`), a snapshot now and
   then.
3. `check(job, limits)` and `begin(job, limits) -> RunningJob` (running_job.py). Its `messages` yields reports and
   snapshots, and waits between two of them for a pause, or for good where it is stopped or its time is up. Where the
   numbers run away, it goes back to the last good weights and yields `Finished(DIVERGED)`; the model is saved as ever.
4. An entry of KINDS. Its view calls `playground.workshop.start(visitor, job)` and reads `LiveRun.started`, `.reports`,
   `.snapshots`. One run at a time on a server, the limits, the picker and the download follow by themselves.
"""

from model.alignment import tuning
from model.alignment.reinforcement import job as reinforcement
from model.alignment.reinforcement.before_after import Look
from model.alignment.tuning import TuneJob, TuneSnapshot, TuneStarted
from model.records import Snapshot
from model.training.jobs import job as training
from model.training.jobs.job import Job, Started
from model.training.jobs.running_job import Kind
from model.training.loop import Report

KINDS: dict[type, Kind] = {
    Job: Kind(training.check, training.open_job, training.name_of, Started, Report, Snapshot),
    reinforcement.Practice: Kind(
        reinforcement.check,
        reinforcement.begin,
        reinforcement.name_of,
        reinforcement.Begun,
        reinforcement.Report,
        Look,
        lambda job: job.course.steps + 1,  # the first is of the reference
    ),
    TuneJob: Kind(tuning.check, tuning.open_job, tuning.name_of, TuneStarted, Report, TuneSnapshot),
}


def kind_of(job: object) -> Kind:
    """Return the kind of a job; raises KeyError for an unknown type."""
    return KINDS[type(job)]
