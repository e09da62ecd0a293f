"""Guess first: a person guesses the next token, then sees what the model expected.

The page is sent the text before the guess and nothing of what follows; each answer is asked for one by one.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import gradio as gr

from model.errors import PlaygroundError
from model.predictions.predictions import follow_all
from viz.labels import shorten, visible
from viz.page.old_view import View
from viz.page.parts import part
from viz.page.picking import source
from viz.page.scene import Scene
from viz.page.tab import Picture, Values
from viz.page.typed import MOST_TYPED, ids_of, quoted
from viz.views.predictions.figures import brief, expected_row, percent
from viz.views.predictions.surprise.view import (
    actual_row,
    entropy_facts,
    likely_rows,
    predictions,
    row_words,
    scored_of,
)
from viz.words import section, translate

SHOWN = 5  # likeliest tokens in an answer


@dataclass(frozen=True)
class Turn:
    """What a page asks for: the token to guess, and what was typed, None before the guess, "" for no guess."""

    at: int
    typed: str | None = None


@dataclass(frozen=True)
class Reading:
    """A typed text as a guess: its first token, and how many tokens it is."""

    token: int
    n: int


def build() -> dict[str, gr.HTML]:
    """The text up to the guess, the field, the answer and the score, in one part."""
    return {"guess_board": part("guess_board", None, kind="guessing", value={})}


def draw(scene: Scene, values: Values) -> dict[str, Picture]:
    """The turn that the page is at."""
    turn = turn_of(scene, values.get("guess_board"))
    return {"guess_board": Picture((scene.run, turn), lambda: board_payload(scene, turn))}


def turn_of(scene: Scene, asked: object) -> Turn:
    """What the page asks for, if it is of this run; else the first turn."""
    given, T = asked if isinstance(asked, Mapping) else {}, len(scene.trace.tokens)
    at, typed = given.get("at"), given.get("typed")
    fits = isinstance(at, int) and not isinstance(at, bool) and 0 < at < T and given.get("run") == scene.run
    if not fits:
        return Turn(1)
    return Turn(at, typed[:MOST_TYPED] if isinstance(typed, str) else None)


def board_payload(scene: Scene, turn: Turn) -> dict:
    """The text before the guess, and the answer once there is a guess."""
    words, tokens = scene.words, scene.trace.tokens
    T = len(tokens)
    if T < 2:
        return {"empty": {"text": words["guess.one"], "hint": words["surprise.one_hint"]}}
    shown = tokens.pieces[: turn.at]
    payload = {
        "before": [visible(piece) for piece in shown],
        "breaks": [[i, min(piece.count("\n"), 2)] for i, piece in enumerate(shown) if "\n" in piece],
        "at": turn.at,
        "last": turn.at == T - 1,
        "progress": words["guess.progress"].format(at=turn.at, last=T - 1),
        "source": source(scene),
        "words": section(words, "guess") | row_words(scene),
        "run": scene.run,
    }
    if turn.typed is None:
        return payload
    try:
        return payload | {"answer": answer(scene, turn)}
    except PlaygroundError as error:  # the text cannot be read: the person can type another
        told = f"{translate(error.what, scene.language)} {translate(error.hint, scene.language)}"
        return payload | {"refused": told, "typed": turn.typed}


def answer(scene: Scene, turn: Turn) -> dict:
    """The token that comes next, what the model expected, and how good the guess was. Raises InputError."""
    found, tokens, before = predictions(scene), scene.trace.tokens, turn.at - 1
    real, rank = int(tokens.ids[turn.at]), int(found.rank[before])
    guess = reading(scene, turn) if turn.typed else None
    rows = likely_rows(scene, before)[:SHOWN]
    others = [actual_row(scene, before)] if rank > SHOWN else []
    if guess and guess.token != real:
        row = guess_row(scene, before, guess.token)
        others += [row] if row["rank"] > SHOWN else []
    rows += sorted(others, key=lambda row: row["rank"])
    bits = float(scored_of(found).bits[before])
    return {
        "text": visible(tokens.pieces[turn.at]),
        "said": _verdict(scene, turn, guess),
        "right": None if guess is None else guess.token == real,
        "model": rank == 1,
        "bits": bits,
        "rows": rows,
        "real": real,
        "guess": guess.token if guess else None,
        "facts": [
            [
                scene.words["guess.real_bits"],
                scene.words["guess.bits"].format(bits=brief(bits)),
                scene.words["surprise.by_help_surprisal"],
            ],
            *entropy_facts(scene, float(found.entropy[before])),
        ],
    }


def reading(scene: Scene, turn: Turn) -> Reading:
    """What a typed text means as the next token.

    A space in front need not be typed: the text counts with or without one, whichever is right, else whichever is
    fewer tokens, else whichever is likelier. Of several tokens the first counts. Raises InputError.
    """
    texts = [turn.typed, " " + turn.typed]
    found = [ids_of(scene.model, text) for text in texts[: 1 if turn.typed[0] in " ·↵⇥\n" else 2]]
    real = int(scene.trace.tokens.ids[turn.at])
    ids = min(found, key=lambda ids: (ids[0] != real, len(ids), guess_row(scene, turn.at - 1, ids[0])["rank"]))
    return Reading(ids[0], len(ids))


def guess_row(scene: Scene, before: int, token: int) -> dict:
    """A guessed token as a row of what the model expected after a position."""
    for row in likely_rows(scene, before):
        if row["id"] == token:
            return row
    with scene.playground.computing:
        (one,) = follow_all(scene.trace, [token], slice(before, before + 1))
    chances = float(one.probability[0]), float(one.logit[0])
    return expected_row(token, scene.model.tokenizer.piece(token), int(one.rank[0]), chances)


def _verdict(scene: Scene, turn: Turn, guess: Reading | None) -> list[str]:
    """Was the guess right, how it was read, and what the model made of it."""
    words, tokens, before = scene.words, scene.trace.tokens, turn.at - 1
    found, real = predictions(scene), int(tokens.ids[turn.at])
    named = {
        "real": quoted(scene, real),
        "rank": f"{int(found.rank[before]):,}",
        "share": percent(float(scored_of(found).share[before])),
    }
    if guess is None:
        return [words["guess.said_none"].format(**named)]
    said = []
    if guess.n > 1:
        typed = shorten(visible(turn.typed), 40)
        said.append(words["guess.several"].format(typed=typed, n=guess.n, token=quoted(scene, guess.token)))
    if guess.token == real:
        return [words["guess.said_right"].format(**named), *said]
    row = guess_row(scene, before, guess.token)
    theirs = {"guess": quoted(scene, guess.token), "guess_rank": f"{row['rank']:,}", "guess_share": row["percent"]}
    return [words["guess.said_wrong"].format(**named), *said, words["guess.said_yours"].format(**theirs)]


VIEW = View("guess", build, draw, parts=("guess_board",), asks=("guess_board",))
