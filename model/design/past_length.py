"""Predictions of a model beyond its trained context length, with the same weights and other position encodings."""

import dataclasses
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from model.errors import InputError, say
from model.gpt.config import ModelConfig
from model.gpt.layers import rope_frequencies, rope_table, sinusoidal_positions
from model.gpt.passes import Pass, attend_fused
from model.gpt.rope_scaling import RopeScaling
from model.gpt.transformer import Transformer
from model.progress import Progress, silent
from model.public import nonempty, public, whole

SCHEMES = ("pieces", "as_is", "repeat", "clamp", "interpolate", "ntk", "llama3", "yarn", "theta", "zero")
FAMILIES = ("stretch", "theta")  # families of RoPE schemes: scaling by a factor, or other bases
THETAS = (0.25, 4.0, 16.0)
INSIDE = 4.0  # factor for a text that fits in the trained length
MOST_WINDOWS, LEAST_WINDOWS = 16, 4
BUCKETS = 32  # approximate number of buckets of positions
_TOGETHER = 1024  # maximum number of tokens per forward pass
_LOGITS = 1 << 21  # maximum number of logits in memory at once
_TELL = 0.2  # minimum seconds between two progress reports


@dataclass(frozen=True)
class Scheme:
    """A method of position encoding: a key of SCHEMES, and its factor s if it has one."""

    key: str
    factor: float = 1.0


@dataclass(frozen=True, eq=False)
class Placed:
    """Position table of T tokens in the form that the model uses."""

    table: Tensor | None = None  # vectors added to the embeddings, [T, D]
    rope: tuple[Tensor, Tensor] | None = None  # cosines and sines, [T, d_rotary / 2] each


@dataclass(frozen=True, eq=False)
class Past:
    """The loss in nats of every token of the windows of a text, under each scheme."""

    trained: int  # n_ctx
    schemes: tuple[Scheme, ...]  # the first one is the reference
    loss: np.ndarray  # float32 [schemes, windows, T]: entry t is the loss of token t + 1 after tokens 0 .. t

    @property
    def nbytes(self) -> int:
        """Bytes in memory."""
        return self.loss.nbytes

    @property
    def length(self) -> int:
        """T, the number of tokens per window."""
        return self.loss.shape[-1]


# --- schemes ----------------------------------------------------------------------------------------


def schemes_of(config: ModelConfig, length: int, factor: float, family: str = "stretch") -> tuple[Scheme, ...]:
    """List the schemes that apply to a model at this length; the first one is the reference.

    Within the trained length the reference is "as_is", the unchanged model. Beyond it, the reference is "pieces": the
    text split into pieces of the trained length. `factor` applies to the schemes that scale positions or frequencies.
    Raises ValueError for a family that is not in FAMILIES.
    """
    if family not in FAMILIES:
        raise ValueError(f"family must be one of {', '.join(FAMILIES)}, got {family!r}")
    beyond = length > config.n_ctx
    first = [Scheme("pieces")] if beyond else []
    if config.positions != "learned" or not beyond:
        first.append(Scheme("as_is"))
    if config.positions in ("none", "alibi"):
        return tuple(first)
    if config.positions != "rope":
        around = [Scheme("repeat"), Scheme("clamp")] if beyond else []  # no effect within the trained length
        return (*first, *around, Scheme("interpolate", factor), Scheme("zero"))
    if family == "theta":
        return (*first, *(Scheme("theta", each) for each in THETAS), Scheme("zero"))
    # These two assume decreasing frequencies that are not scaled yet.
    scaled = () if config.rope_scaling or config.rope_theta <= 1 else ("llama3", "yarn")
    return (*first, *(Scheme(key, factor) for key in ("interpolate", "ntk", *scaled)), Scheme("zero"))


def placed(model: Transformer, scheme: Scheme, T: int) -> Placed:
    """Return the position table of positions 0 .. T - 1 under a scheme; the model's tensors are unchanged.

    "as_is" gives the table of the model's own forward pass, and so does a factor of 1. Raises ValueError for a scheme
    that does not apply to the model's position encoding: "pieces" changes how the text is split, and learned positions
    end at n_ctx.
    """
    config = model.config
    if scheme.key == "pieces" or scheme.key not in SCHEMES:
        raise ValueError(f"there are no positions for the scheme {scheme.key!r}")
    if config.positions == "rope":
        return Placed(rope=None if scheme.key == "zero" else rope_of(config, scheme, T))
    if config.positions in ("none", "alibi"):  # ALiBi acts in the scores
        return Placed()
    if scheme.key == "zero":
        return Placed(torch.zeros(T, config.d_model))
    return Placed(table_at(model, _read_at(config, scheme, T)))


def _read_at(config: ModelConfig, scheme: Scheme, T: int) -> Tensor:
    """Return the (possibly fractional) row of the position table for each token. float32 [T]"""
    t = torch.arange(T, dtype=torch.float32)
    last = config.n_ctx - 1
    if scheme.key == "as_is":
        if config.positions == "learned" and last + 1 < T:
            raise ValueError(f"positions are learned up to {last + 1}, got {T} tokens")
        return t
    if scheme.key == "repeat":
        return t % config.n_ctx
    if scheme.key == "clamp":
        return t.clamp(max=last)
    if scheme.key == "interpolate":
        return t / scheme.factor
    raise ValueError(f"the scheme {scheme.key!r} is of rotations, these positions are {config.positions}")


def table_at(model: Transformer, at: Tensor) -> Tensor:
    """Return the position vectors at possibly fractional positions. `at` [T] -> [T, D]

    A learned table is interpolated linearly between neighboring rows (as in two dimensions by Dosovitskiy et al. 2021,
    section 3.2); positions beyond its last row use the last row. Sinusoids are evaluated at the exact position.
    """
    if model.config.positions == "sinusoidal":
        return _sines(at, model.config.d_model)
    weight = model.pos_embed.weight.detach()
    at = at.clamp(max=len(weight) - 1)
    low = at.floor().long()
    share = (at - low)[:, None]
    return torch.lerp(weight[low], weight[(low + 1).clamp(max=len(weight) - 1)], share)


def _sines(at: Tensor, width: int) -> Tensor:
    """Compute `sinusoidal_positions` at real-valued positions. [T] -> [T, D]"""
    table = sinusoidal_positions(0, int(at.max()) + 1, width)
    if bool((at == at.floor()).all()):
        return table[at.long()]
    frequency = torch.exp(torch.arange(0, width, 2, dtype=torch.float32) * (-math.log(10_000.0) / width))
    angle = at[:, None] * frequency
    return torch.stack((angle.sin(), angle.cos()), -1).flatten(1)[:, :width]


def rope_of(config: ModelConfig, scheme: Scheme, T: int) -> tuple[Tensor, Tensor]:
    """Return the cosines and sines of positions 0 .. T - 1. Each [T, d_rotary / 2]."""
    if scheme.key == "as_is" or scheme.factor == 1:
        return rope_table(config, 0, T)
    frequency, size = frequencies(config, scheme)
    size *= 1.0 if config.rope_scaling is None else config.rope_scaling.amplitude
    angle = torch.arange(T, dtype=torch.float32)[:, None] * frequency
    return angle.cos() * size, angle.sin() * size


def frequencies(config: ModelConfig, scheme: Scheme) -> tuple[Tensor, float]:
    """Return the radians per position of each rotated pair [d_rotary / 2], and the factor on cosines and sines.

    interpolate: f / s (Chen et al. 2023, eq. 4). ntk: theta s^(d / (d - 2)), which leaves the fastest pair unchanged
    and slows the slowest one by s (bloc97 2023). llama3: short wavelengths are unchanged, long ones are s times as long
    (Llama 3.1, 2024). yarn: see `_yarn`. theta: the base times s. A factor of 1 is the unchanged model. Raises
    ValueError for other schemes.
    """
    s, d, theta = scheme.factor, config.d_rotary, config.rope_theta
    own = rope_frequencies(config)
    if scheme.key == "as_is" or s == 1:
        return own, 1.0
    if scheme.key == "interpolate":
        return own / s, 1.0
    if scheme.key == "ntk":  # with a single pair, it is the fastest one, which NTK leaves unchanged
        based = theta * s ** (d / (d - 2)) if d > 2 else theta
        return rope_frequencies(dataclasses.replace(config, rope_theta=based)), 1.0
    if scheme.key == "theta":
        return rope_frequencies(dataclasses.replace(config, rope_theta=theta * s)), 1.0
    if scheme.key == "llama3":
        scaling = RopeScaling(factor=s, low_freq_factor=1, high_freq_factor=4, original_n_ctx=config.n_ctx)
        return rope_frequencies(dataclasses.replace(config, rope_scaling=scaling)), 1.0
    if scheme.key == "yarn":
        return _yarn(own, config, s)
    raise ValueError(f"the scheme {scheme.key!r} does not turn anything")


def _yarn(own: Tensor, config: ModelConfig, s: float) -> tuple[Tensor, float]:
    """Compute YaRN frequencies: fast pairs are unchanged, slow pairs are interpolated.

    A pair is fast if it makes more than 32 turns within the trained length, and slow if it makes less than 1 turn.
    Between these, a linear ramp over the pairs mixes f and f / s. q and k are each multiplied by 0.1 ln s + 1, which
    sharpens attention. Peng et al. 2023, sections 3.2 to 3.4, with their values for Llama.
    """
    d, fastest, slowest = config.d_rotary, 32.0, 1.0

    def pair_with(turns: float) -> float:
        return d * math.log(config.n_ctx / (turns * 2 * math.pi)) / (2 * math.log(config.rope_theta))

    low, high = max(math.floor(pair_with(fastest)), 0), min(math.ceil(pair_with(slowest)), d - 1)
    high = low + 0.001 if high <= low else high
    slowed = ((torch.arange(d // 2, dtype=torch.float32) - low) / (high - low)).clamp(0, 1)
    return own * (1 - slowed) + own / s * slowed, 0.1 * math.log(s) + 1.0


# --- the text ---------------------------------------------------------------------------------------


@public(ids=nonempty, length=whole(1), most=whole(1), first=whole(0))
def windows_of(ids: Sequence[int], length: int, most: int, first: int | None = None) -> Tensor:
    """Cut a text into consecutive windows, evenly spread if there are more than `most`. [W, T + 1] int64

    Each window begins with the last token of the previous one, so that every token is predicted once. `first` replaces
    each window's first token, for models that expect a beginning-of-text token. Raises InputError for a text that is
    too short for one window.
    """
    available = (len(ids) - 1) // length
    if available < 1:
        raise InputError(
            "The text is too short for this length.",
            f"{len(ids)} tokens",
            say("Give at least {} tokens of text, or choose a shorter length.", length + 1),
        )
    count = min(available, most)
    starts = [n * available // count * length for n in range(count)]
    windows = torch.tensor(np.stack([np.asarray(ids[at : at + length + 1], dtype=np.int64) for at in starts]))
    if first is not None:
        windows[:, 0] = first
    return windows


def cost(model: Transformer, T: int) -> float:
    """Estimate the floating-point operations of one window of T tokens: 2 per weight and token, plus attention."""
    config = model.config
    weights = sum(parameter.numel() for parameter in model.blocks.parameters()) + config.vocab_size * config.d_model
    return 2.0 * weights * T + 2.0 * config.n_layer * config.n_head * config.d_head * T * T


def windows_within(model: Transformer, T: int, schemes: int, operations: float) -> int:
    """Return the number of windows that fit in a budget of operations, clamped to LEAST_WINDOWS .. MOST_WINDOWS."""
    return int(min(max(operations / (schemes * cost(model, T)), LEAST_WINDOWS), MOST_WINDOWS))


# --- the measurement --------------------------------------------------------------------------------


@torch.inference_mode()
def past_trained(
    model: Transformer,
    windows: Tensor,
    schemes: Sequence[Scheme],
    first: int | None = None,
    progress: Progress = silent,
) -> Past:
    """Compute the loss of every token of the windows [W, T + 1] under each scheme; the model is not changed.

    "pieces" uses the model's own positions within the trained length: pieces of n_ctx tokens, each starting half a
    piece after the previous one, so that a token beyond the first piece has at least n_ctx / 2 tokens of context.
    `first` replaces each piece's first token. Raises ValueError for windows that are not [W, T + 1] and for ids outside
    the vocabulary.
    """
    V = model.config.vocab_size
    if windows.ndim != 2 or windows.shape[1] < 2:
        raise ValueError(f"windows must be [W, T + 1] with T >= 1, got {tuple(windows.shape)}")
    if windows.min() < 0 or windows.max() >= V:
        raise ValueError(f"ids must lie in 0 .. {V - 1}, got {windows.min()} .. {windows.max()}")
    W, T = windows.shape[0], windows.shape[1] - 1
    rows = max(1, _TOGETHER // T)
    loss = np.empty((len(schemes), W, T), dtype=np.float32)
    steps = len(schemes) * -(-W // rows)
    done, reported = 0, time.perf_counter()

    def tick(share: float) -> None:
        nonlocal reported
        if time.perf_counter() - reported > _TELL:
            progress(int(1000 * (done + share)), 1000 * steps, "")
            reported = time.perf_counter()

    for start in range(0, W, rows):  # all schemes of one batch of windows before the next batch
        part = windows[start : start + rows]
        for n, scheme in enumerate(schemes):
            losses = (
                _in_pieces(model, part, first, tick) if scheme.key == "pieces" else _losses(model, part, scheme, tick)
            )
            loss[n, start : start + rows] = losses.numpy()
            done += 1
    return Past(model.config.n_ctx, tuple(schemes), loss)


def _in_pieces(model: Transformer, windows: Tensor, first: int | None, tick: Callable[[float], None]) -> Tensor:
    """Compute the next-token losses with at most n_ctx tokens of context. [B, T + 1] -> [B, T]"""
    n, T = model.config.n_ctx, windows.shape[1] - 1
    parts, end, start = [], 0, 0
    while end < T:
        stop = min(start + n, T)
        piece = windows[:, start : stop + 1]
        if start and first is not None:
            piece = piece.clone()
            piece[:, 0] = first
        losses = _losses(model, piece, Scheme("as_is"), lambda share, at=end: tick(at / T))
        parts.append(losses[:, end - start :])
        end, start = stop, start + max(1, n // 2)
    return torch.cat(parts, 1)


def _losses(model: Transformer, windows: Tensor, scheme: Scheme, tick: Callable[[float], None]) -> Tensor:
    """Compute the next-token losses under a scheme. [B, T + 1] -> [B, T]"""
    ids, targets = windows[:, :-1], windows[:, 1:]
    B, T = ids.shape
    at = placed(model, scheme, T)

    def place(site: str, layer: int, tensor: Tensor) -> Tensor:
        return at.table if site == "pos_embed" else tensor

    x = model.embed_tokens(ids, 0, Pass(None, attend_fused, None, place))
    # Layers with a base of their own for a sliding window see no position beyond it: it is not stretched.
    own = model.config.rope_theta_local is not None and at.rope is not None
    run = Pass(at.rope, attend_fused, rope_local=rope_table(model.config, 0, T, local=True) if own else None)
    for layer, block in enumerate(model.blocks):
        x = block(x, layer, run)
        tick((layer + 1) / (len(model.blocks) + 1))
    losses, step = [], max(1, _LOGITS // (B * model.config.vocab_size))
    for start in range(0, T, step):  # in parts, since [B, T, V] may not fit in memory
        part = slice(start, start + step)
        logits = model.logits(x[:, part])
        losses.append(F.cross_entropy(logits.flatten(0, 1), targets[:, part].flatten(), reduction="none").view(B, -1))
        tick(1.0)
    return torch.cat(losses, 1)


# --- results ----------------------------------------------------------------------------------------


def edges(length: int, trained: int, most: int = BUCKETS) -> list[int]:
    """Return the first position of each of K buckets, and the end of the last; the trained length is an edge.
    [K + 1]
    """
    width = -(-length // most)
    inside = min(trained, length)
    bounds = [*range(0, inside, width), *range(inside, length, width), length]
    return sorted(set(bounds))


def by_position(past: Past, ends: Sequence[int], *, difference: bool = False) -> tuple[np.ndarray, np.ndarray]:
    """Return the mean loss of each of K buckets of positions and its standard error over windows. float64 [schemes, K]
    each

    The error is NaN for a single window. With `difference`, the reference's loss on the same tokens is subtracted
    first.
    """
    each = np.stack([past.loss[:, :, a:b].mean(-1, dtype=np.float64) for a, b in pairwise(ends)], -1)
    each = each - each[:1] if difference else each
    return _mean_and_error(each, 1)


@dataclass(frozen=True)
class MeanLoss:
    """The mean loss over a range of positions, in nats per token, and its difference from the reference on the same
    tokens.
    """

    loss: float
    delta: float
    error: float  # standard error of delta over windows; NaN for one window
    tokens: int


def parts_of(past: Past, index: int) -> tuple[MeanLoss, MeanLoss | None]:
    """Return a scheme's mean loss within the trained length, and that beyond it if the windows are longer."""
    return _part(past, index, slice(0, past.trained)), (
        _part(past, index, slice(past.trained, None)) if past.length > past.trained else None
    )


def _part(past: Past, index: int, at: slice) -> MeanLoss:
    own, reference = (past.loss[n, :, at].mean(-1, dtype=np.float64) for n in (index, 0))  # [W]
    delta, error = _mean_and_error(own - reference, 0)
    return MeanLoss(float(own.mean()), float(delta), float(error), int(past.loss[index, :, at].size))


def _mean_and_error(values: np.ndarray, axis: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the mean over windows and its standard error."""
    n, mean = values.shape[axis], values.mean(axis)
    return mean, values.std(axis, ddof=1) / math.sqrt(n) if n > 1 else np.full_like(mean, np.nan)
