"""The kinds of jobs that the workshop runs (viz/work/processes/training_process.py), by the type of the job.

To add a kind:
1. The job: a frozen dataclass of plain values with `minutes`, which must pickle because it runs in another process. If
   it starts from a model, a field `source` holds its `Resolved` (`playground.weights_of`).
2. Three message types: the facts known at the start, a report of each step (with `step`), and an occasional snapshot.
3. `check(job, limits)` and `begin(job, limits) -> RunningJob` (running_job.py). Its `messages` yields reports and
   snapshots; between two messages the job can be paused, stopped, or ended by its time limit. If the training diverges,
   it restores the last good weights and yields `Finished(DIVERGED)`; the model is saved as usual.
4. An entry of KINDS. Its view calls `playground.workshop.start(visitor, job)` and reads `LiveRun.started`, `.reports`,
   `.snapshots`. The limit of one run per server, the other limits, the picker and the download need no further code.
"""

from model.alignment import tuning
from model.alignment.reinforcement import job as reinforcement
from model.alignment.reinforcement.before_after import Look
from model.alignment.tuning import TuneJob, TuneSnapshot, TuneStarted
from model.records import Snapshot
from model.training.jobs import job as training
from model.training.jobs.job import Job, Started
from model.training.jobs.running_job import JobKind
from model.training.loop import Report

KINDS: dict[type, JobKind] = {
    Job: JobKind(training.check, training.open_job, training.name_of, Started, Report, Snapshot),
    reinforcement.Practice: JobKind(
        reinforcement.check,
        reinforcement.begin,
        reinforcement.name_of,
        reinforcement.Begun,
        reinforcement.Report,
        Look,
        lambda job: job.course.steps + 1,  # the first report is of the reference
    ),
    TuneJob: JobKind(tuning.check, tuning.open_job, tuning.name_of, TuneStarted, Report, TuneSnapshot),
}


def kind_of(job: object) -> JobKind:
    """Return the kind of a job. Raises KeyError for an unknown type."""
    return KINDS[type(job)]
