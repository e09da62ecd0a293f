"""All lessons that a server offers: the project's own, and those in the folder given on the command line."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from model.errors import InputError, say
from viz.lessons.lesson import PARTS, Lesson
from viz.lessons.reading import BUNDLED, read_folder


@dataclass(frozen=True)
class Library:
    """Lessons by key and language."""

    lessons: Mapping[str, Mapping[str, Lesson]]

    def lesson(self, key: str, language: str) -> Lesson | None:
        """Return a lesson in a language, if available, otherwise in English or in any language."""
        versions = self.lessons.get(key)
        return None if not versions else versions.get(language) or versions.get("en") or next(iter(versions.values()))

    def path(self, language: str) -> list[Lesson]:
        """Return all lessons in course order."""
        lessons = [lesson for key in self.lessons if (lesson := self.lesson(key, language))]
        return sorted(lessons, key=lambda each: (PARTS.index(each.part), each.order, each.key))


def library(own: Path | None = None) -> Library:
    """Load the lessons of the project and of a teacher's folder. Raises InputError that names the fault in a file."""
    lessons = read(BUNDLED)
    if own is not None:
        more = read(own)
        if taken := sorted(set(lessons) & set(more)):
            raise InputError("The key of a lesson is taken.", taken[0], "Give the file another name.")
        if not more:
            raise InputError("This folder has no lesson.", str(own), "A lesson is a file KEY.LANGUAGE.toml.")
        lessons |= more
    return Library(lessons)


def read(folder: Path) -> dict[str, dict[str, Lesson]]:
    """Load the lessons of a folder. Raises InputError for the first fault."""
    lessons, faults = read_folder(folder)
    if faults:
        hint = say("There are {} faults: python -m viz.lessons check {} lists them.", len(faults), folder)
        raise InputError("A lesson of this folder is invalid.", str(faults[0]), hint)
    return {key: by_language for key, by_language in lessons.items() if by_language}
