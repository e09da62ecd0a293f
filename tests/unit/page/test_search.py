"""The entries of the search: every declared setting, and synonyms for what is there, the same in each language."""

import json

import pytest

from model.generation.strategies import STRATEGIES
from viz.lessons.library import library
from viz.page import search
from viz.seam.settings import Choice
from viz.views.tabs import TABS
from viz.words import LANGUAGES, synonyms, words

VIEWS = [view for tab in TABS for view in tab.views]
SETTINGS = list(search.declared(words("en")))


def targets() -> set[str]:
    return search.targets() | {f"lesson.{each.key}" for each in library().path("en")}


@pytest.mark.parametrize("language", LANGUAGES)
def test_every_target_of_the_synonyms_is_there(language):
    assert synonyms(language) and not set(synonyms(language)) - targets()


@pytest.mark.parametrize("language", LANGUAGES[1:])
def test_languages_have_synonyms_for_the_same_targets(language):
    assert set(synonyms(language)) == set(synonyms("en"))


@pytest.mark.parametrize("language", LANGUAGES)
def test_synonyms_are_texts_and_none_is_written_twice(language):
    for target, texts in synonyms(language).items():
        assert texts and all(text == text.strip() and text for text in texts), target
        assert len({text.casefold() for text in texts}) == len(texts), target


def test_every_view_and_every_action_is_found_by_more_than_its_name():
    found = {f"view.{view.key}" for view in VIEWS} | {f"action.{key}" for key in search.ACTIONS}
    assert not found - set(synonyms("en"))


def test_every_declared_setting_is_an_entry_once():
    keys = [search.key_of(*each) for each in SETTINGS]
    assert len(keys) == len(set(keys))
    there = {(place.part, setting.name) for setting, place in SETTINGS}
    for tab in TABS:
        for view in tab.all_views:
            declared = {(f"{view.key}_form", each.name) for each in view.settings}
            declared |= {(tab.chooser, each.name) for each in view.tab_settings}
            for name, part in view.parts.items():
                declared |= {(view.part_name(name), each.name) for each in part.declares}
            assert declared <= there
    assert ("anatomy_form", "which") in there and ("mlps_training", "steps") in there


def test_a_setting_says_where_it_is_and_what_it_depends_on():
    forms = search.payload("en")["forms"]
    entries = {f"{form['key']}.{each['name']}": form | each for form in forms for each in form["settings"]}
    rank = entries["fine_tune.rank"]
    assert (rank["tab"], rank["view"], rank["part"], rank["name"]) == (
        "assistant",
        "fine_tune",
        "fine_tune_form",
        "rank",
    )
    assert rank["when"] == {"method": ["lora"]} and "options" not in rank  # 1, 2, 4: amounts are no names
    assert entries["forget.kind"]["options"][-1][0] == "bigbird"
    assert entries["attention.measure"]["part"] == "attention_view"  # shared by several views


@pytest.mark.parametrize("language", LANGUAGES)
def test_entries_have_names_without_what_a_scene_fills_in(language):
    payload = search.payload(language)
    settings = [each for form in payload["forms"] for each in form["settings"]]
    named = [each["label"] for each in settings]
    named += [text for each in settings for _, text, _ in each.get("options", ())]
    named += [each["name"] for each in payload["views"]] + [name for _, name in payload["strategies"]]
    assert all(name and "{" not in name and name == name.strip() for name in named)
    assert len(payload["strategies"]) == len(STRATEGIES)
    json.dumps(payload)


def test_options_of_a_scene_are_no_entries():
    for setting, place in SETTINGS:
        if isinstance(setting, Choice) and callable(setting.options):
            assert not list(search.options(setting, place.words))


def test_english_synonyms_and_names_are_found_on_every_page():
    assert {"beam search", "集束搜索", "Beam search"} <= set(synonyms_of("zh")["strategy.beam"])
    assert "When it appears" in synonyms_of("zh")["view.lens"]
    assert "KL weight β" in synonyms_of("zh")["setting.reinforcement.coefficient"]
    assert "attention rollout" in synonyms_of("zh")["setting.attention.measure.rollout"]
    assert not {text for also in synonyms_of("en").values() for text in also if "束" in text}


def synonyms_of(language):
    """Collect the synonyms of all entries, by target."""
    payload = search.payload(language)
    found = dict(payload["synonyms"]) | {f"view.{each['key']}": each["also"] for each in payload["views"]}
    for form in payload["forms"]:
        for each in form["settings"]:
            target = f"setting.{form['key']}.{each['name']}"
            found[target] = each.get("also", [])
            found |= {f"{target}.{option}": also for option, _, also in each.get("options", ())}
    return found
