"""The tour points at what is there, the glossary is whole, and every view says how to read it and who says so."""

import re

import pytest

from tests.support.scripts import script
from viz.page.guide import payload, table
from viz.page.pipeline import PARTS
from viz.views.tabs import TABS
from viz.words import LANGUAGES, section, words

SCRIPTS = script("page/**/*", "parts/**/*", "export/*", "guide/*", "views/**/*")
OURS = ("prompt",)  # ids of the page's own boxes, beside those of parts
STEPS = table("tour")["step"]
TERMS = table("glossary")
YEAR = re.compile(r"\b(?:18|19|20)\d\d\b")
TAB = {tab.key: tab for tab in TABS}


def selectors(step):
    """All that a step points at or waits for."""
    return [*step["at"], *(step["done"][name] for name in ("on", "appears") if name in step["done"])]


def test_the_tour_is_short_and_each_step_is_its_own():
    assert 8 <= len(STEPS) <= 10
    assert len({step["id"] for step in STEPS}) == len(STEPS)


@pytest.mark.parametrize("step", STEPS, ids=lambda step: step["id"])
def test_a_step_points_at_what_is_on_the_page(step):
    assert set(step) <= {"id", "tab", "view", "at", "done"}
    assert step.get("tab", TABS[0].key) in TAB
    for selector in selectors(step):
        for name in re.findall(r"#pg-([\w-]+)", selector):
            assert name in PARTS, selector
            assert "tab" not in step or name in (*TAB[step["tab"]].parts, "tokens"), selector
        assert set(re.findall(r"#(?!pg-)([\w-]+)", selector)) <= set(OURS), selector
        for name in re.findall(r"\.(pg-[\w-]+)", selector):
            assert re.search(rf'["\' `]{name}["\' `$]', SCRIPTS), selector
        for name in re.findall(r"\[(data-[\w-]+)", selector):
            assert name in SCRIPTS, selector


@pytest.mark.parametrize("step", [step for step in STEPS if "view" in step], ids=lambda step: step["id"])
def test_a_step_opens_a_view_that_there_is(step):
    part, view = step["view"]
    first = TAB[step["tab"]].fixed(words("en"))[part]["controls"][0]
    assert first["kind"] == "views"
    assert view in [option[0] for option in first["options"]]


@pytest.mark.parametrize("step", STEPS, ids=lambda step: step["id"])
def test_one_thing_ticks_a_step_off(step):
    done = dict(step["done"])
    if done.pop("typed", None):
        assert step["done"] == {"typed": True}
    elif "picks" in done:
        assert set(done) == {"picks"} and done["picks"] in ("heads", "tokens", "edits")
    elif "event" in done:
        assert set(done) == {"event", "on"} and done["event"] in ("click", "input")
    else:
        assert set(done) == {"appears"}


@pytest.mark.parametrize("language", LANGUAGES)
def test_every_step_and_every_term_has_words(language):
    found = payload(words(language))
    assert [step["id"] for step in found["steps"]] == [step["id"] for step in STEPS]
    assert all(step["title"] and step["text"] for step in found["steps"])
    assert set(found["terms"]) == set(TERMS)
    assert found["words"]["tour"] and found["words"]["glossary"]


def test_no_words_are_left_over():
    sections = {key.split(".")[0] for key in words("en")}
    assert {name.removeprefix("term_") for name in sections if name.startswith("term_")} == set(TERMS)
    assert {name.removeprefix("tour_") for name in sections if name.startswith("tour_")} == {s["id"] for s in STEPS}


def test_a_term_has_a_formula_and_a_source_with_a_year():
    assert [key for key, term in TERMS.items() if not (term["formula"].strip() and YEAR.search(term["source"]))] == []


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_form_belongs_to_one_term(language):
    forms = [form.lower() for term in payload(words(language))["terms"].values() for form in term["forms"]]
    assert all(forms) and len(forms) == len(set(forms))


def explained(language):
    """Every text that says how to read a view, by the part that shows it."""
    found = {}
    for tab in TABS:
        parts = tab.fixed(words(language))
        names = [name for name in tab.parts if name.endswith("_howto")]
        assert names, tab.key
        found |= {name: parts[name]["parts"] for name in names}
    return found


@pytest.mark.parametrize("language", LANGUAGES)
def test_every_view_says_how_to_read_it(language):
    for name, parts in explained(language).items():
        assert list(parts) == ["body", "formula", "caveat", "try"], name
        assert all(len(text) > 15 for text in parts.values()), name


def test_every_view_has_an_explanation_of_its_own():
    views = [option[0] for option in TAB["attention"].fixed(words("en"))["attention_view"]["controls"][0]["options"]]
    shows = TAB["attention"].fixed(words("en"))["attention_view"]["shows"]
    howtos = [name for view in views for name in shows[view] if name.endswith("howto")]
    assert len(howtos) == len(set(howtos)) == len(views)


@pytest.mark.parametrize("language", LANGUAGES)
def test_every_formula_names_its_source(language):
    for name, parts in explained(language).items():
        named = YEAR.search(parts["formula"])
        assert named, f"howto.formula of {name.removesuffix('_howto')} names its source with a year"


@pytest.mark.parametrize("language", LANGUAGES[1:])
def test_all_languages_name_the_same_sources(language):
    english, other = explained("en"), explained(language)
    for name, parts in english.items():
        assert set(YEAR.findall(parts["formula"])) == set(YEAR.findall(other[name]["formula"])), name


def test_formulas_of_terms_need_no_translation():
    assert not [key for key, term in TERMS.items() if re.search(r"[一-鿿]", term["formula"] + term["source"])]
    assert section(words("zh"), "glossary").keys() == section(words("en"), "glossary").keys()
