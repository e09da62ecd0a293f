"""One norm on one prompt: each intermediate result for one token, and BatchNorm on the same prompt for comparison."""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from model.arguments import check_layer, check_positions, is_whole, shown
from model.errors import InputError, say
from model.gpt.config import ModelConfig
from model.gpt.layers import NORMS
from model.gpt.norm import Norm
from model.gpt.passes import Pass, attend_fused
from model.gpt.tap import Tap, block_sites, compose, record
from model.gpt.transformer import Transformer
from model.public import public, unchecked
from model.tracing.norm_sites import BLOCK_NORMS
from model.tracing.trace import Trace

# (layer, site) of a norm; site: "embed_norm" at layer -1, "norm1", "after1", "norm2", "after2", or "final" at n_layer
Place = tuple[int, str]

SITES = ("embed_norm", *BLOCK_NORMS, "final")

# --- norms of a model ------------------------------------------------------------------------------


def norms_of(config: ModelConfig) -> tuple[Place, ...]:
    """Return all norms of whole vectors in the order of the computation: that of the embeddings, those of each layer,
    and the final one. The q/k norms and the norm in the head of an encoder are left out.
    """
    inside = tuple((layer, site) for layer in range(config.n_layer) for site in _of_layer(config, layer))
    first = ((-1, "embed_norm"),) if config.embed_norm else ()
    return (*first, *inside, *(((config.n_layer, "final"),) if config.final_norm else ()))


def _of_layer(config: ModelConfig, layer: int) -> tuple[str, ...]:
    """Return the sites of the norms of one layer."""
    sites = block_sites(config, layer)
    return tuple(site for site in BLOCK_NORMS if f"{site}_in" in sites)


def norm_of(model: Transformer, layer: int, site: str) -> Norm:
    """Return the norm at a place. Raises InputError if the model has no such norm."""
    if site not in SITES:
        raise InputError("No norm has this name.", shown(site), say("The norms are {}.", ", ".join(SITES)))
    L, places = model.config.n_layer, norms_of(model.config)
    has = tuple(dict.fromkeys(known for _, known in places))
    if site == "final" and site not in has:
        raise InputError("This model has no final norm.", "", "Choose a norm inside a layer.")
    if site not in has:
        raise InputError("This model has no such norm.", site, say("The norms are {}.", ", ".join(has)))
    if site in ("final", "embed_norm"):
        at = L if site == "final" else -1
        if not (is_whole(layer) and layer == at):
            if site == "final":
                hint = say("The final norm is at layer {}.", at)
            else:
                hint = say("The norm of the embeddings is at layer {}.", at)
            raise InputError("No norm has this name.", f"{site} at layer {shown(layer)}", hint)
        return model.final_norm if site == "final" else model.embed_norm
    check_layer(layer, L)
    if (layer, site) not in places:
        raise InputError("This layer has no such norm.", f"{site} at layer {layer}", "Choose another layer.")
    return getattr(model.blocks[layer], site)


@public(site=unchecked)
@torch.inference_mode()
def norm_input(run: Trace, layer: int, site: str) -> np.ndarray:
    """Return the input of a norm in this run, the run's edits included. float32 [T, D]

    In a pre-norm block, it is resid_pre for norm1 and resid_mid for norm2 (resid_pre again if the blocks are parallel);
    in a post-norm block, the stream plus the sublayer's output; for after1 and after2, the output of the attention and
    of the MLP; for the final norm, the output of the last block; for the norm of the embeddings, their sum.
    Raises InputError for a norm that does not exist.
    """
    norm_of(run.model, layer, site)
    config, store = run.config, dict[tuple[str, int], Tensor]()
    own_tap = run.tap is not None and not run.key.edits  # unlike edits, a tap may change a norm's input
    if site == "embed_norm":
        embedded(run, record(["embed_norm_in"], store))
        return store["embed_norm_in", -1][0].numpy()
    if site == "final":
        if not own_tap:
            return run.residuals[-1].numpy()
        run.model.logits(run.residuals[-1][None], tap=compose(run.tap, record(["final_in"], store)))
        return store["final_in", layer][0].numpy()
    if own_tap or config.norm_placement == "post" or site in ("after1", "after2"):
        return run.sites(layer, [f"{site}_in"])[f"{site}_in"][0].numpy()
    if site == "norm1" or config.parallel_residual:
        return run.residuals[layer].numpy()
    return run.middle(layer)


@torch.inference_mode()
def embedded(run: Trace, tap: Tap) -> Tensor:
    """Compute the stream that enters the first block, with a tap after the run's own. float32 [T, D]"""
    each = Pass(None, attend_fused, None, tap if run.tap is None else compose(run.tap, tap))
    ids = torch.from_numpy(np.ascontiguousarray(run.tokens.ids[None], dtype=np.int64))
    return run.model.embed_tokens(ids, 0, each)[0]


@torch.inference_mode()
def norm_output(norm: Norm, x: np.ndarray) -> np.ndarray:
    """Apply a norm to the given inputs. float32 [T, D] -> [T, D]"""
    return norm(torch.from_numpy(np.ascontiguousarray(x))).numpy()


# --- one token, unfused ------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Walk:
    """Intermediate results of one norm on one vector, each in float64; arrays are [D].

    out = normalized * gain + bias and normalized = centered / divisor hold exactly in float64.
    """

    kind: str  # "layernorm" or "rmsnorm"
    x: np.ndarray
    mean: float | None  # of x; None for RMSNorm, which subtracts nothing
    centered: np.ndarray  # x - mean; x itself for RMSNorm
    spread: float  # mean of centered^2: the variance, or for RMSNorm the mean square
    eps: float
    divisor: float  # sqrt(spread + eps)
    normalized: np.ndarray
    gain: np.ndarray
    scaled: np.ndarray  # normalized * gain
    bias: np.ndarray | None
    out: np.ndarray
    model_out: np.ndarray  # output of the fused float32 norm
    gap: float  # max |out - model_out|, the float32 rounding error


@public(site=unchecked)
def walk(run: Trace, layer: int, site: str, position: int) -> Walk:
    """Compute the norm at a place, with all intermediate results, for one token of the run, edits included.

    The result equals the run's own to float32 rounding. Raises InputError for a norm or position that does not exist.
    Sources: Ba et al. 2016, eq. 3 and 4; Zhang & Sennrich 2019, eq. 4.
    """
    check_positions([position], len(run.tokens))
    return walk_vector(norm_of(run.model, layer, site), norm_input(run, layer, site)[position])


@torch.inference_mode()
def walk_vector(norm: Norm, vector: np.ndarray) -> Walk:
    """Compute a norm of one vector with all intermediate results. float32 [D]"""
    row = torch.from_numpy(np.ascontiguousarray(vector, dtype=np.float32))
    x, gain = row.double().numpy(), norm.weight.detach().double().numpy()
    mean = float(x.mean()) if norm.kind == "layernorm" else None
    centered = x if mean is None else x - mean
    spread = float(np.square(centered).mean())
    divisor = float(np.sqrt(spread + norm.eps))
    normalized = centered / divisor
    scaled = normalized * gain
    bias = None if norm.bias is None else norm.bias.detach().double().numpy()
    out = scaled if bias is None else scaled + bias
    model_out = norm(row).numpy()
    gap = float(np.abs(out - model_out).max())
    return Walk(
        norm.kind, x, mean, centered, spread, norm.eps, divisor, normalized, gain, scaled, bias, out, model_out, gap
    )


# --- BatchNorm -------------------------------------------------------------------------------------


def batch_norm(x: Tensor, eps: float) -> Tensor:
    """Standardize each dimension over the tokens: subtract its mean and divide by sqrt(its variance + eps).

    Without gain and bias; the tokens of one prompt are the batch. Ioffe & Szegedy 2015, algorithm 1. [T, D] -> [T, D]
    """
    centered = x - x.mean(0)
    return centered / (centered.square().mean(0) + eps).sqrt()


@dataclass(frozen=True, eq=False)
class BatchCompared:
    """Comparison of the model's norm with BatchNorm on one prompt, both without gain and bias, in float64."""

    own_tokens: np.ndarray  # root mean square of each token's vector under the model's norm, [T]
    batch_tokens: np.ndarray  # the same under BatchNorm
    own_dimensions: np.ndarray  # standard deviation of each dimension over the tokens, [D]
    batch_dimensions: np.ndarray
    own_later: float | None  # largest change in token 0 when the last token is removed; None for one token
    batch_later: float | None
    own_alone: float  # largest |value| of token 0 as the only token
    batch_alone: float  # exactly 0: a single number has no variance


@torch.inference_mode()
def compare_batch(norm: Norm, x: np.ndarray) -> BatchCompared:
    """Compare the model's norm with BatchNorm on the prompt's vectors. x float32 [T, D]"""
    vectors = torch.from_numpy(np.ascontiguousarray(x)).double()

    def own(part: Tensor) -> Tensor:
        numerator, divisor = NORMS[norm.kind](part, norm.eps)
        return numerator / divisor

    def batch(part: Tensor) -> Tensor:
        return batch_norm(part, norm.eps)

    results = [function(vectors) for function in (own, batch)]
    tokens = [y.square().mean(-1).sqrt().numpy() for y in results]
    dimensions = [y.std(0, correction=0).numpy() for y in results]
    later = [None, None]
    if len(vectors) > 1:
        later = [
            float((y[0] - function(vectors[:-1])[0]).abs().max())
            for y, function in zip(results, (own, batch), strict=True)
        ]
    single = [float(function(vectors[:1]).abs().max()) for function in (own, batch)]
    return BatchCompared(*tokens, *dimensions, *later, *single)


# --- gain and bias of all norms ---------------------------------------------------------------------


def quantiles(model: Transformer) -> dict[str, np.ndarray]:
    """Compute the 5% quantile, median and 95% quantile over the dimensions of the gain and bias of each norm, in the
    order of `norms_of`.

    Returns {`gain`: float64 [norms, 3]} and, if the norms have a bias, the same under `bias`.
    """
    result = {}
    norms = [norm_of(model, *place) for place in norms_of(model.config)]
    for name, part in (("gain", "weight"), ("bias", "bias")):
        values = [getattr(norm, part) for norm in norms]
        if all(value is not None for value in values):
            arrays = [value.detach().double().numpy() for value in values]
            result[name] = np.stack([np.quantile(array, (0.05, 0.5, 0.95)) for array in arrays])
    return result
