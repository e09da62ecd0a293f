"""View for guessing: the reader guesses the next token before seeing the model's prediction.

The page receives only the text before the guess; it requests each answer separately.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from model.errors import PlaygroundError
from model.predictions.predictions import Predictions, follow_all
from viz.labels import quoted, visible
from viz.numbers import bits, percent, whole
from viz.seam.scene import Scene
from viz.seam.settings import Settings
from viz.seam.typed import MOST_TYPED, ids_of
from viz.seam.view import Asking, Measure, Payload, Seen, View
from viz.views.predictions.expected import (
    EXPECTED,
    actual_row,
    entropy_facts,
    likely_rows,
    row,
    row_words,
    shared_words,
)
from viz.views.predictions.surprise.figures import breaks
from viz.words import translate

SHOWN = 5  # number of most likely tokens in an answer


@dataclass(frozen=True)
class Turn:
    """A request of the board: the position to guess, and the typed text, None before the guess and empty if skipped."""

    at: int
    typed: str | None = None


@dataclass(frozen=True)
class Chances:
    """The rank, probability and logit of one token at one position."""

    rank: int
    share: float
    logit: float


@dataclass(frozen=True)
class Guess:
    """A typed text as a guess: its first token, its number of tokens, and the model's prediction of the first token."""

    token: int
    n: int
    chances: Chances


@dataclass(frozen=True)
class RefusedText:
    """The reason why a typed text cannot be tokenized."""

    what: str
    hint: str


def turn_of(sent: object, scene: Scene) -> Turn:
    """Parse the turn that the page sent; return the first turn if it is invalid or belongs to another run."""
    values, T = sent if isinstance(sent, Mapping) else {}, len(scene.tokens)
    at, typed = values.get("at"), values.get("typed")
    valid = isinstance(at, int) and not isinstance(at, bool) and 0 < at < T and values.get("run") == scene.run
    if not valid:
        return Turn(1)
    return Turn(at, typed[:MOST_TYPED] if isinstance(typed, str) else None)


def measure_guess(scene: Scene, settings: Settings, results: Mapping[str, Any]) -> Guess | RefusedText | None:
    """Parse the typed text as a guess; return None if nothing is typed, and RefusedText if it cannot be tokenized."""
    if not settings.board.typed:
        return None
    try:
        return guess_of(scene, settings.board, results["main"])
    except PlaygroundError as error:  # the reader can type another text
        return RefusedText(error.what, error.hint)


def guess_of(scene: Scene, turn: Turn, expected: Predictions) -> Guess:
    """Parse the typed text as the next token.

    The leading space is optional. Of the tokenizations with and without it, the one that begins with the actual token
    is
    chosen, else the one with fewer tokens, else the one whose first token is more likely. Only the first token counts.
    Raises InputError if the text cannot be tokenized.
    """
    texts = [turn.typed, " " + turn.typed]
    readings = [ids_of(scene.model, text) for text in texts[: 1 if turn.typed[0] in " ·↵⇥\n" else 2]]
    actual, before = int(scene.tokens.ids[turn.at]), turn.at - 1
    ids = min(
        readings,
        key=lambda ids: (ids[0] != actual, len(ids), chances_of(scene, before, ids[0], expected).rank),
    )
    return Guess(ids[0], len(ids), chances_of(scene, before, ids[0], expected))


def chances_of(scene: Scene, before: int, token: int, expected: Predictions) -> Chances:
    """Return the rank, probability and logit of a token after position `before`.

    They are read from `expected` if the token is among the top tokens, and computed otherwise.
    """
    likely = expected.ids[before].tolist()
    if token in likely:
        at = likely.index(token)
        return Chances(at + 1, float(expected.probabilities[before, at]), float(expected.logits[before, at]))
    (followed,) = follow_all(scene.trace, [token], slice(before, before + 1))
    return Chances(int(followed.rank[0]), float(followed.probability[0]), float(followed.logit[0]))


# --- the board ---


def board(seen: Seen) -> Payload:
    """Build the board: the text before the guess and, once the reader has guessed, the answer."""
    words, turn, pieces = seen.here, seen.settings.board, seen.facts.pieces
    T = len(pieces)
    if T < 2:
        return {"empty": {"text": words["one"], "hint": shared_words(seen)["one_hint"]}}
    shown, guess = pieces[: turn.at], seen.results["guess"]
    payload = {
        "before": [visible(piece) for piece in shown],
        "breaks": breaks(shown),
        "at": turn.at,
        "last": turn.at == T - 1,
        "progress": words["progress"].format(at=whole(turn.at), last=whole(T - 1)),
        "words": words.plain() | row_words(seen),
    }
    if turn.typed is None:
        return payload
    if isinstance(guess, RefusedText):
        language = seen.facts.language
        text = f"{translate(guess.what, language)} {translate(guess.hint, language)}"
        return payload | {"refused": text, "typed": turn.typed}
    return payload | {"answer": answer(seen, turn, guess)}


def answer(seen: Seen, turn: Turn, guess: Guess | None) -> dict:
    """Build the answer: the actual next token, the model's prediction and a verdict on the guess."""
    expected, tokens, before = seen.results["main"], seen.facts.tokens, turn.at - 1
    actual, rank = int(tokens.ids[turn.at]), int(expected.rank[before])
    rows = likely_rows(expected, before, seen.facts)[:SHOWN]
    others = [actual_row(expected, before, tokens)] if rank > SHOWN else []
    if guess and guess.token != actual and guess.chances.rank > SHOWN:
        chances = guess.chances
        others.append(row(guess.token, seen.facts.piece(guess.token), chances.rank, (chances.share, chances.logit)))
    surprisal = float(expected.surprisal[before])
    value = seen.here["bits"].format(bits=bits(surprisal))
    return {
        "text": visible(tokens.pieces[turn.at]),
        "said": _verdict(seen, turn, guess),
        "right": None if guess is None else guess.token == actual,
        "model": rank == 1,
        "bits": surprisal,
        "rows": rows + sorted(others, key=lambda row: row["rank"]),
        "real": actual,
        "guess": guess.token if guess else None,
        "facts": [
            [seen.here["surprisal"], value, seen.here["surprisal_help"]],
            *entropy_facts(seen, float(expected.entropy[before])),
        ],
    }


def _verdict(seen: Seen, turn: Turn, guess: Guess | None) -> list[str]:
    """State whether the guess was right, and how likely the model considered the actual and the guessed token."""
    words, tokens, expected, before = seen.here, seen.facts.tokens, seen.results["main"], turn.at - 1
    actual = actual_row(expected, before, tokens)
    named = {"real": quoted(tokens.pieces[turn.at]), "rank": whole(actual["rank"]), "share": actual["percent"]}
    if guess is None:
        return [words["said_none"].format(**named)]
    token, lines = quoted(seen.facts.piece(guess.token)), []
    if guess.n > 1:
        lines.append(words["several"].format(typed=quoted(turn.typed), n=whole(guess.n), token=token))
    if guess.token == tokens.ids[turn.at]:
        return [words["said_right"].format(**named), *lines]
    chances = {"guess_rank": whole(guess.chances.rank), "guess_share": percent(guess.chances.share)}
    return [words["said_wrong"].format(**named), *lines, words["said_yours"].format(guess=token, **chances)]


VIEW = View(
    "guess",
    needs=("next",),
    measures=(EXPECTED, Measure("guess", measure_guess, settings=("board",), uses=("main",))),
    layout=("board",),
    parts={"board": Asking("guessing", turn_of, board, of=("main", "guess"), settings=("board",))},
)
