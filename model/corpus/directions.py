"""A neuron, or a direction of the residual stream, over a corpus: its activation at every token."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch

from model.activations.neurons import promoted
from model.api import LanguageModel
from model.arguments import check_layer, shown
from model.corpus.maps import read_batches
from model.corpus.texts import Corpus
from model.errors import InputError, say
from model.gpt.edits import STREAM_SITES
from model.gpt.experts import require_dense
from model.progress import Progress, silent
from model.public import MOST, one_of, public, unchecked, whole
from model.steering.effects import Moved, tokens_moved
from model.steering.vectors import checked_vector, unit_vector


@dataclass(frozen=True, eq=False)
class DirectionReading:
    """The activations of a neuron or a direction over a corpus, with the tokens that it makes more and less likely."""

    values: np.ndarray  # [N, T] float32
    peaks: np.ndarray  # [N] float32, the largest value of each sequence after its first tokens
    at: np.ndarray  # [N] int64, its position
    moved: Moved
    first: int  # position of the first value that is counted

    @property
    def counted(self) -> np.ndarray:
        """The values that are counted: those after the first tokens of each sequence. [N, T']"""
        return self.values[:, self.first :]


def _reading(corpus: Corpus, values: np.ndarray, moved: Moved) -> DirectionReading:
    counted = values[:, corpus.first :]
    return DirectionReading(values, counted.max(1), counted.argmax(1) + corpus.first, moved, corpus.first)


@public(neuron=unchecked, batch=whole(1, MOST), top=whole(1))
def read_neuron(
    lm: LanguageModel,
    corpus: Corpus,
    layer: int,
    neuron: int,
    *,
    top: int = 10,
    batch: int | None = None,
    progress: Progress = silent,
    see: Callable[[np.ndarray], None] | None = None,
) -> DirectionReading:
    """Read a neuron's activation (the input of the down projection) at every token; `see` gets the values so far.

    The tokens are those of `promoted`. Raises InputError for a layer or neuron that does not exist, and for layers of
    experts.
    """
    check_layer(layer, lm.config.n_layer)
    require_dense(lm.config)
    width = lm.config.at(layer).d_mlp
    if not (type(neuron) is int and 0 <= neuron < width):
        raise InputError("This neuron does not exist.", shown(neuron), say("Neurons run from 0 to {}.", width - 1))
    site = ("mlp_post", layer)
    values = _collect(lm, corpus, site, lambda x: x[..., neuron], batch, progress, see)
    found = promoted(lm.model, layer, [neuron], top, lm.tokenizer.vocab_size)
    return _reading(corpus, values, Moved(*(each[0] for each in vars(found).values())))


@public(site=one_of(STREAM_SITES), batch=whole(1, MOST), top=whole(1))
def read_direction(
    lm: LanguageModel,
    corpus: Corpus,
    vector: np.ndarray,
    layer: int,
    *,
    site: str = "resid_post",
    top: int = 10,
    batch: int | None = None,
    progress: Progress = silent,
    see: Callable[[np.ndarray], None] | None = None,
) -> DirectionReading:
    """Read the component of the residual stream along a vector [D] at every token: x . v / |v|.

    `site` is resid_pre, resid_mid or resid_post; the tokens are those of `tokens_moved`, for the vector of length 1.
    Raises InputError for a layer that does not exist, and for a vector of another width or of zeros.
    """
    check_layer(layer, lm.config.n_layer)
    unit = unit_vector(checked_vector(vector, lm.config.d_model))
    if not unit.any():
        raise InputError("The direction is a vector of zeros.", "", "Give one that points somewhere.")
    along = torch.from_numpy(unit)
    values = _collect(lm, corpus, (site, layer), lambda x: x @ along, batch, progress, see)
    return _reading(corpus, values, tokens_moved(lm.model, unit, top, lm.tokenizer.vocab_size))


def _collect(
    lm: LanguageModel,
    corpus: Corpus,
    site: tuple[str, int],
    read: Callable[[torch.Tensor], torch.Tensor],
    batch: int | None,
    progress: Progress,
    see: Callable[[np.ndarray], None] | None,
) -> np.ndarray:
    """Read one number at every token. float32 [N, T]"""
    values = np.full(corpus.ids.shape, np.nan, np.float32)
    for each in read_batches(lm.model, corpus, sites=(site,), maps=False, batch=batch, progress=progress):
        values[each.rows] = read(each.sites[site].float()).numpy()
        if see is not None:
            see(values[: each.rows.stop])
    return values
