"""Shared code of the views that train tiny models: the training text, a form of training settings, and Python lines."""

import functools
from collections.abc import Sequence

from model.design.block_trials import TrialData, chapter, data_of
from viz.seam.settings import Choice, Settings, form, read_all
from viz.seam.view import Asking, Part, Seen
from viz.words import Words


@functools.cache
def data() -> TrialData:
    """Return the bundled chapter as training data, encoded as bytes; cached."""
    return data_of(chapter())


def training_form(declared: tuple[Choice, ...]) -> Part:
    """Build the form of training settings, with the words of the view's settings."""

    def read(sent: object, scene: object) -> Settings:
        return read_all(declared, sent, scene)

    def draw(seen: Seen) -> dict:
        return form(declared, seen.words.within("settings"), None)

    return Asking("controls", read, draw, declares=declared)


def option_as_label(words: Words, option: str) -> str:
    """Return a numeric option unchanged, as its own label."""
    return option


def python_of(imports: Sequence[str], lines: Sequence[str]) -> str:
    """Format Python lines that need no loaded model, preceded by their imports and the training data."""
    imports = sorted({*imports, "from model.design.block_trials import chapter, data_of"})
    return "\n".join([*imports, "", "data = data_of(chapter())", *lines])
