"""Target and distractor: the two tokens of the vocabulary whose probabilities the views track, shared by all of them.

A view that tracks tokens has the part `fields(...)` and the measure OFFERED. The tokens themselves are
`scene.picked.target` and `scene.picked.distractor`, so results that depend on them name "watched".
"""

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from model.text.surrogates import whole
from model.text.tokenizer import Tokenizer
from viz.charts.distribution import likeliest
from viz.labels import quoted
from viz.seam.scene import Scene
from viz.seam.selection import WATCHED
from viz.seam.settings import Settings
from viz.seam.typed import LIKELY, MOST_TYPED, not_one, readings
from viz.seam.view import Asking, Depends, Measure, Part, Payload, Seen
from viz.words import some

MOST = 12  # maximum number of tokens to suggest
Usual = Mapping[str, int | None]  # role -> token that an empty field stands for, or None


@dataclass(frozen=True)
class Offered:
    """The tokens offered for an entered text, with the default first."""

    typed: str
    ids: tuple[int, ...]
    places: tuple[str, ...]  # source of each token: "likely", "prompt", or "" for the vocabulary
    exact: int  # number of leading tokens that equal the text, with or without a leading space
    pieces: tuple[str, ...]  # tokens into which the text is split


def read(sent: object, scene: Scene) -> str:
    """Return the text in a field of the part."""
    text = sent.get("typed") if isinstance(sent, Mapping) else None
    return whole(text[:MOST_TYPED]) if isinstance(text, str) else ""


def measure_offered(scene: Scene, settings: Settings) -> Offered:
    """Find the tokens that a text may denote: exact matches, then tokens that begin with it, in decreasing order of
    probability.

    For an empty text, these are the most likely next tokens, followed by those of the prompt.
    """
    text = settings.targets
    logits = scene.unedited.logits_at(scene.position)[: scene.model.tokenizer.vocab_size]
    likely, prompt = likeliest(logits, LIKELY), list(dict.fromkeys(scene.tokens.ids.tolist()))
    exact, pieces = readings(scene, text) if text else ([], [])
    if text:
        begin = text.lstrip(" ·").casefold()
        fits = np.fromiter((each.startswith(begin) for each in _bare(scene.model.tokenizer)), bool)
        ranked = np.flatnonzero(fits)[np.argsort(-logits[fits], kind="stable")]
        familiar = [id for id in (*likely, *prompt) if fits[id]]
        ids = list(dict.fromkeys([*exact, *familiar, *ranked[: 2 * MOST].tolist()]))[:MOST]
    else:
        ids = list(dict.fromkeys([*likely[: MOST // 2], *prompt[::-1], *likely]))[:MOST]
    places = tuple("likely" if id in likely else "prompt" if id in prompt else "" for id in ids)
    return Offered(text, tuple(ids), places, len(exact), tuple(pieces))


@functools.lru_cache(maxsize=4)
def _bare(tokenizer: Tokenizer) -> tuple[str, ...]:
    """Return the text of every token without its leading space, in lowercase. [V]"""
    return tuple(tokenizer.piece(id).lstrip(" ").casefold() for id in range(tokenizer.vocab_size))


OFFERED = Measure("offered", measure_offered, ("plain", "token"), ("targets",), keep=False)


def fields(
    roles: Callable[[Seen], tuple[str, ...]] = lambda seen: WATCHED,
    usual: Callable[[Seen], Usual] = lambda seen: {},
    of: tuple[str, ...] = (),
    *,
    settings: tuple[str, ...] = (),
    depends: tuple[Depends, ...] = (),
) -> Part:
    """Build the part with the fields for target and distractor; only the roles in `roles(seen)` are shown.

    `usual(seen)` returns the tokens that empty fields stand for; `of` names the measures that it reads. The view has
    the words `targets.<role>_empty` if they differ from the common ones.
    """

    def draw(seen: Seen) -> Payload:
        return _payload(seen, roles(seen), usual(seen))

    return Asking("targets", read, draw, of=("offered", *of), depends=("watched", *depends), settings=settings)


def _payload(seen: Seen, roles: tuple[str, ...], usual: Usual) -> Payload:
    """Build the payload of static/parts/targets.js."""
    offered: Offered = seen.results["offered"]
    chosen = dict(zip(WATCHED, seen.facts.watched, strict=True))
    rows = [
        {"id": id, "text": quoted(seen.facts.piece(id)), "place": place}
        for id, place in zip(offered.ids, offered.places, strict=True)
    ]
    return {
        "fields": [_field(seen, role, chosen[role], usual.get(role)) for role in roles],
        "typed": offered.typed,
        "offered": rows,
        "exact": offered.exact,
        "cut": not_one(seen.all_words, offered.typed, offered.pieces) if offered.typed and not offered.exact else "",
        "words": some(seen.all_words, "watched", *_WORDS),
    }


_WORDS = ("clear", "likely", "prompt", "taken", "taken_spaced", "id", "offered")


def _field(seen: Seen, role: str, chosen: int | None, usual: int | None) -> Payload:
    """Build one field: its name, its token, and the token that it stands for while empty."""
    empty = seen.here[f"{role}_empty"]
    return {
        "role": role,
        "label": seen.all_words[f"watched.{role}"],
        "help": seen.all_words[f"watched.{role}_help"],
        "empty": empty if usual is None else f"{empty} ({quoted(seen.facts.piece(usual))})",
        "token": None if chosen is None else {"id": chosen, "text": quoted(seen.facts.piece(chosen))},
    }
