"""Deliberate mistakes in converted models with gated states: what the conversion or a field of each could get wrong."""

from collections.abc import Callable

import torch

from tests.parity.common import H

State = dict[str, torch.Tensor]
Change = Callable[[torch.Tensor], torch.Tensor]


def _mapped(ending: str, change: Change) -> Callable[[State], None]:
    def mutate(state: State) -> None:
        for name in state:
            if name.endswith(ending):
                state[name] = change(state[name]).contiguous()

    return mutate


def _swapped(one: str, other: str) -> Callable[[State], None]:
    def mutate(state: State) -> None:
        for name in [name for name in state if name.endswith(one)]:
            twin = name.removesuffix(one) + other
            if twin in state:
                state[name], state[twin] = state[twin], state[name]

    return mutate


def _stacked(state: State) -> None:
    """q and the gate of the output split as if all of q came first."""
    for name in [name for name in state if name.endswith("attn.gate.weight") and len(state[name]) == 16 * H]:
        q = name.replace(".gate.", ".q.")
        if q in state:
            heads = torch.stack([state[each].unflatten(0, (H, -1)) for each in (q, name)], 1)
            state[q], state[name] = (part.contiguous() for part in heads.flatten(0, 2).chunk(2))


def _zeros(x: torch.Tensor) -> torch.Tensor:
    return torch.zeros_like(x)


# (case, what the mistake does to the weights); the models are shaken
GATED_WEIGHTS: dict[str, tuple[str, Callable[[State], None]]] = {
    "qwen3_next: gate of the output split from q in the middle": ("qwen3_next", _stacked),
    "qwen3_next: beta and decay swapped": ("qwen3_next", _swapped("attn.beta.weight", "attn.forget.weight")),
    "qwen3_next: convolution backwards": ("qwen3_next", _mapped("attn.conv.weight", lambda w: w.flip(1))),
    "qwen3_next: no bias of the step sizes": ("qwen3_next", _mapped("attn.dt_bias", _zeros)),
    "qwen3_next: rates of the next state": ("qwen3_next", _mapped("attn.A_log", lambda w: w.roll(1))),
    "qwen3_next: gain of the states' norm plus 1": ("qwen3_next", _mapped("attn.out_norm.weight", lambda w: w + 1)),
    "qwen3_next: gains without 1": ("qwen3_next", _mapped("norm1.weight", lambda w: w - 1)),
    "qwen3_5: rows of q, k and v in another order": ("qwen3_5", _mapped("attn.qkv.weight", lambda w: w.roll(10, 0))),
    "qwen3_5: no gate of the states": ("qwen3_5", _mapped("attn.gate.weight", _zeros)),
    "lfm2: gates of the convolution swapped": (
        "lfm2",
        _mapped("attn.in_proj.weight", lambda w: torch.cat([w.chunk(3)[at] for at in (1, 0, 2)])),
    ),
    "lfm2: convolution backwards": ("lfm2", _mapped("attn.conv.weight", lambda w: w.flip(1))),
    "lfm2: no bias of the convolution": (
        "lfm2 biases, width derived, untied",
        _mapped("attn.conv.bias", _zeros),
    ),
    "lfm2: w1 and w3 swapped": ("lfm2", _swapped("mlp.gate.weight", "mlp.up.weight")),
    "vaultgemma: gains without 1": ("vaultgemma", _mapped("norm2.weight", lambda w: w - 1)),
}

# (case, shaken, the field and what it is mistaken for)
GATED_FIELDS: dict[str, tuple[str, bool, dict]] = {
    "qwen3_next: all dimensions rotated": ("qwen3_next", True, {"rotary_fraction": 1.0}),
    "qwen3_next: weights not divided": ("qwen3_next", True, {"divide_weights": False}),
    "vaultgemma: no cap of scores": ("vaultgemma", True, {"score_cap": None}),
    "vaultgemma: scores by the head size": ("vaultgemma", True, {"score_multiplier": None}),
    "ministral3: no scaling": ("ministral3", True, {"rope_scaling": None}),
    "gemma3: local base ignored in a text part": ("gemma3 text part", True, {"rope_theta_local": None}),
}
