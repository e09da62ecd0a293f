"""The vocabulary as points in a plane: principal components, or neighbors kept together (t-SNE).

Principal components are computed here. t-SNE is scikit-learn's, an optional package (the extra `maps`); it is imported
only when a map is computed.
"""

import importlib.util
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch

from model.activations.principal_components import many_states, signed
from model.arguments import check_token
from model.errors import InputError, say
from model.gpt.transformer import Transformer
from model.progress import Progress, silent
from model.public import MOST_SEED, listed, nonempty, one_of, public, whole
from model.token_tables.neighbors import SIDES, Side, token_vectors

Method = Literal["pca", "tsne"]
METHODS: tuple[Method, ...] = ("pca", "tsne")
PACKAGE = "sklearn"
MOST_POINTS = 4000  # of a t-SNE map; the time grows with n log n
_KEPT = 50  # principal components before t-SNE, as van der Maaten & Hinton 2008 do in section 4
PERPLEXITY = 30.0


@dataclass(frozen=True, eq=False)
class VocabularyMap:
    """The places of n tokens in a plane."""

    ids: np.ndarray  # [n] int64; the further tokens come last
    places: np.ndarray  # [n, 2] float32
    fitted: int  # number of tokens from which the map was computed, without the further ones
    shares: tuple[float, float] | None  # of the variance along both axes; None for t-SNE, whose axes mean nothing


def is_installed() -> bool:
    """Return whether the package that computes t-SNE is installed."""
    return importlib.util.find_spec(PACKAGE) is not None


@public(ids=nonempty, also=listed, side=one_of(SIDES), method=one_of(METHODS), seed=whole(0, MOST_SEED))
@torch.inference_mode()
def vocabulary_map(
    model: Transformer,
    ids: Sequence[int],
    side: Side = "embedding",
    method: Method = "pca",
    *,
    also: Sequence[int] = (),
    seed: int = 0,
    progress: Progress = silent,
) -> VocabularyMap:
    """Place tokens in a plane by their vectors (`token_vectors`, of length 1 after centering).

    pca: the two directions of largest variance of these tokens, fixed in sign as in model.activations: exact and
    linear, but two of D dimensions. tsne: neighbors stay near each other, while distances between groups, and the sizes
    of groups, mean nothing (van der Maaten & Hinton 2008; scikit-learn, Barnes-Hut, started from the principal
    components, cosine distances by unit vectors). Equal ids are taken once. `also` are further tokens, which are placed
    along the principal components of `ids`; tsne cannot place them. Raises InputError for a token that does not exist,
    for tsne with fewer than 3 tokens, more than MOST_POINTS or further ones, and if its package is missing.
    """
    for token in (*ids, *also):
        check_token(token, model.config.vocab_size)
    each, more = np.array(sorted(set(ids))), np.array(sorted(set(also) - set(ids)), dtype=np.int64)
    if method == "tsne" and len(more):
        raise InputError("t-SNE places no further tokens.", f"{len(more)}", "Leave them out, or choose pca.")
    if method == "tsne" and not 2 < len(each) <= MOST_POINTS:
        raise InputError(
            "This map needs more than 2 tokens, but not too many.", f"{len(each)}", say("At most {}.", MOST_POINTS)
        )
    if method == "tsne" and not is_installed():
        raise InputError("This map needs the package scikit-learn.", PACKAGE, "Install it: pip install scikit-learn")
    unit = torch.nn.functional.normalize(token_vectors(model, side), dim=1)
    vectors = unit[torch.from_numpy(each)].double()
    centered = vectors - vectors.mean(0)
    values, directions = many_states(centered[None], torch.zeros(vectors.shape[1], dtype=torch.float64), False)
    count = min(_KEPT if method == "tsne" else 2, len(values))
    axes = signed(directions[:, -count:].flip(1).T).T
    if method == "pca":
        shares = (values[-2:].flip(0) / values.sum().clamp(min=1e-300)).tolist()
        others = unit[torch.from_numpy(more)].double() - vectors.mean(0)
        places = torch.cat((centered, others)) @ axes
        return VocabularyMap(np.concatenate((each, more)), places.float().numpy(), len(each), (shares[0], shares[1]))
    return VocabularyMap(each, _tsne((centered @ axes).float().numpy(), seed, progress), len(each), None)


def _tsne(components: np.ndarray, seed: int, progress: Progress) -> np.ndarray:
    """Compute t-SNE of points from their principal components. [n, k] -> float32 [n, 2]"""
    progress(0, None, "Arranging tokens")
    from sklearn.manifold import TSNE

    perplexity = min(PERPLEXITY, (len(components) - 1) / 3)
    found = TSNE(2, perplexity=perplexity, init="pca", random_state=seed, n_jobs=1).fit_transform(components)
    return found.astype(np.float32)
