"""Jobs of the Training tab that are quick, within the bounds of a server as it is started."""

from model.training.jobs.form import job_of
from model.training.jobs.job import Job, Limits

LIMITS = Limits()
SMALL = {"layers": 1, "heads": 2, "width": 16, "length": 16, "batch": 4, "steps": 2, "warmup": 1}
TALE = "The cat sat on the mat. The dog saw it & ran away, far away.\n" * 50
OWN = {**SMALL, "task": "text", "text": TALE, "vocabulary": 270}


def job(**changes) -> Job:
    return job_of({**SMALL, **changes}, LIMITS)


def own(**changes) -> Job:
    return job_of({**OWN, **changes}, LIMITS)
