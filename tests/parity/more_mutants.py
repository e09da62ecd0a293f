"""Deliberate mistakes in converted models of more families: what the conversion or a field of each could get wrong."""

from collections.abc import Callable

import torch

from model.gpt.rope_scaling import RopeScaling
from tests.parity.common import H

State = dict[str, torch.Tensor]


def _swap(state: State, one: str, other: str) -> None:
    for name in [name for name in state if f".{one}." in name]:
        twin = name.replace(f".{one}.", f".{other}.")
        state[name], state[twin] = state[twin], state[name]


def _exchanged(state: State, one: str, other: str) -> None:
    for name in [name for name in state if name.endswith(one)]:
        twin = name.replace(one, other)
        state[name], state[twin] = state[twin], state[name]


def _zero(state: State, ending: str) -> None:
    for name in state:
        if name.endswith(ending):
            state[name] = torch.zeros_like(state[name])


def _mapped(state: State, ending: str, change: Callable[[torch.Tensor], torch.Tensor]) -> None:
    for name in state:
        if name.endswith(ending):
            state[name] = change(state[name]).contiguous()


def _halves(weight: torch.Tensor) -> torch.Tensor:
    """The rows of each head with its halves swapped."""
    return weight.unflatten(0, (H, 2, -1)).flip(1).flatten(0, 2)


def _unpaired(state: State) -> None:
    """Gate and linear branch split in the middle, where they alternate."""
    for name in [name for name in state if ".experts.gate." in name]:
        up = name.replace(".gate.", ".up.")
        whole = torch.stack((state[name], state[up]), 2).flatten(1, 2)  # [N, 2 M, ...]
        state[name], state[up] = (part.contiguous() for part in whole.chunk(2, 1))


def _shifted(state: State, ending: str, n: int) -> None:
    """Each layer's weight in the layer after it."""
    old = [state[f"blocks.{layer}.{ending}"] for layer in range(n)]
    for layer in range(n):
        state[f"blocks.{layer}.{ending}"] = old[layer - 1]


# (case, what the mistake does to the weights); the models are shaken
MORE_WEIGHTS: dict[str, tuple[str, Callable[[State], None]]] = {
    "opt: positions from row 1": ("opt", lambda s: _mapped(s, "pos_embed.weight", lambda w: w.roll(1, 0))),
    "opt: norms of a block swapped": ("opt norms after", lambda s: _swap(s, "norm1", "norm2")),
    "codegen: v and k in the order of their names": ("codegen", lambda s: _swap(s, "attn.k", "attn.v")),
    "bloom: norm of the embeddings dropped": ("bloom", lambda s: _zero(s, "embed_norm.bias")),
    "bloom: q and k swapped": ("bloom", lambda s: _swap(s, "attn.q", "attn.k")),
    "falcon: k and v swapped": ("falcon groups, two norms", lambda s: _swap(s, "attn.k", "attn.v")),
    "falcon: norms of a block swapped": ("falcon groups, two norms", lambda s: _swap(s, "norm1", "norm2")),
    "gpt_bigcode: k and v swapped": ("gpt_bigcode", lambda s: _swap(s, "attn.k", "attn.v")),
    "gptj: bias of the head dropped": ("gptj", lambda s: _zero(s, "unembed.bias")),
    "phi: bias of the head dropped": ("phi", lambda s: _zero(s, "unembed.bias")),
    "nanochat: q and k left as they are": (
        "nanochat",
        lambda s: (_mapped(s, "attn.q.weight", _halves), _mapped(s, "attn.k.weight", _halves))[0],
    ),
    "gpt_oss: sinks dropped": ("gpt_oss", lambda s: _zero(s, "sinks")),
    "gpt_oss: gate and up swapped": ("gpt_oss", lambda s: _swap(s, "experts.gate", "experts.up")),
    "gpt_oss: gate and up split in the middle": ("gpt_oss", _unpaired),
    "gpt_oss: bias of the router dropped": ("gpt_oss", lambda s: _zero(s, "router.bias")),
    "gpt_oss: experts in another order": ("gpt_oss", lambda s: _mapped(s, "down.weight", lambda w: w.roll(1, 0))),
    "granitemoe: gate and up swapped": ("granitemoe", lambda s: _swap(s, "experts.gate", "experts.up")),
    "cohere: gains of q in the order of other heads": (
        "cohere biases, untied, q/k norms",
        lambda s: _mapped(s, "q_norm.weight", lambda w: w.unflatten(0, (H, -1)).flip(0).flatten()),
    ),
    "phi: biases of the q/k norms dropped": ("phi GQA, tied, q/k norms", lambda s: _zero(s, "q_norm.bias")),
    "glm: gate and up swapped": ("glm", lambda s: _swap(s, "mlp.gate", "mlp.up")),
    "glm4: norms after the sublayers swapped": ("glm4", lambda s: _swap(s, "after1", "after2")),
    "openai-gpt: norms of a block swapped": ("openai-gpt", lambda s: _swap(s, "norm1", "norm2")),
    "gemma4: scales of the layers in another order": ("gemma4 E2B", lambda s: _shifted(s, "scale", 4)),
    "gemma4: vectors of the layers in another order": (
        "gemma4 E2B",
        lambda s: _mapped(s, "entry_embed.weight", lambda w: w.roll(6, 1)),
    ),
    "gemma4: projected vectors of the layers in another order": (
        "gemma4 E2B",
        lambda s: _mapped(s, "entry_proj.weight", lambda w: w.roll(6, 0)),
    ),
    "gemma4: experts not scaled": ("gemma4 26B-A4B", lambda s: _mapped(s, "mlp.scales", torch.ones_like)),
    "gemma4: gains of experts and of the MLP beside them swapped": (
        "gemma4 26B-A4B",
        lambda s: _exchanged(s, "experts_gain", "shared_gain"),
    ),
    "gemma4: norms after experts and the MLP beside them swapped": (
        "gemma4 26B-A4B",
        lambda s: _exchanged(s, "experts_after.weight", "shared_after.weight"),
    ),
    "gemma4: router reads with the gain of the experts": (
        "gemma4 26B-A4B",
        lambda s: s.update({name.replace("experts_", "router_"): s[name] for name in s if "experts_gain" in name}),
    ),
    "apertus: factors above and below 0 swapped": ("apertus", lambda s: _exchanged(s, "act.alpha_p", "act.alpha_n")),
    "apertus: numbers of the activation in another layer": ("apertus", lambda s: _shifted(s, "mlp.act.alpha_p", 3)),
    "apertus: no slope": ("apertus", lambda s: _zero(s, "act.beta")),
    "lfm2_moe: offset of the choice dropped": ("lfm2_moe", lambda s: _zero(s, "mlp.offset")),
    "ernie4_5_moe: offset of the choice dropped": ("ernie4_5_moe", lambda s: _zero(s, "mlp.offset")),
    "granitemoeshared: gate and up swapped": ("granitemoeshared", lambda s: _swap(s, "shared.gate", "shared.up")),
    "mpt: q and v swapped": ("mpt", lambda s: _swap(s, "attn.q", "attn.v")),
}

# (case, shaken, the field and what it is mistaken for)
MORE_FIELDS: dict[str, tuple[str, bool, dict]] = {
    "nanochat: no cap": ("nanochat", True, {"logit_cap": None}),
    "nanochat: ReLU for its square": ("nanochat", True, {"mlp": "relu"}),
    "nanochat: embeddings not normed": ("nanochat", True, {"embed_norm": False}),
    "gpt_oss: window one longer": ("gpt_oss", True, {"window": 6}),
    "gpt_oss: windows in the other layers": ("gpt_oss", True, {"mixer": ("softmax", "sliding_window", "softmax")}),
    "gpt_oss: weights not divided": ("gpt_oss", True, {"divide_weights": False}),
    "gpt_oss: YaRN forgotten": ("gpt_oss yarn", True, {"rope_scaling": None}),
    "gpt_neo: scores divided": ("gpt_neo", True, {"score_multiplier": None}),
    "gpt_neo: window one shorter": ("gpt_neo", True, {"window": 4}),
    "gpt_neo: no window": ("gpt_neo", True, {"mixer": "softmax"}),
    "gptj: halves for adjacent pairs": ("gptj", True, {"rope_pairs": "halves"}),
    "gptj: all dimensions rotated": ("gptj", True, {"rotary_fraction": 1.0}),
    "phi: a third for a half": ("phi GQA, tied, q/k norms", True, {"rotary_fraction": 0.5}),
    "granite: embeddings not multiplied": ("granite", True, {"embed_multiplier": 1.0}),
    "granite: sublayers not multiplied": ("granite", True, {"residual_multiplier": 1.0}),
    "granite: scores divided by sqrt(d)": ("granite", True, {"score_multiplier": None}),
    "granite: logits multiplied, not divided": ("granite", True, {"logit_multiplier": 2.5}),
    "bloom: no ALiBi": ("bloom", True, {"positions": "none"}),
    "falcon: ALiBi not rounded": ("falcon ALiBi", True, {"alibi_rounded": False}),
    "dots1: weights not multiplied": ("dots1", True, {"expert_multiplier": 1.0}),
    "glm4_moe: softmax for sigmoids": ("glm4_moe", True, {"router_scores": "softmax"}),
    "biogpt: embeddings not multiplied": ("biogpt", True, {"embed_scale": False}),
    "jais2: ReLU for its square": ("jais2", True, {"mlp": "relu"}),
    "mpt: not clamped": ("mpt clamped, own scale", True, {"qkv_limit": None}),
    "mpt: own scale forgotten": ("mpt clamped, own scale", True, {"score_multiplier": None}),
    "gpt_bigcode: scores divided": ("gpt_bigcode MHA, not divided", True, {"score_multiplier": None}),
    "starcoder2: no window": ("starcoder2 window, no biases", True, {"mixer": "softmax"}),
    "cohere: halves for adjacent pairs": ("cohere", True, {"rope_pairs": "halves"}),
    "cohere: logits not multiplied": ("cohere", True, {"logit_multiplier": 1.0}),
    "cohere: RMSNorm of q and k": ("cohere biases, untied, q/k norms", True, {"qk_norm_kind": "rmsnorm"}),
    "stablelm: one norm over all heads": ("stablelm parallel, biases, tied, q/k norms", True, {"qk_norm_over": "all"}),
    "cohere2: all layers rotated": ("cohere2", True, {"unrotated": ()}),
    "glm: halves for adjacent pairs": ("glm", True, {"rope_pairs": "halves"}),
    "gemma4: values not normed": ("gemma4 E2B", True, {"v_norm": False}),
    "gemma4: embeddings not multiplied": ("gemma4 E2B", True, {"embed_scale": False}),
    "gemma4: scores divided": ("gemma4 31B", True, {"score_multiplier": None}),
    "gemma4: all pairs rotated": ("gemma4 31B", True, {"rope_scaling": None}),
    "gemma4: half of the pairs rotated": (
        "gemma4 31B",
        True,
        {"rope_scaling": RopeScaling(kind="proportional", factor=1.0, rotated=0.5)},
    ),
    "gemma4: no cap": ("gemma4 E2B", True, {"logit_cap": None}),
    "gemma4: weights of experts not divided": ("gemma4 26B-A4B", True, {"divide_weights": False}),
    "phimoe: softmax over all experts": ("phimoe", True, {"router_scores": "softmax"}),
    "phimoe: less noise": ("phimoe longrope, biases, window, more noise", True, {"router_jitter": 0.01}),
    "stablelm: eps 1e-6 for 1e-5": ("stablelm", False, {"norm_eps": 1e-6}),
}
