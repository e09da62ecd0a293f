"""Measure every slow measure on the default model and prompt and store the results: `python -m viz.page.store`.

Measures with a stored result are left out; those of ALWAYS are stored for all of stored.MODELS. Names of jobs as
arguments limit the work to these.
"""

import dataclasses

import torch

from model.api import load_model
from model.errors import PlaygroundError
from viz.page.examples import FIRST
from viz.page.notebook import NotebookPage, page_of
from viz.seam.jobs import stored

# Stored for each of stored.MODELS, for any prompt: the names of heads, which every tab shows, and all claims.
ALWAYS = ("heads_survey", "claims_job")
# Not stored: checks, which are of this machine, a trained model, and one claim, which is stored with all.
NEVER = {"checks_job", "reward_model_start", "claims_one"}


def main(chosen: list[str]) -> None:
    """Measure and store; print the seconds and the bytes of each."""
    stored.FOLDER.mkdir(exist_ok=True)
    for model in stored.MODELS:
        page = page_of(load_model(model), FIRST)
        for job in _jobs(page, model, chosen):
            try:
                print(model, job, store(page, model, job), flush=True)
            except (PlaygroundError, TypeError) as error:
                print(model, job, "is not stored:", error, flush=True)


def _jobs(page: NotebookPage, model: str, chosen: list[str]) -> list[str]:
    """Return the jobs to measure on a model: those that are chosen, or those without a stored result."""
    stored_here = page.jobs() if model == stored.MODELS[0] else ALWAYS
    if chosen:
        return [job for job in stored_here if job in chosen]
    missing = [job for job in ALWAYS if not stored.stored(page.planned(job).key)]
    return missing + [job for job in stored_here if job not in (*ALWAYS, *NEVER) and page.waits(job)]


def store(page: NotebookPage, model: str, job: str) -> str:
    """Measure one job, store its result, and describe it."""
    result = dataclasses.replace(page.result(job), at=stored.AT)
    key = page.planned(job).key
    page.playground.results.put(key, result)  # results that build on it refer to its time
    threads = torch.get_num_threads()
    about = {"model": model, "job": job, "weights": stored.weights_of(model)}
    size = stored.write(key, result.value, **about, seconds=result.seconds, threads=threads)
    return f"{result.seconds:.1f} s, {size:,} bytes"
