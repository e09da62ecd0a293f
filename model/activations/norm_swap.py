"""Effect on the prediction of norms that are replaced, stripped of a part, frozen or removed."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from model.activations.norm_walk import SITES, Place, embedded, norm_input, norm_of, norms_of
from model.arguments import shown
from model.errors import InputError, say
from model.gpt.config import ModelConfig
from model.gpt.layers import NORMS
from model.gpt.mixers.needs import need_alone
from model.gpt.passes import Pass, attend_fused
from model.gpt.tap import Tap
from model.gpt.transformer import Transformer
from model.progress import Progress, silent
from model.public import nonempty, public, unchecked
from model.tracing.trace import Trace

_LOGITS = 1 << 22  # maximum number of logits of each run in memory at once while positions are scored

# --- replacements of a norm -------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class NormInput:
    """Inputs of a replacement norm."""

    x: Tensor  # input of the norm, [B, T, D]
    kind: str  # "layernorm" or "rmsnorm"
    eps: float
    gain: Tensor  # [D]
    bias: Tensor | float  # [D], or 0 for a norm without bias
    divisor: Callable[[], float]  # mean divisor of the norm over the prompt's tokens in the unchanged run


def _as(kind: str, norm: NormInput) -> Tensor:
    """Apply a norm of the given kind without gain and bias. [B, T, D]"""
    numerator, divisor = NORMS[kind](norm.x, norm.eps)
    return numerator / divisor


def _other(norm: NormInput) -> Tensor:
    kind = "rmsnorm" if norm.kind == "layernorm" else "layernorm"
    return _as(kind, norm) * norm.gain + norm.bias


def _no_mean(norm: NormInput) -> Tensor:
    return norm.x / NORMS["layernorm"](norm.x, norm.eps)[1] * norm.gain + norm.bias


def _no_gain(norm: NormInput) -> Tensor:
    return _as(norm.kind, norm) + norm.bias


def _no_bias(norm: NormInput) -> Tensor:
    return _as(norm.kind, norm) * norm.gain


def _frozen(norm: NormInput) -> Tensor:
    return NORMS[norm.kind](norm.x, norm.eps)[0] / norm.divisor() * norm.gain + norm.bias


def _removed(norm: NormInput) -> Tensor:
    return norm.x


@dataclass(frozen=True)
class Swap:
    """One way to change a norm. `function` computes the new output; `fits` returns whether the change applies to a
    model.
    """

    doc: str
    function: Callable[[NormInput], Tensor]
    fits: Callable[[ModelConfig], bool] = lambda config: True


def _centers(config: ModelConfig) -> bool:
    return config.norm == "layernorm"


def _has_bias(config: ModelConfig) -> bool:
    return config.norm == "layernorm" and config.norm_bias


SWAPS: dict[str, Swap] = {
    "other": Swap("The other kind, LayerNorm or RMSNorm, with the gain and bias of this one.", _other),
    "no_mean": Swap("LayerNorm that subtracts no mean, and still divides by sqrt(variance + eps).", _no_mean, _centers),
    "no_gain": Swap("The gain is 1 everywhere.", _no_gain, lambda config: config.norm_weight),
    "no_bias": Swap("The bias is 0 everywhere.", _no_bias, _has_bias),
    "frozen": Swap("Divides every token by one number: the mean of its divisors over this prompt, unchanged.", _frozen),
    "removed": Swap("No norm: it writes what it reads.", _removed),
}

WHERE = ("all", *SITES, "one")


def swaps_of(config: ModelConfig) -> tuple[str, ...]:
    """Return the keys of SWAPS that affect a model with this config."""
    return tuple(key for key, swap in SWAPS.items() if swap.fits(config))


@public(where=unchecked)
def places_of(config: ModelConfig, where: str) -> tuple[Place, ...]:
    """Return all norms for `all`, or those at the named site; empty if the model has none there.

    Raises InputError for any other name.
    """
    if where not in ("all", *SITES):
        raise InputError("No norm has this name.", shown(where), say("The norms are {}.", ", ".join(SITES)))
    return tuple(place for place in norms_of(config) if where in ("all", place[1]))


# --- the changed run --------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Swapped:
    """Results of a run with changed norms, for its first n tokens, up to the first one with a non-finite value."""

    model: Transformer
    read: Tensor  # input of the unembedding, float32 [n, D]
    before: np.ndarray  # L2 norm of each token's stream at the input of block l, unchanged run; float64 [L + 1, T]
    lengths: np.ndarray  # the same in the changed run; NaN after an overflow of float32
    overflow: int | None  # block of the first float32 overflow; n_layer for the final norm or the logits
    kl: float | None  # mean over the n tokens of KL(p before || p after), in nats
    losses: tuple[float, float] | None  # mean next-token loss over them, before and after, in nats per token

    @property
    def nbytes(self) -> int:
        """Size in memory, in bytes."""
        return self.read.nbytes + self.before.nbytes + self.lengths.nbytes

    @torch.inference_mode()
    def logits_at(self, position: int) -> np.ndarray:
        """Compute the logits that predict the token after `position`, as Trace.logits_at does. float32 [V]

        Raises InputError for a position whose logits are not finite.
        """
        if not 0 <= position < len(self.read):
            raise InputError("There are no numbers at this position.", str(position), "Choose a milder change.")
        return self.model.head(self.read[position][None])[0].numpy()


@public(swap=unchecked, places=nonempty)
@torch.inference_mode()
def swapped(run: Trace, swap: str, places: Sequence[Place], progress: Progress = silent) -> Swapped:
    """Rerun with one of SWAPS applied to the norms at `places`, after the run's own edits; later layers are recomputed.

    `progress(steps done, total steps, "Changing norms")` may raise an exception to cancel. Raises InputError for an
    unknown change, a norm that the model does not have, or a change that does not apply to its norms, and ValueError
    for a trace that was run with its own tap.
    """
    run.require_key()
    need_alone(run.config)
    _check(run, swap, places)
    L, T, touched = run.config.n_layer, len(run.tokens), {layer for layer, _ in places}
    tap, blocks = swap_tap(run, swap, places), range(max(min(touched), 0), L)
    rows = max(1, _LOGITS // run.config.vocab_size)
    total = len(blocks) + -(-T // rows)

    def tell(done: int) -> None:
        progress(done, total, "Changing norms")

    x = embedded(run, tap) if -1 in touched else run.residuals[blocks.start]
    before = np.stack([_lengths(stream) for stream in run.residuals])
    lengths = before.copy()
    lengths[blocks.start] = _lengths(x)
    lengths[blocks.start + 1 :] = np.nan
    overflow = None
    for done, layer in enumerate(blocks if len(x) else (), 1):
        each = run.prepare(layer, len(x), tap if layer in touched else None)
        x = _finite(run.model.blocks[layer](x[None], layer, each)[0])
        overflow = layer if overflow is None and len(x) < T else overflow
        lengths[layer + 1, : len(x)] = _lengths(x)
        tell(done)
        if len(x) == 0:
            break
    plain, after = (
        _head_input(run, run.residuals[-1], None),
        _finite(_head_input(run, x, tap if L in touched else None)),
    )
    divergences, losses = _scores(run, plain[: len(after)], after, rows, lambda done: tell(len(blocks) + done))
    n = len(divergences)
    if n < T and overflow is None:
        overflow = L
    kl = float(divergences.mean()) if n else None
    mean_losses = tuple(losses.mean(1).tolist()) if losses.shape[1] else None
    return Swapped(run.model, after[:n], before, lengths, overflow, kl, mean_losses)


def _check(run: Trace, swap: str, places: Sequence[Place]) -> None:
    """Raise InputError unless the model has these norms and the change applies to them."""
    if not isinstance(swap, str) or swap not in SWAPS:
        raise InputError("No change of a norm has this name.", shown(swap), say("Choose one of: {}.", ", ".join(SWAPS)))
    if not SWAPS[swap].fits(run.config):
        raise InputError("The norms of this model have no such part.", swap, "Choose another change.")
    if not places:
        raise InputError("No norm is chosen.", "", "Select at least one.")
    for place in places:
        norm_of(run.model, *place)


def swap_tap(run: Trace, swap: str, places: Sequence[Place]) -> Tap:
    """Return a tap that records the inputs of the norms at `places` and replaces their outputs. It holds state: create
    one for each run.
    """
    chosen, read = frozenset(places), {}

    def tap(at: str, layer: int, x: Tensor) -> Tensor:
        site, _, what = at.rpartition("_")  # "norm1_in" -> "norm1", "in"
        if (layer, site) not in chosen:
            return x
        if what == "in":
            read[layer, site] = x
        elif what == "out":
            norm = norm_of(run.model, layer, site)
            bias = 0.0 if norm.bias is None else norm.bias
            inputs = NormInput(
                read.pop((layer, site)), norm.kind, norm.eps, norm.weight, bias, lambda: mean_divisor(run, layer, site)
            )
            return SWAPS[swap].function(inputs)
        return x

    return tap


@torch.inference_mode()
def mean_divisor(run: Trace, layer: int, site: str) -> float:
    """Compute a norm's divisor in this run, sqrt(variance or mean square + eps), averaged over the prompt's tokens."""
    norm = norm_of(run.model, layer, site)
    return float(NORMS[norm.kind](torch.from_numpy(norm_input(run, layer, site)), norm.eps)[1].double().mean())


def _lengths(x: Tensor) -> np.ndarray:
    """Compute the L2 norm of each vector in float64. [n, D] -> [n]"""
    return x.double().norm(dim=-1).numpy()


def _finite(x: Tensor) -> Tensor:
    """Return the rows before the first with a non-finite value. Causal attention keeps them independent of later rows.
    [n, ...] -> [m, ...]
    """
    lost = (~x.isfinite().all(-1)).nonzero()
    return x if len(lost) == 0 else x[: int(lost[0])]


def _head_input(run: Trace, x: Tensor, tap: Tap | None) -> Tensor:
    """Apply the final norm, if the model has one, to the output of the last block. [n, D] -> [n, D]"""
    norm = run.model.final_norm
    if norm is None:
        return x
    return norm.tapped(x[None], "final", run.config.n_layer, Pass(None, attend_fused, None, tap))[0]


def divergence(p: Tensor, q: Tensor) -> Tensor:
    """Compute KL(p || q) from log-probabilities, in nats, clipped at 0. float64 [..., V] -> [...]"""
    return (p.exp() * (p - q)).sum(-1).clamp(min=0)  # negative only by rounding


def divergence_at(before: np.ndarray, after: np.ndarray) -> float:
    """Compute KL(p before || p after) from two rows of logits, in nats. float32 [V] each"""
    return float(divergence(*(torch.from_numpy(row).double().log_softmax(-1) for row in (before, after))))


def _scores(run: Trace, before: Tensor, after: Tensor, rows: int, tell: Callable[[int], None]) -> tuple[Tensor, Tensor]:
    """Compute the KL divergences [n] of the leading tokens with finite logits, and the next-token losses of both runs
    [2, m].
    """
    following = torch.tensor(run.key.ids[1:] or (0,))
    divergences, losses = torch.empty(0, dtype=torch.float64), torch.empty(2, 0, dtype=torch.float64)
    for done, start in enumerate(range(0, len(after), rows), 1):
        changed = _finite(run.model.head(after[start : start + rows]))  # [n, V]
        plain = run.model.head(before[start : start + len(changed)])
        both = torch.stack((plain, changed)).double().log_softmax(-1)  # [2, n, V]
        divergences = torch.cat((divergences, divergence(*both)))
        targets = following[start : min(start + len(changed), len(run.tokens) - 1)]
        chosen = both[:, : len(targets)].gather(-1, targets.expand(2, -1)[..., None])[..., 0]
        losses = torch.cat((losses, -chosen), 1)
        tell(done)
        if len(changed) < min(rows, len(after) - start):
            break
    return divergences, losses
