"""Requests to generate texts, which the engine runs in the process that holds the model and streams back."""

import dataclasses
from collections.abc import Iterator
from threading import Event
from typing import Any

from model.api import LanguageModel
from model.generation.strategies import Change
from model.gpt.edits import Edit
from viz.seam.jobs.answering import Written, written
from viz.seam.tasks import Answering, WritingTask
from viz.views.sampling.side_by_side.run import TextsRequest, rounds, writer_of
from viz.work.engine import EngineRequest
from viz.work.playground import Playground
from viz.work.processes.training_process import PREFIX
from viz.work.prompt import Prompt


def texts_of_request(playground: Playground, request: TextsRequest, stop: Event) -> Iterator[list[Change | None]]:
    """Stream the texts side by side through the engine, one step at a time as in `rounds`."""

    def remote_task() -> WritingTask | None:
        if request.model.id.startswith(PREFIX):
            return None
        return WritingTask(request.model.id, request.prompt, dataclasses.replace(request, model=None, writer=None))

    ask = EngineRequest(request.model.id, lambda: rounds(playground, request, stop), remote_task)
    return playground.engine.write(ask, stop)


def answered(
    playground: Playground,
    model: LanguageModel,
    prompt: Prompt,
    strategy: str,
    stop: Event,
    edits: tuple[Edit, ...] = (),
) -> Iterator[Written]:
    """Stream the answer to a conversation through the engine, piece by piece as in `written`."""
    ask = EngineRequest(
        model.id,
        lambda: written(playground, model, prompt, strategy, stop, edits),
        lambda: None if model.id.startswith(PREFIX) else Answering(model.id, prompt, strategy, edits),
    )
    return playground.engine.write(ask, stop)


def begun(playground: Playground, task: WritingTask | Answering, stop: Event) -> Iterator[Any]:
    """Start another process's task in this process, and return the iterator over the generated pieces."""
    model = playground.opened(task.model_id)
    if isinstance(task, Answering):
        return written(playground, model, task.prompt, task.strategy, stop, task.edits)
    writer = writer_of(playground, model, task.request.settings)
    return rounds(playground, dataclasses.replace(task.request, model=model, writer=writer), stop)
