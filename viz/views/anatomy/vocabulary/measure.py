"""The numbers of the vocabulary's view: the neighbors of one token, and the places of tokens in a plane."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from model.api import LanguageModel
from model.progress import Progress
from model.token_tables.neighbors import SIDES, Neighbors, nearest_tokens
from model.token_tables.vocabulary_map import METHODS, VocabularyMap, vocabulary_map
from viz.seam.scene import Scene
from viz.seam.settings import Checkbox, Choice, Settings, Text
from viz.seam.typed import typed_token
from viz.seam.view import Measure

TOP, POINTS, MOST_HITS = 12, 2000, 200

SETTINGS = (
    Text("token", max_length=40),
    Checkbox("centered", True),
    Choice("side", SIDES),
    Choice("method", METHODS),
    Text("search", max_length=40),
)


@dataclass(frozen=True, eq=False)
class Near:
    """The neighbors of a token in both tables."""

    token: int
    embedding: Neighbors
    unembedding: Neighbors | None  # None for a model whose tokens have no direction in its output


def measure_near(scene: Scene, settings: Settings) -> Near:
    """Find the neighbors of the entered token or, if the field is empty, of the selected one."""
    entered = typed_token(scene, settings, "token")
    token = int(scene.tokens.ids[scene.position]) if entered is None else entered
    lm, centered = scene.model, settings.centered
    V = lm.tokenizer.vocab_size
    embedding = nearest_tokens(lm.model, token, "embedding", TOP, centered=centered, vocab=V)
    if lm.config.headless or lm.config.head_dense:
        return Near(token, embedding, None)
    return Near(token, embedding, nearest_tokens(lm.model, token, "unembedding", TOP, centered=centered, vocab=V))


def is_bytes(piece: str) -> bool:
    """Return whether a token's text stands for bytes that are not a character of their own."""
    return piece.startswith("<0x")


def mapped_ids(lm: LanguageModel) -> list[int]:
    """Return the first POINTS tokens of the vocabulary that are texts of their own: in byte-pair encoding, ids follow
    the order of the merges, so these are common ones. Special tokens and bytes that are not a character are left out.
    """
    special, found = set(lm.tokenizer.special.values()), []
    for token in range(lm.tokenizer.vocab_size):
        piece = lm.tokenizer.piece(token)
        if token not in special and piece.strip() and not is_bytes(piece):
            found.append(token)
        if len(found) == POINTS:
            break
    return found


def hits_of(pieces: Sequence[str], text: str) -> list[int]:
    """Return the places of the pieces that contain a text, whatever their case, without bytes that are not a character;
    none for an empty text.
    """
    wanted = text.strip().lower()
    return [n for n, piece in enumerate(pieces) if wanted and wanted in piece.lower() and not is_bytes(piece)]


def measure_pca(scene: Scene, settings: Settings, results: Mapping[str, Any]) -> VocabularyMap | None:
    """Place the tokens by principal components, with those of the prompt, the neighbors and the searched ones; None if
    another map is chosen.
    """
    if settings.method != "pca":
        return None
    lm, near = scene.model, results["near"]
    every = [lm.tokenizer.piece(token) for token in range(lm.tokenizer.vocab_size)]
    also = {*scene.tokens.ids.tolist(), *hits_of(every, settings.search)[:MOST_HITS]}
    found = getattr(near, settings.side)
    also |= {near.token, *(found.ids.tolist() if found else ())}
    return vocabulary_map(lm.model, mapped_ids(lm), settings.side, "pca", also=sorted(also))


def measure_tsne(scene: Scene, settings: Settings, progress: Progress) -> VocabularyMap:
    """Place the tokens by t-SNE."""
    lm = scene.model
    return vocabulary_map(lm.model, mapped_ids(lm), settings.side, "tsne", progress=progress)


MEASURES = (
    Measure("near", measure_near, ("plain", "token"), ("token", "centered")),
    Measure("pca", measure_pca, ("plain",), ("side", "method", "search"), uses=("near",)),
    Measure("tsne", measure_tsne, ("model",), ("side",), slow=True),
)
