"""Predictions at every position of a run: a measure shared by several views, and its rows in the format of the page."""

import math

from model.errors import InputError, say
from model.predictions.masked import MaskedPredictions, masking_work, predict_masked
from model.predictions.predictions import Predictions, predict
from model.records import Tokens
from viz.labels import visible
from viz.numbers import BIT, bits, logit, number, percent, plain
from viz.seam.scene import Scene
from viz.seam.settings import Settings
from viz.seam.view import Facts, Measure, Seen
from viz.words import Words

MOST_MASKING = 6e11  # maximum number of operations of masking every token in turn, about 5 seconds on two cores


def measure(scene: Scene, settings: Settings) -> Predictions | MaskedPredictions:
    """Compute the most likely next tokens at every position, and the rank and probability of the actual next token.

    In a model that predicts masked tokens, each token is masked in turn. Raises InputError if that would take long.
    """
    if not scene.masks:
        return predict(scene.trace)
    tokenizer, T = scene.model.tokenizer, len(scene.tokens)
    if masking_work(scene.model.n_params, T) > MOST_MASKING:
        most = int((MOST_MASKING / masking_work(scene.model.n_params, 1)) ** 0.5)
        what = "Masking each token in turn would take too long: the prompt runs once for each of its tokens."
        raise InputError(what, say("{} tokens", T), say("Shorten it to {} tokens or fewer.", most))
    return predict_masked(scene.trace, tokenizer.mask_id, skipped=set(tokenizer.special.values()))


EXPECTED = Measure("main", measure, owner="expected")


def shared_words(seen: Seen) -> Words:
    """Return the words for rows and entropies, which are shared by several views."""
    return seen.words.of("expected")


def row_words(seen: Seen) -> dict[str, str]:
    """Return the words for a table of next tokens."""
    return shared_words(seen).within("rows").plain()


def likely_rows(expected: Predictions, at: int, facts: Facts) -> list[dict]:
    """Build the rows of the most likely tokens after position `at`, in the format of static/parts/next_tokens.js."""
    columns = (expected.ids[at], expected.probabilities[at], expected.logits[at])
    rows = zip(*(column.tolist() for column in columns), strict=True)
    return [row(token, facts.piece(token), n, (share, value)) for n, (token, share, value) in enumerate(rows, 1)]


def actual_row(expected: Predictions, at: int, tokens: Tokens) -> dict:
    """Build the row of the token that actually follows position `at`."""
    chances = float(math.exp(expected.next_log_probability[at])), float(expected.next_logit[at])
    return row(int(tokens.ids[at + 1]), tokens.pieces[at + 1], int(expected.rank[at]), chances)


def row(token: int, piece: str, rank: int, chances: tuple[float, float]) -> dict:
    """Build the row of a possible next token, with unformatted values for files and formatted ones for the page.

    `chances`: its probability and its logit.
    """
    share, value = chances
    surprisal = -math.log2(share) + 0.0 if share > 0 else math.inf
    return {
        "id": token,
        "text": visible(piece),
        "rank": rank,
        "share": share,
        "percent": percent(share),
        "surprisal": plain(surprisal),
        "bits": bits(surprisal),
        "score": plain(value),
        "logit": logit(value),
    }


def entropy_facts(seen: Seen, entropy: float) -> list[list[str]]:
    """Describe the uncertainty of a prediction from its entropy in nats, as a list of [name, value, explanation]."""
    words = shared_words(seen)
    value = words["entropy_value"].format(bits=bits(entropy / BIT))
    return [
        [words["entropy"], value, words["entropy_help"]],
        [words["choices"], number(math.exp(entropy)), words["choices_help"]],
    ]
