"""Linear probes: how well a label can be read from the vectors of every layer and site, beside controls.

A probe is a logistic regression on the vector of a token or text; several classes are one against the rest, and the
class with the largest logit is predicted. Its accuracy is measured on held-out texts by cross-validation. Controls:
labels that are shuffled before the whole procedure, the share of the commonest class, and the token's embedding, the
stream before block 0. Alain & Bengio 2016; controls: Hewitt & Liang 2019; what a probe does not show: Belinkov 2022.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from model.api import LanguageModel
from model.errors import InputError, say
from model.gpt.mixers.needs import need_causal
from model.gpt.tap import block_sites
from model.probes.examples import READS, Example, Labeled
from model.probes.logistic import PENALTY, fit_logistic
from model.progress import Progress, silent
from model.public import MOST_SEED, above, array, nonempty, one_of, public, whole
from model.shares import wilson
from model.tracing.trace import Trace

# Stream before the block, the attention's output, stream after it, the MLP's output, stream after the block.
SITES = ("resid_pre", "attn_out", "resid_mid", "mlp_out", "resid_post")
FOLDS = 5
READING, FITTING = "Reading the texts", "Fitting probes"
_RESAMPLES = 1000


@dataclass(frozen=True, eq=False)
class Probes:
    """The probes of C cells, each a site and a layer, on N examples of K classes.

    The interval is of 95%, by resampling whole groups of texts (Efron & Tibshirani 1993, chapter 13); p is the share of
    shufflings that are as accurate, the actual labels counted among them, and `corrected` compares with the best cell
    of each shuffling (Westfall & Young 1993).
    """

    cells: tuple[tuple[str, int], ...]  # (site, layer)
    accuracy: np.ndarray  # on held-out texts, float64 [C]
    low: np.ndarray  # [C]
    high: np.ndarray
    shuffled: np.ndarray  # accuracy with shuffled labels, [draws, C]
    p: np.ndarray  # [C]
    corrected: np.ndarray  # [C]
    majority: float  # share of the commonest class
    predicted: np.ndarray  # class predicted for each held-out example, int64 [C, N]
    folds: np.ndarray  # the fold in which each example was held out, int64 [N]
    # From the mean of the other classes to the mean of class k along the probe's weights, of all examples; [C, K, D]
    directions: np.ndarray

    def at(self, site: str, layer: int) -> int:
        """Return the index of a cell. Raises ValueError if it was not measured."""
        return self.cells.index((site, layer))


@public(read=one_of(READS), draws=whole(1, 999), folds=whole(2, 20), seed=whole(0, MOST_SEED),
        sites=nonempty, penalty=above(0.0))  # fmt: skip
def probe(
    lm: LanguageModel,
    data: Labeled,
    *,
    read: str = "last",
    sites: Sequence[str] = SITES,
    folds: int = FOLDS,
    draws: int = 19,
    penalty: float = PENALTY,
    seed: int = 0,
    progress: Progress = silent,
) -> Probes:
    """Fit and test a probe at every layer and site.

    Texts with a label are read at their last token, or as the mean of all. The stream before a block is the stream
    after the one before it and is measured only before block 0. Labels are shuffled over all texts, or, if they are of
    tokens, within each text. `progress(done, total, label)` may raise an exception to cancel. Raises InputError for an
    unknown site and for a text beyond the context.
    """
    cells = cells_of(lm, sites)
    vectors = read_vectors(lm, data, cells, read, progress)
    labels, groups = data.labels(), data.groups()
    rows = np.concatenate([labels[None], shuffled_labels(data, draws, seed)])
    fold = folds_of(groups, folds, seed)
    predicted = np.empty((len(cells), len(rows), len(labels)), np.int64)
    directions = np.empty((len(cells), len(data.classes), vectors.shape[2]), np.float32)
    for at, features in enumerate(vectors):
        progress(at, len(cells), FITTING)
        predicted[at] = held_out(features, rows, fold, len(data.classes), penalty)
        directions[at] = _directions(features, labels, len(data.classes), penalty)
    progress(len(cells), len(cells), FITTING)
    right = predicted == rows  # [C, 1 + draws, N]
    accuracy = right.mean(2)
    low, high = _intervals(right[:, 0], groups, seed)
    own, controls = accuracy[:, 0], accuracy[:, 1:].T
    p = (1 + (controls >= own).sum(0)) / (1 + draws)
    corrected = (1 + (controls.max(1, keepdims=True) >= own).sum(0)) / (1 + draws)
    majority = float(np.bincount(labels).max() / len(labels))
    return Probes(cells, own, low, high, controls, p, corrected, majority, predicted[:, 0], fold, directions)


def cells_of(lm: LanguageModel, sites: Sequence[str] = SITES) -> tuple[tuple[str, int], ...]:
    """Return the (site, layer) pairs that a model has, in the order of the computation."""
    if unknown := [site for site in sites if site not in SITES]:
        raise InputError(
            "The stream has no such site.", str(unknown[0])[:40], say("Choose one of: {}.", ", ".join(SITES))
        )
    need_causal(lm.config)
    cells = []
    for layer in range(lm.config.n_layer):
        there = block_sites(lm.config, layer)
        wanted = [site for site in SITES if site in sites and (site != "resid_pre" or layer == 0)]
        cells += [(site, layer) for site in wanted if site in there]
    return tuple(cells)


def read_vectors(
    lm: LanguageModel,
    data: Labeled,
    cells: Sequence[tuple[str, int]],
    read: str = "last",
    progress: Progress = silent,
) -> np.ndarray:
    """Read the vector of every example at every cell; each text is run once. float32 [C, N, D]"""
    texts: dict[str, list[int]] = {}
    for at, example in enumerate(data.examples):
        texts.setdefault(example.text, []).append(at)
    vectors = np.empty((len(cells), len(data.examples), lm.config.d_model), np.float32)
    for done, (text, places) in enumerate(texts.items()):
        progress(done, len(texts), READING)
        run = lm.trace(text)
        for cell, stream in enumerate(_streams(run, cells)):
            for at in places:
                vectors[cell, at] = _vector(stream, data.examples[at], read)
    return vectors


def _streams(run: Trace, cells: Sequence[tuple[str, int]]) -> list[np.ndarray]:
    """Return the tensor of each cell. float32 [T, D] each"""
    inside: dict[int, dict] = {}
    for layer in sorted({layer for _, layer in cells}):
        names = [site for site, at in cells if at == layer and site not in ("resid_pre", "resid_post")]
        inside[layer] = run.sites(layer, names) if names else {}
    whole_ = {"resid_pre": 0, "resid_post": 1}
    return [
        run.hidden(layer + whole_[site]) if site in whole_ else inside[layer][site][0].float().numpy()
        for site, layer in cells
    ]


def _vector(stream: np.ndarray, example: Example, read: str) -> np.ndarray:
    if example.position is not None:
        return stream[example.position]
    return stream[-1] if read == "last" else stream.mean(0)


def folds_of(groups: np.ndarray, folds: int, seed: int = 0) -> np.ndarray:
    """Assign every group to one of the folds, large groups first, each to the smallest fold. groups [N] -> int64 [N]

    Examples of one group are in the same fold, so that no text is both learned and tested. With fewer groups than
    folds, each group is a fold of its own.
    """
    names, counts = np.unique(groups, return_counts=True)
    order = np.random.default_rng(seed).permutation(len(names))
    order = order[np.argsort(-counts[order], kind="stable")]
    size, fold = np.zeros(min(folds, len(names)), np.int64), {}
    for at in order.tolist():
        fold[names[at]] = int(size.argmin())
        size[fold[names[at]]] += counts[at]
    return np.array([fold[group] for group in groups])


def shuffled_labels(data: Labeled, draws: int, seed: int = 0) -> np.ndarray:
    """Shuffle the labels: over all texts, or within each text if they are of tokens. int64 [draws, N]"""
    labels, rng = data.labels(), np.random.default_rng(seed)
    blocks = data.groups() if data.of_tokens else np.zeros(len(labels), np.int64)
    rows = np.tile(labels, (draws, 1))
    for row in rows:
        for block in np.unique(blocks):
            inside = np.flatnonzero(blocks == block)
            row[inside] = rng.permutation(labels[inside])
    return rows


@public(features=array("N D"), labels=array("B N"), fold=array("N"), classes=whole(2), penalty=above(0.0))
def held_out(
    features: np.ndarray, labels: np.ndarray, fold: np.ndarray, classes: int, penalty: float = PENALTY
) -> np.ndarray:
    """Predict every example by a probe that was fitted on the other folds. labels [B, N] -> int64 [B, N]"""
    if not len(features) == len(fold) == labels.shape[1]:
        got = f"features {len(features)}, labels {labels.shape[1]}, fold {len(fold)}"
        raise InputError("The labels do not fit the examples.", got, "Give one label for each example.")
    predicted = np.empty(labels.shape, np.int64)
    for each in np.unique(fold):
        test = fold == each
        logits = _logits(features[~test], labels[:, ~test], features[test], classes, penalty)
        predicted[:, test] = logits.argmax(1)
    return predicted


def _logits(train: np.ndarray, labels: np.ndarray, test: np.ndarray, classes: int, penalty: float) -> np.ndarray:
    """Return the logit of every class for the test examples. labels [B, N] -> [B, K, tested]"""
    if classes == 2:
        first = fit_logistic(train, labels == 0, penalty).logits(test)
        return np.stack((first, -first), 1)
    each = np.stack([labels == k for k in range(classes)], 1).reshape(-1, labels.shape[1])
    return fit_logistic(train, each, penalty).logits(test).reshape(len(labels), classes, -1)


def _directions(features: np.ndarray, labels: np.ndarray, classes: int, penalty: float) -> np.ndarray:
    """Return each class's direction, fitted on all examples. float32 [K, D]"""
    own = labels == np.arange(classes)[:, None]
    weights = fit_logistic(features, own, penalty).weights
    length = np.linalg.norm(weights, axis=1, keepdims=True)
    units = np.divide(weights, length, out=np.zeros_like(weights), where=length > 0)
    x = features.astype(np.float64)
    gaps = np.stack([x[row].mean(0) - x[~row].mean(0) for row in own])
    return (units * (gaps * units).sum(1, keepdims=True)).astype(np.float32)


def _intervals(right: np.ndarray, groups: np.ndarray, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the 95% interval of each cell's accuracy, by resampling whole groups. right [C, N] -> low, high [C]

    A cell in which every group has the same share has Wilson's interval (1927) with one case for each group.
    """
    names = np.unique(groups)
    member = (groups == names[:, None]).astype(np.float64)  # [groups, N]
    hits, counts = right @ member.T, member.sum(1)  # [C, groups], [groups]
    drawn = np.random.default_rng(seed).multinomial(len(names), np.full(len(names), 1 / len(names)), _RESAMPLES)
    shares = (drawn @ hits.T) / (drawn @ counts)[:, None]  # [resamples, C]
    low, high = np.quantile(shares, (0.025, 0.975), axis=0)
    for cell, share in enumerate(right.mean(1)):
        if low[cell] == high[cell]:
            low[cell], high[cell] = wilson(float(share), len(names))
    return low, high
