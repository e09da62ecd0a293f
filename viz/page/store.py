"""Measure every slow measure on the default model and prompt and store the results: `python -m viz.page.store`.

Measures that start automatically are left out. Names of jobs as arguments limit the work to these.
"""

import dataclasses
import sys

import torch

from model.api import load_model
from model.errors import PlaygroundError
from model.loading.sources import WEIGHTS
from viz.page.examples import FIRST
from viz.page.notebook import NotebookPage, page_of
from viz.seam.jobs import stored

# Not stored: names of heads, which take a second, checks, which are of this machine, and a trained model.
NEVER = {"heads_survey", "checks_job", "reward_model_start"}


def main(chosen: list[str]) -> None:
    """Measure and store; print the seconds and the bytes of each."""
    page = page_of(load_model(stored.MODEL), FIRST)
    stored.FOLDER.mkdir(exist_ok=True)
    for job in chosen or (each for each in page.jobs() if page.waits(each) and each not in NEVER):
        try:
            print(job, store(page, job), flush=True)
        except (PlaygroundError, TypeError) as error:
            print(job, "is not stored:", error, flush=True)


def store(page: NotebookPage, job: str) -> str:
    """Measure one job, store its result, and describe it."""
    result = dataclasses.replace(page.result(job), at=stored.AT)
    key = page.planned(job).key
    page.playground.results.put(key, result)  # results that build on it refer to its time
    weights = stored.digest(WEIGHTS / stored.MODEL / "model.safetensors")
    threads = torch.get_num_threads()
    size = stored.write(key, result.value, job=job, seconds=result.seconds, threads=threads, weights=weights)
    return f"{result.seconds:.1f} s, {size:,} bytes"


if __name__ == "__main__":
    main(sys.argv[1:])
