"""A text, and sample texts, in every vocabulary that is at hand; and the merges of one of them step by step."""

from dataclasses import dataclass

from model.errors import InputError, say
from model.loading.tokenizer_comparison import (
    BYTES,
    CHARACTERS,
    Counted,
    Cut,
    built_in,
    counted,
    cut,
    local_vocabularies,
)
from model.text.bpe_steps import MOST_CHARACTERS, Piece, candidates, replay
from model.text.tokenizer import Tokenizer
from viz.seam.scene import Scene
from viz.seam.settings import Choice, Settings, Text
from viz.views.anatomy.tokenizers.figures import SAMPLES
from viz.words import Words
from viz.work.playground import Playground

MOST_TEXT = 2000  # characters of a text that somebody writes
MOST_PAIRS = 6  # pairs that could be merged, in one step
LOADED = "loaded"


def _label(words: Words, option: str) -> str:
    return words["merges_loaded"] if option == LOADED else Words(words.catalogue, "tokenizers.names")[option]


TEXT = Text("text", max_length=20_000, lines=2)  # more than is compared, so that a longer text is refused and not cut
MERGES = Choice("merges", lambda scene: (LOADED, *local_vocabularies()), label=_label)


@dataclass(frozen=True)
class Tried:
    """A text in one vocabulary; None and None where it has no token for a part of it."""

    key: str  # "loaded", the id of a built-in model, "bytes" or "characters"
    cut: Cut | None
    counted: Counted | None


@dataclass(frozen=True)
class Compared:
    """One text in every vocabulary."""

    text: str
    rows: tuple[Tried, ...]


def tokenizer_of(playground: Playground, name: str) -> Tokenizer:
    """Return the vocabulary of a built-in model: that of the model in memory, else read alone."""
    loaded = playground.models.peek(name)
    return loaded.tokenizer if loaded else built_in(name)


def vocabularies(scene: Scene) -> dict[str, Tokenizer | None]:
    """Return the loaded model's, those of built-in models that are on this computer, and None for bytes and
    characters.
    """
    others = {key: tokenizer_of(scene.playground, key) for key in local_vocabularies() if key != scene.model.id}
    return {LOADED: scene.model.tokenizer, **others, BYTES: None, CHARACTERS: None}


def tried(key: str, tokenizer: Tokenizer | None, text: str) -> Tried:
    """Return the text in one vocabulary."""
    try:
        tokens = cut(key, tokenizer, text)
    except InputError:
        return Tried(key, None, None)
    return Tried(key, tokens, counted(tokens))


def text_of(scene: Scene, settings: Settings) -> str:
    """Return the text of the form, else the prompt, of a conversation what its turns say; raises InputError.

    For a text that is too long, and for turns without any.
    """
    if len(settings.text) > MOST_TEXT:
        hint = say("At most {} characters are compared.", MOST_TEXT)
        raise InputError("The text is too long to compare.", f"{len(settings.text)} characters", hint)
    text = settings.text or scene.prompt.plain
    if not text:
        raise InputError("The turns of the conversation hold no text.", "", "Write something into one of them.")
    return text


def measure(scene: Scene, settings: Settings) -> Compared:
    """Return the text in every vocabulary."""
    text = text_of(scene, settings)
    return Compared(text, tuple(tried(key, each, text) for key, each in vocabularies(scene).items()))


def measure_samples(scene: Scene, settings: Settings) -> dict[str, dict[str, Counted | None]]:
    """Return every one of SAMPLES in every vocabulary: {vocabulary: {sample: what it costs}}."""
    return {
        key: {name: tried(key, each, text).counted for name, text in SAMPLES.items()}
        for key, each in vocabularies(scene).items()
    }


# --- merges ---


@dataclass(frozen=True)
class Step:
    """One merge: where the left part stood, its rank, what it made, and the pairs it was chosen from."""

    at: int
    rank: int
    left: bytes
    right: bytes
    pairs: tuple[tuple[bytes, bytes, int], ...]  # left, right, rank; the one that is merged first
    more: int  # pairs beyond those


@dataclass(frozen=True)
class Replayed:
    """One piece of the text with its merges."""

    piece: Piece
    steps: tuple[Step, ...]


@dataclass(frozen=True)
class Merged:
    """How a vocabulary builds the tokens of a text."""

    which: str  # the vocabulary, as in `Tried`
    text: str  # what is shown of it
    whole: bool  # whether that is all of it
    pieces: tuple[Replayed, ...]


def replayed(tokenizer: Tokenizer, text: str) -> tuple[Replayed, ...]:
    """Return every piece of the text with its merges; raises InputError for a text that is too long."""
    return tuple(_steps(tokenizer, piece) for piece in replay(tokenizer, text))


def _steps(tokenizer: Tokenizer, piece: Piece) -> Replayed:
    ranks, parts, steps = tokenizer.vocabulary.ranks, piece.parts(0), []
    for merge in piece.merges:
        left, right = parts[merge.at : merge.at + 2]
        rivals = candidates(ranks, parts)
        pairs = tuple((parts[at], parts[at + 1], rank) for rank, at in rivals[:MOST_PAIRS])
        steps.append(Step(merge.at, merge.rank, left, right, pairs, max(0, len(rivals) - MOST_PAIRS)))
        parts = [*parts[: merge.at], left + right, *parts[merge.at + 2 :]]
    return Replayed(piece, tuple(steps))


def measure_merges(scene: Scene, settings: Settings) -> Merged:
    """Return the beginning of the text, as the chosen vocabulary builds it."""
    text, which = text_of(scene, settings), settings.merges
    tokenizer = scene.model.tokenizer if which == LOADED else tokenizer_of(scene.playground, which)
    shown = text[:MOST_CHARACTERS]
    return Merged(which, shown, len(shown) == len(text), replayed(tokenizer, shown))
