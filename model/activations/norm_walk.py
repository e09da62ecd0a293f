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
from model.gpt.tap import compose, record
from model.gpt.transformer import Transformer
from model.public import public, unchecked
from model.tracing.trace import Trace

Place = tuple[int, str]  # (layer, site) of a norm; site: "norm1", "norm2" or "final", the last at layer n_layer

# --- norms of a model ------------------------------------------------------------------------------


def norms_of(config: ModelConfig) -> tuple[Place, ...]:
    """Return all norms of the residual stream in the order of the computation, without the q/k norms."""
    inside = tuple((layer, site) for layer in range(config.n_layer) for site in ("norm1", "norm2"))
    return (*inside, (config.n_layer, "final")) if config.final_norm else inside


def norm_of(model: Transformer, layer: int, site: str) -> Norm:
    """Return the norm at a place. Raises InputError if the model has no such norm."""
    if site not in ("norm1", "norm2", "final"):
        raise InputError("No norm has this name.", shown(site), "The norms are norm1, norm2 and final.")
    L = model.config.n_layer
    if site != "final":
        check_layer(layer, L)
        return getattr(model.blocks[layer], site)
    if model.final_norm is None:
        raise InputError("This model has no final norm.", "", "Choose a norm inside a layer.")
    if not (is_whole(layer) and layer == L):
        hint = say("The final norm is at layer {}.", L)
        raise InputError("No norm has this name.", f"final at layer {shown(layer)}", hint)
    return model.final_norm


@public(site=unchecked)
@torch.inference_mode()
def norm_input(run: Trace, layer: int, site: str) -> np.ndarray:
    """Return the input of a norm in this run, the run's edits included. float32 [T, D]

    In a pre-norm block, it is resid_pre for norm1 and resid_mid for norm2 (resid_pre again if the blocks are parallel);
    in a post-norm block, the stream plus the sublayer's output; for the final norm, the output of the last block.
    Raises InputError for a norm that does not exist.
    """
    norm_of(run.model, layer, site)
    config = run.config
    own_tap = run.tap is not None and not run.key.edits  # unlike edits, a tap may change a norm's input
    if site == "final":
        if not own_tap:
            return run.residuals[-1].numpy()
        store: dict[tuple[str, int], Tensor] = {}
        run.model.logits(run.residuals[-1][None], tap=compose(run.tap, record(["final_in"], store)))
        return store["final_in", layer][0].numpy()
    if own_tap or config.norm_placement == "post":
        return run.sites(layer, [f"{site}_in"])[f"{site}_in"][0].numpy()
    if site == "norm1" or config.parallel_residual:
        return run.residuals[layer].numpy()
    return run.middle(layer)


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
