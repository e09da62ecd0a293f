"""A model that runs by its own code on the page: every view works, or says in one place what it needs."""

import dataclasses
import logging

import pytest

from model.in_memory import language_model
from tests.support.models import hooked
from viz.page.notebook import _chooser, page_of
from viz.page.pipeline import payloads
from viz.seam import needs
from viz.seam.panels import names_of
from viz.seam.view import Measure, View
from viz.views.tabs import TABS

transformers = pytest.importorskip("transformers")
PROMPT = "The cat sat on the mat because it was tired"
VIEWS = [(tab.key, view.key) for tab in TABS for view in tab.views]
WORKS = {
    *("map", "lines", "text", "find", "surprise", "guess", "follow", "lens", "stream_picture"),
    *("distribution", "temperature", "draws", "runs", "tokenizers", "prices"),
}
PARTLY = {"start": {"way"}, "turns": {"writes", "job"}, "heads": {"composition"}, "claims": {"job", "one"}}
SAID = "This needs a model's weights"


@pytest.fixture(scope="module")
def page():
    return page_of(language_model(hooked.build("persimmon"), hooked.tokenizer()), PROMPT, heads=[(1, 2)])


def drawn(page, tab: str, view: str) -> dict:
    """The parts of a view, by their names on the page."""
    place = next(each for each in TABS if each.key == tab)
    chooser, control, _ = _chooser(place)
    request = dataclasses.replace(page.request, tab=tab, values={chooser: {control: view}})
    parts, _ = payloads(page.playground, request)
    assert parts["notice"] == {}, parts["notice"]
    shown = [each for each in place.all_views if each.key == view or each is place.beside]
    names = [each.part_name(part) for each in shown for part in each.parts]
    placed = {name for each in shown for name in names_of(each)}  # a part may be read here and shown by another view
    return {name: parts[name] for name in names if name in placed}


def lacking_in(parts: dict) -> set[str]:
    """The names of the parts that say what they need."""
    return {name for name, part in parts.items() if part.get("empty", {}).get("lacks")}


@pytest.mark.parametrize(("tab", "view"), VIEWS)
def test_a_view_is_drawn_or_says_what_it_needs(page, tab, view, caplog):
    caplog.set_level(logging.ERROR)
    parts = drawn(page, tab, view)
    assert not caplog.records
    assert not {name: part["problem"] for name, part in parts.items() if "problem" in part}
    lacking = lacking_in(parts)
    assert all(parts[name]["empty"]["text"].startswith(SAID) for name in lacking)
    assert all(parts[name]["empty"]["hint"] and parts[name]["empty"]["way"]["tab"] == "attention" for name in lacking)
    if view in WORKS:
        assert lacking == set()
    if view in PARTLY:
        assert lacking == {f"{view}_{part}" for part in PARTLY[view]}


@pytest.mark.parametrize(("tab", "view"), [("activations", "neurons"), ("effects", "sweep"), ("anatomy", "diagram")])
def test_every_part_of_a_view_that_needs_the_weights_says_so(page, tab, view):
    parts = drawn(page, tab, view)
    assert parts and lacking_in(parts) == set(parts)


def test_a_figure_that_needs_the_weights_raises_their_reason(page):
    from model.errors import InputError

    with pytest.raises(InputError, match=SAID) as error:
        page.figure("sizes_map")
    assert "run(" not in error.value.hint  # no job would help


def test_the_number_of_parameters_is_the_models_own_and_it_cannot_be_edited(page):
    parts, _ = payloads(page.playground, page.request)
    assert "845k parameters" in parts["header"]["status"][1] and parts["header"]["locked"]
    edited = dataclasses.replace(
        page.request, selection={**page.request.selection, "edits": [{"kind": "zero", "layer": 0, "head": 1}]}
    )
    parts, _ = payloads(page.playground, edited)
    assert parts["selection"]["edits"] == [] and parts["selection"]["dropped"] == ["edits"]


def test_the_python_lines_take_the_model_from_memory(page):
    lines = drawn(page, "attention", "map")["map_plot"]["python"].splitlines()
    assert "from model.in_memory import language_model" in lines
    assert "lm = language_model(hf_model, tokenizer)" in lines and "load_model" not in str(lines)


def test_a_model_without_a_lens_says_why():
    model = hooked.build("persimmon")
    lm = language_model(model, hooked.tokenizer())
    lm.model.norm, lm.model.why = None, "no norm before the head gives its logits"
    parts = drawn(page_of(lm, PROMPT), "predictions", "lens")
    assert parts["lens_table"]["empty"]["text"].startswith("There is no lens of PersimmonForCausalLM. (no norm")


def test_a_measure_may_need_less_or_more_than_its_view():
    less, more, same = (
        Measure(name, print, needs=what) for name, what in zip("abc", ((), ("lens",), None), strict=True)
    )
    view = View("v", (), {}, measures=(less, more, same))
    assert [needs.of_measure(view, each) for each in view.measures] == [(), ("lens",), ("weights",)]
