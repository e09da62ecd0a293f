"""The mathematics of a Transformer as free functions. Variants are entries of dicts,
without reference to model names.
"""

import math
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor

from model.gpt.config import ModelConfig
from model.gpt.rope_scaling import scaled

# --- norms -----------------------------------------------------------------------------------------


def layernorm_parts(x: Tensor, eps: float) -> tuple[Tensor, Tensor]:
    """Return x minus its mean over D, and sqrt(variance + eps). Their quotient is the normalized x.

    x [..., D] -> [..., D] and [..., 1]. The variance is the biased one, as in Ba et al. 2016, eq. 3.
    """
    centered = x - x.mean(-1, keepdim=True)
    return centered, (centered.square().mean(-1, keepdim=True) + eps).sqrt()


def rmsnorm_parts(x: Tensor, eps: float) -> tuple[Tensor, Tensor]:
    """Return x itself, and sqrt(mean square + eps). Their quotient is the normalized x.

    x [..., D] -> [..., D] and [..., 1]. Zhang & Sennrich 2019, eq. 4.
    """
    return x, (x.square().mean(-1, keepdim=True) + eps).sqrt()


NORMS: dict[str, Callable[[Tensor, float], tuple[Tensor, Tensor]]] = {
    "layernorm": layernorm_parts,
    "rmsnorm": rmsnorm_parts,
}

# --- positions -------------------------------------------------------------------------------------


def sinusoidal_positions(start: int, length: int, d_model: int) -> Tensor:
    """Compute sines in even and cosines in odd dimensions, with wavelengths from 2 pi to 20,000 pi. [T, D]

    Vaswani et al. 2017, section 3.5.
    """
    position = torch.arange(start, start + length, dtype=torch.float32)[:, None]
    frequency = torch.exp(torch.arange(0, d_model, 2, dtype=torch.float32) * (-math.log(10_000.0) / d_model))
    table = torch.empty(length, d_model)
    table[:, 0::2] = torch.sin(position * frequency)
    table[:, 1::2] = torch.cos(position * frequency[: d_model // 2])
    return table


def rope_frequencies(config: ModelConfig, length: int = 1, *, local: bool = False) -> Tensor:
    """Return the angle in radians by which one position rotates each pair of dimensions. [d_rotary / 2]

    Some scalings depend on the `length` of the text in tokens. With `local`, those of layers with a sliding window, if
    the config has a base of their own. Su et al. 2021, section 3.2.2.
    """
    width = config.d_rotary
    if local and config.rope_theta_local is not None:
        theta, scaling = config.rope_theta_local, None
        width = int((config.d_head_local or config.d_head) * config.rotary_fraction)
    else:
        theta, scaling = config.rope_theta, config.rope_scaling
    if scaling is not None:
        return scaled(theta, width, scaling, length)
    exponent = torch.arange(0, width, 2, dtype=torch.float32) / width
    return 1.0 / (theta**exponent)


def rope_table(
    config: ModelConfig, start: int, length: int, *, text: int | None = None, local: bool = False
) -> tuple[Tensor, Tensor]:
    """Return the cosines and sines for positions start .. start + length - 1, in a text of `text` tokens, by default
    those up to the last position. Each [T, d_rotary / 2].
    """
    frequencies = rope_frequencies(config, text or start + length, local=local)
    angle = torch.arange(start, start + length, dtype=torch.float32)[:, None] * frequencies
    cos, sin = angle.cos(), angle.sin()
    if config.rope_scaling is None or config.rope_scaling.amplitude == 1 or (local and config.rope_theta_local):
        return cos, sin
    return cos * config.rope_scaling.amplitude, sin * config.rope_scaling.amplitude


def rotate(x: Tensor, cos: Tensor, sin: Tensor, pairs: str = "halves") -> Tensor:
    """Rotate each pair of dimensions by its angle; dimensions from d_rotary are unchanged. [..., T, E]

    The pairs are (i, i + d_rotary / 2) as in GPT-NeoX and Llama checkpoints on the Hub, or, if `adjacent`, (2 i, 2 i +
    1) as in GPT-J. The dot product of a rotated q and a rotated k depends on their positions only through the
    difference.
    """
    if pairs == "adjacent":
        return rotate_adjacent(x, cos, sin)
    half = cos.shape[-1]
    first, second, unrotated = x[..., :half], x[..., half : 2 * half], x[..., 2 * half :]
    turned = torch.cat((first, second), -1) * torch.cat((cos, cos), -1)
    turned = turned.addcmul_(torch.cat((second, first), -1), torch.cat((-sin, sin), -1))
    return torch.cat((turned, unrotated), -1) if unrotated.shape[-1] else turned


def rotate_adjacent(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Rotate each pair (2 i, 2 i + 1) by its angle; dimensions from d_rotary are unchanged. [..., T, E]"""
    width = 2 * cos.shape[-1]
    first, second = x[..., 0:width:2], x[..., 1:width:2]
    turned = torch.stack((first * cos - second * sin, second * cos + first * sin), -1).flatten(-2)
    return torch.cat((turned, x[..., width:]), -1) if width < x.shape[-1] else turned


# --- attention -------------------------------------------------------------------------------------


def split_heads(x: Tensor, d_head: int) -> Tensor:
    """Reshape [B, T, n * E] -> [B, n, T, E]."""
    return x.unflatten(-1, (-1, d_head)).transpose(1, 2)


def merge_heads(z: Tensor) -> Tensor:
    """Reshape [B, H, T, E] -> [B, T, H * E]."""
    return z.transpose(1, 2).flatten(2)


def attention_scores(q: Tensor, k: Tensor, *, two_way: bool = False) -> Tensor:
    """Compute q.k / sqrt(d_head), -inf for future keys unless `two_way`. q [B, H, T, E], k [B, G, S, E] -> [B, H, T, S]

    All S keys are visible to the last query; with a cache, T < S. Query head h uses KV head h // (H / G).
    """
    B, H, T, E = q.shape
    G, S = k.shape[1], k.shape[2]
    grouped = q.reshape(B, G, (H // G) * T, E)  # concatenated queries of the heads that share a KV head
    scores = (grouped @ k.transpose(-1, -2) / math.sqrt(E)).view(B, H, T, S)
    return scores if two_way or T == 1 else scores.masked_fill_(future(T, S), -math.inf)


def future(T: int, S: int) -> Tensor:
    """Return a mask that is True if key s comes after query t; the T queries are the last of S positions.
    [T, S] bool
    """
    return torch.ones(T, S, dtype=torch.bool).triu_(S - T + 1)


def attention_pattern(scores: Tensor) -> Tensor:
    """Return the softmax over the keys: rows sum to 1, and masked keys get exactly 0. [..., T, S] -> [..., T, S]"""
    return scores.softmax(-1)


def mix(pattern: Tensor, v: Tensor) -> Tensor:
    """Return each head's sum of values weighted by the pattern. pattern [B, H, T, S], v [B, G, S, E] -> [B, H, T, E]"""
    B, H, T, S = pattern.shape
    G = v.shape[1]
    return (pattern.reshape(B, G, (H // G) * T, S) @ v).view(B, H, T, -1)


def fused_attention(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Compute attention in one kernel without a [T, S] matrix. -> [B, H, T, E]"""
    T, S, gqa = q.shape[2], k.shape[2], q.shape[1] != k.shape[1]
    if T == S:
        return F.scaled_dot_product_attention(q, k, v, is_causal=T > 1, enable_gqa=gqa)
    visible = None if T == 1 else ~future(T, S)
    return F.scaled_dot_product_attention(q, k, v, attn_mask=visible, enable_gqa=gqa)


# --- MLP -------------------------------------------------------------------------------------------


def gelu(x: Tensor) -> Tensor:
    """Compute x times the normal distribution function of x, by erf. Hendrycks & Gimpel 2016."""
    return F.gelu(x)


def gelu_tanh(x: Tensor) -> Tensor:
    """Compute the tanh approximation of GELU with which GPT-2 was trained."""
    return F.gelu(x, approximate="tanh")


def relu2(x: Tensor) -> Tensor:
    """Compute the square of max(x, 0). So et al. 2021, "Primer", 3."""
    return F.relu(x).square()


def swish_1702(x: Tensor) -> Tensor:
    """Compute x sigmoid(1.702 x), an approximation of GELU. Hendrycks & Gimpel 2016."""
    return x * torch.sigmoid(1.702 * x)


def xielu(
    x: Tensor,
    positive: float | Tensor = 0.8,
    negative: float | Tensor = 0.8,
    slope: float | Tensor = 0.5,
    edge: float | Tensor = -1e-6,
) -> Tensor:
    """Compute p x^2 + b x above 0 and n (e^min(x, edge) - 1 - x) + b x below, b being the slope; by default with the
    numbers with which models begin. Huang & Schlag 2024, "Deriving Activation Functions Using Integration".
    """
    below = torch.expm1(torch.minimum(x, torch.as_tensor(edge, dtype=x.dtype, device=x.device))) - x
    return torch.where(x > 0, positive * x * x, below * negative) + slope * x


# For a gated MLP the function applies to the gate branch: silu(gate) * up. Shazeer 2020.
MLPS: dict[str, Callable[[Tensor], Tensor]] = {
    "relu": F.relu,
    "gelu": gelu,
    "gelu_tanh": gelu_tanh,
    "swiglu": F.silu,
    "relu2": relu2,
    "silu": F.silu,
    "geglu": gelu,
    "geglu_tanh": gelu_tanh,
    "swiglu_clamped": swish_1702,
    "xielu": xielu,
}
CLAMP = 7.0  # swiglu_clamped: the gate is at most this, and the linear branch lies between -this and this


def capped(x: Tensor, cap: float | None) -> Tensor:
    """Compute cap tanh(x / cap), which lies between -cap and cap; without a cap, x. Gemma 2 report 2024, section 2."""
    return x if cap is None else cap * torch.tanh(x / cap)
