"""Survey of all heads on a built-in set of sequences: mean and standard deviation of their metrics, and behavior
labels.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from model.attention.probes import SHORTEST, repeated_ids
from model.errors import InputError, say
from model.gpt.passes import See
from model.gpt.transformer import Transformer
from model.hooked.model import Hooked
from model.progress import Progress, silent
from model.public import MOST_SEED, between, public, whole
from model.records import Tokens
from model.tracing.head_metrics import HEAD_METRICS
from model.tracing.head_reducer import HeadReducer

SEQUENCES, LENGTH = 12, 64  # random sequences of a survey, and the tokens of each


@dataclass(frozen=True)
class Probe:
    """A set of sequences for a survey."""

    label: str
    doc: str


PROBES: dict[str, Probe] = {
    "random": Probe(
        "Repeated random tokens",
        "Random token ids written twice: nothing but the repetition can be read, so matching heads stand out.",
    ),
    "sentences": Probe("English sentences", "Short texts as people write them: what heads do in everyday use."),
}

# Columns of HEAD_METRICS used as labels of heads.
LABELS = ("previous_token", "self", "first_token", "duplicate_token", "induction")
MARGIN = 0.1  # minimum difference of weight between a head and its baseline
_FIXED = ("previous_token", "self", "first_token")  # metrics of one key per row, independent of the tokens
_MATCHING = ("duplicate_token", "induction")  # metrics of keys that depend on which tokens are equal
_TOGETHER = 512  # maximum tokens per batch, padding included


@dataclass(frozen=True, eq=False)
class Survey:
    """Metrics of all heads on a set of sequences. Tables are indexed by (layer, head), with the columns of
    HEAD_METRICS.
    """

    probe: str  # key of PROBES
    sequences: int
    mean: pd.DataFrame  # mean over the sequences for which the metric is defined; NaN if undefined for all
    spread: pd.DataFrame  # standard deviation over the same sequences (divisor n - 1); NaN for fewer than two
    baseline: pd.DataFrame | None  # score of a head without the behavior; NaN if undefined


def forget(reducer: HeadReducer) -> None:
    """Do nothing with the rows of a sequence."""


def survey(
    model: Transformer | Hooked, sequences: Sequence[Tensor], progress: Progress = silent
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Compute the mean and standard deviation (divisor n - 1) of each head metric over sequences of ids, int64 [T]
    each.

    Sequences without repeated tokens do not count for metrics of repeats. `progress` receives the number of finished
    sequences after each batch and may raise an exception to cancel. Raises ValueError if there are no sequences.
    """
    return _mean_and_spread(model, _run_all(model, sequences, sequences, progress))


@public(pool=whole(2), sequences=whole(1), length=whole(1), seed=whole(0, MOST_SEED))
def random_survey(
    model: Transformer | Hooked,
    *,
    pool: int,
    sequences: int = SEQUENCES,
    length: int = LENGTH,
    seed: int = 0,
    progress: Progress = silent,
) -> Survey:
    """Measure the metrics of all heads on repeated random ids below `pool`, as long as the context permits. Olsson et
    al. 2022.

    The baseline of duplicate_token and induction is the mean score at the same positions with the second half shuffled.
    The baseline of previous_token, self and first_token is the score of uniform attention, the mean of 1 / (i + 1) over
    rows 1 .. T - 1. Raises InputError for a context of fewer than SHORTEST tokens.
    """
    n_ctx = model.config.n_ctx
    if min(n_ctx, length) < SHORTEST:
        hint = say("At least {} tokens are needed.", SHORTEST)
        raise InputError("The sequences are too short to survey heads on.", f"{min(n_ctx, length)} tokens", hint)
    repeated, shuffled = repeated_ids(pool, min(length, n_ctx) // 2 * 2, sequences, seed)
    metrics = _run_all(model, [*repeated, *shuffled], [*repeated, *repeated], progress)
    mean, spread = _mean_and_spread(model, metrics[:sequences])
    shuffled_mean, _ = _mean_and_spread(model, metrics[sequences:])
    baseline = pd.DataFrame(np.nan, mean.index, mean.columns)
    baseline[list(_FIXED)] = even_share(repeated.shape[1])
    baseline[list(_MATCHING)] = shuffled_mean[list(_MATCHING)]
    return Survey("random", sequences, mean, spread, baseline)


@public()
def sentence_survey(
    model: Transformer | Hooked,
    encode: Callable[[str], Tokens],
    progress: Progress = silent,
    finished: Callable[[HeadReducer], None] = forget,
) -> Survey:
    """Measure the metrics of all heads on SENTENCES, each truncated to the context length.

    `finished` receives the reducer of each sentence, in order, with the rows of every head. Raises the errors of
    `encode`.
    """
    ids = [torch.from_numpy(np.asarray(encode(text).ids[: model.config.n_ctx], np.int64)) for text in SENTENCES]
    metrics = _run_all(model, ids, ids, progress, finished)
    return Survey("sentences", len(ids), *_mean_and_spread(model, metrics), None)


@public(least=between(0, 1))
def labels(random: Survey, least: float = 0.25) -> pd.DataFrame:
    """Return the heads to which one of LABELS applies, one row per head and label, by layer and head.

    Columns `label`, `score` and `baseline`, indexed by (layer, head). The rule is mean >= least and mean - 2 spread /
    sqrt(sequences) > baseline + MARGIN. So a label requires a substantial fraction of the weight that is not explained
    by the random choice of sequences. A head may have several labels, or none. Raises ValueError for a survey without a
    baseline.
    """
    if random.baseline is None:
        raise ValueError(f"labels need a survey with a baseline, got the survey of {random.probe!r}")
    columns = list(LABELS)
    mean, spread, baseline = (frame[columns] for frame in (random.mean, random.spread, random.baseline))
    clear = (mean >= least) & (mean - 2 * spread / np.sqrt(random.sequences) > baseline + MARGIN)
    rows, names = clear.to_numpy().nonzero()
    return pd.DataFrame(
        {
            "label": [columns[name] for name in names],
            "score": mean.to_numpy()[rows, names],
            "baseline": baseline.to_numpy()[rows, names],
        },
        index=mean.index[rows],
    )


def even_share(T: int) -> float:
    """Compute the mean weight on one key over rows 1 .. T - 1 under uniform attention."""
    return float((1 / np.arange(2, T + 1)).mean())


def _mean_and_spread(model: Transformer | Hooked, metrics: Tensor) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Compute the mean and standard deviation over sequences, ignoring NaN. metrics [N, L, H, metrics]"""
    config = model.config
    index = pd.MultiIndex.from_product([range(config.n_layer), range(config.n_head)], names=["layer", "head"])
    each = pd.DataFrame(metrics.double().flatten(1).numpy())  # one row per sequence
    mean, spread = (
        pd.DataFrame(column.to_numpy().reshape(len(index), -1), index, list(HEAD_METRICS))
        for column in (each.mean(), each.std(ddof=1))
    )
    return mean, spread


@torch.inference_mode()
def _run_all(
    model: Transformer | Hooked,
    ran: Sequence[Tensor],
    scored: Sequence[Tensor],
    progress: Progress,
    finished: Callable[[HeadReducer], None] = forget,
) -> Tensor:
    """Compute the metrics of runs on `ran`, with `scored` as the tokens that define them. [T] each -> [N, L, H,
    metrics]
    """
    if len(ran) == 0:
        raise ValueError("a survey needs at least one sequence")
    metrics: list[Tensor] = []
    for batch in _batches([len(ids) for ids in ran]):
        reducers = [HeadReducer(ids, model.config.n_layer, model.config.n_head) for ids in scored[batch]]
        # Padding is on the right, so that no token of the sequence attends to it.
        padded = pad_sequence(list(ran[batch]), batch_first=True)
        model.trunk(padded, attend=_each(reducers), see=_see_each(reducers))
        for reducer in reducers:
            reducer.finish()
            metrics.append(reducer.metrics)
            finished(reducer)
        progress(len(metrics), len(ran), "Surveying heads")
    return torch.stack(metrics)


def _batches(lengths: list[int]) -> Iterator[slice]:
    """Yield slices of consecutive sequences with at most _TOGETHER tokens after padding to the longest; each has at
    least one.
    """
    start = 0
    while start < len(lengths):
        end = start + 1
        while end < len(lengths) and (end + 1 - start) * max(lengths[start : end + 1]) <= _TOGETHER:
            end += 1
        yield slice(start, end)
        start = end


def _each(reducers: list[HeadReducer]) -> Callable[[int, Tensor, Tensor, Tensor], Tensor]:
    """Return an attention kernel that passes sequence b of a padded batch to reducer b; outputs at padding are 0."""

    def attend(layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        z = torch.zeros_like(q)
        for b, reducer in enumerate(reducers):
            part = slice(b, b + 1), slice(None), slice(reducer.repeats.T)
            z[part] = reducer(layer, q[part], k[part], v[part])
        return z

    return attend


def _see_each(reducers: list[HeadReducer]) -> See:
    """Return a `see` callback for layers without an attention kernel, which passes the weights of sequence b to reducer
    b.
    """

    def see(layer: int, weights: Tensor) -> None:
        for b, reducer in enumerate(reducers):
            reducer.see(layer, weights[b : b + 1, :, : reducer.repeats.T, : reducer.repeats.T])

    return see


# Narratives, direct speech, lists, instructions, numbers and facts; about half repeat a name or a phrase.
SENTENCES = (
    "The old lighthouse stood at the edge of the cliff, and every evening its lamp swept slowly across the dark water.",
    "Tom and Anna went to the market because Anna wanted apples and Tom wanted to look at the fish.",
    "She opened the box, looked inside, closed the box again, and never told anyone what she had seen.",
    '"Where are you going?" asked Maria. "To the station," said Paul. "Then I will go to the station too," said Maria.',
    "For the soup you need two onions, three carrots, a little butter, some salt, and plenty of time.",
    "Water boils at one hundred degrees at sea level, but on a high mountain it boils at a lower temperature.",
    "When the teacher gave the book to Daniel, Daniel thanked the teacher and put the book in his bag.",
    "It rained on Monday, it rained on Tuesday, it rained on Wednesday, and on Thursday the river came over its banks.",
    "The committee agreed that the new bridge would cost less than expected and could be finished before next winter.",
    "Mr. Harrington bought a gray horse from Mrs. Bell, although Mrs. Bell had warned Mr. Harrington that it bit.",
    "A small brown dog ran across the yard, barked twice at the postman, and hid under the kitchen table.",
    "Red, blue, green, red, blue, green: the lights on the tree changed all night long while everyone was asleep.",
    "If you want to learn to swim, first learn to float, and if you want to float, first learn to breathe.",
    "The museum opens at nine, closes at five, and on the first Sunday of each month visitors do not have to pay.",
    "Nobody knew who had left the letter on the step, but the letter was addressed to the youngest of the sisters.",
    "Dear Professor Lindqvist, thank you for your letter of the third of May. I enjoyed your letter very much.",
    "The ship from Lisbon reached the harbour at dawn, and the ship from Naples reached the harbour a day later.",
    "Although the experiment failed three times, the students kept careful notes, and the notes showed what was wrong.",
    '"No," said the king. "No," said the queen. "Then we are agreed," said the king, "and there will be no war."',
    "Birds that live on islands without predators often lose the ability to fly after many thousands of years.",
    "He counted the coins: one, two, three, four, five. He counted them again: one, two, three, four.",
    "Turn left at the church, walk past the bakery, turn left at the school, and you will see the house.",
    "My grandmother used to say that bread tastes best on the day it is baked and advice on the day after.",
    "Sarah told Emily that Sarah's brother and Emily's cousin had met in Vienna and talked about Vienna for hours.",
)
