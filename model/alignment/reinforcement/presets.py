"""Reward presets, most with a KL penalty and one without it, to show the effect of the penalty."""

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from model.alignment.reinforcement.course import DEFAULTS, CourseSettings
from model.alignment.reinforcement.texts import Answers
from model.alignment.reward_model import RewardModel
from model.alignment.rewards import Rule, parse_rules, score

HAPPY = "happy, glad, smile, smiled, laugh, laughed, joy, fun, love, loved"
PROMPTS = ("Once upon a time", "One day", "There was a", "Tom and Lily")


@dataclass(frozen=True)
class Preset:
    """Rules, and overrides of the chosen method's defaults. Its label is the word "preset_<key>"."""

    rules: str  # in the syntax of parse_rules
    coefficient: float | None = None  # None: the method's default
    learning_rate: float | None = None

    def course(self, method: str) -> CourseSettings:
        """Return the method's defaults with the preset's overrides."""
        changes = {"coefficient": self.coefficient, "learning_rate": self.learning_rate}
        return dataclasses.replace(
            DEFAULTS[method], **{name: value for name, value in changes.items() if value is not None}
        )


PRESETS: dict[str, Preset] = {
    "happy": Preset(f"contains: {HAPPY}"),
    # The fraction of these words, so that each further one pays, and no KL penalty (Amodei et al. 2016, section 4).
    "no_leash": Preset(f"share: {HAPPY}", coefficient=0.0, learning_rate=1e-3),
    "cheerful": Preset("sentiment; full_stop * 0.5; no_repeats: 3 * 0.5"),
    "talking": Preset("speech; question * 0.5"),
}


def by_rules(rules: str | tuple[Rule, ...]) -> Callable[[Answers], np.ndarray]:
    """Return a function that scores the generated texts by rules. Raises InputError as parse_rules does."""
    parsed = parse_rules(rules) if isinstance(rules, str) else rules
    return lambda answers: score(parsed, answers.texts)


def by_model(model: RewardModel) -> Callable[[Answers], np.ndarray]:
    """Return a function that scores each prompt with its answer by a reward model, at the last token."""
    return lambda answers: model.score_ids(answers.ids).numpy()
