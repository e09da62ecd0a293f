"""Measurements over a corpus: one head, one neuron, one direction, or the attention of all heads by kinds of tokens."""

import re
from dataclasses import dataclass
from typing import Any

import numpy as np

from model.corpus.directions import DirectionReading, read_direction, read_neuron
from model.corpus.head import HeadReading, read_head
from model.corpus.kinds import KINDS
from model.corpus.maps import batch_size
from model.corpus.search import ANY, APART, SAME, PairWeights, pair_weights, search
from model.corpus.texts import BUNDLED, LONGEST, SHORTEST, Corpus, bundled, corpus_of, folder_texts, given_folder
from model.errors import InputError
from model.gpt.config import ModelConfig
from model.progress import Progress, ProgressMessage
from model.steering.vectors import token_vector, typed_vector
from model.tracing.head_metrics import HEAD_METRICS
from viz.numbers import whole
from viz.seam.scene import Scene
from viz.seam.settings import Choice, Number, Settings, Text
from viz.seam.typed import MOST_TYPED, not_one, readings
from viz.seam.view import Measure
from viz.words import Words

OVER = ("head", "neuron", "direction", "pairs")
OWN, FOLDER = "own", "folder"
USUAL = 64  # tokens of a sequence
TOKENS, LARGE, FEW = 8192, 50_000_000, 2048  # tokens read; fewer from this number of parameters on
TOP = 10  # tokens in each direction
MOST_OWN = 200_000  # characters of an own text
_BINS = 40  # of the histogram that is shown while it is measured
_NUMBERS = re.compile(r"^[\s\[(]*[-+.\d][-+.\deE]*([\s,;]+[-+.\d][-+.\deE]*)+[\s\])]*$")


def sources(scene: Scene) -> tuple[str, ...]:
    """Return the corpora on offer: the bundled ones, the folder of the command line if there is one, and own text."""
    return (*BUNDLED, *([FOLDER] if given_folder() else []), OWN)


def _layers(scene: Scene) -> tuple[str, ...]:
    return tuple(map(str, range(scene.model.config.n_layer)))


def _middle(scene: Scene) -> str:
    return str(scene.model.config.n_layer // 2)


def _last_neuron(scene: Scene) -> int:
    return max((scene.model.config.d_mlp or 1) - 1, 0)


def name_of(words: Words, key: str) -> str:
    """Return the name of a head metric."""
    return words.catalogue[f"metric.{key}"]


def help_of(words: Words, key: str) -> str:
    """Return the help text of a head metric."""
    return words.catalogue[f"metric_help.{key}"]


def kind_name(words: Words, key: str) -> str:
    """Return the name of a kind of token, or of any."""
    return words.catalogue[f"corpus.kind_{key}"]


_PAIRS = {"over": ("pairs",)}
_KINDS = (ANY, *KINDS)
SETTINGS = (
    Choice("over", OVER),
    Choice("corpus", sources),
    Text("own", "", MOST_OWN, lines=5, when={"corpus": (OWN,)}, file=".txt"),
    Number("length", SHORTEST, LONGEST, USUAL),
    Choice("metric", tuple(HEAD_METRICS), when={"over": ("head",)}, label=name_of, help=help_of),
    Choice("layer", _layers, _middle, when={"over": ("neuron", "direction")}, label=lambda words, option: option),
    Number("neuron", 0, _last_neuron, 0, when={"over": ("neuron",)}),
    Text("vector", " she", 40_000, when={"over": ("direction",)}),
    Choice("query", _KINDS, "name", when=_PAIRS, label=kind_name),
    Choice("key", _KINDS, "name", when=_PAIRS, label=kind_name),
    Choice("same", (*SAME, ANY), when=_PAIRS),
    Choice("apart", tuple(APART), when=_PAIRS),
)
OF_READING = ("over", "corpus", "own", "length", "layer", "neuron", "vector")


@dataclass(frozen=True, eq=False)
class Reading:
    """What was read over a corpus."""

    corpus: Corpus
    value: HeadReading | DirectionReading | PairWeights
    token: int | None  # the token whose unembedding is the direction


def question(scene: Scene, settings: Settings) -> Settings:
    """Keep the settings that matter for what is read; for a head, add the main head of the page."""
    over, sequence = settings.over, ("over", "corpus", "length")
    kept = [(name, settings[name]) for name in sequence]
    kept.append(("own", settings.own if settings.corpus == OWN else ""))
    if over == "head":
        kept.append(("head", scene.head))
    names = {"neuron": ("layer", "neuron"), "direction": ("layer", "vector")}.get(over, ())
    return Settings((*kept, *((name, settings[name]) for name in names)))


def texts_of(corpus: str, own: str) -> tuple[str, ...]:
    """Return the texts of a corpus. Raises InputError for an empty own text or a folder that cannot be read."""
    if corpus == FOLDER:
        return folder_texts(given_folder())
    if corpus != OWN:
        return bundled(corpus)
    if not own.strip():
        raise InputError("The corpus is empty.", "", "Paste a text, or open a file.")
    return (own,)


def sequences_of(n_params: int, length: int) -> int:
    """Return how many sequences are read at most: about TOKENS tokens, FEW of a large model."""
    return max((TOKENS if n_params <= LARGE else FEW) // length, 10)


def cost(scene: Scene, settings: Settings) -> tuple[float, float]:
    """Estimate the runs and the tokens of a reading."""
    return load_of(scene.model.config, scene.model.n_params, settings.length)


def load_of(config: ModelConfig, n_params: int, length: int) -> tuple[float, float]:
    """Estimate the runs and the tokens; a token takes a third longer than usual, since all maps are computed."""
    n = sequences_of(n_params, length)
    return n / batch_size(config, length), n * length * 4 / 3


def vector_of(scene: Scene, text: str) -> tuple[np.ndarray, int | None]:
    """Read a direction: numbers of the stream's width, or one token, which stands for its row of W_U.

    Returns the vector [D] and the token, or None. Raises InputError for anything else.
    """
    if _NUMBERS.match(text):
        return typed_vector(text, scene.model.config.d_model), None
    if not text:
        raise InputError("The direction is empty.", "", "Enter one token, or the numbers of a vector.")
    ids, pieces = readings(scene, text[:MOST_TYPED])
    if not ids:
        raise InputError(not_one(scene.words, text, pieces))
    return token_vector(scene.model, ids[0]), ids[0]


def measure(scene: Scene, settings: Settings, progress: Progress) -> Reading:
    """Read the corpus. Raises InputError for a text, a neuron or a direction that cannot be used."""
    lm, over = scene.model, settings.over
    texts = texts_of(settings.corpus, settings.own)
    corpus = corpus_of(lm, texts, settings.length, sequences_of(lm.n_params, settings.length))
    words, latest = Words(scene.words, "corpus").within("job"), []

    def report(done: int, total: int | None, what: str) -> None:
        message = ProgressMessage(words["done_so_far"].format(done=whole(done), n=whole(total or 0)))
        message.grid = latest[-1] if latest else None
        progress(done, total, message)

    def see(grid: np.ndarray) -> None:
        latest[:] = [np.where(np.isfinite(grid), grid, 0).round(4).tolist()]

    token, more = None, {"progress": report}
    value: Any
    if over == "head":
        value = read_head(lm, corpus, *settings.head, **more, see=see)
    elif over == "pairs":
        value = pair_weights(lm, corpus, **more, see=lambda pairs: see(search(pairs, "name", "name", "yes").shares))
    else:

        def counts(values: np.ndarray) -> None:
            see(np.sqrt(np.histogram(values[:, corpus.first :], _BINS)[0])[None])

        layer = int(settings.layer)
        if over == "neuron":
            value = read_neuron(lm, corpus, layer, int(settings.neuron), top=TOP, **more, see=counts)
        else:
            vector, token = vector_of(scene, settings.vector)
            value = read_direction(lm, corpus, vector, layer, top=TOP, **more, see=counts)
    return Reading(corpus, value, token)


READING = Measure("reading", measure, ("model",), OF_READING, slow=True, question=question, cost=cost)
