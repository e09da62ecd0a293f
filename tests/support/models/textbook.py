"""The Transformer a second time, as the papers write it: float64, one query of one head at a time."""

import functools
import math

import torch
from torch import Tensor

from model.gpt.transformer import Transformer

_ACTIVATIONS = {
    "relu": lambda x: x.clamp(min=0),
    "gelu": lambda x: x * 0.5 * (1 + torch.erf(x / math.sqrt(2))),
    "gelu_tanh": lambda x: 0.5 * x * (1 + torch.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))),
    "swiglu": lambda x: x / (1 + torch.exp(-x)),
    "silu": lambda x: x / (1 + torch.exp(-x)),
    "relu2": lambda x: x.clamp(min=0) ** 2,
    "swiglu_clamped": lambda x: x / (1 + torch.exp(-1.702 * x)),
}
_ACTIVATIONS |= {"geglu": _ACTIVATIONS["gelu"], "geglu_tanh": _ACTIVATIONS["gelu_tanh"]}


def textbook_logits(model: Transformer, ids: list[int]) -> Tensor:
    """Logits of one sequence. [T, V] float64"""
    config = model.config
    weights = {name: value.double() for name, value in model.state_dict().items()}
    x = weights["embed.weight"][ids]
    if config.embed_scale:
        x = x * config.d_model**0.5
    x = x * config.embed_multiplier
    if config.positions == "learned":
        x = x + weights["pos_embed.weight"][: len(ids)]
    if config.positions == "sinusoidal":
        x = x + _sinusoids(len(ids), config.d_model)
    if config.embed_norm:
        x = _norm(config.norm, config.norm_eps, weights, "embed_norm", x)
    for layer in range(config.n_layer):
        part = {name.removeprefix(f"blocks.{layer}."): w for name, w in weights.items() if f"blocks.{layer}." in name}
        x = _block(config, part, x, layer)
    if config.final_norm:
        x = _norm(config.norm, config.norm_eps, weights, "final_norm", x)
    logits = (x @ weights["unembed.weight"].T + weights.get("unembed.bias", 0)) * config.logit_multiplier
    return logits if config.logit_cap is None else config.logit_cap * torch.tanh(logits / config.logit_cap)


def _block(config, w: dict[str, Tensor], x: Tensor, layer: int) -> Tensor:
    def norm(name: str, y: Tensor) -> Tensor:
        return _norm(config.norm, config.norm_eps, w, name, y)

    def attention(y: Tensor) -> Tensor:
        return _attention(config, w, y, layer) * config.residual_multiplier

    def mlp(y: Tensor) -> Tensor:
        return _mlp(config, w, y) * config.residual_multiplier

    if config.norm_placement == "post":
        x = norm("norm1", x + attention(x))
        return norm("norm2", x + mlp(x))
    if config.norm_placement == "output":
        x = x + norm("after1", attention(x))
        return x + norm("after2", mlp(x))
    if config.norm_placement == "sandwich":
        x = x + norm("after1", attention(norm("norm1", x)))
        return x + norm("after2", mlp(norm("norm2", x)))
    if config.parallel_residual:
        return x + attention(norm("norm1", x)) + mlp(norm("norm1" if config.shared_norm else "norm2", x))
    x = x + attention(norm("norm1", x))
    return x + mlp(norm("norm2", x))


def _affine(w: dict[str, Tensor], name: str, x: Tensor) -> Tensor:
    return x @ w[f"{name}.weight"].T + w.get(f"{name}.bias", 0)


def _norm(kind: str, eps: float, w: dict[str, Tensor], name: str, x: Tensor) -> Tensor:
    if kind == "layernorm":
        x = x - x.sum(-1, keepdim=True) / x.shape[-1]
    scale = torch.sqrt((x**2).sum(-1, keepdim=True) / x.shape[-1] + eps)
    return x / scale * w.get(f"{name}.weight", 1) + w.get(f"{name}.bias", 0)


def _head_norm(config, w: dict[str, Tensor], name: str, x: Tensor, head: int) -> Tensor:
    E, own = config.d_head, config.qk_norm_over == "each"
    part = {key: w[key][head * E : head * E + E] if own else w[key] for key in w if key.startswith(name)}
    return _norm(config.qk_norm_kind.removesuffix("_bias"), config.norm_eps, part, name, x)


def _xielu(w: dict[str, Tensor], x: Tensor) -> Tensor:
    b, eps, p, n = (w[f"mlp.act.{name}"] for name in ("beta", "eps", "alpha_p", "alpha_n"))
    p, n = torch.log(1 + torch.exp(p)), b + torch.log(1 + torch.exp(n))
    return torch.where(x > 0, p * x**2 + b * x, n * (torch.exp(x.clamp(max=eps)) - 1 - x) + b * x)


def _mlp(config, w: dict[str, Tensor], x: Tensor) -> Tensor:
    act = functools.partial(_xielu, w) if config.mlp == "xielu" else _ACTIVATIONS[config.mlp]
    if config.mlp == "swiglu_clamped":
        gate, up = _affine(w, "mlp.gate", x).clamp(max=7), _affine(w, "mlp.up", x).clamp(-7, 7)
        return _affine(w, "mlp.down", (up + 1) * act(gate))
    if config.mlp in ("swiglu", "geglu", "geglu_tanh"):
        return _affine(w, "mlp.down", act(_affine(w, "mlp.gate", x)) * _affine(w, "mlp.up", x))
    return _affine(w, "mlp.down", act(_affine(w, "mlp.up", x)))


def _attention(config, w: dict[str, Tensor], x: Tensor, layer: int) -> Tensor:
    E, heads = config.d_head, []
    sliding = config.mixer != "softmax" and config.mixer[layer] == "sliding_window"
    q, k, v = (_affine(w, f"attn.{name}", x) for name in "qkv")
    if config.qkv_limit is not None:
        q, k, v = (part.clamp(-config.qkv_limit, config.qkv_limit) for part in (q, k, v))
    if config.qk_norm and config.qk_norm_over == "all":
        kind = config.qk_norm_kind.removesuffix("_bias")
        q, k = (_norm(kind, config.norm_eps, w, f"attn.{name}_norm", part) for name, part in (("q", q), ("k", k)))
    for h in range(config.n_head):
        g = h // (config.n_head // config.n_kv_head)
        q_h, k_g, v_g = q[:, h * E : h * E + E], k[:, g * E : g * E + E], v[:, g * E : g * E + E]
        if config.qk_norm and config.qk_norm_over != "all":
            q_h = _head_norm(config, w, "attn.q_norm", q_h, h)
            k_g = _head_norm(config, w, "attn.k_norm", k_g, g)
        if config.positions == "rope" and layer not in config.unrotated:
            local = sliding and config.rope_theta_local is not None
            q_h, k_g = (_turned(config, part, config.rope_theta_local if local else None) for part in (q_h, k_g))
        rows = []
        for t in range(len(x)):
            first = max(0, t - config.window + 1) if sliding else 0
            by = 1 / E**0.5 if config.score_multiplier is None else config.score_multiplier
            score = k_g[first : t + 1] @ q_h[t] * by
            if config.score_cap is not None:
                score = config.score_cap * torch.tanh(score / config.score_cap)
            if config.positions == "alibi":
                score = score - _slope(h, config.n_head) * (t - torch.arange(first, t + 1))
            weight = torch.exp(score)
            beside = torch.exp(w["attn.sinks"][h]) if config.sinks else 0
            rows.append((weight / (weight.sum() + beside)) @ v_g[first : t + 1])
        heads.append(torch.stack(rows))
    return _affine(w, "attn.o", torch.cat(heads, -1))


def _slope(head: int, n: int) -> float:
    """Of a power of 2 of heads: 2^(-8 / n), its square, ...; others go on with every second one of the next power."""
    whole = 2 ** math.floor(math.log2(n))
    if head < whole:
        return 2 ** (-8 * (head + 1) / whole)
    return 2 ** (-8 * (2 * (head - whole) + 1) / (2 * whole))


def _turned(config, x: Tensor, theta: float | None) -> Tensor:
    """Pairs (i, i + half), or (2 i, 2 i + 1), as complex numbers, multiplied by exp(i position theta^(-2i / d))."""
    d = int(config.d_head * config.rotary_fraction)
    first, second = (x[:, :d:2], x[:, 1:d:2]) if config.rope_pairs == "adjacent" else (x[:, : d // 2], x[:, d // 2 : d])
    pairs = torch.complex(first.contiguous(), second.contiguous())
    for i in range(d // 2):
        angle = torch.arange(len(x), dtype=torch.float64) * (theta or config.rope_theta) ** (-2 * i / d)
        pairs[:, i] *= torch.complex(angle.cos(), angle.sin())
    if config.rope_pairs == "adjacent":
        return torch.cat((torch.view_as_real(pairs).flatten(1), x[:, d:]), -1)
    return torch.cat((pairs.real, pairs.imag, x[:, d:]), -1)


def _sinusoids(T: int, D: int) -> Tensor:
    return torch.tensor(
        [[(math.sin if d % 2 == 0 else math.cos)(t / 10_000 ** ((d - d % 2) / D)) for d in range(D)] for t in range(T)],
        dtype=torch.float64,
    )
