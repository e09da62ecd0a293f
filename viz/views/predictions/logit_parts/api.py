"""Who wrote a logit, for programs."""

from model.errors import InputError
from model.predictions.attribution import Components, attribute, by_source, components, promoted
from model.predictions.gradients import Gradients, affordable
from model.predictions.gradients import gradients as take_gradients
from model.progress import Progress
from viz.seam.jobs import background
from viz.seam.programs.answers import largest_parts
from viz.seam.programs.arguments import Rows
from viz.seam.programs.reading import check_head, done, named, place, prompt_tokens, token_id, token_or_likeliest
from viz.seam.scene import Scene
from viz.views.predictions.logit_parts.measure import Watched


def _watched(scene: Scene, position: int, token: str, distractor: str) -> Watched:
    """Return the watched logit; raises InputError."""
    t = place(scene, position)
    target = token_or_likeliest(scene, token, t)
    other = token_id(scene.model, distractor) if distractor else None
    if other == target:
        raise InputError("The token and the other one are the same.", "", "Choose two different tokens.")
    return Watched(t, target, other)


def _written(scene: Scene, position: int) -> Components:
    """Return the output of every part at a position."""
    with scene.playground.computing:
        return components(scene.trace, position)


def _named(scene: Scene, watched: Watched) -> dict:
    """Return the watched tokens."""
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
    parts = attribute(_written(scene, watched.position), scene.model.model, watched.token, watched.distractor)
    return _named(scene, watched) | {
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
    """Return one head or MLP from inside: the tokens that it promotes and suppresses most, and, of a head, from which
    tokens of the prompt its part of a logit came.

    Args:
        head: Head of the layer, counted from 0; not given: the layer's MLP.
        distractor: A second token: then the difference of the two logits is taken apart. Empty: none.

    Returns:
        promoted, suppressed: tokens with their value in logits. sources: for a head one number a token of the prompt,
        which add up to its part; null for an MLP.
    """
    watched = _watched(scene, position, token, distractor)
    check_head(scene.model, layer, 0 if head is None else head)
    written, model = _written(scene, watched.position), scene.model.model
    parts = attribute(written, model, watched.token, watched.distractor)
    with scene.playground.computing:
        tokens = promoted(written, model, layer, head, most, scene.model.tokenizer.vocab_size)
        sources = None
        if head is not None:
            sources = by_source(scene.trace, layer, head, watched.position, parts.directions[layer])
    value = parts.mlps[layer] if head is None else parts.heads[layer, head]
    return _named(scene, watched) | {
        "layer": layer,
        "head": head,
        "value": value,
        "tokens": prompt_tokens(scene),
        "sources": sources,
        "promoted": _valued(scene, tokens.ids, tokens.values),
        "suppressed": _valued(scene, tokens.low_ids, tokens.low_values),
    }


def _valued(scene: Scene, ids: object, values: object) -> list[dict]:
    """Return the tokens with their numbers."""
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
    trace, limit = scene.trace, affordable(watched.position + 1)

    def work(progress: Progress) -> Gradients:
        return take_gradients(trace, watched.position, watched.token, watched.distractor, limit, progress)

    result = done(scene.playground, background.Job(("gradients of a logit", trace.key, watched, limit), work))
    return _named(scene, watched) | {
        "tokens": prompt_tokens(scene)[: watched.position + 1],
        **vars(result),
        "gap": result.gap,
    }
