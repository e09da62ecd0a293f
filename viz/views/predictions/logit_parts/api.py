"""API endpoints for the parts of a logit."""

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
    """Parse the logit that a request specifies; raises InputError if token and distractor are the same."""
    t = place(scene, position)
    target = token_or_likeliest(scene, token, t)
    other = token_id(scene.model, distractor) if distractor else None
    if other == target:
        raise InputError("The two tokens are the same.", "", "Choose two different tokens.")
    return Watched(t, target, other)


def _written(scene: Scene, position: int) -> Components:
    """Compute the output of each part of the model at a position."""
    with scene.playground.computing:
        return components(scene.trace, position)


def _named(scene: Scene, watched: Watched) -> dict:
    """Return the position and the tokens of the logit, in the format of the answers."""
    other = watched.distractor
    return {
        "position": watched.position,
        "token": named(scene.model, watched.token),
        "distractor": None if other is None else named(scene.model, other),
    }


def logit_parts(scene: Scene, position: int = -1, token: str = "", distractor: str = "", most: Rows = 30) -> dict:
    """Decompose a logit into the contributions of heads, MLPs, embedding and biases, with the norms' scales frozen.

    Args:
        distractor: A second token, to decompose the difference of the two logits. Empty: none.

    Returns:
        strongest: parts with kind, layer, head (null for other parts) and value in logits, by decreasing absolute
        value. heads, mlps: all values, by layer. total: the sum of all parts; logit: the model's own logit; gap: the
        rounding error.
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
    """Compute the tokens that one head or MLP promotes and suppresses most, and a head's contribution by key token.

    Args:
        head: Head of the layer, counted from 0; omitted: the layer's MLP.
        distractor: A second token, to decompose the difference of the two logits. Empty: none.

    Returns:
        promoted, suppressed: tokens with their value in logits. sources: for a head, its contribution from each token
        of the prompt; the entries sum to its value. Null for an MLP.
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
    """List tokens with their values."""
    return [named(scene.model, n) | {"value": v} for n, v in zip(ids, values, strict=True)]


def gradients(scene: Scene, position: int = -1, token: str = "", distractor: str = "") -> dict:
    """Compute each prompt token's contribution to a logit by gradient times activation and by integrated gradients.

    Args:
        distractor: A second token, to explain the difference of the two logits. Empty: none.

    Returns:
        gradient_x_activation, integrated: one number per token up to the position, in logits. value: the logit in this
        run; baseline: the logit with every embedding replaced by the baseline. gap: the sum of the integrated gradients
        minus the difference of value and baseline, which would be 0 for an exact integral.
    """
    watched = _watched(scene, position, token, distractor)
    trace, limit = scene.trace, affordable(watched.position + 1)

    def work(progress: Progress) -> Gradients:
        return take_gradients(trace, watched.position, watched.token, watched.distractor, limit, progress)

    result = done(scene.playground, background.BackgroundJob(("gradients of a logit", trace.key, watched, limit), work))
    return _named(scene, watched) | {
        "tokens": prompt_tokens(scene)[: watched.position + 1],
        **vars(result),
        "gap": result.gap,
    }
