"""The optimizers of a recipe: AdamW for all parameters, or Muon for the matrices inside the layers and AdamW for the
rest.
"""

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import nn

OPTIMIZERS = ("adamw", "muon")
_UNDECAYED = ("bias", "A_log")  # the rates of a state space are stored as a matrix but are not one


class Several(torch.optim.Optimizer):
    """Several optimizers that step together, each with its own parameters.

    Their parameter groups are in one list, so that one loop sets the learning rate of all; a checkpoint holds the
    state of each.
    """

    def __init__(self, optimizers: list[torch.optim.Optimizer]) -> None:
        self.optimizers = optimizers
        super().__init__([group for each in optimizers for group in each.param_groups], {})
        self._share()

    def _share(self) -> None:
        """Collect the parameter groups, which are dicts modified in place, in one list."""
        self.param_groups = [group for each in self.optimizers for group in each.param_groups]

    def step(self, closure: Callable[[], Any] | None = None) -> None:
        """Perform one step of each optimizer; a closure is not supported."""
        if closure is not None:
            raise ValueError("several optimizers cannot share a closure")
        for each in self.optimizers:
            each.step()

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Reset all gradients to None or zero."""
        for each in self.optimizers:
            each.zero_grad(set_to_none)

    def state_dict(self) -> dict[str, Any]:
        """Return the states of all optimizers in order."""
        return {"several": [each.state_dict() for each in self.optimizers]}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Load the states of all optimizers. Raises ValueError if they belong to other optimizers."""
        for each, state in zip(self.optimizers, state_dict["several"], strict=True):
            each.load_state_dict(state)
        self._share()


def grouped(
    parameters: Iterator[tuple[str, nn.Parameter]], weight_decay: float
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Group the parameters by weight decay, which applies to matrices only. Loshchilov & Hutter 2019.

    Gu & Dao 2023 exempt the rates of a state space, too.
    """
    matrices, others = [], []
    for name, parameter in parameters:
        (matrices if parameter.ndim >= 2 and not name.endswith(_UNDECAYED) else others).append(parameter)
    return {"params": matrices, "weight_decay": weight_decay}, {"params": others, "weight_decay": 0.0}


def optimizer_for(
    model: nn.Module, name: str, *, learning_rate: float, betas: tuple[float, float], weight_decay: float
) -> torch.optim.Optimizer:
    """Create AdamW for all parameters or, for "muon", Muon for the matrices of the layers and AdamW for the rest.

    Muon makes the singular values of a matrix's momentum equal before it steps (Jordan et al. 2024). The update is
    scaled to the magnitude of AdamW's, so that one learning rate fits both (Liu et al. 2025, 2.2). Embeddings,
    position embeddings, the head, biases and norms remain with AdamW.
    """
    if name not in OPTIMIZERS:
        raise ValueError(f"optimizer must be one of {', '.join(OPTIMIZERS)}, got {name!r}")
    named = list(model.named_parameters())
    if name == "adamw":
        return torch.optim.AdamW(grouped(iter(named), weight_decay), lr=learning_rate, betas=betas, fused=True)
    inside = {each for each, parameter in named if _is_inner_matrix(each, parameter)}
    others = grouped((pair for pair in named if pair[0] not in inside), weight_decay)
    return Several(
        [
            torch.optim.Muon(
                [parameter for each, parameter in named if each in inside],
                lr=learning_rate,
                weight_decay=weight_decay,
                adjust_lr_fn="match_rms_adamw",
            ),
            torch.optim.AdamW(
                [group for group in others if group["params"]], lr=learning_rate, betas=betas, fused=True
            ),
        ]
    )


def _is_inner_matrix(name: str, parameter: nn.Parameter) -> bool:
    """Return whether a parameter is a matrix of a layer, not of an embedding, a position embedding or the head."""
    return parameter.ndim == 2 and name.startswith("blocks.") and not name.endswith(_UNDECAYED)
