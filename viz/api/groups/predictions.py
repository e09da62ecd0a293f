"""The predictions tab's numbers: what comes next, when it appears, and who wrote it."""

from model.errors import InputError
from model.predictions.attribution import attribute, by_source, promoted
from model.predictions.gradients import MOST, Gradients
from model.predictions.gradients import gradients as take_gradients
from model.progress import Progress
from viz.api.answers import largest_parts
from viz.api.arguments import Rows
from viz.api.reading import (
    check_head,
    done,
    named,
    place,
    prompt_tokens,
    token_id,
    token_or_likeliest,
)
from viz.page import background
from viz.page.scene import Scene
from viz.views.predictions.logit_parts import view as wrote

PATH_TOKENS = 4096  # run along the path of integrated gradients, by which long prompts take fewer places


# --- who wrote it ----------------------------------------------------------------------------------------


def _watched(scene: Scene, position: int, token: str, distractor: str) -> wrote.Watched:
    """The logit that is asked of; raises InputError."""
    t = place(scene, position)
    found = token_or_likeliest(scene, token, t)
    other = token_id(scene.model, distractor) if distractor else None
    if other == found:
        raise InputError("The token and the other one are the same.", "", "Choose two different tokens.")
    return wrote.Watched(t, found, other)


def _asked(scene: Scene, watched: wrote.Watched) -> dict:
    other = watched.distractor
    return {
        "position": watched.position,
        "token": named(scene.model, watched.token),
        "distractor": None if other is None else named(scene.model, other),
    }


def logit_parts(scene: Scene, position: int = -1, token: str = "", distractor: str = "", most: Rows = 30) -> dict:
    """Who wrote a logit: what each head, MLP, embedding and bias adds to it, the norms' scales frozen.

    Args:
        distractor: A second token: then the difference of the two logits is taken apart. Empty: none.

    Returns:
        strongest: parts with kind, layer, head (null where it has none) and value in logits, the largest in size first.
        heads, mlps: all of them by layer. total: what all parts add up to; logit: the model's own; gap: the rounding.
    """
    watched = _watched(scene, position, token, distractor)
    parts = attribute(wrote.found_at(scene, watched.position), scene.model.model, watched.token, watched.distractor)
    return _asked(scene, watched) | {
        "strongest": largest_parts(parts.parts(), most),
        "heads": parts.heads,
        "mlps": parts.mlps,
        "total": parts.total,
        "logit": parts.logit,
        "gap": parts.gap,
    }


def part_tokens(
    scene: Scene,
    layer: int,
    head: int | None = None,
    position: int = -1,
    token: str = "",
    distractor: str = "",
    most: Rows = 10,
) -> dict:
    """One head or MLP from inside: the tokens that it promotes and suppresses most, and, of a head, from which tokens
    of the prompt its part of a logit came.

    Args:
        head: Head of the layer, counted from 0; not given: the layer's MLP.
        distractor: A second token: then the difference of the two logits is taken apart. Empty: none.

    Returns:
        promoted, suppressed: tokens with their value in logits. sources: for a head one number a token of the prompt,
        which add up to its part; null for an MLP.
    """
    watched = _watched(scene, position, token, distractor)
    check_head(scene.model, layer, 0 if head is None else head)
    found, model = wrote.found_at(scene, watched.position), scene.model.model
    parts = attribute(found, model, watched.token, watched.distractor)
    with scene.playground.computing:
        told = promoted(found, model, layer, head, most, scene.model.tokenizer.vocab_size)
        sources = None
        if head is not None:
            sources = by_source(scene.trace, layer, head, watched.position, parts.directions[layer])
    value = parts.mlps[layer] if head is None else parts.heads[layer, head]
    return _asked(scene, watched) | {
        "layer": layer,
        "head": head,
        "value": value,
        "tokens": prompt_tokens(scene),
        "sources": sources,
        "promoted": _valued(scene, told.ids, told.values),
        "suppressed": _valued(scene, told.low_ids, told.low_values),
    }


def _valued(scene: Scene, ids: object, values: object) -> list[dict]:
    """Tokens with their numbers."""
    return [named(scene.model, n) | {"value": v} for n, v in zip(ids, values, strict=True)]


def gradients(scene: Scene, position: int = -1, token: str = "", distractor: str = "") -> dict:
    """What each token of the prompt contributes to a logit by gradients: gradient times activation, and integrated
    gradients.

    Args:
        distractor: A second token: then the difference of the two logits is taken. Empty: none.

    Returns:
        gradient_x_activation, integrated: one number a token up to the position, in logits; value and baseline: the
        logit here and where all embeddings are the baseline; gap: how far integrated gradients are from adding up.
    """
    watched = _watched(scene, position, token, distractor)
    trace, most = scene.trace, min(MOST, max(16, PATH_TOKENS // (watched.position + 1)))

    def work(progress: Progress) -> Gradients:
        return take_gradients(trace, watched.position, watched.token, watched.distractor, most, progress)

    found = done(scene.playground, background.Job(("wrote gradients", trace.key, watched, most), work))
    return _asked(scene, watched) | {
        "tokens": prompt_tokens(scene)[: watched.position + 1],
        **vars(found),
        "gap": found.gap,
    }
