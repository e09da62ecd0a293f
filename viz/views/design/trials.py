"""Shared by the views of tiny trainings: the text that is learned, a second form, and Python lines."""

import functools
from collections.abc import Sequence

from model.design.block_trials import TrialData, chapter, data_of
from viz.seam.settings import Choice, Settings, form, read_all
from viz.seam.view import Asking, Part, Seen
from viz.words import Words


@functools.cache
def data() -> TrialData:
    """Return the bundled chapter as something to learn from; cut into bytes once."""
    return data_of(chapter())


def training_form(declared: tuple[Choice, ...]) -> Part:
    """Return the settings of the training, beside the button that starts it. Their words are those of the view's
    settings.
    """

    def read(sent: object, scene: object) -> Settings:
        return read_all(declared, sent, scene)

    def draw(seen: Seen) -> dict:
        return form(declared, seen.words.within("settings"), None)

    return Asking("controls", read, draw, declares=declared)


def as_it_is(words: Words, option: str) -> str:
    """Return an option that is a number is its own label."""
    return option


def python_of(imports: Sequence[str], lines: Sequence[str]) -> str:
    """Return the lines that need no loaded model."""
    imports = sorted({*imports, "from model.design.block_trials import chapter, data_of"})
    return "\n".join([*imports, "", "data = data_of(chapter())", *lines])
