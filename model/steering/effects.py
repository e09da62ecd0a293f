"""Effects of a steering vector: tokens that it raises, its projection along a prompt, a sweep of layers and factors.

Every gain stands beside its cost and beside random directions of the same length: a large vector moves the prediction
whatever its direction. Turner et al. 2023, sections 4 and 5; Panickssery et al. 2023, section 4; random directions:
Arditi et al. 2024, appendix.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from model.arguments import check_layer, check_position, check_token
from model.attention.targets import Target, aim_of, measure
from model.errors import InputError
from model.gpt.edits import MAX_FACTOR, STREAM_SITES
from model.gpt.mixers.needs import need_alone, need_causal, need_directions, need_softmax
from model.gpt.placed_vectors import ranges
from model.gpt.tap import Tap
from model.gpt.transformer import Transformer
from model.progress import Progress, silent
from model.public import MOST_SEED, array, between, nonempty, one_of, public, whole
from model.steering.vectors import check_vectors, checked_vector, random_directions, stream_at
from model.tracing.trace import Trace

_ROWS = 1024  # tokens of one batch


@dataclass(frozen=True, eq=False)
class Moved:
    """The tokens whose logits a vector raises most and lowers most, in logits per unit of the final norm's divisor."""

    ids: np.ndarray  # in decreasing order of value, int64 [n]
    values: np.ndarray  # float32 [n]
    low_ids: np.ndarray  # in increasing order of value, int64 [n]
    low_values: np.ndarray  # float32 [n]


@dataclass(frozen=True, eq=False)
class SteeringSweep:
    """Gain and cost of a vector, by layer and factor; without steering, and with random directions of its length."""

    layers: tuple[int, ...]
    factors: tuple[float, ...]
    share: np.ndarray  # probability of the watched tokens together at the position, [layers, factors]
    kl: np.ndarray  # KL(before || after) of the prediction there, in nats, [layers, factors]
    perplexity: np.ndarray  # of the prompt, [layers, factors]; NaN for a prompt of one token
    random_share: np.ndarray  # of each random direction, [draws, layers, factors]
    random_kl: np.ndarray
    random_perplexity: np.ndarray
    base_share: float  # without steering
    base_perplexity: float


@public(vector=array("D"), top=whole(1), vocab=whole(1))
@torch.inference_mode()
def tokens_moved(model: Transformer, vector: np.ndarray, top: int = 10, vocab: int | None = None) -> Moved:
    """Find the tokens whose logits a vector raises and lowers most, as if nothing read it but the output head.

    The vector passes through the final norm with the divisor 1 (LayerNorm subtracts its mean, then the gain applies)
    and W_U, without biases. nostalgebraist 2020. Ids from `vocab` on have no token and are left out. Raises InputError
    for a vector of another width, and for a model whose head is not one product.
    """
    need_directions(model.config)
    x, norm = torch.from_numpy(checked_vector(vector, model.config.d_model)), model.final_norm
    if norm is not None:
        x = (x - x.mean() if norm.kind == "layernorm" else x) * norm.weight.detach().float()
    values = F.linear(x, model.unembed.weight.detach().float()) * model.config.logit_multiplier
    values = values[: vocab or model.config.vocab_size]
    high, low = (values.topk(min(top, len(values)), largest=largest) for largest in (True, False))
    return Moved(high.indices.numpy(), high.values.numpy(), low.indices.numpy(), low.values.numpy())


@public(vectors=array("L D"), site=one_of(STREAM_SITES))
@torch.inference_mode()
def projections(run: Trace, vectors: np.ndarray, site: str = "resid_post") -> np.ndarray:
    """Compute the component of every token's stream along each layer's vector, in units of the stream. float32 [L, T]

    It is x . v / |v|, and 0 for a vector of zeros. Raises InputError unless there is a vector for each layer.
    """
    check_vectors(run, vectors)
    rows = []
    for layer, vector in enumerate(vectors.astype(np.float64)):
        length = np.linalg.norm(vector)
        rows.append(stream_at(run, layer, site) @ (vector / length if length > 0 else vector))
    return np.stack(rows).astype(np.float32)


@public(
    vectors=array("L D"),
    layers=nonempty,
    factors=between(-MAX_FACTOR, MAX_FACTOR),
    tokens=nonempty,
    site=one_of(STREAM_SITES),
    draws=whole(1, 16),
    seed=whole(0, MOST_SEED),
)
@torch.inference_mode()
def steering_sweep(
    run: Trace,
    vectors: np.ndarray,
    layers: Sequence[int],
    factors: Sequence[float],
    tokens: Sequence[int],
    *,
    site: str = "resid_post",
    positions: str | None = None,
    position: int = -1,
    draws: int = 4,
    seed: int = 0,
    frozen: bool = False,
    progress: Progress = silent,
) -> SteeringSweep:
    """Add a vector with each factor at each layer in turn, and measure gain and cost, beside random directions.

    `vectors` [L, D] has a vector for each layer. The gain is the probability of `tokens` together after the token at
    `position`; the cost is KL(before || after) there in nats, and the perplexity of the prompt. Each of `draws` random
    directions has the length of the layer's vector. Every entry equals that of `run.edit(steering_edit(...))`, up to
    the rounding error of float32; the run's own edits stay active. With `frozen`, all heads keep the attention weights
    of the run, so that the vector acts through values and MLPs only. `progress(layers done, layers, "Steering")` may
    raise an exception to cancel. Raises InputError for what does not exist in the run, and for `frozen` in a model
    with layers that have no attention weights.
    """
    _check_sweep(run, vectors, layers, factors, tokens, position)
    numbers = _Measure(run, position % len(run.tokens), tuple(tokens))
    patterns = frozen_patterns(run) if frozen else None
    mask = _mask(positions, len(run.tokens))
    found = np.empty((3, 1 + draws, len(layers), len(factors)))
    for at, layer in enumerate(layers):
        progress(at, len(layers), "Steering")
        vector = vectors[layer]
        length = float(np.linalg.norm(vector.astype(np.float64)))
        drawn = random_directions(len(vector), length, draws, seed) if length > 0 else np.zeros((draws, len(vector)))
        rows = torch.from_numpy(np.concatenate([vector[None], drawn]).astype(np.float32))
        deltas = (torch.tensor(factors, dtype=torch.float32)[:, None] * rows[:, None]).flatten(0, 1)  # [n, D]
        parts = deltas.split(max(1, _ROWS // len(run.tokens)))
        values = np.concatenate([numbers(steered(run, layer, site, part, mask, patterns)) for part in parts], 1)
        found[:, :, at] = values.reshape(3, 1 + draws, len(factors))
    base = numbers(run.residuals[-1][None])[:, 0]
    own, random = found[:, 0], found[:, 1:]
    progress(len(layers), len(layers), "Steering")
    return SteeringSweep(tuple(layers), tuple(map(float, factors)), *own, *random, float(base[0]), float(base[2]))


def sweep_cost(n_layer: int, layers: Sequence[int], rows: int, tokens: int) -> tuple[float, float]:
    """Estimate the cost of a sweep with `rows` factors and draws: the number of runs and of processed tokens.

    A run starts at its layer.
    """
    processed = sum(1 - layer / n_layer for layer in layers) * rows * tokens
    return processed / max(tokens, _ROWS), processed


class _Measure:
    """Share of the tokens, KL and perplexity of outputs of the last block."""

    def __init__(self, run: Trace, position: int, tokens: tuple[int, ...]) -> None:
        self.run, self.position, self.tokens = run, position, list(tokens)
        self.kl = aim_of(run, Target("kl", position), run)
        self.loss = aim_of(run, Target("loss"), run) if len(run.tokens) > 1 else None  # a single token has none

    def __call__(self, x: Tensor) -> np.ndarray:
        """Return the three numbers of each row. x [B, T, D] -> float64 [3, B]"""
        after = self.run.model.logits(x[:, self.position, None])[:, 0].double().log_softmax(-1)
        share, kl = after[:, self.tokens].exp().sum(-1), measure(x, self.kl)
        perplexity = torch.full_like(kl, torch.nan) if self.loss is None else measure(x, self.loss).exp()
        return torch.stack((share, kl, perplexity)).numpy()


@public()
@torch.inference_mode()
def frozen_patterns(run: Trace) -> tuple[Tensor, ...]:
    """Compute the attention weights of every layer, to be kept while the stream changes. float32 [1, H, T, T] each

    Raises InputError for a model with layers that have no attention weights.
    """
    need_softmax(run.config)
    return tuple(run.sites(layer, ["pattern"])["pattern"] for layer in range(run.config.n_layer))


def steered(
    run: Trace, layer: int, site: str, deltas: Tensor, mask: Tensor, patterns: Sequence[Tensor] | None = None
) -> Tensor:
    """Return the outputs of the last block with each delta added to the stream. deltas [B, D] -> [B, T, D]

    With `patterns`, every layer uses these attention weights.
    """
    added, T = deltas[:, None] * mask, len(run.tokens)

    def tap(name: str, at: int, x: Tensor) -> Tensor:
        if name == "pattern" and patterns is not None:
            return patterns[at].expand_as(x)
        return x + added if inside and (name, at) == (site, layer) else x

    inside = site == "resid_mid"
    first = layer + (site == "resid_post")
    x = run.residuals[first][None]
    x = x.expand(len(deltas), -1, -1) if inside else x + added
    for each in range(first, run.config.n_layer):
        own: Tap | None = tap if patterns is not None or (inside and each == layer) else None
        x = run.model.blocks[each](x, each, run.prepare(each, T, own, explicit=patterns is not None))
    return x


def _mask(positions: str | None, T: int) -> Tensor:
    """Return 1 for the positions at which a vector is added, else 0. [T, 1]"""
    mask = torch.zeros(T, 1)
    for low, high in ((0, None),) if positions is None else ranges(positions):
        check_position(low if high is None else high - 1, T)
        mask[low:high] = 1
    return mask


def _check_sweep(
    run: Trace,
    vectors: np.ndarray,
    layers: Sequence[int],
    factors: Sequence[float],
    tokens: Sequence[int],
    position: int,
) -> None:
    need_causal(run.config)
    need_alone(run.config)
    run.require_key()
    check_vectors(run, vectors)
    check_position(position, len(run.tokens), from_end=True)
    for layer in layers:
        check_layer(layer, run.config.n_layer)
    for token in tokens:
        check_token(token, run.config.vocab_size)
    if not len(factors):
        raise InputError("An argument is empty.", "factors", "Give at least one entry.")
