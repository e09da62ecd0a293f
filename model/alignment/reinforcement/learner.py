"""The state of a run: the policy being trained, the frozen reference, the value head and the optimizer."""

from dataclasses import dataclass, field

import torch
from torch import Tensor, nn

from model.alignment.lora import Lora, adapted_beside, learned
from model.alignment.reinforcement.course import ADAPTED_RATE, CourseSettings
from model.gpt import linear
from model.gpt.mixers.needs import need_next
from model.gpt.transformer import Transformer
from model.loading.checkpoint import build

_BETAS = (0.9, 0.95)
_GRADIENT = 1.0  # maximum gradient norm
_GAIN = 1.0  # gain of the adaptive coefficient; Ziegler et al. 2019 use 0.1 for runs of thousands of steps
_HEAD_RATE = 10.0  # factor on the learning rate for the value head, which is initialized to zero


@dataclass(eq=False)
class Learner:
    """State of a run: models, optimizer, KL coefficient, and the last finite parameters."""

    policy: Transformer
    reference: Transformer
    head: nn.Linear  # value head on the final states that enter the unembedding (PPO)
    optimizer: torch.optim.Optimizer
    coefficient: float
    step: int = 0  # number of updates so far
    good: list[Tensor] = field(default_factory=list)  # parameters of the last policy with finite values
    good_step: int = 0  # its number of updates

    def __post_init__(self) -> None:
        self.good = self.good or [parameter.detach().clone() for parameter in learned(self.policy)]

    @torch.no_grad()
    def remember(self) -> None:
        """Save a copy of the current trainable parameters."""
        for kept, parameter in zip(self.good, learned(self.policy), strict=True):
            kept.copy_(parameter)
        self.good_step = self.step

    @torch.no_grad()
    def restore(self) -> None:
        """Restore the last saved parameters, initially those of the reference."""
        for kept, parameter in zip(self.good, learned(self.policy), strict=True):
            parameter.copy_(kept)
        self.step = self.good_step


def start(reference: Transformer, course: CourseSettings, lora: Lora | None = None) -> Learner:
    """Return the initial state: a policy equal to the reference, a value head that predicts 0, and Adam. The reference
    is unchanged.

    With `lora`, the policy shares the reference's weights and only its adapters are trained (Hu et al. 2021). There is
    no weight decay: the weights should stay near the reference, not near 0.
    """
    need_next(reference.config)
    policy = trainable(reference) if lora is None else adapted_beside(reference, lora, course.seed)
    linear.tune(policy)
    head = nn.Linear(reference.config.d_model, 1)
    nn.init.zeros_(head.weight)
    nn.init.zeros_(head.bias)
    whole_rate = course.learning_rate / (1.0 if lora is None else ADAPTED_RATE)  # the value head has no adapters
    groups = [
        {"params": learned(policy), "lr": course.learning_rate},
        {"params": list(head.parameters()), "lr": whole_rate * _HEAD_RATE},
    ]
    optimizer = torch.optim.Adam(groups, betas=_BETAS, fused=True)
    return Learner(policy, reference, head, optimizer, course.coefficient)


def trainable(model: Transformer) -> Transformer:
    """Return a copy of the model with trainable parameters of its own."""
    copy = build(model.config, {name: tensor.detach().clone() for name, tensor in model.state_dict().items()})
    for parameter in copy.parameters():
        parameter.requires_grad_(True)
    return copy


def descend(learner: Learner, loss: Tensor) -> float:
    """Take one Adam step on the loss. Returns the gradient norm before clipping.

    Raises FloatingPointError and leaves the weights unchanged if the loss or its gradient is not finite.
    """
    learner.optimizer.zero_grad(set_to_none=True)
    loss.backward()
    parameters = [parameter for group in learner.optimizer.param_groups for parameter in group["params"]]
    norm = float(nn.utils.clip_grad_norm_(parameters, _GRADIENT))
    if not torch.isfinite(loss.detach()) or not norm < float("inf"):
        raise FloatingPointError("the loss or its gradient is not finite")
    learner.optimizer.step()
    return norm


def adapted(coefficient: float, kl: float, target: float, gain: float = _GAIN) -> float:
    """Compute the next coefficient: higher if KL is above its target, lower if below, by a factor between 1 - 0.2 gain
    and 1 + 0.2 gain.

    beta (1 + gain clip(kl / target - 1, -0.2, 0.2)): Ziegler et al. 2019, 2.2. KL and target are in nats per text; a
    target of 0 keeps the coefficient constant.
    """
    if target <= 0:
        return coefficient
    return coefficient * (1 + gain * min(max(kl / target - 1, -0.2), 0.2))
