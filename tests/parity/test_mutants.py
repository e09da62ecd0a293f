"""Deliberate mistakes in a converted model; the parity comparison must see every one of them."""

import dataclasses
import math
from collections.abc import Callable

import pytest
import torch

from model.gpt import layers, passes
from model.gpt.config import ModelConfig
from model.gpt.mixers import projection
from model.loading.checkpoint import build, load_folder
from tests.parity.common import D, G, H, compare, ids, save
from tests.parity.families import build_hf
from tests.parity.gated_mutants import GATED_FIELDS, GATED_WEIGHTS
from tests.parity.more_mutants import MORE_FIELDS, MORE_WEIGHTS

State = dict[str, torch.Tensor]


def _swap(state: State, one: str, other: str) -> None:
    for name in [name for name in state if f".{one}." in name]:
        twin = name.replace(f".{one}.", f".{other}.")
        state[name], state[twin] = state[twin], state[name]


def _zero(state: State, ending: str) -> None:
    for name in state:
        if name.endswith(ending):
            state[name] = torch.zeros_like(state[name])


def _transpose(state: State, ending: str) -> None:
    for name in state:
        if name.endswith(ending):
            state[name] = state[name].t().contiguous()


def _permute(state: State, name: str, n_head: int) -> None:
    """The rows as GGUF's llama architecture stores them."""
    for i in range(3):
        weight = state[f"blocks.{i}.attn.{name}.weight"]
        pairs = weight.unflatten(0, (n_head, 2, -1))
        state[f"blocks.{i}.attn.{name}.weight"] = pairs.transpose(1, 2).flatten(0, 2).contiguous()


def _stack_qkv(state: State) -> None:
    """GPT-NeoX's fused tensor split as if all of q came first."""
    for i in range(3):
        for kind in ("weight", "bias"):
            names = [f"blocks.{i}.attn.{part}.{kind}" for part in "qkv"]
            heads = torch.stack([state[name].unflatten(0, (H, -1)) for name in names], 1)  # [H, 3, E, ...]
            state |= zip(names, heads.flatten(0, 2).chunk(3), strict=True)


def _shift_positions(state: State) -> None:
    state["pos_embed.weight"] = state["pos_embed.weight"].roll(1, 0)


def _less(state: State, *parts: str) -> None:
    """Gains as Gemma's files have them, less 1."""
    for name in state:
        if any(part in name for part in parts):
            state[name] = state[name] - 1


def _roll_experts(state: State, part: str) -> None:
    """Every expert with the matrix of the one before it."""
    for name in state:
        if f"experts.{part}." in name:
            state[name] = state[name].roll(1, 0)


def _split_by_head(state: State) -> None:
    """Phi-3's fused tensor split as if it were interleaved by KV head, as in later families."""
    for i in range(3):
        names = [f"blocks.{i}.attn.{part}.weight" for part in "qkv"]
        groups = torch.cat([state[name] for name in names]).unflatten(0, (G, H // G + 2, -1))
        parts = groups.split((H // G, 1, 1), 1)
        state |= {name: part.flatten(0, 2).contiguous() for name, part in zip(names, parts, strict=True)}


# (case, what the mistake does to the weights); the models are shaken
WEIGHTS: dict[str, tuple[str, Callable[[State], None]]] = {
    "llama: norms of a block swapped": ("llama GQA", lambda s: _swap(s, "norm1", "norm2")),
    "gpt2: norms of a block swapped": ("gpt2", lambda s: _swap(s, "norm1", "norm2")),
    "gpt2: bias of q dropped": ("gpt2", lambda s: _zero(s, "attn.q.bias")),
    "gpt2: bias of v dropped": ("gpt2", lambda s: _zero(s, "attn.v.bias")),
    "gpt2: bias of the MLP dropped": ("gpt2", lambda s: _zero(s, "mlp.down.bias")),
    "gpt2: bias of a norm dropped": ("gpt2", lambda s: _zero(s, "norm2.bias")),
    "gpt2: square Conv1D not transposed": ("gpt2", lambda s: _transpose(s, "attn.o.weight")),
    "gpt2: positions shifted by one": ("gpt2", _shift_positions),
    "llama: q and k swapped": ("llama MHA", lambda s: _swap(s, "attn.q", "attn.k")),
    "llama: k and v swapped": ("llama GQA", lambda s: _swap(s, "attn.k", "attn.v")),
    "llama: gate and up swapped": ("llama GQA", lambda s: _swap(s, "mlp.gate", "mlp.up")),
    "llama: q left in GGUF order": ("llama GQA", lambda s: _permute(s, "q", H)),
    "llama: k left in GGUF order": ("llama GQA", lambda s: _permute(s, "k", G)),
    "llama: q and k left in GGUF order": (
        "llama GQA",
        lambda s: (_permute(s, "q", H), _permute(s, "k", G))[0],
    ),
    "qwen2: bias of k dropped": ("qwen2", lambda s: _zero(s, "attn.k.bias")),
    "qwen3: norms of q and k swapped": ("qwen3", lambda s: _swap(s, "attn.q_norm", "attn.k_norm")),
    "gpt_neox: q, k, v split as stacked": ("gpt_neox sequential", _stack_qkv),
    "gemma: gains without 1": ("gemma", lambda s: _less(s, "norm1", "norm2", "final_norm")),
    "gemma: gain of the final norm without 1": ("gemma", lambda s: _less(s, "final_norm")),
    "gemma3: gains of q and k without 1": ("gemma3", lambda s: _less(s, "q_norm", "k_norm")),
    "gemma2: norms after the sublayers swapped": ("gemma2", lambda s: _swap(s, "after1", "after2")),
    "gemma2: norms before and after swapped": ("gemma2", lambda s: _swap(s, "after1", "norm2")),
    "olmo2: norms swapped": ("olmo2", lambda s: _swap(s, "after1", "after2")),
    "mixtral: experts' gates in another order": ("mixtral", lambda s: _roll_experts(s, "gate")),
    "mixtral: w1 and w3 swapped": ("mixtral", lambda s: _swap(s, "experts.gate", "experts.up")),
    "qwen3_moe: experts in another order": ("qwen3_moe", lambda s: _roll_experts(s, "down")),
    "olmoe: gate and up swapped": ("olmoe", lambda s: _swap(s, "experts.gate", "experts.up")),
    "qwen2_moe: no gate of the shared expert": ("qwen2_moe", lambda s: _zero(s, "mlp.shared_gate.weight")),
    "phi3: gate and up swapped": ("phi3", lambda s: _swap(s, "mlp.gate", "mlp.up")),
    "phi3: q, k, v split by KV head": ("phi3", _split_by_head),
    **MORE_WEIGHTS,
    **GATED_WEIGHTS,
}

# (case, shaken, the field and what it is mistaken for); a wrong eps shows more with fresh weights.
FIELDS: dict[str, tuple[str, bool, dict]] = {
    "gpt2: erf for tanh GELU": ("gpt2", True, {"mlp": "gelu"}),
    "gpt2: eps 1e-6 for 1e-5": ("gpt2", False, {"norm_eps": 1e-6}),
    "llama: eps 1e-6 for 1e-5": ("llama MHA", False, {"norm_eps": 1e-6}),
    "llama: no RoPE at all": ("llama GQA", True, {"positions": "none"}),
    "llama: other theta": ("llama GQA", True, {"rope_theta": 100_000.0}),
    "llama 3: scaling forgotten": ("llama 3 rope", True, {"rope_scaling": None}),
    "gpt_neox: sequential for parallel": ("gpt_neox parallel", True, {"parallel_residual": False}),
    "gpt_neox: all dimensions rotated": ("gpt_neox parallel", True, {"rotary_fraction": 1.0}),
    "gpt_neox: tanh for erf GELU": ("gpt_neox parallel", True, {"mlp": "gelu_tanh"}),
    "mistral: window off by one": ("mistral", True, {"window": 6}),
    "mistral: no window": ("mistral", True, {"mixer": "softmax"}),
    "qwen2: windows in other layers": ("qwen2 windows", True, {"mixer": ("sliding_window", "softmax", "softmax")}),
    "gemma: erf for tanh GELU": ("gemma biases, legacy gelu, untied", True, {"mlp": "geglu"}),
    "gemma: embeddings not multiplied": ("gemma", True, {"embed_scale": False}),
    "gemma2: cap of scores forgotten": ("gemma2 small caps", True, {"score_cap": None}),
    "gemma2: cap of logits forgotten": ("gemma2 small caps", True, {"logit_cap": None}),
    "gemma2: scores by the head size": ("gemma2", True, {"score_multiplier": None}),
    "gemma3: local base ignored": ("gemma3", True, {"rope_theta_local": None}),
    "gemma3: local base scaled, too": ("gemma3 scaled, cap", True, {"rope_theta_local": None, "rope_theta": 300.0}),
    "llama: yarn forgotten": ("llama yarn", True, {"rope_scaling": None}),
    "mixtral: weights not divided": ("mixtral", True, {"divide_weights": False}),
    "olmoe: weights divided": ("olmoe", True, {"divide_weights": True}),
    "mixtral: fewer experts per token": ("mixtral", True, {"experts_per_token": 2}),
    "olmo: not clipped": ("olmo clipped, biases, tied", True, {"qkv_limit": None}),
    "smollm3: all layers rotate": ("smollm3", True, {"unrotated": ()}),
    "helium: halves rotated": ("helium", True, {"rope_pairs": "halves"}),
    "phi3: all dimensions rotated": (
        "phi3 longrope, part of a head",
        True,
        {"rotary_fraction": 1.0, "rope_scaling": None},
    ),
    **MORE_FIELDS,
    **GATED_FIELDS,
}


def _interleaved(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor, pairs: str) -> torch.Tensor:
    even, odd = x[..., 0::2], x[..., 1::2]
    return torch.stack((even * cos - odd * sin, odd * cos + even * sin), -1).flatten(-2)


def _repeat(k: torch.Tensor) -> torch.Tensor:
    """KV heads in the order 0 1 0 1 for the query heads, where 0 0 1 1 is right."""
    return k.repeat(1, H // k.shape[1], 1, 1)


def _wrong_scale(q: torch.Tensor, k: torch.Tensor) -> torch.Tensor:
    return layers.attention_scores(q * math.sqrt(q.shape[-1] / D), k)


# (case, {function of model.gpt.passes, or `rotate` of model.gpt.mixers.projection: what takes its place})
FUNCTIONS: dict[str, tuple[str, dict[str, Callable]]] = {
    "llama: RoPE on adjacent pairs": ("llama GQA", {"rotate": _interleaved}),
    "llama: RoPE turns the other way": (
        "llama GQA",
        {"rotate": lambda x, cos, sin, pairs: layers.rotate(x, cos, -sin)},
    ),
    "llama: scores divided by sqrt(d_model)": ("llama GQA", {"attention_scores": _wrong_scale}),
    "llama: query heads read the wrong KV heads": (
        "llama GQA",
        {
            "attention_scores": lambda q, k: layers.attention_scores(q, _repeat(k)),
            "mix": lambda pattern, v: layers.mix(pattern, _repeat(v)),
        },
    ),
    "llama: only the fused kernel reads the wrong KV heads": (
        "llama GQA",
        {
            "fused_attention": lambda q, k, v: layers.fused_attention(q, _repeat(k), _repeat(v)),
        },
    ),
}


@pytest.fixture(scope="module")
def loaded(tmp_path_factory) -> Callable[[str, bool], tuple]:
    """(transformers model, config, state) of a case, checked to agree while nothing is wrong."""
    made: dict = {}

    def load(case: str, shaken: bool) -> tuple:
        if (case, shaken) not in made:
            hf = build_hf(case, shaken)
            config, state = load_folder(save(hf, tmp_path_factory.mktemp("hf")))
            compare(build(config, state), hf, ids())
            made[case, shaken] = hf, config, state
        return made[case, shaken]

    return load


def _must_differ(config: ModelConfig, state: State, hf: torch.nn.Module) -> None:
    with pytest.raises(AssertionError, match="largest error"):
        compare(build(config, state), hf, ids())


@pytest.mark.parametrize("mutant", WEIGHTS)
def test_wrong_weights_are_seen(mutant, loaded):
    case, change = WEIGHTS[mutant]
    hf, config, state = loaded(case, True)
    wrong = dict(state)
    change(wrong)
    _must_differ(config, wrong, hf)


@pytest.mark.parametrize("mutant", FIELDS)
def test_wrong_fields_are_seen(mutant, loaded):
    case, shaken, change = FIELDS[mutant]
    hf, config, state = loaded(case, shaken)
    _must_differ(dataclasses.replace(config, **change), state, hf)


@pytest.mark.parametrize("mutant", FUNCTIONS)
def test_wrong_functions_are_seen(mutant, loaded, monkeypatch):
    case, change = FUNCTIONS[mutant]
    hf, config, state = loaded(case, True)
    for name, function in change.items():
        home = projection if name == "rotate" else passes
        assert hasattr(home, name)
        monkeypatch.setattr(home, name, function)
    _must_differ(config, state, hf)


@pytest.mark.parametrize("mutant", ["llama: norms of a block swapped", "gpt2: bias of q dropped"])
def test_fresh_weights_hide_these(mutant, loaded):
    """Why the weights are shaken: with transformers' own initialization these mistakes change nothing."""
    case, change = WEIGHTS[mutant]
    hf, config, state = loaded(case, False)
    wrong = dict(state)
    change(wrong)
    compare(build(config, wrong), hf, ids())
