"""The state of a run: the policy being trained, its frozen reference, the value head and the optimizer."""

from dataclasses import dataclass, field

import torch
from torch import Tensor, nn

from model.alignment.lora import Lora, adapted_beside, learned
from model.alignment.reinforcement.course import ADAPTED_RATE, CourseSettings
from model.gpt import linear
from model.gpt.transformer import Transformer
from model.loading.checkpoint import build

_BETAS = (0.9, 0.95)
_GRADIENT = 1.0  # largest norm
_GAIN = 1.0  # gain of the adaptive coefficient; Ziegler et al. 2019 use 0.1 for runs of thousands of steps
_HEAD_RATE = 10.0  # factor on the learning rate for the value head, which starts from zero


@dataclass(eq=False)
class Learner:
    """State of a run."""

    policy: Transformer
    reference: Transformer
    head: nn.Linear  # values from the last hidden state, as the unembedding reads it (PPO)
    optimizer: torch.optim.Optimizer
    coefficient: float
    step: int = 0  # updates done
    good: list[Tensor] = field(default_factory=list)  # trained parameters of the last policy with finite values
    good_step: int = 0  # updates that it had

    def __post_init__(self) -> None:
        self.good = self.good or [parameter.detach().clone() for parameter in learned(self.policy)]

    @torch.no_grad()
    def remember(self) -> None:
        """Save the learned parameters as they are now."""
        for kept, parameter in zip(self.good, learned(self.policy), strict=True):
            kept.copy_(parameter)
        self.good_step = self.step

    @torch.no_grad()
    def restore(self) -> None:
        """Restore the saved parameters, or those of the reference if none were saved."""
        for kept, parameter in zip(self.good, learned(self.policy), strict=True):
            parameter.copy_(kept)
        self.step = self.good_step


def start(reference: Transformer, course: CourseSettings, lora: Lora | None = None) -> Learner:
    """Return a policy that begins as the reference, a value head that predicts 0, and Adam. The reference is unchanged.

    With `lora` the policy is the reference's own weights with adapters, and only these are trained (Hu et al. 2021).
    There is no weight decay: the weights should stay near the reference, not near 0.
    """
    policy = trainable(reference) if lora is None else adapted_beside(reference, lora, course.seed)
    linear.tune(policy)
    head = nn.Linear(reference.config.d_model, 1)
    nn.init.zeros_(head.weight)
    nn.init.zeros_(head.bias)
    whole_rate = course.learning_rate / (1.0 if lora is None else ADAPTED_RATE)  # the head has no adapters
    groups = [
        {"params": learned(policy), "lr": course.learning_rate},
        {"params": list(head.parameters()), "lr": whole_rate * _HEAD_RATE},
    ]
    optimizer = torch.optim.Adam(groups, betas=_BETAS, fused=True)
    return Learner(policy, reference, head, optimizer, course.coefficient)


def trainable(model: Transformer) -> Transformer:
    """Return a copy with its own parameters, which have gradients."""
    copy = build(model.config, {name: tensor.detach().clone() for name, tensor in model.state_dict().items()})
    for parameter in copy.parameters():
        parameter.requires_grad_(True)
    return copy


def descend(learner: Learner, loss: Tensor) -> float:
    """Take one step of Adam down the loss; returns the norm of the gradient before clipping.

    Raises FloatingPointError, leaving the weights unchanged, if loss or gradient are not finite.
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
    """Return the next coefficient: higher if KL is above its target, lower if below, by at most a fifth of the gain.

    beta (1 + gain clip(kl / target - 1, -0.2, 0.2)): Ziegler et al. 2019, 2.2. KL and target in nats per text.
    """
    if target <= 0:
        return coefficient
    return coefficient * (1 + gain * min(max(kl / target - 1, -0.2), 0.2))
