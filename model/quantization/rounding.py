"""Three methods that quantize one matrix to few bits, compared by output error: nearest, scaled and compensated.

Scaled is the idea of AWQ (Lin et al. 2023, "AWQ: Activation-aware Weight Quantization"): inputs with large activations
need finer steps, so their weights are scaled up before rounding, and the inputs are scaled down by the same factor.
Compensated is the idea of GPTQ (Frantar et al. 2022, "GPTQ: Accurate Post-Training Quantization", algorithm 1):
columns are rounded one after the other, and the remaining columns compensate for each error.

The methods are fitted to the matrix's inputs on a calibration text; the error is measured on held-out text.
"""

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from model.arguments import check_layer
from model.errors import InputError, say
from model.gpt.config import ModelConfig
from model.gpt.transformer import Block, Transformer
from model.progress import Progress, silent
from model.public import public, unchecked
from model.quantization.experiments import KINDS, changed_block, layer_of
from model.quantization.formats import Scheme, levels, rounded, scheme_bytes
from model.tracing.divergence import PredictionDivergence, StreamSample, read, sample

METHODS = ("nearest", "scaled", "compensated", "both")
POWERS = 21  # number of exponents tried for the activations, from 0 to 1
DAMP = 0.01  # damping added to the Hessian, as a fraction of its mean diagonal; Frantar et al. 2022, section 3.3
POINTS = 16  # maximum number of points at which the error is measured while columns are rounded
_BLOCK = 32  # number of columns rounded before the later ones are adjusted


@dataclass(frozen=True, eq=False)
class Outcome:
    """The result of one method. Output errors are relative to the squared norm of the output."""

    method: str  # one of METHODS
    fit: float  # output error on the calibration text
    held_out: float  # output error on held-out text
    weight: float  # relative Frobenius error of the weights
    kl: float  # mean KL(original || quantized) of the next-token distribution on the held-out text, nats
    agree: float  # fraction of its positions with the same most likely token
    seconds: float  # time taken to quantize


@dataclass(frozen=True, eq=False)
class Comparison:
    """Results of all methods for one matrix of one layer, with intermediate errors."""

    name: str  # parameter name of the matrix in the model
    shape: tuple[int, int]  # [out, in]
    nbytes: int  # size in the quantized format in bytes
    outcomes: tuple[Outcome, ...]
    powers: tuple[float, ...]  # exponents tried for the activations
    errors: tuple[float, ...]  # output error of each exponent on the calibration text
    power: float  # the exponent with the least error
    columns: tuple[int, ...]  # numbers of rounded columns
    plain: tuple[float, ...]  # output error of `nearest` after that many columns
    made_up: tuple[float, ...]  # output error of `compensated` after that many columns
    fit_tokens: int
    held_out_tokens: int


# --- the three methods -----------------------------------------------------------------------------------


def output_error(change: Tensor, hessian: Tensor) -> float:
    """Compute |X change^T|^2 for hessian = X^T X: the squared error of the output. change [out, in],
    hessian [in, in]
    """
    return float((change.double() @ hessian * change.double()).sum())


def scales_of(activity: Tensor, power: float) -> Tensor:
    """Compute the scale of each input's weights: activity^power, with its extremes balanced around 1. [in] -> [in]

    Lin et al. 2023, eq. 4 and 5; an input that is never active has scale 1.
    """
    safe = torch.where(activity > 0, activity, torch.ones_like(activity)).double() ** power
    return (safe / (safe.max() * safe.min()).sqrt()).float()


def nearest(weight: Tensor, scheme: Scheme) -> Tensor:
    """Round every weight to the nearest level. [out, in] -> [out, in]"""
    return rounded(weight, scheme)[0]


def scaled(weight: Tensor, scale: Tensor, scheme: Scheme) -> Tensor:
    """Round weight * scale and divide the result by the scale. weight [out, in], scale [in] -> [out, in]"""
    return rounded(weight * scale, scheme)[0] / scale


def best_power(
    weight: Tensor, activity: Tensor, hessian: Tensor, scheme: Scheme, progress: Progress = silent
) -> tuple[float, list[float], list[float]]:
    """Find the exponent of the activations with the least output error after scaling. Returns it, all exponents tried,
    and their errors.
    """
    powers = [n / (POWERS - 1) for n in range(POWERS)]
    errors = []
    for n, power in enumerate(powers):
        errors.append(output_error(scaled(weight, scales_of(activity, power), scheme) - weight, hessian))
        progress(n + 1, POWERS, "")
    return powers[min(range(POWERS), key=errors.__getitem__)], powers, errors


def compensated(
    weight: Tensor, hessian: Tensor, scheme: Scheme, look: Callable[[int, Tensor], None] = lambda done, now: None
) -> Tensor:
    """Round column by column, and compensate for each error in the remaining columns. [out, in] -> [out, in]

    With U the upper Cholesky factor of the inverse Hessian, the scaled error of column i is e = (w_i - q_i) / U_ii,
    and column j > i becomes w_j - e U_ij. The scale of a group is computed from its weights when the group begins.
    `look` is called with the number of rounded columns and the current matrix, whose later columns are adjusted.
    """
    free = hessian.double().clone()
    mean = float(free.diagonal().mean())
    free.diagonal().add_(DAMP * mean if mean > 0 else 1.0)
    upper = torch.linalg.cholesky(torch.cholesky_inverse(torch.linalg.cholesky(free)), upper=True)
    now = weight.double().clone()
    for start, end in blocks_of(weight.shape[1], scheme):
        size = _group(weight.shape[1], scheme)
        if start % size == 0:
            grid = levels(now[:, start : start + size].float(), _one_group(scheme, size))
            scale, zero = grid.scale[:, 0].double(), grid.zero[:, 0].double()
        errors = torch.empty(len(weight), end - start, dtype=torch.float64)
        for i in range(start, end):
            target = now[:, i].clone()
            now[:, i] = _on_grid(target, scale, zero, scheme)
            errors[:, i - start] = (target - now[:, i]) / upper[i, i]
            now[:, i + 1 : end] -= torch.outer(errors[:, i - start], upper[i, i + 1 : end])
        now[:, end:] -= errors @ upper[start:end, end:]  # the columns of later blocks are updated in one product
        look(end, now)
    return now.float()


def blocks_of(width: int, scheme: Scheme) -> list[tuple[int, int]]:
    """Return the first column and the end of each block, after which later columns are adjusted. Every group begins
    with a new block.
    """
    starts = sorted({*range(0, width, _BLOCK), *range(0, width, _group(width, scheme))})
    return list(zip(starts, [*starts[1:], width], strict=True))


def _group(width: int, scheme: Scheme) -> int:
    """Return the number of inputs per scale."""
    if scheme.per == "tensor":
        raise ValueError("columns are rounded by the scales of their rows, not by one of the whole matrix")
    return min(scheme.group, width) if scheme.per == "group" else width


def _one_group(scheme: Scheme, size: int) -> Scheme:
    """Return the scheme for the columns of one group."""
    return scheme if scheme.per == "channel" else Scheme(scheme.key, scheme.bits, scheme.symmetric, "group", size)


def _on_grid(column: Tensor, scale: Tensor, zero: Tensor, scheme: Scheme) -> Tensor:
    """Round a column to the levels of its rows. [out] each"""
    safe = torch.where(scale > 0, scale, torch.ones_like(scale))
    most = 2 ** (scheme.bits - 1) - 1 if scheme.symmetric else 2**scheme.bits - 1
    level = ((column / safe).round() + zero).clamp(-most if scheme.symmetric else 0, most)
    return (level - zero) * scale


# --- one layer of a model --------------------------------------------------------------------------------


def matrices_of(config: ModelConfig) -> tuple[str, ...]:
    """Return the names of the matrices of a block that can be quantized."""
    return tuple(name for name in KINDS if name != "gate" or config.gated)


def matrix_name(layer: int, matrix: str) -> str:
    """Return the name of the matrix among the model's parameters."""
    return f"blocks.{layer}.{'attn' if matrix in 'qkvo' else 'mlp'}.{matrix}.weight"


def with_weight(model: Transformer, layer: int, matrix: str, weight: Tensor) -> Block:
    """Build the block with one matrix replaced; it shares all other tensors with `model`, which is not changed."""
    return changed_block(model, layer, lambda _, kind, own: weight if kind == matrix else None)


def inputs_of(model: Transformer, layer: int, matrix: str, x: Tensor) -> Tensor:
    """Compute the input of the matrix when its block runs on its input stream x [1, T, D]. [T, in]"""
    block = with_weight(model, layer, matrix, layer_of(model.blocks[layer], matrix).weight)
    inputs: list[Tensor] = []
    layer_of(block, matrix).register_forward_pre_hook(lambda module, args: inputs.append(args[0][0]))  # of this block
    block(x, layer, model.prepare(0, x.shape[1]))
    return inputs[0]


def entering(model: Transformer, layer: int, ids: Sequence[int]) -> Tensor:
    """Compute the stream that enters a block on a text. [1, T, D]"""
    run = model.prepare(0, len(ids))
    x = model.embed_tokens(torch.tensor([list(ids)]), 0, run)
    for at in range(layer):
        x = model.blocks[at](x, at, run)
    return x


@dataclass(frozen=True, eq=False)
class _Case:
    """A matrix with the Hessians X^T X of its inputs, [in, in], on the calibration text and on held-out text."""

    weight: Tensor
    scheme: Scheme
    hessian: Tensor
    unseen: Tensor
    activity: Tensor  # mean |x| of each input on the calibration text, float64 [in]


@public(matrix=unchecked)
@torch.no_grad()
def compare(
    model: Transformer,
    layer: int,
    matrix: str,
    scheme: Scheme,
    texts: Sequence[Sequence[int]],
    progress: Progress = silent,
) -> Comparison:
    """Quantize one matrix with all methods, calibrated on all of `texts` but the last, and evaluated on the last one.

    `texts` are token ids, each within the model's context. The model is not changed. Raises InputError if the layer
    does not exist or does not have the matrix. Raises ValueError if the model lacks the matrix, there are fewer than
    two texts, or the scheme has a single scale for the whole matrix.
    """
    check_layer(layer, model.config.n_layer)
    if matrix not in matrices_of(model.config):
        raise ValueError(f"matrix must be one of {', '.join(matrices_of(model.config))}, got {matrix!r}")
    if len(texts) < 2:
        raise ValueError(f"there must be a text to fit to and one to measure on, got {len(texts)}")
    found, done = layer_of(model.blocks[layer], matrix), 0
    if found is None:
        having = [str(i) for i, block in enumerate(model.blocks) if layer_of(block, matrix) is not None]
        hint = say("Choose a layer with it: {}.", ", ".join(having)) if having else "Choose another matrix."
        raise InputError("This layer does not have the matrix.", f"layer {layer}: {matrix}", hint)
    weight = found.weight.detach()
    total = len(texts) + POWERS + 2 * len(blocks_of(weight.shape[1], scheme)) + len(METHODS)

    def step(*_: object) -> None:
        nonlocal done
        done += 1
        progress(done, total, "")

    text = sample(model, texts[-1])
    case = _collect(model, layer, matrix, scheme, texts[:-1], text, step)
    results, details = _roundings(case, step)
    size, size_unseen = output_error(weight, case.hessian), output_error(weight, case.unseen)
    outcomes = []
    for method, (values, seconds) in results.items():
        change = values - weight
        effect = _effect(model, layer, with_weight(model, layer, matrix, values), text)
        step()
        fit, held_out = output_error(change, case.hessian) / size, output_error(change, case.unseen) / size_unseen
        outcomes.append(
            Outcome(method, fit, held_out, float(change.norm() / weight.norm()), effect.kl, effect.agree, seconds)
        )
    shape = tuple(weight.shape)
    return Comparison(
        matrix_name(layer, matrix),
        shape,
        scheme_bytes(shape, scheme),
        tuple(outcomes),
        details.powers,
        tuple(error / size for error in details.errors),
        details.power,
        details.columns,
        tuple(error / size for error in details.plain),
        tuple(error / size for error in details.made_up),
        sum(map(len, texts[:-1])),
        len(texts[-1]),
    )


def _collect(
    model: Transformer,
    layer: int,
    matrix: str,
    scheme: Scheme,
    texts: Sequence[Sequence[int]],
    other: StreamSample,
    step: Callable[[], None],
) -> _Case:
    """Collect the matrix's inputs on the calibration texts and on the held-out text."""
    weight = layer_of(model.blocks[layer], matrix).weight.detach()
    width = weight.shape[1]
    hessian, activity = (torch.zeros(*shape, dtype=torch.float64) for shape in ((width, width), (width,)))
    for ids in texts:
        x = inputs_of(model, layer, matrix, entering(model, layer, ids)).double()
        hessian += x.T @ x
        activity += x.abs().sum(0)
        step()
    x = inputs_of(model, layer, matrix, other.streams[layer]).double()
    step()
    return _Case(weight, scheme, hessian, x.T @ x, activity / sum(map(len, texts)))


@dataclass(frozen=True, eq=False)
class _Details:
    """Intermediate errors as sums of squares; the fields are those of Comparison."""

    powers: tuple[float, ...]
    errors: tuple[float, ...]
    power: float
    columns: tuple[int, ...]
    plain: tuple[float, ...]
    made_up: tuple[float, ...]


def _roundings(case: _Case, step: Callable[..., None]) -> tuple[dict[str, tuple[Tensor, float]], _Details]:
    """Quantize the matrix with each method: {method: (the rounded matrix, seconds)} in the order of METHODS; also
    return the intermediate errors.
    """
    weight, scheme, hessian = case.weight, case.scheme, case.hessian
    width = weight.shape[1]
    columns, made_up_errors = _moments(width, scheme), []

    def look(at: int, now: Tensor) -> None:
        if at in columns:
            made_up_errors.append(output_error(now - weight, hessian))
        step()

    clock = time.perf_counter
    began = clock()
    plain = nearest(weight, scheme)
    at_nearest = clock()
    power, powers, errors = best_power(weight, case.activity, hessian, scheme, step)
    scale = scales_of(case.activity, power)
    larger = scaled(weight, scale, scheme)
    at_scaled = clock()
    made_up = compensated(weight, hessian, scheme, look)
    at_compensated = clock()
    both = compensated(weight * scale, hessian / scale / scale[:, None], scheme, step) / scale
    at_both = clock()
    scaling, compensating = at_scaled - at_nearest, at_compensated - at_scaled
    results = {
        "nearest": (plain, at_nearest - began),
        "scaled": (larger, scaling),
        "compensated": (made_up, compensating),
        "both": (both, at_both - at_compensated + scaling),
    }
    change = plain - weight
    errors_of_plain = tuple(output_error(change * (torch.arange(width) < at), hessian) for at in columns)
    return results, _Details(
        tuple(powers), tuple(errors), power, tuple(columns), errors_of_plain, tuple(made_up_errors)
    )


def _moments(width: int, scheme: Scheme) -> list[int]:
    """Return the block ends at which the error is measured, including the last one."""
    ends = [end for _, end in blocks_of(width, scheme)]
    return ends[:: -math.ceil(len(ends) / POINTS)][::-1]


def _effect(model: Transformer, layer: int, block: Block, text: StreamSample) -> PredictionDivergence:
    """Compare the predictions on a text with those after another block replaces the layer's."""
    run = model.prepare(0, text.ids.shape[1])
    x = block(text.streams[layer], layer, run)
    for at in range(layer + 1, len(model.blocks)):
        x = model.blocks[at](x, at, run)
    return read(model, text, model, x)[0]
