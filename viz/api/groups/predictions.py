"""The predictions tab's numbers: what comes next, when it appears, and who wrote it."""

from typing import Annotated

from model.errors import InputError
from model.gpt.logit_lens import read_layers, read_position
from model.predictions.attribution import attribute, by_source, promoted
from model.predictions.gradients import MOST, Gradients
from model.predictions.gradients import gradients as take_gradients
from model.progress import Progress
from viz.api.answers import largest_parts
from viz.api.arguments import Few, OneOf, Rows
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
from viz.views.predictions.lens import view as lens_view
from viz.views.predictions.logit_parts import view as wrote

Lens = Annotated[str, OneOf(lens_view.LENSES)]
PATH_TOKENS = 4096  # run along the path of integrated gradients, by which long prompts take fewer places


# --- the lens --------------------------------------------------------------------------------------------


def _tops(scene: Scene, ids: list, shares: list, most: int) -> list[dict]:
    """The likeliest tokens of one cell."""
    return [named(scene.model, n) | {"probability": p} for n, p in list(zip(ids, shares, strict=True))[:most]]


def lens(scene: Scene, lens: Lens = "plain", positions: list[int] = (), most: Few = 1) -> dict:
    """What the model would predict if it stopped at an earlier layer: the logit lens at every layer and position.

    Args:
        lens: plain: the final norm and the output head alone. tuned: a trained translation first, where the model has
            one.
        positions: The tokens after which one looks; all where none are given, which may take a while.
        most: Likeliest tokens told for each cell.

    Returns:
        layers: blocks passed, 0 to the number of layers. For each layer and, within it, each position: likeliest,
        entropy (nats), kl to the final prediction (nats), rank and probability of the final answer (answers).
    """
    kind, wanted = lens, [place(scene, each) for each in positions] or list(range(len(scene.trace.tokens)))
    translator = lens_view.translator(scene, kind)

    def work(progress: Progress) -> object:
        return read_layers(scene.trace, wanted, top=5, lens=translator, progress=progress)

    key = (*lens_view.whole_key(scene, kind), tuple(wanted)) if positions else lens_view.whole_key(scene, kind)
    found = done(scene.playground, background.Job(key, work))
    ids, shares = found.ids.tolist(), found.probabilities.tolist()
    cells = [[_tops(scene, *cell, most) for cell in zip(*row, strict=True)] for row in zip(ids, shares, strict=True)]
    return {
        "lens": kind,
        "layers": found.places,
        "positions": wanted,
        "tokens": [scene.trace.tokens.pieces[t] for t in wanted],
        "answers": [named(scene.model, n) for n in found.candidates[:, 0]],
        "likeliest": cells,
        "entropy": found.entropy,
        "kl": found.kl,
        "rank": found.ranks[..., 0],
        "probability": found.shares[..., 0],
    }


def lens_at(scene: Scene, position: int = -1, lens: Lens = "plain", tokens: list[str] = (), most: Few = 5) -> dict:
    """The logit lens at one position, between attention and MLP of every block too, with tokens followed.

    Args:
        lens: plain or tuned, as in lens; the tuned one has no points inside a block.
        tokens: Up to sixteen tokens whose rank and probability are told at each point, each as its text or 'id:1234';
            the final answer where none are given.

    Returns:
        points: for each point of the stream blocks passed (l + 0.5: between attention and MLP of block l), the
        likeliest tokens, entropy and kl to the final prediction (nats), and rank and probability of the followed.
    """
    t, kind = place(scene, position), lens
    if len(tokens) > 16:
        raise InputError("This is not a number of tokens that can be followed.", str(len(tokens)), "Give 1 to 16.")
    ids = list(dict.fromkeys(token_id(scene.model, text) for text in tokens)) or None
    translator = lens_view.translator(scene, kind)
    with scene.playground.computing:
        found = read_position(scene.trace, t, top=most, candidates=ids, lens=translator)
    columns = (
        found.places,
        found.ids[:, 0],
        found.probabilities[:, 0],
        found.entropy[:, 0],
        found.kl[:, 0],
        found.ranks[:, 0],
        found.shares[:, 0],
    )
    points = [
        {
            "blocks": blocks,
            "likeliest": _tops(scene, *best, most),
            "entropy": entropy,
            "kl": kl,
            "rank": rank,
            "probability": share,
        }
        for blocks, *best, entropy, kl, rank, share in zip(*(each.tolist() for each in columns), strict=True)
    ]
    followed = [named(scene.model, n) for n in found.candidates[0]]
    return {"lens": kind, "position": t, "followed": followed, "points": points}


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
