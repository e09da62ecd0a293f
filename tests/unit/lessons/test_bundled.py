"""Every lesson of the project: whole in every language, and its numbers are those of the model that is there."""

import re
from copy import deepcopy

import numpy as np
import pytest
import torch
from scipy.special import softmax
from scipy.stats import entropy

from model.loading.sources import available
from model.tracing.trace import run
from viz.lessons.check import computed, faults_of, start
from viz.lessons.lesson import PARTS
from viz.lessons.library import library
from viz.lessons.payloads import lesson_payload, value_of
from viz.lessons.reading import BUNDLED
from viz.views.tabs import TABS
from viz.words import LANGUAGES, words
from viz.work.playground import Options, Playground

LESSONS = library().lessons


@pytest.fixture(scope="module")
def playground():
    ours = Playground(Options(offline=True))
    yield ours
    ours.workshop.close()


def test_there_is_a_course_of_six_parts():
    path = library().path("en")
    assert len(path) >= 30 and {each.part for each in path} == set(PARTS[:6])
    for part in PARTS[:6]:
        orders = [each.order for each in path if each.part == part]
        assert len(set(orders)) == len(orders) and orders == sorted(orders)
    for n, lesson in enumerate(path):
        assert set(lesson.needs) <= {each.key for each in path[:n]}, lesson.key  # what is needed comes before


@pytest.mark.parametrize("key", sorted(LESSONS))
def test_a_lesson_is_whole_in_every_language(key):
    by_language = LESSONS[key]
    assert set(by_language) == set(LANGUAGES)
    first = by_language["en"]
    assert first.opens and first.state["tab"]  # it opens with a reason and a picture
    assert re.search("[一-鿿]", by_language["zh"].opens) and by_language["zh"].reviews.keys() == first.reviews.keys()
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


def is_done(step, here: dict) -> bool:
    """True if a page in this state has what a step waits for; a job may have run before, so it always counts."""
    done, values = step.done, here["values"]
    if "view" in done:
        tab, view = done["view"].split(".")
        return here["tab"] == tab and values.get(f"{tab}_view", {}).get("view", FIRST_VIEW[tab]) == view
    if "to" in done:
        now = DEFAULTS.get(done["changes"], {}) | values.get(done["changes"], {})
        return done["to"].items() <= now.items()
    return "finished" in done or ("typed" in done and done["typed"] == here.get("prompt"))


FIRST_VIEW = {tab.key: tab.views[0].key for tab in TABS if tab.views}
DEFAULTS = {
    f"{view.key}_form": {each.name: getattr(each, "default", None) for each in view.settings}
    for tab in TABS
    for view in tab.views
}


def after(here: dict, change: dict) -> dict:
    """The state of a page after a change in the form of a link."""
    values = {part: here["values"].get(part, {}) | value for part, value in change.get("values", {}).items()}
    return here | change | {"values": here["values"] | values}


@pytest.mark.parametrize("key", sorted(LESSONS))
def test_no_step_is_done_before_the_act_and_each_is_by_its_last_hint(key):
    lesson = LESSONS[key]["en"]
    opened: dict = {}  # the view that the steps before have opened
    here = after({"values": {}}, lesson.state)
    for step in lesson.steps:
        if step.state is not None:  # what it leaves out is as on a new page
            here = after(after(after({"values": {}}, lesson.state), opened), step.state)
        assert not is_done(step, here), step.id
        here = after(here, step.show)
        if "view" in step.done:
            tab, view = step.done["view"].split(".")
            opened = {"tab": tab, "values": {f"{tab}_view": {"view": view}}}
            here = after(here, opened)
        elif step.state and "tab" in step.state:
            opened = {"tab": step.state["tab"], "values": step.state.get("values", {})}
        if "to" in step.done or isinstance(step.done.get("typed"), str):
            assert is_done(step, here) or step.show.get("press"), step.id


def test_every_answer_is_computed_and_lies_in_its_band(playground):
    # Those in which something is trained are judged where they are taken: browser/journeys/page/test_lessons.py.
    ours = {key: each for key, each in LESSONS.items() if not each["en"].runs and each["en"].model in available()}
    faults = computed(ours, playground)
    assert faults == [], "\n".join(map(str, faults))


# Numbers that a lesson states in words: its sentence, the value that it is of, and the range that the words mean.
WORDED = {
    "two thirds": ("dice", "has a probability of about two thirds", "share", 0.6, 0.72),
    "a handful": ("cuts", "a handful is enough", "sure", 2, 9),
    "a thousand": ("cuts", "it takes more than a thousand", "unsure", 1001, 8192),
    "a habit": ("one_guess", "it is near 1, as after “Once upon”", "habit", 1, 1.1),
    "most weights": ("mlp", "more weights than any other part", "share", 0.4, 0.5),
    "far less": ("repetition", "gets far less than 1%", "first", 0, 0.001),
    "four bits": ("few_bits", "Each bit less roughly doubles", "growth", 14, 20),
    "one head": ("switch_off", "most of the prediction depended on this head", "after", 0, 0.4),
    "a weak trace": ("switch_off", "so it is copied, too", "dog_first", 0, 0.05),
    "gone by chance": ("one_prompt", "chance alone gives the largest of 64 heads", "p32", 0.9, 1),
    "below 0": ("one_prompt", "it includes 0", "low32", -2, 0),
    "above 0": ("one_prompt", "it includes 0", "high32", 0, 2),
    "knew that": ("one_prompt", "as if this head knows that “dogs” is plural", "one32", 1, 3),
    "not yet": ("one_prompt", "above 5%: new pairs (another seed) would have to decide", "p26", 0.05, 0.2),
    "half the push": ("steering", "little happens at first, and then a lot at once", "half", 0.01, 0.3),
}


@pytest.mark.parametrize("name", WORDED)
def test_a_number_in_words_is_the_models(playground, name):
    key, english, value, low, high = WORDED[name]
    lesson = LESSONS[key]["en"]
    assert english in str(lesson), "the lesson says something else now: see what it promises"
    assert low <= value_of(playground, lesson, value, start(lesson)) <= high


def test_a_word_that_is_steered_to_was_unlikely_before(playground):
    """The lesson on steering: "the word “sad” has less than 1%"."""
    lesson = LESSONS["steering"]["en"]
    assert "the word “sad” has less than 1%" in str(lesson)
    (sad,) = playground.opened("tinygpt").encode(" sad").ids.tolist()
    assert 0 < softmax(trace_of(playground, "steering").logits[-1])[sad] < 0.01


def trace_of(playground, key: str):
    """The forward pass of the prompt that a lesson begins with."""
    return playground.opened("tinygpt").trace(LESSONS[key]["en"].state["prompt"])


def test_the_first_three_layers_make_the_stream_longer_and_the_next_ones_but_the_last_shorter(playground):
    """The lesson on norms, about “cat”."""
    said = str(LESSONS["norms"]["en"])
    assert "from the first three layers. Layers 4 to 6 even make the vector a little shorter" in said
    assert "layer 7 makes it longer again" in said
    trace = trace_of(playground, "norms")
    sizes = np.array([np.linalg.norm(trace.hidden(layer)[1]) for layer in range(trace.config.n_layer + 1)])
    assert sizes[3] > 0.9 * sizes[7] and (np.diff(sizes[4:8]) < 0).all() and sizes[7] > 0.9 * sizes[4]
    assert sizes[8] > 1.3 * sizes[7]


def test_a_sink_is_dark_until_the_text_repeats(playground):
    """The lesson on sinks: the first column of the map of head 6.2, up to the second “Mrs” and after it."""
    assert "stays dark until the text repeats" in str(LESSONS["sinks"]["en"])
    column = trace_of(playground, "sinks").pattern(6, 2)[:, 0]
    assert column[:12].min() > 0.75 and column[14:].max() < 0.5


def test_there_are_hundreds_of_choices_where_anything_can_follow(playground):
    """The lesson on distributions, about what follows the first token of a text."""
    assert "where anything can follow, it is in the hundreds" in str(LESSONS["one_guess"]["en"])
    first = softmax(trace_of(playground, "cell").logits[0].astype(float))
    assert 100 < np.exp(entropy(first)) < 1000


def test_without_positions_the_first_layer_ignores_order(playground):
    """The lesson on positions: the same words in another order, the last one in its place."""
    assert "would not change if you shuffled the earlier words" in str(LESSONS["positions"]["en"])
    lm = playground.opened("tinygpt")
    model = deepcopy(lm.model)
    with torch.no_grad():
        model.pos_embed.weight.zero_()
    first, second = (run(model, lm.encode(text)) for text in (" one big red dog sat", " red one dog big sat"))
    order = [second.tokens.pieces.index(piece) for piece in first.tokens.pieces]
    apart = [np.abs(first.pattern(layer, 0)[-1] - second.pattern(layer, 0)[-1][order]).max() for layer in (0, 1)]
    assert len(order) == 5 and apart[0] < 1e-6 < 1e-3 < apart[1]  # layer 1 has learned a little from the causal mask


def test_one_lesson_is_about_a_prompt_of_the_visitors():
    """The page does not ask to bring back another prompt there."""
    assert [key for key in LESSONS if lesson_payload(LESSONS[key]["en"])["own_prompt"]] == ["project"]


def test_the_folder_has_no_faults():
    assert faults_of(BUNDLED)[1] == []


def test_a_sentence_names_views_as_the_page_does():
    for language in LANGUAGES:
        texts = words(language)
        names = {text for key, text in texts.items() if key.endswith(".view") or key.startswith(("tab.", "group."))}
        starts = (
            "forget.settings.budget",
            "forget.settings.kind_first",
            "training.lab.start",
            "reinforcement.live.start",
            "prompts.job.start",
            "side_by_side.texts.start_again",
            "strategies.add",
            "steering.settings.factor",
            "prompt_set.settings.n",
            "prompt_set.job.start",
        )
        names |= {texts[key] for key in (*starts, "prompts.list.title")} | {re.split("[:：]", texts["glance.more"])[0]}
        for lesson in library().path(language):
            for step in lesson.steps:
                assert set(re.findall(r"\*\*([^*]+)\*\*", step.do)) <= names, (lesson.key, language, step.do)
