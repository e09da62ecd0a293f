"""The first thing that every view of the tab shows: three numbers, and two texts for each of the four prompts.

The numbers are the stage's own (a loss, an accuracy or a reward), the distance from the reference, and what is
forgotten. A message of a view has the payload under "glance".
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from model.alignment.four_prompts import PROMPTS, FourAnswers, FourChoices
from viz.labels import visible_lines
from viz.numbers import decimals
from viz.seam.view import Custom, Part, Payload
from viz.words import Words, words


@dataclass(frozen=True)
class Stage:
    """One stage's own number before and after it, and the titles of its two texts."""

    name: str  # of the number: the words "<name>" and "<name>_about"
    before: float
    after: float
    titles: tuple[str, str]
    prompt: int = 0  # the prompt that is shown first
    form: Callable[[float], str] = decimals


def title_after(here: Words, step: int) -> str:
    """Return the title of the text after a number of steps."""
    return here["after_one"] if step == 1 else here["after"].format(n=step)


def fold(label: str, *names: str) -> Part:
    """Build the button that shows and hides parts of the page, which are hidden at first. `label`: a word."""
    return Custom("folded", lambda seen: {"label": seen.all_words[f"glance.{label}"], "parts": names}, (), settings=())


def glance_of_training(language: str, stage: Stage, before: FourAnswers, after: FourAnswers) -> Payload:
    """Build the payload of a stage that trains the model: its answers before and after the training."""
    texts = [[visible_lines(text) for text in pair] for pair in zip(before.texts, after.texts, strict=True)]
    distance = ["kl", decimals(after.kl), ""]
    return _glance(language, stage, distance, before.story_bits, after.story_bits, texts)


def glance_of_choice(language: str, stage: Stage, four: FourChoices) -> Payload:
    """Build the payload of a stage that chooses among texts of the unchanged model."""
    texts = [[visible_lines(text) for text in pair] for pair in zip(four.other, four.chosen, strict=True)]
    scores = [list(map(decimals, pair)) for pair in zip(four.other_scores, four.chosen_scores, strict=True)]
    distance = ["kl_choice", f"≤ {decimals(four.kl)}", ""]
    return _glance(language, stage, distance, four.story_bits, four.story_bits, texts) | {"scores": scores}


def _glance(
    language: str, stage: Stage, distance: Sequence[str], before: float, after: float, texts: list[list[str]]
) -> Payload:
    here = Words(words(language), "glance")
    story = "story_same" if before == after else "story"
    rows = [[stage.name, stage.form(stage.after), stage.form(stage.before)], distance]
    rows.append([story, decimals(after), "" if before == after else decimals(before)])
    return {
        "numbers": [[here[name], value, first, here[f"{name}_about"]] for name, value, first in rows],
        "prompts": list(PROMPTS),
        "texts": texts,
        "titles": list(stage.titles),
        "chosen": stage.prompt,
        "words": {name: here[name] for name in ("prompts", "nothing", "score", "from")},
    }
