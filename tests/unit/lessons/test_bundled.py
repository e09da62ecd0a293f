"""Every lesson of the project: whole in every language, and its numbers are those of the model that is there."""

import re

import pytest
from scipy.special import softmax

from viz.lessons.check import computed, faults_of, start
from viz.lessons.lesson import PARTS
from viz.lessons.library import library
from viz.lessons.payloads import value_of
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


# Numbers that a lesson states in words: its sentence, the value that it is of, and the range that the words mean.
WORDED = {
    "two thirds": ("dice", "has a share of about two thirds", "share", 0.6, 0.72),
    "a handful": ("cuts", "a handful is enough", "sure", 2, 9),
    "a thousand": ("cuts", "it takes more than a thousand", "unsure", 1001, 8192),
}


@pytest.mark.parametrize("name", WORDED)
def test_a_number_in_words_is_the_models(playground, name):
    key, english, value, low, high = WORDED[name]
    lesson = LESSONS[key]["en"]
    assert english in str(lesson), "the lesson says something else now: see what it promises"
    assert low <= value_of(playground, lesson, value, start(lesson)) <= high


def test_a_word_that_is_steered_to_was_unlikely_before(playground):
    """The lesson on steering: "“ sad” has less than 1 %"."""
    lesson = LESSONS["steering"]["en"]
    assert "“ sad” has less than 1 %" in str(lesson)
    run = playground.opened("tinygpt").trace(lesson.state["prompt"])
    (sad,) = playground.opened("tinygpt").encode(" sad").ids.tolist()
    assert 0 < softmax(run.logits[-1])[sad] < 0.01


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
