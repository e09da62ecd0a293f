"""The Transformer a second time, as the papers write it: float64, one query of one head at a time."""

import math

import torch
from torch import Tensor

from model.gpt.transformer import Transformer

_ACTIVATIONS = {
    "relu": lambda x: x.clamp(min=0),
    "gelu": lambda x: x * 0.5 * (1 + torch.erf(x / math.sqrt(2))),
    "gelu_tanh": lambda x: 0.5 * x * (1 + torch.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))),
    "swiglu": lambda x: x / (1 + torch.exp(-x)),
}


def textbook_logits(model: Transformer, ids: list[int]) -> Tensor:
    """Logits of one sequence. [T, V] float64"""
    config = model.config
    weights = {name: value.double() for name, value in model.state_dict().items()}
    x = weights["embed.weight"][ids]
    if config.embed_scale:
        x = x * config.d_model**0.5
    if config.positions == "learned":
        x = x + weights["pos_embed.weight"][: len(ids)]
    if config.positions == "sinusoidal":
        x = x + _sinusoids(len(ids), config.d_model)
    for layer in range(config.n_layer):
        part = {name.removeprefix(f"blocks.{layer}."): w for name, w in weights.items() if f"blocks.{layer}." in name}
        x = _block(config, part, x)
    if config.final_norm:
        x = _norm(config.norm, config.norm_eps, weights, "final_norm", x)
    return x @ weights["unembed.weight"].T


def _block(config, w: dict[str, Tensor], x: Tensor) -> Tensor:
    def norm(name: str, y: Tensor) -> Tensor:
        return _norm(config.norm, config.norm_eps, w, name, y)

    if config.norm_placement == "post":
        x = norm("norm1", x + _attention(config, w, x))
        return norm("norm2", x + _mlp(config, w, x))
    if config.parallel_residual:
        return x + _attention(config, w, norm("norm1", x)) + _mlp(config, w, norm("norm2", x))
    x = x + _attention(config, w, norm("norm1", x))
    return x + _mlp(config, w, norm("norm2", x))


def _affine(w: dict[str, Tensor], name: str, x: Tensor) -> Tensor:
    return x @ w[f"{name}.weight"].T + w.get(f"{name}.bias", 0)


def _norm(kind: str, eps: float, w: dict[str, Tensor], name: str, x: Tensor) -> Tensor:
    if kind == "layernorm":
        x = x - x.sum(-1, keepdim=True) / x.shape[-1]
    scale = torch.sqrt((x**2).sum(-1, keepdim=True) / x.shape[-1] + eps)
    return x / scale * w[f"{name}.weight"] + w.get(f"{name}.bias", 0)


def _mlp(config, w: dict[str, Tensor], x: Tensor) -> Tensor:
    act = _ACTIVATIONS[config.mlp]
    if config.mlp == "swiglu":
        return _affine(w, "mlp.down", act(_affine(w, "mlp.gate", x)) * _affine(w, "mlp.up", x))
    return _affine(w, "mlp.down", act(_affine(w, "mlp.up", x)))


def _attention(config, w: dict[str, Tensor], x: Tensor) -> Tensor:
    E, heads = config.d_head, []
    q, k, v = (_affine(w, f"attn.{name}", x) for name in "qkv")
    for h in range(config.n_head):
        g = h // (config.n_head // config.n_kv_head)
        q_h, k_g, v_g = q[:, h * E : h * E + E], k[:, g * E : g * E + E], v[:, g * E : g * E + E]
        if config.qk_norm:
            q_h = _norm("rmsnorm", config.norm_eps, w, "attn.q_norm", q_h)
            k_g = _norm("rmsnorm", config.norm_eps, w, "attn.k_norm", k_g)
        if config.positions == "rope":
            q_h, k_g = (_turned(config, part) for part in (q_h, k_g))
        rows = []
        for t in range(len(x)):
            weight = torch.exp(k_g[: t + 1] @ q_h[t] / E**0.5)
            rows.append((weight / weight.sum()) @ v_g[: t + 1])
        heads.append(torch.stack(rows))
    return _affine(w, "attn.o", torch.cat(heads, -1))


def _turned(config, x: Tensor) -> Tensor:
    """Pairs (i, i + half) as complex numbers, multiplied by exp(i position theta^(-2i / d))."""
    d = int(config.d_head * config.rotary_fraction)
    pairs = torch.complex(x[:, : d // 2].contiguous(), x[:, d // 2 : d].contiguous())
    for i in range(d // 2):
        angle = torch.arange(len(x), dtype=torch.float64) * config.rope_theta ** (-2 * i / d)
        pairs[:, i] *= torch.complex(angle.cos(), angle.sin())
    return torch.cat((pairs.real, pairs.imag, x[:, d:]), -1)


def _sinusoids(T: int, D: int) -> Tensor:
    return torch.tensor(
        [[(math.sin if d % 2 == 0 else math.cos)(t / 10_000 ** ((d - d % 2) / D)) for d in range(D)] for t in range(T)],
        dtype=torch.float64,
    )
