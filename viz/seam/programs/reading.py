"""Functions shared by endpoints: positions, heads, tokens given as text, and slow measures."""

import dataclasses
import time
from typing import Any, cast

from model.api import LanguageModel
from model.arguments import check_layer, shown
from model.errors import InputError, say
from model.progress import silent
from viz.charts.distribution import likeliest
from viz.seam import panels
from viz.seam.jobs import background
from viz.seam.scene import Scene
from viz.seam.selection import Selection
from viz.seam.typed import MOST_TYPED, token_of
from viz.seam.view import View
from viz.words import words
from viz.work.limits import within
from viz.work.playground import Playground
from viz.work.prompt import Prompt

HUB = "hub:"
MOST_SECONDS = 300.0  # maximum computing time in seconds per answer, which has no cancel button
BY_ID = "id:"


def model_of(playground: Playground, model_id: str) -> LanguageModel:
    """Return the model with the given id: from the picker, from memory, or from the Hub; raises PlaygroundError."""
    model_id = model_id or playground.options.model
    known = {each for _, each in playground.choices()}
    if model_id not in known and not model_id.startswith(HUB) and playground.models.peek(model_id) is None:
        raise InputError("No model has this id.", model_id[:40], say("Choose one of: {}.", ", ".join(sorted(known))))
    return playground.opened(model_id)


def place(scene: Scene, position: int) -> int:
    """Return a position counted from 0; negative ones count from the end. Raises InputError if it is outside the
    prompt.
    """
    T = len(scene.trace.tokens)
    if not -T <= position < T:
        raise InputError("This position does not exist.", str(position), say("Positions run from 0 to {}.", T - 1))
    return position % T


def places(scene: Scene, positions: list[int]) -> list[int]:
    """Return the given positions without duplicates, or all positions of the prompt if the list is empty."""
    return list(dict.fromkeys(place(scene, each) for each in positions)) or list(range(len(scene.trace.tokens)))


def at(scene: Scene, position: int) -> Scene:
    """Return the scene with the given token selected."""
    return dataclasses.replace(scene, picked=dataclasses.replace(scene.picked, tokens=(place(scene, position),)))


def watching(scene: Scene, token: str, distractor: str) -> Scene:
    """Return the scene with these target and distractor tokens, "" for no token. Raises InputError if a text is not a
    single token.
    """
    ids = (token_id(scene.model, text) if text else None for text in (token, distractor))
    target, other = ids
    return dataclasses.replace(scene, picked=dataclasses.replace(scene.picked, target=target, distractor=other))


def on(scene: Scene, layer: int, head: int) -> Scene:
    """Return the scene with the given head selected. Raises InputError if there is no such head."""
    check_head(scene.model, layer, head)
    return dataclasses.replace(scene, picked=dataclasses.replace(scene.picked, heads=((layer, head),)))


def layer_or_first(model: LanguageModel, layer: int | None) -> int:
    """Return the layer; for None, the first one with attention, or 0 in a model without attention."""
    having = (n for n in range(model.config.n_layer) if model.config.is_attention(n))
    return next(having, 0) if layer is None else layer


def check_head(model: LanguageModel, layer: int, head: int) -> None:
    """Raise InputError unless the model has the given head."""
    check_layer(layer, model.config.n_layer)
    if not 0 <= head < model.config.n_head:
        raise InputError(
            "This head does not exist.", str(head), say("Heads run from 0 to {}.", model.config.n_head - 1)
        )


def unprompted(playground: Playground, model: LanguageModel | None = None) -> Scene:
    """Return a scene without a run, for a result that depends only on the model or on settings."""
    model_alone: Any = model
    return Scene(playground, model_alone, Prompt(), cast(Any, None), "", words("en"), "en", Selection(heads=((0, 0),)))


# --- tokens ----------------------------------------------------------------------------------------------


def named(model: LanguageModel, token: int) -> dict:
    """Build the record of a token: its id and text."""
    return {"id": int(token), "text": model.tokenizer.piece(int(token))}


def prompt_tokens(scene: Scene) -> list[str]:
    """Return the texts of the prompt's tokens."""
    return list(scene.trace.tokens.pieces)


def token_id(model: LanguageModel, text: str) -> int:
    """Return the token denoted by a text or "id:1234". Raises InputError if it is not a single token of the model."""
    if text.startswith(BY_ID) and text[len(BY_ID) :].isdecimal():
        number, size = int(text[len(BY_ID) :][:12]), model.tokenizer.vocab_size
        if number >= size:
            raise InputError("There is no token with this id.", str(number), say("Ids run from 0 to {}.", size - 1))
        return number
    token, pieces = token_of(model, text[:MOST_TYPED])
    if token is None:
        names = " ".join(f"“{shown(piece)}”" for piece in pieces[:8])
        raise InputError("This is not one token.", names, "Give one token: its text, or id: and its number.")
    return token


def token_or_likeliest(scene: Scene, text: str, position: int) -> int:
    """Return the token of a text or, if the text is empty, the most likely next token of the unedited run."""
    if text:
        return token_id(scene.model, text)
    return likeliest(scene.unedited.logits_at(position)[: scene.model.tokenizer.vocab_size], 1)[0]


# --- measures --------------------------------------------------------------------------------------------


def measured(view: View, name: str, scene: Scene, **settings: object) -> Any:
    """Return a measure's result as the page shows it, with these settings and defaults for the others.

    A slow one is computed now, unless the page has already done so. Raises PlaygroundError.
    """
    chosen = panels.settings_of(view, scene, {}).but(**settings)
    if view.measure(name).slow:
        return done(scene.playground, panels.job_of(view, name, scene, chosen))
    return cast(background.Result, panels.measured(view, name, scene, chosen)).value


# --- long-running work -----------------------------------------------------------------------------------


def most_seconds(playground: Playground) -> float:
    """Return the time limit for computing one answer on this server."""
    return min(MOST_SECONDS, playground.options.allowed.job_seconds)


def done(playground: Playground, job: background.BackgroundJob) -> object:
    """Run a job and return its result, reusing the page's if there is one. Raises InputError if it takes too long.

    Other threads get the model between two steps, as with a page's job.
    """
    known = playground.results.peek(job.key)
    if known is not None:
        return known.value
    began = time.perf_counter()
    if job.locks:
        work = within(job.work, dataclasses.replace(playground.options.allowed, job_seconds=most_seconds(playground)))
        with playground.computing.later():
            value = work(lambda step, total, what: background.hand_over(playground))
    else:
        value = job.work(silent)
    result = background.Result(value, time.perf_counter() - began)
    return playground.results.get(job.key, lambda: result).value
