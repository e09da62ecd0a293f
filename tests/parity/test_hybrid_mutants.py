"""Deliberate mistakes in converted models with Mamba 2 layers; the parity comparison must see every one of them."""

import dataclasses
from collections.abc import Callable

import pytest
import torch

from model.loading.checkpoint import build, load_folder
from tests.parity.common import ids, save
from tests.parity.test_hybrids_parity import build_hf, compare

State = dict[str, torch.Tensor]


def _zero(state: State, ending: str) -> None:
    for name in state:
        if name.endswith(ending):
            state[name] = torch.zeros_like(state[name])


def _times(state: State, ending: str, by: float) -> None:
    for name in state:
        if name.endswith(ending):
            state[name] = state[name] * by


def _roll(state: State, ending: str) -> None:
    for name in state:
        if name.endswith(ending):
            state[name] = state[name].roll(1, 0)


def _swap_b_and_c(state: State) -> None:
    """B and C of the first Mamba 2 case in each other's place: 16 channels each, after 96 of the gate and 96 of x."""
    for name in state:
        if name.endswith(("conv.weight", "conv.bias", "in_proj.weight")):
            first = 192 if "in_proj" in name else 96
            b, c = (state[name][at : at + 16].clone() for at in (first, first + 16))
            state[name][first : first + 32] = torch.cat((c, b))


SCALED = "falcon_h1 multipliers, biases"
# (case, what the mistake does to the weights)
WEIGHTS: dict[str, tuple[str, Callable[[State], None]]] = {
    "mamba2: D dropped": ("mamba2", lambda s: _zero(s, "attn.D")),
    "mamba2: rates of other heads": ("mamba2", lambda s: _roll(s, "attn.A_log")),
    "mamba2: bias of the step sizes dropped": ("mamba2", lambda s: _zero(s, "attn.dt_bias")),
    "mamba2: bias of the convolution dropped": ("mamba2", lambda s: _zero(s, "attn.conv.bias")),
    "mamba2: convolution one token late": ("mamba2", lambda s: s.update(_shifted(s))),
    "mamba2: B and C swapped": ("mamba2", _swap_b_and_c),
    "mamba2: bias of the input projection dropped": ("mamba2 biases, tied", lambda s: _zero(s, "in_proj.bias")),
    "mamba2: bias of the output dropped": ("mamba2 biases, tied", lambda s: _zero(s, "attn.o.bias")),
    "nemotron_h: gain of the norm of another channel": ("nemotron_h", lambda s: _roll(s, "attn.norm.weight")),
    "nemotron_h: MLPs of other layers": ("nemotron_h", lambda s: s.update(_other_mlps(s))),
    "nemotron_h: offsets of other experts": ("nemotron_h experts", lambda s: _roll(s, "mlp.offset")),
    "falcon_h1: no Mamba 2 beside": ("falcon_h1", lambda s: _zero(s, "beside.o.weight")),
    "falcon_h1: keys not multiplied": (SCALED, lambda s: _times(s, "attn.k.weight", 1 / 0.3)),
    "falcon_h1: bias of keys not multiplied": (SCALED, lambda s: _times(s, "attn.k.bias", 1 / 0.3)),
    "falcon_h1: bias of queries multiplied": (SCALED, lambda s: _times(s, "attn.q.bias", 0.9)),
    "falcon_h1: bias of the projection multiplied twice": (SCALED, lambda s: _times(s, "in_proj.bias", 1.3)),
    "falcon_h1: output not multiplied": (SCALED, lambda s: _times(s, "beside.o.weight", 1 / 0.6)),
    "falcon_h1: MLP not multiplied": (SCALED, lambda s: _times(s, "mlp.down.weight", 5.0)),
}
# (case, the field and what it is mistaken for)
FIELDS: dict[str, tuple[str, dict]] = {
    "mamba2: one group": ("mamba2", {"ssm_groups": 1, "d_state": 16}),
    "mamba2: norm before the gate": ("mamba2", {"ssm_norm": "before_gate"}),
    "mamba2: no maximum": ("mamba2 limits", {"dt_max": None}),
    "mamba2: no minimum": ("mamba2 limits", {"dt_min": 0.0}),
    "mamba2: other eps": ("mamba2 biases, tied", {"norm_eps": 1e-2}),
    "nemotron_h: SiLU for the square of ReLU": ("nemotron_h", {"mlp": "silu"}),
    "nemotron_h: softmax for sigmoids": ("nemotron_h experts", {"router_scores": "softmax"}),
    "nemotron_h: weights not multiplied": ("nemotron_h experts", {"expert_multiplier": 1.0}),
    "nemotron_h: weights not divided": ("nemotron_h experts", {"divide_weights": False}),
    "falcon_h1: norm before the gate": ("falcon_h1 norm", {"ssm_norm": "before_gate"}),
    "falcon_h1: norm after the gate": ("falcon_h1 norm before gate", {"ssm_norm": "after_gate"}),
    "falcon_h1: embeddings not multiplied": (SCALED, {"embed_multiplier": 1.0}),
    "falcon_h1: logits not multiplied": (SCALED, {"logit_multiplier": 1.0}),
    "bamba: whole heads rotated": ("bamba", {"rotary_fraction": 1.0}),
    "granite hybrid: no positions": ("granite hybrid", {"positions": "none"}),
    "granite hybrid: sublayers not multiplied": ("granite hybrid", {"residual_multiplier": 1.0}),
    "granite hybrid: an expert too few": ("granite hybrid experts", {"experts_per_token": 3}),
}


def _shifted(state: State) -> State:
    return {name: x.roll(1, 1) for name, x in state.items() if name.endswith("attn.conv.weight")}


def _other_mlps(state: State) -> State:
    names = [name for name in state if name.endswith("mlp.up.weight")]
    return {name: state[other] for name, other in zip(names, names[1:] + names[:1], strict=True)}


@pytest.fixture(scope="module")
def loaded(tmp_path_factory) -> Callable[[str], tuple]:
    """(transformers model, config, state) of a case, checked to agree while nothing is wrong."""
    made: dict = {}

    def load(case: str) -> tuple:
        if case not in made:
            hf = build_hf(case, shaken=True)
            config, state = load_folder(save(hf, tmp_path_factory.mktemp("hf")))
            compare(build(config, state), hf, ids())
            made[case] = hf, config, state
        return made[case]

    return load


@pytest.mark.parametrize("mistake", WEIGHTS)
def test_a_wrong_weight_is_seen(mistake, loaded):
    case, change = WEIGHTS[mistake]
    hf, config, state = loaded(case)
    wrong = {name: x.clone() for name, x in state.items()}
    change(wrong)
    with pytest.raises(AssertionError, match="largest error"):
        compare(build(config, wrong), hf, ids())


@pytest.mark.parametrize("mistake", FIELDS)
def test_a_wrong_field_is_seen(mistake, loaded):
    case, changes = FIELDS[mistake]
    hf, config, state = loaded(case)
    with pytest.raises(AssertionError, match="largest error"):
        compare(build(dataclasses.replace(config, **changes), state), hf, ids())
