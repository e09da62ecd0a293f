"""Sensitivity of a reward model: its reward along a text, and with single words removed or replaced."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from model.alignment.reward_model import RewardModel
from model.errors import InputError, say
from model.progress import Progress, silent
from model.public import public, whole

MOST_WORDS = 60  # maximum number of words that are changed, one at a time
_WORD = re.compile(r"[^\W_]+(?:['’-][^\W_]+)*")


@dataclass(frozen=True, eq=False)
class Changed:
    """Rewards of a text with one word at a time removed or replaced."""

    reward: float  # reward of the unchanged text
    words: tuple[str, ...]  # [n]
    starts: tuple[int, ...]  # [n] start index of each word, in characters
    without: np.ndarray  # [n] reward of the text without the word; float32
    instead: np.ndarray  # [n] reward with the replacement word, NaN if none is given; float32

    @property
    def carried(self) -> np.ndarray:
        """The contribution of each word: the text's reward minus the reward without the word. [n]"""
        return self.reward - self.without


@public(most=whole(1))
def change_words(
    reward: RewardModel,
    encode: Callable[[str], Sequence[int]],
    text: str,
    instead: str = "",
    progress: Progress = silent,
    most: int = MOST_WORDS,
) -> Changed:
    """Compute the reward of a text without each of its words and, if given, with the word `instead` in place of each.

    Single words are removed as in Li et al. 2016 ("Understanding neural networks through representation erasure"). A
    text without one of its words is unnatural and may be out of distribution for the reward model. Only the first
    `most` words are changed. Raises InputError for a text without words.
    """
    matches = list(_WORD.finditer(text))[:most]
    if not matches:
        raise InputError("The text has no word to change.", "", "Write a text that has words.")
    texts = [text, *(_without(text, *each.span()) for each in matches)]
    if instead:
        texts += [text[: each.start()] + instead + text[each.end() :] for each in matches]
    rewards = []
    for at in range(0, len(texts), 16):
        # A text without its only word is empty and replaced by a space.
        rewards.append(reward.score_ids([list(encode(each or " ")) for each in texts[at : at + 16]]).numpy())
        progress(min(at + 16, len(texts)), len(texts), "")
    numbers = np.concatenate(rewards)
    n = len(matches)
    other = numbers[1 + n :] if instead else np.full(n, np.nan, np.float32)
    words, starts = tuple(each[0] for each in matches), tuple(each.start() for each in matches)
    return Changed(float(numbers[0]), words, starts, numbers[1 : 1 + n], other)


def _without(text: str, start: int, end: int) -> str:
    """Remove a word and one adjacent space from the text."""
    if text[start - 1 : start] == " ":
        start -= 1
    elif text[end : end + 1] == " ":
        end += 1
    return text[:start] + text[end:]


def extremes(rewards: np.ndarray, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the indices of the `count` highest rewards, in decreasing order, and of the lowest, in increasing order.
    [n] -> [k], [k]

    Raises InputError for a count below 1.
    """
    if count < 1:
        raise InputError("A setting is out of range.", f"count: {count}", say("Choose a value from {} to {}.", 1, "n"))
    order = np.argsort(rewards, kind="stable")
    return order[::-1][:count], order[:count]
