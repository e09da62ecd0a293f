"""Small deterministic example sets that come with the program, made of our own sentences."""

import itertools
import random
from collections.abc import Callable

from model.alignment.instructions import Example

_NAMES = ("Tom", "Lily", "Ben", "Mia", "Sam", "Anna", "Max", "Sue", "Tim", "Lucy")
_COLORS = ("red", "blue", "green", "yellow", "white", "black", "pink", "brown")
_THINGS = ("ball", "hat", "car", "box", "bird", "cake", "boat", "book", "dress", "flower")
_PLACES = ("park", "garden", "house", "kitchen", "forest", "school", "shop", "yard")
_ANIMALS = ("dog", "cat", "bird", "bear", "fish", "rabbit", "duck", "mouse", "frog", "horse")

_OPPOSITES = (
    "big small, hot cold, happy sad, up down, fast slow, good bad, new old, day night, open closed, hard soft, "
    "full empty, clean dirty, loud quiet, long short, high low, inside outside, left right, early late, wet dry, "
    "light dark, strong weak, near far, brave scared, first last, yes no, boy girl, man woman, mother father, "
    "brother sister, king queen, love hate, laugh cry, come go, give take, push pull, start stop, win lose, "
    "friend enemy, nice mean, thick thin, rich poor, easy difficult, awake asleep, summer winter, morning evening"
)


def questions() -> list[Example]:
    """Return examples with a question about a given sentence; the answer only has to be extracted from the sentence."""
    rng = random.Random(1)
    rows = []
    for name, color, thing, place in _some(rng, 240, _NAMES, _COLORS, _THINGS, _PLACES):
        story = f"{name} found a {color} {thing} in the {place}."
        question, answer = rng.choice(
            (
                ("Who found it?", f"{name} found it."),
                ("What color was it?", f"It was {color}."),
                ("What was found?", f"A {thing} was found."),
                ("Where was it?", f"It was in the {place}."),
            )
        )
        rows.append(Example(question, story, answer))
    return rows


def stories() -> list[Example]:
    """Return examples that ask for a three-sentence story about a named child and an animal, with a happy end."""
    rng = random.Random(2)
    ends = (
        "In the end, they were both very happy.",
        "They became best friends and were very happy.",
        "They went home with a big smile.",
    )
    rows = []
    for name, animal, color, place in _some(rng, 200, _NAMES, _ANIMALS, _COLORS, _PLACES):
        text = f"One day, {name} saw a {color} {animal} in the {place}. {name} played with the {animal} all day. "
        rows.append(Example(f"Tell a story about {name} and a {animal}.", "", text + rng.choice(ends)))
    return rows


def opposites() -> list[Example]:
    """Return examples that ask for the opposite of a word.

    The training data give no hint of a held-out word's opposite: such a set is mostly memorized.
    """
    pairs = [pair.split() for pair in _OPPOSITES.split(", ")]
    rows = [Example("Say the opposite.", a, b) for one, other in pairs for a, b in ((one, other), (other, one))]
    random.Random(3).shuffle(rows)
    return rows


def _some(rng: random.Random, n: int, *lists: tuple[str, ...]) -> list[tuple[str, ...]]:
    """Draw n distinct combinations of one word from each list."""
    return rng.sample([*itertools.product(*lists)], n)


# {key of the set on the page: function}
SETS: dict[str, Callable[[], list[Example]]] = {"questions": questions, "stories": stories, "opposites": opposites}
