"""API endpoints for the logit lens."""

from typing import Annotated

from model.errors import InputError
from model.progress import Progress
from model.tracing.logit_lens import read_layers, read_position
from viz.seam.jobs import background
from viz.seam.programs.arguments import Few, OneOf
from viz.seam.programs.reading import done, named, place, token_id
from viz.seam.scene import Scene
from viz.views.predictions.lens.measure import LENSES, translator

Lens = Annotated[str, OneOf(LENSES)]
MOST = 16  # maximum number of tokens that one call may follow


def _tops(scene: Scene, ids: list, shares: list, limit: int) -> list[dict]:
    """Return the `limit` most likely tokens of one cell, with their probabilities."""
    return [named(scene.model, n) | {"probability": p} for n, p in list(zip(ids, shares, strict=True))[:limit]]


def lens(scene: Scene, lens: Lens = "plain", positions: list[int] = (), most: Few = 1) -> dict:
    """Compute the logit lens at every layer and position: the model's prediction if it stopped after that layer.

    Args:
        lens: plain: the final norm and the output head only. tuned: preceded by a trained translator, if the model
            has one.
        positions: The positions to read; all if empty, which may take a while.
        most: Maximum number of most likely tokens per cell.

    Returns:
        layers: numbers of layers passed, from 0 to all. For each of them and each position: likeliest (the most likely
        tokens), entropy (nats), kl to the final prediction (nats), and rank and probability of the final prediction's
        top token. answers: that top token for each position.
    """
    chosen = tuple(place(scene, each) for each in positions) or tuple(range(len(scene.tokens)))
    tuned = translator(scene, lens)

    def work(progress: Progress) -> object:
        return read_layers(scene.trace, chosen, top=5, lens=tuned, progress=progress)

    reading = done(scene.playground, background.BackgroundJob(("lens", scene.trace.key, lens, chosen), work))
    ids, shares = reading.ids.tolist(), reading.probabilities.tolist()
    cells = [[_tops(scene, *cell, most) for cell in zip(*row, strict=True)] for row in zip(ids, shares, strict=True)]
    return {
        "lens": lens,
        "layers": reading.places,
        "positions": list(chosen),
        "tokens": [scene.tokens.pieces[t] for t in chosen],
        "answers": [named(scene.model, n) for n in reading.candidates[:, 0]],
        "likeliest": cells,
        "entropy": reading.entropy,
        "kl": reading.kl,
        "rank": reading.ranks[..., 0],
        "probability": reading.shares[..., 0],
    }


def lens_at(scene: Scene, position: int = -1, lens: Lens = "plain", tokens: list[str] = (), most: Few = 5) -> dict:
    """Compute the logit lens at one position, including between attention and MLP of every layer, and follow tokens.

    Args:
        lens: plain or tuned, as in lens; the tuned lens has no points inside a layer.
        tokens: Up to sixteen tokens to follow, each as its text or 'id:1234'. Empty: the final prediction's top token.
        most: Maximum number of most likely tokens per point.

    Returns:
        points: for each point of the residual stream, blocks: the number of layers passed (l + 0.5: between attention
        and MLP of layer l), likeliest (the most likely tokens), entropy and kl to the final prediction (nats), and rank
        and probability of the followed tokens.
    """
    t = place(scene, position)
    if len(tokens) > MOST:
        raise InputError("This number of tokens cannot be followed.", str(len(tokens)), "Give 1 to 16.")
    ids = list(dict.fromkeys(token_id(scene.model, text) for text in tokens)) or None
    tuned = translator(scene, lens)
    with scene.playground.computing:
        reading = read_position(scene.trace, t, top=most, candidates=ids, lens=tuned)
    columns = (
        reading.places,
        reading.ids[:, 0],
        reading.probabilities[:, 0],
        reading.entropy[:, 0],
        reading.kl[:, 0],
        reading.ranks[:, 0],
        reading.shares[:, 0],
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
    followed = [named(scene.model, n) for n in reading.candidates[0]]
    return {"lens": lens, "position": t, "followed": followed, "points": points}
