"""Requests that select a model or open a link."""

from collections.abc import AsyncIterator, Mapping
from contextlib import aclosing
from typing import Any

import anyio

from viz.page import address
from viz.page.examples import FIRST
from viz.page.loading import Chosen, load_model
from viz.page.pipeline import selection_payload
from viz.page.wire.lines import in_threads, line
from viz.views.tabs import TABS
from viz.words import words
from viz.work.playground import Playground


async def model_lines(
    playground: Playground, visitor: str, model_id: str, language: str, limiter: anyio.CapacityLimiter
) -> AsyncIterator[str]:
    """Load a model; yields {"cancelled": notice}, which the page shows if it closes the request, then {"notice"}
    during loading, and finally, if the model was loaded, {"loaded": its id, "models": [[label, id]]}.

    Closing the iterator stops loading.
    """
    text = words(language)["notice.cancelled"].format(model=model_id[:80])
    yield line(cancelled={"kind": "info", "text": text})
    async with aclosing(in_threads(load_model(playground, model_id, language), limiter)) as steps:
        async for step in steps:
            if not isinstance(step, Chosen):
                yield line(notice=step)
            elif step.loaded:
                yield line(notice={}, loaded=model_id, models=playground.choices(visitor))
            else:
                yield line(notice=step.notice)


def restored(playground: Playground, sent: Mapping[str, Any], present: str, language: str) -> dict:
    """Build the answer to a link: {"linked", "prompt", "tab", "model", "selection", "models"}.

    "model" is the model to show; "selection" may be null; "models" are the picker's, if models were added to them.
    """
    link = address.link_of(sent, tuple(tab.key for tab in TABS))
    state = address.answer(playground, link, present, (FIRST, TABS[0].key))
    selection = None
    if state.selection is not None:
        name = address.name_of(playground, state.model_id)
        cell = {
            "tokens": list(state.selection.tokens),
            "pair": list(state.selection.pair) if state.selection.pair else None,
        }
        payload = selection_payload(words(language), state.selection, name, state.model)
        selection = payload | cell | {"run": state.run}
    return {
        "linked": address.linked_payload(state.waits, language),
        "prompt": state.prompt,
        "tab": state.tab,
        "model": state.model_id,
        "wanted": state.waits or state.model_id,
        "selection": selection,
        "models": playground.choices() if playground.given else [],
    }
