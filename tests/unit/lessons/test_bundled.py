"""Every lesson of the project: whole in every language, and its numbers are those of the model that is there."""

import re

import pytest

from viz.lessons.check import computed, faults_of
from viz.lessons.lesson import PARTS
from viz.lessons.library import library
from viz.lessons.reading import BUNDLED
from viz.words import LANGUAGES, words
from viz.work.playground import Options, Playground

LESSONS = library().lessons


@pytest.fixture(scope="module")
def playground():
    ours = Playground(Options(offline=True))
    yield ours
    ours.workshop.close()


def test_there_is_a_path_of_four_parts():
    path = library().path("en")
    assert len(path) >= 16
    for part in PARTS[:4]:
        orders = [each.order for each in path if each.part == part]
        assert orders == list(range(1, len(orders) + 1)) and len(orders) >= 4
    for n, lesson in enumerate(path):
        assert set(lesson.needs) <= {each.key for each in path[:n]}, lesson.key  # what is needed comes before


@pytest.mark.parametrize("key", sorted(LESSONS))
def test_a_lesson_is_whole_in_every_language(key):
    by_language = LESSONS[key]
    assert set(by_language) == set(LANGUAGES)
    first = by_language["en"]
    assert all(step.ask and step.check and len(step.hints) == 3 for step in first.steps)
    for lesson in by_language.values():
        assert (lesson.values, lesson.state, lesson.band) == (first.values, first.state, first.band)
        assert [(step.id, step.done, step.show) for step in lesson.steps] == [
            (step.id, step.done, step.show) for step in first.steps
        ]
    for step in by_language["zh"].steps:
        texts = [step.see, step.why, step.do, *step.hints, step.ask.text, step.check.text, *step.check.wrong.values()]
        assert all(re.search("[一-鿿]", text) for text in texts), step.id
    said = [text for step in first.steps for text in (step.see, step.why, step.do, *step.hints)]
    assert 150 <= len(" ".join(said).split()) <= 500  # a lesson is short


def test_every_answer_is_computed_and_lies_in_its_band(playground):
    # Those in which something is trained are judged where they are taken: browser/journeys/page/test_lessons.py.
    faults = computed({key: each for key, each in LESSONS.items() if not each["en"].runs}, playground)
    assert faults == [], "\n".join(map(str, faults))


def test_the_folder_has_no_faults():
    assert faults_of(BUNDLED)[1] == []


def test_a_sentence_names_views_as_the_page_does():
    for language in LANGUAGES:
        texts = words(language)
        names = {text for key, text in texts.items() if key.endswith(".view") or key.startswith(("tab.", "group."))}
        starts = ("forget.job.start", "training.lab.start", "reinforcement.live.start", "prompts.job.start")
        names |= {texts[key] for key in (*starts, "prompts.list.title")}
        for lesson in library().path(language):
            for step in lesson.steps:
                assert set(re.findall(r"\*\*([^*]+)\*\*", step.do)) <= names, (lesson.key, language, step.do)
