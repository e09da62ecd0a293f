"""All attention maps of a model at once, for models small enough to keep them in memory."""

import torch
from torch import Tensor

from model.gpt.transformer import Transformer


def patterns_and_logits(model: Transformer, ids: Tensor) -> tuple[Tensor, Tensor]:
    """Compute every head's weights, as in `Trace.pattern`, and all logits. ids [T] -> [L, H, T, T] and [T, V]"""
    patterns: dict[int, Tensor] = {}

    def see(layer: int, weights: Tensor) -> None:
        patterns[layer] = weights[0].clone()

    def keep(site: str, layer: int, tensor: Tensor) -> Tensor:
        if site == "pattern":
            see(layer, tensor)
        return tensor

    logits = model.logits(model.trunk(ids[None], tap=keep, see=see))[0].float()
    return torch.stack([patterns[layer] for layer in range(model.config.n_layer)]), logits
