"""The probability of the watched token before and after the edits, for the page's line of edits."""

import numpy as np

from viz.labels import quoted, shorten
from viz.numbers import percent
from viz.seam.programs.reading import measured
from viz.seam.scene import Scene
from viz.seam.view import Payload
from viz.views.effects.edits.view import VIEW


def watched_change(scene: Scene) -> Payload | None:
    """Return the probability of the target, or else of the top token, without and with the edits; None without edits
    or without a prediction.

    Both are those of the next token at the selected position; the top token is that of the run without edits.
    """
    if not scene.picked.edits or "token" not in scene.model.gives:
        return None
    result, target = measured(VIEW, "main", scene), scene.picked.target
    token = int(np.argmax(result.before)) if target is None else target
    before, after = (_probability(logits, token) for logits in (result.before, result.after))
    named = {"token": quoted(shorten(scene.model.tokenizer.piece(token), 24)), "position": scene.position}
    shown = {"before": percent(before), "after": percent(after)}
    words = scene.words
    return {
        "text": words["edited.change"].format(**named, **shown),
        "help": words["edited.change_help"].format(**named),
        "numbers": [before, after],
    }


def _probability(logits: np.ndarray, token: int) -> float:
    """Compute the softmax of one token in float64. logits [V]"""
    x = logits.astype(np.float64) - logits.max()
    return float(np.exp(x[token]) / np.exp(x).sum())
