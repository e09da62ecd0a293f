"""What the views of tiny trainings share: the text that is learned, Python lines, and what stands below a figure."""

from collections.abc import Mapping, Sequence

from model.design.block_trials import Lesson, chapter, lesson_of
from viz.page import background
from viz.page.parts import plot_words
from viz.page.playground import Playground
from viz.page.scene import Scene


def page_lesson(playground: Playground) -> Lesson:
    """The bundled chapter as something to learn from; cut into bytes once."""
    return background.kept(playground, ("trials", "lesson"), lambda: lesson_of(chapter()))


def python_of(imports: Sequence[str], lines: Sequence[str]) -> str:
    """Lines that need no loaded model."""
    imports = sorted({*imports, "from model.design.block_trials import chapter, lesson_of"})
    return "\n".join([*imports, "", "lesson = lesson_of(chapter())", *lines])


def framed(scene: Scene, file: str, run: str) -> dict:
    """What stands below every figure."""
    return {"file": file, "run": f"{run} {scene.language}", "words": plot_words(scene.words)}


def chosen(said: Mapping[str, str], name: str, options: Sequence[Sequence[str]], value: str) -> dict:
    """A list of a form, labelled with the word of its name."""
    return {"name": name, "kind": "choice", "label": said[name], "value": value, "options": list(options)}
