"""A text, and sample texts, tokenized with every available vocabulary; and the BPE merges of one vocabulary."""

from dataclasses import dataclass

from model.api import LanguageModel
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
from model.text.public_vocabularies import PUBLIC
from model.text.tokenizer import Tokenizer
from viz.seam.scene import Scene
from viz.seam.settings import Checkbox, Choice, Settings, Text
from viz.views.anatomy.tokenizers.figures import SAMPLES
from viz.words import Words
from viz.work.playground import Playground

MOST_TEXT = 2000  # maximum number of characters of a text in the form
MOST_PAIRS = 6  # maximum number of mergeable pairs listed per step
LOADED = "loaded"


def _label(words: Words, option: str) -> str:
    return words["merges_loaded"] if option == LOADED else Words(words.catalogue, "tokenizers.names")[option]


TEXT = Text("text", max_length=20_000, lines=2)  # over the limit, so that a longer text is rejected, not truncated
MERGES = Choice("merges", lambda scene: (LOADED, *local_vocabularies(), *PUBLIC), label=_label)
# The public vocabularies to compare; the larger ones take a moment to load, so only GPT-2's is there from the start.
ALSO = Choice("also", ("gpt2", "cl100k_base", "o200k_base", "all", "none"))
IDS = Checkbox("ids", True)


@dataclass(frozen=True)
class Tokenized:
    """A text tokenized with one vocabulary; `cut` and `counted` are None if the vocabulary cannot encode the text."""

    key: str  # "loaded", the id of a built-in model, a public vocabulary, "bytes" or "characters"
    cut: Cut | None
    counted: Counted | None


@dataclass(frozen=True)
class Compared:
    """One text tokenized with every vocabulary."""

    text: str
    rows: tuple[Tokenized, ...]


def tokenizer_of(playground: Playground, name: str) -> Tokenizer:
    """Return the tokenizer of a built-in model, from memory if the model is loaded, otherwise from its file."""
    loaded = playground.models.peek(name)
    return loaded.tokenizer if loaded else built_in(name)


def vocabularies(scene: Scene, also: str) -> dict[str, Tokenizer | None]:
    """Return the vocabularies to compare, by key.

    They are those of the loaded model and of the built-in models on this computer, the public ones that `also` names,
    and bytes and characters (None each).
    """
    named = PUBLIC if also == "all" else tuple(name for name in PUBLIC if name == also)
    others = {key: tokenizer_of(scene.playground, key) for key in local_vocabularies() if key != scene.model.id}
    return {
        LOADED: scene.model.tokenizer,
        **others,
        **{key: built_in(key) for key in named},
        BYTES: None,
        CHARACTERS: None,
    }


def tokenize(key: str, tokenizer: Tokenizer | None, text: str, special: bool = False) -> Tokenized:
    """Tokenize a text with one vocabulary; if `special`, special tokens in it are recognized."""
    try:
        tokens = cut(key, tokenizer, text, special=special)
    except InputError:
        return Tokenized(key, None, None)
    return Tokenized(key, tokens, counted(tokens))


def text_of(scene: Scene, settings: Settings) -> str:
    """Return the text of the form or, if it is empty, the prompt; for a conversation, the text of its turns.

    Raises InputError if the text is too long, or if the turns have no text.
    """
    if len(settings.text) > MOST_TEXT:
        hint = say("At most {} characters are compared.", MOST_TEXT)
        raise InputError("The text is too long to compare.", f"{len(settings.text)} characters", hint)
    text = settings.text or scene.prompt.plain
    if not text:
        raise InputError("All turns of the conversation are empty.", "", "Write something into one turn.")
    return text


def measure(scene: Scene, settings: Settings) -> Compared:
    """Tokenize the text with every vocabulary."""
    text = text_of(scene, settings)
    tokenizers = vocabularies(scene, settings.also)
    rows = (tokenize(key, each, text, key == LOADED and names_special(scene.model)) for key, each in tokenizers.items())
    return Compared(text, tuple(rows))


def names_special(model: LanguageModel) -> bool:
    """Return whether special tokens in the model's prompts are recognized, as [MASK] of an encoder."""
    return model.config.two_way


def measure_samples(scene: Scene, settings: Settings) -> dict[str, dict[str, Counted | None]]:
    """Count the tokens of every text of SAMPLES in every vocabulary: {vocabulary: {sample: counts}}."""
    return {
        key: {name: tokenize(key, each, text).counted for name, text in SAMPLES.items()}
        for key, each in vocabularies(scene, settings.also).items()
    }


# --- merges ---


@dataclass(frozen=True)
class MergeStep:
    """One merge: the index of its left part, its rank, both parts, and the pairs that could be merged at this step."""

    at: int
    rank: int
    left: bytes
    right: bytes
    pairs: tuple[tuple[bytes, bytes, int], ...]  # left, right, rank; the merged pair first
    more: int  # number of pairs not listed


@dataclass(frozen=True)
class Replayed:
    """One pre-tokenized piece of the text, with its merges."""

    piece: Piece
    steps: tuple[MergeStep, ...]


@dataclass(frozen=True)
class Merged:
    """The merges that build the tokens of a text with one vocabulary."""

    which: str  # key of the vocabulary, as in `Tokenized`
    kind: str  # "merges", "parts" (merges that begin with characters), "unigram" or "wordpiece"
    text: str  # the beginning of the text, as far as it is displayed
    complete: bool  # whether `text` is the full text
    pieces: tuple[Replayed, ...]


def replayed(tokenizer: Tokenizer, text: str, special: bool = False) -> tuple[Replayed, ...]:
    """Replay the merges of every piece of the text. Raises InputError if the text is too long."""
    return tuple(_steps(tokenizer, piece) for piece in replay(tokenizer, text, special=special))


def _steps(tokenizer: Tokenizer, piece: Piece) -> Replayed:
    ranks, parts, steps = tokenizer.vocabulary.ranks, piece.parts(0), []
    for at, merge in enumerate(piece.merges):
        left, right = parts[merge.at : merge.at + 2]
        mergeable = piece.pairs[at] if piece.pairs else candidates(ranks, parts)
        pairs = tuple((parts[left], parts[left + 1], rank) for rank, left in mergeable[:MOST_PAIRS])
        steps.append(MergeStep(merge.at, merge.rank, left, right, pairs, max(0, len(mergeable) - MOST_PAIRS)))
        parts = [*parts[: merge.at], left + right, *parts[merge.at + 2 :]]
    return Replayed(piece, tuple(steps))


def measure_merges(scene: Scene, settings: Settings) -> Merged:
    """Replay the merges of the beginning of the text with the selected vocabulary."""
    text, which = text_of(scene, settings), settings.merges
    tokenizer = scene.model.tokenizer if which == LOADED else tokenizer_of(scene.playground, which)
    shown = text[:MOST_CHARACTERS]
    pieces = replayed(tokenizer, shown, which == LOADED and names_special(scene.model))
    return Merged(which, kind_of(tokenizer), shown, len(shown) == len(text), pieces)


def kind_of(tokenizer: Tokenizer) -> str:
    """Return how a tokenizer builds its tokens, as in `Merged`."""
    if tokenizer.library is None:
        return "merges"
    return {"Unigram": "unigram", "WordPiece": "wordpiece"}.get(tokenizer.library.content["model"]["type"], "parts")
