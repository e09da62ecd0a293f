"""LoRA: a frozen matrix plus a learned product of two small matrices. Hu et al. 2021."""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from model.errors import InputError
from model.gpt.linear import Linear
from model.gpt.transformer import Transformer
from model.loading.checkpoint import build
from model.public import MOST_SEED, above, one_of, public, whole
from model.training.loop import Recipe, TrainingRun, go_on, read_state, reading, write_state

# {option: names of the adapted layers of a block}. Hu et al. 2021 adapt q and v (section 4.2).
MATRICES: dict[str, tuple[str, ...]] = {
    "qv": ("q", "v"),
    "attention": ("q", "k", "v", "o"),
    "mlp": ("gate", "up", "down"),
    "all": ("q", "k", "v", "o", "gate", "up", "down"),
}
MOST_RANK = 64


@public(rank=whole(1, MOST_RANK), alpha=above(0), matrices=one_of(MATRICES))
@dataclass(frozen=True)
class Lora:
    """Settings of low-rank adapters. Raises InputError for values out of range and unknown matrices."""

    rank: int = 8
    alpha: float = 16.0
    matrices: str = "qv"


class Adapted(nn.Module):
    """y = x W^T + b + (alpha / r) x A^T B^T; W and b are frozen. x [..., in] -> [..., out].

    `a` is A [r, in], initialized at random, and `b` is B [out, r], initialized to zero, so that the initial model is
    unchanged.
    """

    def __init__(self, base: Linear, lora: Lora, generator: torch.Generator) -> None:
        super().__init__()
        d_out, d_in = base.weight.shape
        self.base, self.scale = base, lora.alpha / lora.rank
        self.a = nn.Parameter(torch.randn(lora.rank, d_in, generator=generator) / math.sqrt(d_in))
        self.b = nn.Parameter(torch.zeros(d_out, lora.rank))

    def forward(self, x: Tensor) -> Tensor:
        return self.base(x) + self.scale * F.linear(F.linear(x, self.a), self.b)

    @torch.no_grad()
    def merged(self) -> Tensor:
        """Return W + (alpha / r) B A [out, in], the single matrix equivalent to base and adapter. Computed in float64,
        then rounded.
        """
        update = self.scale * (self.b.double() @ self.a.double())
        return (self.base.weight.double() + update).to(self.base.weight.dtype)


@public(seed=whole(0, MOST_SEED))
def adapt(model: Transformer, lora: Lora, seed: int = 0) -> int:
    """Freeze a model and add adapters to the chosen matrices of every block, in place. Returns the number of trainable
    parameters.

    Raises InputError if the model has none of these matrices.
    """
    for parameter in model.parameters():
        parameter.requires_grad_(False)
    generator, names = torch.Generator().manual_seed(seed), MATRICES[lora.matrices]
    for block in model.blocks:
        for part in (block.attn, block.mlp):
            for name in names:
                layer = getattr(part, name, None)
                if isinstance(layer, Linear):
                    setattr(part, name, Adapted(layer, lora, generator))
            part.joint = ()  # fused matrices would bypass the adapters
    if not learned(model):
        raise InputError("This model does not have the matrices to adapt.", ", ".join(names), "Choose other matrices.")
    return count(learned(model))


def adapted_beside(model: Transformer, lora: Lora, seed: int = 0) -> Transformer:
    """Return a second model with adapters that shares the weights of the first, which is unchanged.

    With its adapters disabled, the second model computes the same as the first. Raises InputError as `adapt` does.
    """
    beside = build(model.config, model.state_dict())
    adapt(beside, lora, seed)
    return beside


def learned(model: nn.Module) -> list[nn.Parameter]:
    """Return the trainable parameters."""
    return [parameter for parameter in model.parameters() if parameter.requires_grad]


def count(parameters: Iterable[nn.Parameter]) -> int:
    """Count the elements of the given parameters."""
    return sum(parameter.numel() for parameter in parameters)


def adapters(model: nn.Module) -> Iterator[tuple[str, Adapted]]:
    """Yield (name, layer) for each adapted linear layer."""
    return ((name, module) for name, module in model.named_modules() if isinstance(module, Adapted))


def adapter_state(model: nn.Module) -> dict[str, Tensor]:
    """Return the trained matrices by name: everything that must be stored in addition to the base model."""
    return {
        f"{name}.{which}": getattr(module, which).detach() for name, module in adapters(model) for which in ("a", "b")
    }


def start(model: Transformer, lora: Lora, recipe: Recipe) -> TrainingRun:
    """Return a run that trains only adapters, by AdamW with the recipe's weight decay on all of them."""
    adapt(model, lora, recipe.seed)
    betas, decay = (recipe.beta1, recipe.beta2), recipe.weight_decay
    return TrainingRun(
        model, torch.optim.AdamW(learned(model), lr=recipe.learning_rate, betas=betas, weight_decay=decay)
    )


def save_run(path: Path, run: TrainingRun, lora: Lora, recipe: Recipe) -> None:
    """Save the state of an adapter run, without the base weights."""
    state = {
        "lora": vars(lora),
        "recipe": vars(recipe),
        "step": run.step,
        "tokens": run.tokens,
        "adapters": adapter_state(run.model),
        "optimizer": run.optimizer.state_dict(),
    }
    write_state(path, state)


def load_run(path: Path, model: Transformer, lora: Lora, recipe: Recipe) -> TrainingRun:
    """Load a run saved by `save_run` into its base model, in place, to continue with the given recipe.

    Raises CheckpointError for a file that is not such a run, InputError if its adapters have other settings.
    """
    with reading(path):
        state = read_state(path)
        if state["lora"] != vars(lora):
            got = ", ".join(f"{name} {value}" for name, value in state["lora"].items())
            raise InputError("The run uses other adapters.", got[:80], "Give the same rank, alpha and matrices.")
        run = start(model, lora, recipe)
        model.load_state_dict(model.state_dict() | _fitting(model, state["adapters"]))
        go_on(run, state)
    return run


def _fitting(model: Transformer, state: dict[str, Tensor]) -> dict[str, Tensor]:
    """Return the adapters if they are complete and have the model's shapes; raises ValueError otherwise."""
    shapes = {name: tensor.shape for name, tensor in adapter_state(model).items()}
    if {name: tensor.shape for name, tensor in state.items()} != shapes:
        raise ValueError("the adapters do not fit the model")
    return state


def merged(model: Transformer) -> Transformer:
    """Return a plain model with the adapters merged into the weights; its outputs are equal up to rounding."""
    state = {name: tensor for name, tensor in model.state_dict().items() if not name.endswith((".a", ".b"))}
    state = {name.replace(".base.", "."): tensor for name, tensor in state.items()}
    state |= {f"{name}.weight": module.merged() for name, module in adapters(model)}
    return build(model.config, state)


def adapted_parameters(shapes: Sequence[tuple[int, int]], rank: int) -> int:
    """Count the parameters of rank-r adapters on matrices [out, in]: r (in + out) each. Hu et al. 2021, section 4.1."""
    return sum(rank * (d_out + d_in) for d_out, d_in in shapes)
