"""The MLP of a layer, with or without a gate."""

from collections.abc import Callable
from typing import NoReturn

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from model.errors import InputError
from model.gpt.config import ModelConfig
from model.gpt.layers import CLAMP, MLPS, xielu
from model.gpt.linear import Linear, joined
from model.gpt.passes import Pass


class XIELU(nn.Module):
    """The activation xIELU with the numbers of its layer; softplus makes its two factors of `alpha_p` and `alpha_n`."""

    def __init__(self) -> None:
        super().__init__()
        self.beta = nn.Parameter(torch.tensor([0.5]))
        self.eps = nn.Parameter(torch.tensor([-1e-6]))
        self.alpha_p = nn.Parameter(torch.tensor([0.8]).expm1().log())
        self.alpha_n = nn.Parameter(torch.tensor([0.8 - 0.5]).expm1().log())

    def forward(self, x: Tensor) -> Tensor:
        return xielu(x, F.softplus(self.alpha_p), self.beta + F.softplus(self.alpha_n), self.beta, self.eps)


class MLP(nn.Module):
    """The MLP down(f(up(x))), or with a gate: down(f(gate(x)) * up(x))."""

    def __init__(self, config: ModelConfig, width: int | None = None) -> None:
        super().__init__()
        D, M, bias = config.d_model, width or config.d_mlp, config.mlp_bias
        self.act = XIELU() if config.mlp == "xielu" else MLPS[config.mlp]
        self.factor = config.residual_multiplier
        self.clamps = config.mlp == "swiglu_clamped"
        self.gate = Linear(D, M, bias) if config.gated else None
        self.up = Linear(D, M, bias)
        self.down = Linear(M, D, bias)
        self.joint: tuple[Linear, ...] = ()  # gate and up as one; a tuple, so that no parameter is registered twice

    def parts(self) -> tuple[Linear, ...]:
        """Return the parts of `joint`, in the same order."""
        return (self.up,) if self.gate is None else (self.gate, self.up)

    def forward(self, x: Tensor, layer: int, run: Pass) -> Tensor:
        if run.tap is None and not torch.is_grad_enabled() and (joint := joined(self)):
            gate, up = joint(x).chunk(2, -1)
            post = through_gate(self.act, gate, up, True) if self.clamps else self.act(gate).mul_(up)
            return self._scaled(self.down(post))
        if self.gate is None:
            post = self.act(run.at("mlp_pre", layer, self.up(x)))  # [B, T, M]
        else:
            gate, up = run.at("mlp_pre", layer, self.gate(x)), run.at("mlp_up", layer, self.up(x))
            post = through_gate(self.act, gate, up, self.clamps)
        return run.at("mlp_out", layer, self._scaled(self.down(run.at("mlp_post", layer, post))))

    def _scaled(self, out: Tensor) -> Tensor:
        return out if self.factor == 1 else out * self.factor


def through_gate(act: Callable[[Tensor], Tensor], gate: Tensor, up: Tensor, clamps: bool) -> Tensor:
    """Compute f(gate) * up; with `clamps`, f(min(gate, CLAMP)) * (up between -CLAMP and CLAMP, plus 1), as in gpt-oss.
    [..., M]
    """
    if not clamps:
        return act(gate) * up
    return act(gate.clamp(max=CLAMP)) * (up.clamp(-CLAMP, CLAMP) + 1)


class NoMLP(nn.Module):
    """The place of the MLP in a layer without one, as in Mamba: it adds 0 to the stream."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self._some = config.mlp != "none"

    @property
    def gate(self) -> NoReturn:
        """Not available. Raises InputError, as do `up` and `down`."""
        raise has_no_mlp(self._some)

    up = down = gate

    def forward(self, x: Tensor, layer: int, run: Pass) -> Tensor:
        return run.at("mlp_out", layer, torch.zeros_like(x))


def has_no_mlp(some: bool = False) -> InputError:
    """Build the error of functions that require MLPs, for a model in which no layer, or not every one, has one."""
    if some:
        what = "This needs an MLP in every layer; some layers of this model have none."
        return InputError(what, "", "Choose a model with MLPs.")
    return InputError("This needs MLPs; the layers of this model have none.", "", "Choose a model with MLPs.")
