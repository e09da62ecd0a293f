"""Settings of a reinforcement learning run, and the defaults of each method."""

from dataclasses import dataclass

from model.arguments import check_number, check_whole, shown
from model.errors import InputError, say

ADAPTED_RATE = 10.0  # factor on the learning rate for LoRA
METHODS = ("reinforce", "ppo", "grpo", "dpo", "best_of_n")
RATES = (1e-7, 10.0)  # bounds on the learning rate, high enough to demonstrate divergence
MOST_STEPS, MOST_TEXTS, MOST_NEW, MOST_PROMPTS = 500, 256, 128, 32
MOST_SEED = 1_000_000_000


@dataclass(frozen=True, kw_only=True)
class CourseSettings:
    """Settings of a run; a method ignores those that it does not use.

    Raises InputError for an unknown method and for values out of range.
    """

    method: str = "ppo"  # one of METHODS
    steps: int = 10  # updates of the policy; for best_of_n, the largest n is 2^steps
    texts: int = 64  # texts generated at each step
    group: int = 16  # texts per prompt
    new_tokens: int = 40  # maximum tokens of each text
    learning_rate: float = 1e-4
    coefficient: float = 0.05  # beta, the weight of KL(policy || reference); 0: no KL penalty
    target: float = 0.0  # target KL in nats per text of the adaptive coefficient (PPO); 0: constant coefficient
    epochs: int = 2  # passes over the texts of a step (PPO, GRPO)
    minibatches: int = 2  # updates per pass
    clip: float = 0.2  # clipping range of the probability ratio and of the change of the value
    gamma: float = 1.0
    lam: float = 0.95
    value_weight: float = 0.1  # weight of the value loss relative to the policy loss (PPO)
    pairs: int = 64  # pairs built from the reference's texts by a reward if none are given (DPO)
    seed: int = 0

    def __post_init__(self) -> None:
        if self.method not in METHODS:
            hint = say("Choose one of: {}.", ", ".join(METHODS))
            raise InputError("No method has this name.", shown(self.method), hint)
        for name, low, high in (
            ("steps", 1, MOST_STEPS),
            ("texts", 2, MOST_TEXTS),
            ("group", 2, MOST_TEXTS),
            ("new_tokens", 1, MOST_NEW),
            ("epochs", 1, 8),
            ("minibatches", 1, 16),
            ("pairs", 1, 1024),
            ("seed", 0, MOST_SEED),
        ):
            check_whole(name, getattr(self, name), low, high)
        for name, least, most in (
            ("learning_rate", *RATES),
            ("coefficient", 0.0, 10.0),
            ("target", 0.0, 1000.0),
            ("clip", 0.01, 10.0),
            ("gamma", 0.0, 1.0),
            ("lam", 0.0, 1.0),
            ("value_weight", 0.0, 10.0),
        ):
            check_number(name, getattr(self, name), least, most)
        if self.texts % self.group:
            got = f"{self.texts} texts, groups of {self.group}"
            raise InputError(
                "The number of texts is not a multiple of the group size.", got, "Choose a multiple of the group size."
            )


# Defaults of each method, chosen by measurements on tinygpt (benchmarks/RESULTS.md).
DEFAULTS: dict[str, CourseSettings] = {
    "reinforce": CourseSettings(method="reinforce", learning_rate=3e-4),
    "ppo": CourseSettings(method="ppo", learning_rate=2e-4),
    "grpo": CourseSettings(method="grpo", learning_rate=2e-4),
    "dpo": CourseSettings(method="dpo", learning_rate=1e-4, coefficient=0.1, steps=12),
    "best_of_n": CourseSettings(method="best_of_n", steps=5, texts=64, group=32),
}
