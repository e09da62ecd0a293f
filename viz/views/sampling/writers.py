"""Texts that are written piece by piece, by whoever holds the model: asked for here, begun where the model is."""

import dataclasses
from collections.abc import Iterator
from threading import Event
from typing import Any

from model.api import LanguageModel
from model.generation.strategies import Change
from viz.seam.jobs.answering import Written, written
from viz.seam.tasks import Answering, Writing
from viz.views.sampling.side_by_side.run import Request, rounds, writer_of
from viz.work.engine import Ask
from viz.work.playground import Playground
from viz.work.processes.training_process import PREFIX
from viz.work.prompt import Prompt


def texts_of_request(playground: Playground, request: Request, stop: Event) -> Iterator[list[Change | None]]:
    """Return the texts side by side, as `rounds` writes them."""

    def elsewhere() -> Writing | None:
        if request.model.id.startswith(PREFIX):
            return None
        return Writing(request.model.id, request.prompt, dataclasses.replace(request, model=None, writer=None))

    ask = Ask(request.model.id, lambda: rounds(playground, request, stop), elsewhere)
    return playground.engine.write(ask, stop)


def answered(
    playground: Playground, model: LanguageModel, prompt: Prompt, strategy: str, stop: Event
) -> Iterator[Written]:
    """Return the answer to a conversation, as `written` writes it."""
    ask = Ask(
        model.id,
        lambda: written(playground, model, prompt, strategy, stop),
        lambda: None if model.id.startswith(PREFIX) else Answering(model.id, prompt, strategy),
    )
    return playground.engine.write(ask, stop)


def begun(playground: Playground, task: Writing | Answering, stop: Event) -> Iterator[Any]:
    """Return the pieces of a text that was asked for elsewhere, written here."""
    model = playground.opened(task.model_id)
    if isinstance(task, Answering):
        return written(playground, model, task.prompt, task.strategy, stop)
    writer = writer_of(playground, model, task.request.settings)
    return rounds(playground, dataclasses.replace(task.request, model=model, writer=writer), stop)
