"""Stored training runs of the default model, which views of training show until the visitor starts a run.

`python -m viz.page.store.runs` makes them. A file holds the job, the messages of its run, and the digest of the weights
that it started from; it names no folder of a machine.
"""

import dataclasses
import functools
import gzip
import json
import tempfile
from pathlib import Path
from typing import Any

from model.loading.sources import WEIGHTS, Resolved, resolve
from model.text.tokenizer import Tokenizer, from_folder
from viz.numbers import whole
from viz.seam.jobs import stored
from viz.seam.jobs.live_runs import Piece
from viz.seam.view import Payload
from viz.words import Words, joined, words
from viz.work.processes.training_process import LiveRun

FOLDER = stored.FOLDER / "runs"
ID = "stored"  # the id of a stored run on the page


@dataclasses.dataclass(frozen=True, eq=False)
class StoredRun:
    """A finished run, or another result of a view, with its cost."""

    value: Any  # a LiveRun's job, started, reports and snapshots by name, or a result
    seconds: float  # CPU time
    threads: int
    weights: str  # digest of the weights that it started from
    files: dict[str, str]  # files of its vocabulary; {} for the default model's


def weights() -> str:
    """Return the digest of the default model's present weights."""
    return stored.weights_of(stored.MODEL)


def write(view: str, run: StoredRun) -> int:
    """Write the stored run of a view and return the size of its file in bytes."""
    content = vars(run) | {"value": stored.encode(run.value)}
    data = gzip.compress(json.dumps(content, separators=(",", ":")).encode(), 9, mtime=0)
    FOLDER.mkdir(parents=True, exist_ok=True)
    (FOLDER / f"{view}.json.gz").write_bytes(data)
    return len(data)


@functools.lru_cache(maxsize=8)
def read(view: str) -> StoredRun:
    """Read the stored run of a view."""
    content = json.loads(gzip.decompress((FOLDER / f"{view}.json.gz").read_bytes()))
    return StoredRun(**content | {"value": stored.decode(content["value"])})


def bare(job: Any) -> Any:
    """Return a job without the place of its weights, as it is stored."""
    return dataclasses.replace(job, **dict.fromkeys(_places(job)))


def _places(job: Any) -> list[str]:
    return [each.name for each in dataclasses.fields(job) if each.name in ("source", "base")]


def base() -> Resolved:
    """Return the place of the default model's weights."""
    return resolve(stored.MODEL, offline=True)


def as_live(run: StoredRun) -> LiveRun:
    """Return a stored run in the form in which a view shows runs. It has no process and no model."""
    value = run.value
    job = dataclasses.replace(value["job"], **dict.fromkeys(_places(value["job"]), base()))
    return LiveRun(
        ID,
        "",
        job,
        FOLDER / ID,
        "done",
        value["started"],
        reports=value["reports"],
        snapshots=value["snapshots"],
        tokenizer=_tokenizer(tuple(run.files.items())),
        spent=run.seconds,
    )


@functools.lru_cache(maxsize=2)
def _tokenizer(files: tuple[tuple[str, str], ...]) -> Tokenizer:
    if not files:
        return from_folder(WEIGHTS / stored.MODEL)
    with tempfile.TemporaryDirectory() as folder:
        for name, text in files:
            Path(folder, name).write_text(text, encoding="utf-8")
        return from_folder(Path(folder))


def note(run: StoredRun, language: str) -> str:
    """Describe the origin of a stored run: its cost, and the default model and its own prompts, if it has them."""
    here = Words(words(language), "stored_run")
    threads = here["one_thread"] if run.threads == 1 else here["threads"].format(n=run.threads)
    values = {"seconds": whole(round(run.seconds)), "threads": threads, "model": base().label}
    return here["settings" if run.files else "model"].format(**values)


def shown(view: str, language: str, piece: Piece) -> Payload:
    """Build the field of a view's payload that holds the message of its stored run, with its note."""
    run = read(view)
    told = joined([note(run, language), words(language)["stored_run.replaced"]])
    return {"stored": piece(as_live(run), language, (0, 0)) | {"note": told}}
