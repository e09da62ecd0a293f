"""Where the vectors of the steering view come from: its settings, and the vectors of every layer that follow."""

import base64
import binascii

import numpy as np

from model.errors import InputError, say
from model.gpt.placed_vectors import ranges
from model.steering.files import MOST_FILE, VectorFile, load_bytes
from model.steering.vectors import (
    MOST_PAIRS,
    READS,
    TABLES,
    checked_vector,
    neuron_vector,
    pair_vectors,
    run_difference,
    scaled_vectors,
    token_vector,
    typed_vector,
)
from viz.seam.scene import Scene
from viz.seam.settings import Choice, Number, Settings, Text
from viz.seam.typed import typed_token

SOURCES = ("pairs", "runs", "token", "neuron", "numbers", "file")
SHARE = 0.5  # default length of a token's or neuron's vector, as a share of the stream's
MOST_NUMBERS = 1_000_000  # characters of typed numbers, or of a file in base64
EXAMPLE = """Tom was very happy | Tom was very sad
Lily smiled and felt happy | Lily cried and felt sad
It was a happy day | It was a sad day
The happy girl | The sad girl"""


def _of(*names: str) -> dict[str, tuple]:
    return {"source": names}


def _last(scene: Scene) -> int:
    return scene.model.config.n_layer - 1


def _neurons(scene: Scene) -> int:
    return max(max(scene.model.config.at(layer).d_mlp for layer in range(scene.model.config.n_layer)) - 1, 0)


SOURCE_SETTINGS = (
    Choice("source", SOURCES),
    Text("pairs", EXAMPLE, max_length=4000, lines=2, when=_of("pairs")),
    Choice("read", READS, when=_of("pairs")),
    Text("other", "The dog ran to the park because it was happy", max_length=4000, when=_of("runs")),
    Text("token", " happy", max_length=60, when=_of("token")),
    Choice("table", TABLES, when=_of("token")),
    Number("neuron_layer", 0, _last, 0, when=_of("neuron")),
    Number("neuron", 0, _neurons, 0, when=_of("neuron")),
    Number("share", 0, 4, SHARE, step=0.1, when=_of("token", "neuron")),
    Text("numbers", "", MOST_NUMBERS, lines=2, when=_of("numbers")),
    Text("file", "", MOST_NUMBERS, when=_of("file"), file=".npz,.gguf"),
)
# The settings on which the vectors depend, by their source.
USED = {
    "pairs": ("pairs", "read"),
    "runs": ("other",),
    "token": ("token", "table", "share"),
    "neuron": ("neuron_layer", "neuron", "share"),
    "numbers": ("numbers",),
    "file": ("file",),
}
TYPED = {"runs": "other", "token": "token", "numbers": "numbers", "file": "file"}  # the text of each source
NAMES = tuple(each.name for each in SOURCE_SETTINGS)


def pairs_of(text: str) -> list[tuple[str, str]]:
    """Read pairs of texts, one per line, with | between both. Raises InputError for a line without two texts."""
    pairs = []
    for line in filter(str.strip, text.splitlines()):
        parts = [part.strip() for part in line.split("|")]
        if len(parts) != 2 or not all(parts):
            hint = "Write a text, then |, then its opposite."
            raise InputError("A line of the pairs does not have two texts.", line[:40], hint)
        pairs.append((parts[0], parts[1]))
    if not 0 < len(pairs) <= MOST_PAIRS:
        hint = say("Give 1 to {} lines.", MOST_PAIRS)
        raise InputError("Steering needs pairs of texts.", f"{len(pairs)}", hint)
    return pairs


def positions_of(text: str) -> str | None:
    """Read the positions at which the vector is added; None for all. Raises InputError as `ranges` does."""
    text = text.replace(" ", "")
    if text:
        ranges(text)
    return text or None


def vectors_of(scene: Scene, settings: Settings, site: str) -> np.ndarray:
    """Compute the vector of each layer. float32 [L, D]; raises InputError for what cannot be used."""
    lm, run = scene.model, scene.unedited
    L, D = lm.config.n_layer, lm.config.d_model
    if settings.source == "pairs":
        return pair_vectors(lm, pairs_of(settings.pairs), site=site, read=settings.read)
    if settings.source == "runs":
        if not settings.other.strip():
            raise InputError("The other prompt is empty.", "", "Type a second prompt.")
        other = lm.trace(settings.other)
        return np.stack([run_difference(run, other, layer, site=site) for layer in range(L)])
    if settings.source == "token":
        one = token_vector(lm, token_id(scene, settings.token), settings.table)
    elif settings.source == "neuron":
        one = neuron_vector(lm, settings.neuron_layer, settings.neuron)
    elif settings.source == "numbers":
        return np.tile(numbers_of(settings.numbers, D), (L, 1))
    else:
        return _by_layer(file_of(settings.file), L, D)
    vectors = np.tile(one, (L, 1))
    return scaled_vectors(run, vectors, settings.share, site) if settings.share else vectors


def token_id(scene: Scene, text: str) -> int:
    """Return the id of a typed token. Raises InputError unless it is one token."""
    token = typed_token(scene, {"token": text}, "token")
    if token is None:
        raise InputError("No token is given.", "", "Type one token.")
    return token


def numbers_of(text: str, width: int) -> np.ndarray:
    """Read typed numbers, or a vector written as the text of an edit. float32 [width]"""
    if not text.strip():
        raise InputError("There are no numbers.", "", say("This model's stream has {} numbers a token.", width))
    return typed_vector(text, width)


def file_of(text: str) -> VectorFile:
    """Read the vectors of a file that the page sent in base64. Raises InputError if it cannot be read."""
    if not text.strip():
        raise InputError("No file is open.", "", "Open a .npz or .gguf file of vectors.")
    try:
        data = base64.b64decode(text.strip(), validate=True)
    except (binascii.Error, ValueError):
        data = b""
    if not 0 < len(data) <= MOST_FILE:
        raise InputError("The file of vectors cannot be read.", f"{len(data)} bytes", "Open a .npz or .gguf file.")
    return load_bytes(data)


def _by_layer(file: VectorFile, L: int, D: int) -> np.ndarray:
    """Return the file's vector of each layer, zeros where it has no vector. float32 [L, D]"""
    vectors = np.zeros((L, D), np.float32)
    for layer, vector in file.vectors.items():
        if layer >= L:
            hint = say("This model's layers run from 0 to {}.", L - 1)
            raise InputError("The file has vectors for layers that this model lacks.", f"layer {layer}", hint)
        vectors[layer] = checked_vector(vector, D)
    return vectors
