"""The numbers of a head's weights: a row of its table, its strongest pairs, its directions, and all heads' scores."""

from dataclasses import dataclass

import numpy as np

from model.api import LanguageModel
from model.progress import Progress
from model.token_tables.head_tables import ov_table, qk_table
from model.token_tables.random_heads import HeadScores, head_scores, random_rows
from model.token_tables.singular import direction_tokens, head_directions, random_singular_values
from model.token_tables.token_table import CIRCUITS, Ends, TokenTable, ends_of, extremes, table_row
from viz.seam.scene import Scene
from viz.seam.settings import Checkbox, Choice, Settings, Text
from viz.seam.typed import typed_token
from viz.seam.view import Measure

TOP, PAIRS, SHOWN, TOKENS = 10, 12, 6, 5  # tokens of a row, pairs, directions, tokens of a direction
ROW_DRAWS, VALUE_DRAWS, DRAWS, SAMPLE = 16, 16, 32, 256
_DISTANCES = (0, 1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024)


def _distances(scene: Scene) -> tuple[str, ...]:
    """Return the distances at which keys may stand; none for a layer whose scores do not depend on it."""
    config, layer = scene.model.config, scene.head[0]
    if not config.rotates(layer):
        return ()
    most = min(
        config.n_ctx, (config.window or config.n_ctx) if config.mixer_of(layer) == "sliding_window" else config.n_ctx
    )
    return tuple(str(each) for each in _DISTANCES if each < most)


SETTINGS = (
    Choice("circuit", CIRCUITS),
    Text("token", max_length=40),
    Choice("distance", _distances, "1", when={"circuit": ("qk",)}, label=lambda words, option: option),
    Checkbox("relative", True),
    Choice("score", ("eigenvalues", "own")),
)


@dataclass(frozen=True, eq=False)
class Row:
    """The entries of one token."""

    head: tuple[int, int]
    token: int
    ends: Ends
    own: float  # the entry of the token itself
    rank: int  # of that entry among all, from 1
    random_high: float  # mean largest entry of random heads
    random_low: float  # mean smallest entry


@dataclass(frozen=True, eq=False)
class Pairs:
    """The strongest pairs of tokens, each token x once, with the y of its largest and of its smallest entry."""

    head: tuple[int, int]
    high: np.ndarray  # [n, 2] ids x, y
    high_values: np.ndarray  # [n]
    low: np.ndarray  # [n, 2]
    low_values: np.ndarray  # [n]
    own: float  # fraction of all tokens whose largest entry is their own


@dataclass(frozen=True, eq=False)
class Spectrum:
    """The singular values of a head, those of random heads, and the tokens of the first directions."""

    head: tuple[int, int]
    values: np.ndarray  # [E]
    random: np.ndarray  # [draws, E]
    reads: tuple[Ends, ...]  # [SHOWN]
    writes: tuple[Ends, ...]  # [SHOWN]


def distance_of(settings: Settings) -> int:
    """Return the distance in tokens; 0 for OV, and where the layer's scores do not depend on it."""
    return int(settings.distance or 0) if settings.circuit == "qk" else 0


def asked(scene: Scene, settings: Settings) -> Settings:
    """Leave out the distance where it changes nothing, so that equal questions are measured once."""
    return settings.but(distance=str(distance_of(settings)))


def table_of(lm: LanguageModel, head: tuple[int, int], settings: Settings) -> TokenTable:
    """Build the table of the selected circuit."""
    V = lm.tokenizer.vocab_size
    if settings.circuit == "ov":
        table = ov_table(lm.model, *head, vocab=V)
    else:
        table = qk_table(lm.model, *head, distance_of(settings), vocab=V)
    return table.centered() if settings.relative else table


def measure_row(scene: Scene, settings: Settings) -> Row:
    """Compute the entries of the entered token or, if the field is empty, of the selected one."""
    entered = typed_token(scene, settings, "token")
    token = int(scene.tokens.ids[scene.position]) if entered is None else entered
    table = table_of(scene.model, scene.head, settings)
    values = table_row(table, token)
    random = random_rows(scene.model.model, table, token, ROW_DRAWS)
    high, low = float(random.max(1).mean()), float(random.min(1).mean())
    own = values[token]
    return Row(scene.head, token, ends_of(values, TOP), float(own), int((values > own).sum()) + 1, high, low)


def measure_pairs(scene: Scene, settings: Settings, progress: Progress) -> Pairs:
    """Find the strongest pairs of the whole vocabulary."""
    found = extremes(table_of(scene.model, scene.head, settings), progress)
    high, low = found.strongest(PAIRS)
    both = [np.stack((x, y[x]), 1) for x, y in ((high, found.high), (low, found.low))]
    return Pairs(scene.head, both[0], found.high_values[high], both[1], found.low_values[low], found.own)


def pairs_cost(scene: Scene, settings: Settings) -> tuple[float, float]:
    """Estimate the cost of all pairs, as tokens of a forward pass with as many operations."""
    return 0, scene.model.tokenizer.vocab_size**2 * scene.model.config.d_head / scene.model.n_params


def measure_spectrum(scene: Scene, settings: Settings) -> Spectrum:
    """Compute the singular values and the tokens of the first directions."""
    lm, (layer, head) = scene.model, scene.head
    found = head_directions(lm.model, layer, head, settings.circuit, distance_of(settings))
    random = random_singular_values(lm.model, layer, head, settings.circuit, VALUE_DRAWS)
    tokens = direction_tokens(lm.model, layer, found, SHOWN, lm.tokenizer.vocab_size)
    sides = (tuple(ends_of(each, TOKENS) for each in side) for side in (tokens.reads, tokens.writes))
    return Spectrum(scene.head, found.values, random, *sides)


def measure_scores(scene: Scene, settings: Settings, progress: Progress) -> HeadScores:
    """Compute the scores of all heads and of random ones."""
    lm, distance = scene.model, distance_of(settings)
    return head_scores(
        lm.model,
        settings.circuit,
        distance,
        vocab=lm.tokenizer.vocab_size,
        sample=SAMPLE,
        draws=DRAWS,
        progress=progress,
    )


def scores_cost(scene: Scene, settings: Settings) -> tuple[float, float]:
    """Estimate the cost of all heads, as tokens of a forward pass with as many operations."""
    config, V = scene.model.config, scene.model.tokenizer.vocab_size
    each = V * config.d_head * (config.d_model + SAMPLE)
    return 0, (config.n_layer * config.n_head + DRAWS) * each / scene.model.n_params


_OF_HEAD = ("circuit", "distance")
MEASURES = (
    Measure("row", measure_row, ("plain", "token", "head"), (*_OF_HEAD, "token", "relative"), question=asked),
    Measure("spectrum", measure_spectrum, ("model", "head"), _OF_HEAD, question=asked),
    Measure(
        "pairs", measure_pairs, ("model", "head"), (*_OF_HEAD, "relative"), slow=True, cost=pairs_cost, question=asked
    ),
    Measure("scores", measure_scores, ("model",), _OF_HEAD, slow=True, cost=scores_cost, question=asked),
)
