"""Work on a reward model as tests give it to a process of its own, in a module that is imported in a moment."""

import os
import time

from model.alignment.reward_lesson import RewardLearned, RewardLesson, learn
from model.gpt import linear

HALF = "half"  # a file that `endless` leaves


def plainly(lesson: RewardLesson, tell) -> RewardLearned:
    """`learn` without the choice of matrix products, which is made by timing and differs by rounding."""
    linear.tune = lambda model, *_: {}  # this process has nothing else to do
    return learn(lesson, tell)


def endless(lesson: RewardLesson, tell) -> None:
    """Writes part of a reward model and the number of its process, and never ends."""
    lesson.folder.mkdir(parents=True)
    (lesson.folder / HALF).write_text(str(os.getpid()))
    tell(1)
    time.sleep(600)
